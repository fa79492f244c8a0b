// SPDX-License-Identifier: GPL-2.0
/* since 6.7, in a header of its own; since then the entry is passed and not its payload */
#include <linux/io_uring/cmd.h>
const void *probe(struct io_uring_cmd *cmd);
const void *probe(struct io_uring_cmd *cmd)
{
	return io_uring_sqe_cmd(cmd->sqe);
}
