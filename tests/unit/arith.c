// SPDX-License-Identifier: GPL-2.0

/* The module's arithmetic, as it is, over shim.h. */

#include "../../kernel/arith.c"
#include "../../kernel/arith_fp.c"
