// SPDX-License-Identifier: GPL-2.0
/* Since 6.6, struct io_uring_cmd points to the entry instead of its payload. */
#include <linux/io_uring_types.h>
#if __has_include(<linux/io_uring/cmd.h>)
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#endif
const void *probe(struct io_uring_cmd *cmd);
const void *probe(struct io_uring_cmd *cmd)
{
	return cmd->sqe->cmd;
}
