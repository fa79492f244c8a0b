// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Asserts the layout of the ABI for the library; kernel/dev/main.c does for the module. */

#include <treadle/layout.h>
