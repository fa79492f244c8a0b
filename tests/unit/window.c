// SPDX-License-Identifier: GPL-2.0

/* The window of a session with another node, as it is, over shim.h. */

#include "../../kernel/pure/window.c"
