// SPDX-License-Identifier: GPL-2.0
/* Since 6.7, io_uring commands have a header of their own. */
#include <linux/io_uring/cmd.h>
