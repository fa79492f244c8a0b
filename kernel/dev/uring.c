// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the calls, submitted through io_uring
 *
 * IORING_OP_URING_CMD with an ioctl's number in cmd_op, and its argument in the first
 * eight bytes of cmd; the other eight are zero. What the ioctl returns is in res.
 *
 * SIGNAL takes spinlocks only and runs where it is submitted. All other calls may block:
 * a doorbell takes tx->lock, reads the process's buffers, and its commands allocate. At the
 * first attempt (IO_URING_F_NONBLOCK) io_uring holds the lock of its ring, so a page that
 * userfaultfd withholds would stop every request of that ring. These calls go to one of
 * io_uring's workers: a thread of the same process, so its memory, files and limits are the
 * same. When the ring is closed, or the request canceled, that thread is interrupted.
 *
 * A call is never left pending, so IO_URING_F_CANCEL does not come here.
 */
#include "dev/dev.h"
#include "mm/compat.h"

/**
 * treadle_uring_cmd() - serve one ioctl that came through io_uring
 * @cmd:		the request
 * @issue_flags:	IO_URING_F_*
 *
 * Context: may sleep, unless IO_URING_F_NONBLOCK is set.
 * Return: -EIOCBQUEUED: done, and the result is in the completion; -EAGAIN: call again from a
 * worker; -EOPNOTSUPP: no polled I/O.
 */
int treadle_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	const u64 *words = treadle_uring_words(cmd);
	/* the entry may still be where the process writes: each word is read once */
	u64 arg = READ_ONCE(words[0]), reserved = READ_ONCE(words[1]);
	long ret = -EINVAL;

	if (issue_flags & IO_URING_F_IOPOLL)
		return -EOPNOTSUPP;
	if (cmd->cmd_op != TREADLE_IOC_SIGNAL && (issue_flags & IO_URING_F_NONBLOCK))
		return -EAGAIN; /* io_uring calls again from a worker */
	if (!reserved)
		ret = treadle_call(cmd->file->private_data, cmd->cmd_op, arg);
	/* not returned: an EAGAIN of the call is its result, and io_uring must not retry */
	treadle_uring_done(cmd, ret, issue_flags);
	return -EIOCBQUEUED;
}
