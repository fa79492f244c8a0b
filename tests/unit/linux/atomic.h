/* SPDX-License-Identifier: GPL-2.0 */

/* Replaces the kernel's header, for kernel/core/ring.h. */

#include "../shim.h"
