// SPDX-License-Identifier: GPL-2.0

/* The module's matcher, unchanged, with shim.h. */

#include "../../kernel/pure/match.c"
