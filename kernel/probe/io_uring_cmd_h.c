// SPDX-License-Identifier: GPL-2.0
/* since 6.7, in a header of its own */
#include <linux/io_uring/cmd.h>
