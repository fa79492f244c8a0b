/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: what the files of the module share
 *
 * A command walks submit.c -> opdef.c -> op_*.c -> receive.c (match.c) -> deliver.c
 * -> transfer.c -> complete.c -> counter.c; a fired trigger re-enters at opdef.c,
 * and so does what had to wait for its turn (flow.c). RMA and atomics skip
 * receive.c and deliver.c: op_rma.c -> transfer.c.
 *
 * Locks, outermost first; those on one line are never held together:
 *
 *	ctx->lock (mutex)	bindings of objects, create and destroy
 *	tx->lock (mutex), eq->read_lock (mutex)	one doorbell of a transmit ring at a time,
 *				one reader of an event queue
 *	names_lock (mutex)	names of address vectors (avname.c)
 *	rx->lock, treadle_conn_lock	matcher and receive ring; connections and event queues
 *	ep->lock		parked messages and flows of an endpoint (under rx->lock)
 *	trigger->lock (of a counter, of cells), cq->lock
 *	watch->lock		jobs of other contexts that runners of this one have (offer.c)
 *	ctx->jobs_lock		innermost
 *	pm->lock		a pagemap; the second of a pair as treadle_pm_lock2()
 *	(op_atomic.c) a lock of words	under pm->lock
 *
 * Two matchers, or two counters, are never held at once. Under a spinlock, or
 * a pagemap's lock, nothing faults, sleeps or enters reclaim; a pagemap's lock
 * is what an MMU notifier waits for.
 *
 * Lifetimes: the open file and every object hold the context; an object is
 * held by the table, by what is bound to it, and by commands, messages and
 * jobs that use it. `users` counts bindings: DESTROY refuses while there are
 * any. When the mm exits or the file is closed, whichever is first, the context
 * is shut down: endpoints and regions are closed (copies fail from then on),
 * and everything that waits in them is completed or dropped. Memory goes with
 * the last reference.
 */
#ifndef TREADLE_H
#define TREADLE_H

#include "command.h"

/*
 * struct treadle_ucmd - an ioctl being served
 * @arg: kernel's copy of the structure, which is at @uarg; written back if the call succeeds
 * @new: object that was made: published after the answer was written, else aborted
 * @file, @fd: likewise a file
 */
struct treadle_ucmd {
	struct treadle_ctx *ctx;
	void *arg;
	void __user *uarg;
	struct treadle_obj *new;
	struct file *file;
	int fd;
};

int treadle_ioc_cq_create(struct treadle_ucmd *u);
int treadle_ioc_cntr_create(struct treadle_ucmd *u);
int treadle_ioc_av_create(struct treadle_ucmd *u);
int treadle_ioc_av_insert(struct treadle_ucmd *u);
int treadle_ioc_av_remove(struct treadle_ucmd *u);
int treadle_ioc_av_lookup(struct treadle_ucmd *u);
int treadle_ioc_av_set_id(struct treadle_ucmd *u);
int treadle_ioc_tx_create(struct treadle_ucmd *u);
int treadle_ioc_rx_create(struct treadle_ucmd *u);
int treadle_ioc_ep_create(struct treadle_ucmd *u);
int treadle_ioc_ep_enable(struct treadle_ucmd *u);
int treadle_ioc_mr_create(struct treadle_ucmd *u);
int treadle_ioc_mr_bind(struct treadle_ucmd *u);
int treadle_ioc_destroy(struct treadle_ucmd *u);
int treadle_ioc_cancel(struct treadle_ucmd *u);
int treadle_ioc_wait(struct treadle_ucmd *u);
int treadle_ioc_wait_fd(struct treadle_ucmd *u);
int treadle_ioc_eq_create(struct treadle_ucmd *u);
int treadle_ioc_ep_eq(struct treadle_ucmd *u);
int treadle_ioc_listen(struct treadle_ucmd *u);
int treadle_ioc_connect(struct treadle_ucmd *u);
int treadle_ioc_accept(struct treadle_ucmd *u);
int treadle_ioc_reject(struct treadle_ucmd *u);
int treadle_ioc_shutdown(struct treadle_ucmd *u);
int treadle_ioc_cell_create(struct treadle_ucmd *u);
/* main.c: @cmd, as ioctl(2) does it; @arg: a user's address, or an id */
struct io_uring_cmd;
long treadle_call(struct treadle_ctx *ctx, unsigned int cmd, unsigned long arg);
int treadle_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);

struct seq_file;
void treadle_show_fdinfo(struct seq_file *m, struct file *file); /* fdinfo.c */

long treadle_doorbell(struct treadle_ctx *ctx, u32 id);
int treadle_signal(struct treadle_ctx *ctx, u32 id);
void treadle_waits_end(struct treadle_obj *obj); /* wait.c */

#endif
