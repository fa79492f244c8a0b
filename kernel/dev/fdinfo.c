// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: armed commands in /proc/PID/fdinfo/FD, for readers that may trace the process
 *
 * Lines of words and numbers, which `treadlectl explain` reads. They show the value of each
 * counter, the counters that each endpoint counts into, and the commands that each counter fires
 * next; and some of the commands that are armed on cells. FEW, FEW_CELL and MOST bound the output.
 * A further number goes to the end of its line: readers stop at the words that they know.
 */
#include <linux/sched/signal.h>
#include <linux/seq_file.h>

#include "dev/dev.h"

#define FEW	 16  /* commands of one counter */
#define FEW_CELL 64  /* commands on cells */
#define MOST	 256 /* counters, endpoints */

static u32 id_of(const struct treadle_cntr *cntr)
{
	return cntr ? cntr->obj.id : 0;
}

static void show_cmd(struct seq_file *m, const struct treadle_cmd *cmd)
{
	seq_printf(m, " op %u flags %u ep %u counts %u %u context 0x%llx\n", cmd->d.opcode,
		   cmd->d.flags, cmd->ep ? cmd->ep->obj.id : 0, id_of(cmd->notify),
		   id_of(cmd->target), cmd->d.context);
}

/* Print the first @most armed commands of @t, under t->lock: nothing here may sleep. */
static void show_armed(struct seq_file *m, struct treadle_trigger *t, int most)
{
	struct treadle_armed *a;

	spin_lock(&t->lock);
	a = treadle_armed_from(&t->armed, 0, 0);
	for (; a && most--; a = treadle_armed_next(a)) {
		const struct treadle_cmd *cmd = container_of(a, struct treadle_cmd, armed);

		seq_printf(m, "treadle-armed:\t%s %u at %llu",
			   cmd->cond->type == TREADLE_CELL ? "cell" : "cntr", cmd->cond->id,
			   cmd->d.threshold);
		if (cmd->cond->type == TREADLE_CELL)
			seq_printf(m, " is %llu wants %llu", treadle_cell_value(cmd->cond, &cmd->d),
				   cmd->d.value);
		show_cmd(m, cmd);
	}
	spin_unlock(&t->lock);
	if (a)
		seq_puts(m, "treadle-more:\n");
}

static void show_cntr(struct seq_file *m, struct treadle_cntr *cntr)
{
	seq_printf(m, "treadle-cntr:\t%u success %llu error %llu\n", cntr->obj.id,
		   READ_ONCE(cntr->page->success), READ_ONCE(cntr->page->error));
	show_armed(m, &cntr->trigger, FEW);
}

static void show_ep(struct seq_file *m, const struct treadle_ep *ep)
{
	if (!smp_load_acquire(&ep->enabled)) /* pairs with ep_enable() */
		return;
	seq_printf(m, "treadle-ep:\t%u port %u counts %u %u %u %u %u %u\n", ep->obj.id,
		   treadle_source_port(ep->id.source), id_of(ep->cntr_send), id_of(ep->cntr_recv),
		   id_of(ep->cntr_read), id_of(ep->cntr_write), id_of(ep->cntr_remote_read),
		   id_of(ep->cntr_remote_write));
}

/* A polled ring: whether a thread looks at it, and how often one has begun to. */
static void show_tx(struct seq_file *m, const struct treadle_tx *tx)
{
	seq_printf(m, "treadle-polled:\t%u %s idle %llu wakes %llu\n", tx->obj.id,
		   READ_ONCE(tx->polled.asleep) ? "asleep" : "awake",
		   tx->polled.idle / NSEC_PER_USEC, READ_ONCE(tx->polled.wakes));
}

/* Has @obj a line, or several? */
static bool is_shown(struct treadle_obj *obj)
{
	return obj->type == TREADLE_CNTR || obj->type == TREADLE_EP ||
	       (obj->type == TREADLE_TX && container_of(obj, struct treadle_tx, obj)->polled.idle);
}

/* Was @m opened by the user that owns @ctx, or with the right to trace that user's processes? */
static bool may_see(const struct seq_file *m, const struct treadle_ctx *ctx)
{
	const struct cred *cred = m->file->f_cred;
	const struct treadle_owner reader = { .ns = cred->user_ns, .uid = cred->euid };

	return treadle_same_owner(&reader, &ctx->owner) ||
	       file_ns_capable(m->file, ctx->owner.ns, CAP_SYS_PTRACE);
}

/**
 * treadle_show_fdinfo() - print the counters, endpoints and armed commands of a context
 * @m:		the fdinfo file
 * @file:	the context's file
 *
 * fs/proc/fd.c lets a reader in that may trace the process which has @file. That may be another
 * process than the context's, so may_see() checks again.
 *
 * Context: may sleep. Takes trigger->lock of each counter and of the poller, one at a time.
 */
void treadle_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct treadle_ctx *ctx = file->private_data;
	struct treadle_obj *obj;
	bool more = false;
	unsigned long id;
	int most = MOST;

	seq_printf(m, "treadle-context:\tarmed %d timers %u\n", atomic_read(&ctx->armed),
		   READ_ONCE(ctx->poller.timers));
	if (!may_see(m, ctx))
		return;
	show_armed(m, &ctx->poller.trigger, FEW_CELL);
	xa_for_each(&ctx->objs, id, obj) {
		obj = treadle_obj_get(ctx, id, 0);
		if (IS_ERR(obj))
			continue;
		more = is_shown(obj) && !most--;
		if (more)
			seq_puts(m, "treadle-more:\n");
		else if (obj->type == TREADLE_CNTR)
			show_cntr(m, container_of(obj, struct treadle_cntr, obj));
		else if (obj->type == TREADLE_EP)
			show_ep(m, container_of(obj, struct treadle_ep, obj));
		else if (is_shown(obj))
			show_tx(m, container_of(obj, struct treadle_tx, obj));
		treadle_obj_put(obj);
		if (more)
			break;
		if (fatal_signal_pending(current))
			break;
		cond_resched();
	}
}
