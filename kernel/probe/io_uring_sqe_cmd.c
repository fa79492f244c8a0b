// SPDX-License-Identifier: GPL-2.0
/* since 6.6, the command has the entry, and no pointer to the payload */
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
