// SPDX-License-Identifier: GPL-2.0

/* The module's matcher, as it is, over shim.h. */

#include "../../kernel/pure/match.c"
