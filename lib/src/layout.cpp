// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* The layout of the ABI is asserted here for the library, and in kernel/dev/main.c for the module. */

#include <treadle/layout.h>
