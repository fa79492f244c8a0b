// SPDX-License-Identifier: GPL-2.0

/* The module's arithmetic without an FPU, unchanged, with shim.h. */

#include "../../kernel/pure/arith_soft.c"
