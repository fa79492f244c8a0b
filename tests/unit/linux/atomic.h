/* SPDX-License-Identifier: GPL-2.0 */

/* Instead of the kernel's own, for kernel/core/ring.h. */

#include "../shim.h"
