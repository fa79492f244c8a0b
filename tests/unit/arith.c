// SPDX-License-Identifier: GPL-2.0

/* The module's arithmetic, as it is, over shim.h. */

#include "../../kernel/pure/arith.c"
#include "../../kernel/pure/arith_fp.c"
