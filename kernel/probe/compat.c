// SPDX-License-Identifier: GPL-2.0
/* No question: what follows from the answers of the others. If it does not compile, one of them is wrong. */
#include "../treadle_config.h"
#include "../mm/compat.h"
