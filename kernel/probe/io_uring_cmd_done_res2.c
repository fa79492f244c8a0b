// SPDX-License-Identifier: GPL-2.0
/* Until 6.17, io_uring_cmd_done() takes a second result. */
#if __has_include(<linux/io_uring/cmd.h>)
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#endif
void probe(struct io_uring_cmd *cmd);
void probe(struct io_uring_cmd *cmd)
{
	io_uring_cmd_done(cmd, 0, 0, 0);
}
