/* SPDX-License-Identifier: GPL-2.0 */
/* Since 6.18 a command has one result; since 7.0 its payload is asked for with a type. */
#include <linux/io_uring/cmd.h>

static inline void io_uring_cmd_done_of_6_18(struct io_uring_cmd *cmd, s32 ret,
					     unsigned int issue_flags)
{
	io_uring_cmd_done(cmd, ret, 0, issue_flags);
}
#define io_uring_cmd_done(cmd, ret, issue_flags) io_uring_cmd_done_of_6_18(cmd, ret, issue_flags)
#define io_uring_sqe_cmd(sqe, type)		 ((const type *)(sqe)->cmd)
