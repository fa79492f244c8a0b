// SPDX-License-Identifier: GPL-2.0
/*
 * No question, but a check of the other answers: if compat.h does not compile, one of them is
 * wrong.
 */
#include "../treadle_config.h"
#include "../mm/compat.h"
