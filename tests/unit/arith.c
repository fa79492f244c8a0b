// SPDX-License-Identifier: GPL-2.0

/* The module's arithmetic, unchanged, with shim.h. */

#include "../../kernel/pure/arith.c"
#include "../../kernel/pure/arith_fp.c"
