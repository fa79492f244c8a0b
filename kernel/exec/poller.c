// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: trigger cells, and the poller that looks at them
 *
 * fi_trigger(3), "XPU TRIGGERS". A plain store into a page starts a command, so the kernel has to
 * poll. Each context has one poller, a work that exists only while something is armed. It looks
 * without a pause for SPIN_NS after something was armed or started. From then on a timer looks,
 * LOOKS cells at a time, and queues the work when it finds something. Its interval is the time
 * since something last happened, up to PAUSE_NS. Interrupts are charged to no group, so they are
 * limited for each user and for all together: where many contexts wait, their intervals are longer.
 *
 * Order: the commands of an endpoint lie one behind the other in the tree, as they were submitted.
 * If a cell is found written, its command starts only after all before it were looked at once more
 * and found not written. If one of them is written, that command is looked at next. So if cells are
 * written in the order of submission, their commands start in that order, wherever the poller was
 * at that time.
 *
 * The process may write the values at any time: each is read once for each look and compared, or
 * added to a counter of the same process. Nothing else depends on it.
 *
 * A counter may follow a cell (TREADLE_F_REPEAT): its command stays armed, and each look adds to
 * the counter what was added to the cell. So one store fires all that is due then.
 */
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/nospec.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "exec/traced.h"
#include "mm/compat.h"

#define SPIN_NS	 (100 * NSEC_PER_USEC)
#define PAUSE_NS NSEC_PER_MSEC
#define LOOKS	 128  /* under one hold of the lock, or in an interrupt */
#define TURN	 1024 /* looks */
#define TURNS	 64   /* of the work before it makes way for others */

/*
 * struct treadle_cells - cells to write, and for each the last value with which a command was
 * disarmed
 * @rw, @ro: pages of @cells and @done
 * @cells: mapped for writing
 * @done:  as many, mapped read-only
 * @size:  bytes of either
 */
struct treadle_cells {
	struct treadle_obj obj;
	struct treadle_area rw, ro;
	u64 *cells, *done;
	u64 size;
};

static struct treadle_cells *cells_of(const struct treadle_obj *obj)
{
	return container_of(obj, struct treadle_cells, obj);
}

/* Armed commands hold the object, so none is left. */
static void cell_free(struct treadle_obj *obj)
{
	treadle_area_free(&cells_of(obj)->rw);
	treadle_area_free(&cells_of(obj)->ro);
}

static const struct treadle_area *cell_area(struct treadle_obj *obj, enum treadle_region region)
{
	return region == TREADLE_RO ? &cells_of(obj)->ro : &cells_of(obj)->rw;
}

static const struct treadle_obj_ops cell_ops = {
	.type = TREADLE_CELL,
	.free = cell_free,
	.area = cell_area,
};

/**
 * treadle_ioc_cell_create() - CELL_CREATE: make trigger cells
 * @u: the call, with a struct treadle_cell_create
 *
 * Context: may sleep.
 * Return: 0, with the cells in u->new; or -errno.
 */
int treadle_ioc_cell_create(struct treadle_ucmd *u)
{
	struct treadle_cell_create *arg = u->arg;
	struct treadle_cells *cells;
	int ret;

	if (arg->flags || !arg->count || arg->count > TREADLE_MAX_CELLS)
		return -EINVAL;
	cells = kzalloc(sizeof(*cells), TREADLE_GFP);
	if (!cells)
		return -ENOMEM;
	ret = treadle_obj_init(u->ctx, &cells->obj, &cell_ops);
	if (ret) {
		kfree(cells);
		return ret;
	}
	cells->size = PAGE_ALIGN((u64)arg->count * sizeof(u64));
	ret = treadle_area_alloc(&cells->rw, cells->size);
	if (!ret)
		ret = treadle_area_alloc(&cells->ro, cells->size);
	if (ret) {
		treadle_obj_put(&cells->obj);
		return ret;
	}
	cells->cells = cells->rw.addr;
	cells->done = cells->ro.addr;
	arg->count = cells->size / sizeof(u64);
	arg->id = cells->obj.id;
	treadle_map_cookie(&cells->obj, &cells->rw, TREADLE_RW, &arg->rw);
	treadle_map_cookie(&cells->obj, &cells->ro, TREADLE_RO, &arg->ro);
	u->new = &cells->obj;
	return 0;
}

/**
 * treadle_cell_validate() - is there a cell at an offset?
 * @obj:    cells
 * @offset: in bytes
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int treadle_cell_validate(const struct treadle_obj *obj, u64 offset)
{
	return offset % sizeof(u64) || offset >= cells_of(obj)->size ? -EINVAL : 0;
}

/**
 * treadle_ioc_cntr_copy() - CNTR_COPY: keep a copy of a counter in two cells, or end it
 * @u: the call, with a struct treadle_cntr_copy
 *
 * Context: may sleep; takes ctx->lock.
 * Return: 0 or -errno. -EBUSY: the counter has a copy already; -ENOENT: it has none.
 */
int treadle_ioc_cntr_copy(struct treadle_ucmd *u)
{
	const struct treadle_cntr_copy *arg = u->arg;
	struct treadle_obj *obj, *cells;
	struct treadle_cntr *cntr;
	u64 size, at;
	int ret;

	if (arg->flags || arg->offset % (2 * sizeof(u64)) || (!arg->cells && arg->offset))
		return -EINVAL;
	/* bound during this call, so that it is not destroyed meanwhile */
	obj = treadle_obj_bind(u->ctx, arg->cntr, TREADLE_CNTR);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	cntr = container_of(obj, struct treadle_cntr, obj);
	if (!arg->cells) {
		ret = treadle_cntr_uncopy(cntr) ? 0 : -ENOENT;
		goto out;
	}
	cells = treadle_obj_bind(u->ctx, arg->cells, TREADLE_CELL);
	ret = PTR_ERR_OR_ZERO(cells);
	if (ret)
		goto out;
	size = cells_of(cells)->size;
	ret = -EINVAL;
	if (arg->offset < size) {
		at = array_index_nospec(arg->offset, size);
		ret = treadle_cntr_copy_to(cntr, cells, cells_of(cells)->cells + at / sizeof(u64));
	}
	if (ret)
		treadle_obj_unbind(cells);
out:
	treadle_obj_unbind(obj);
	return ret;
}

/* Index of the cell of a descriptor that treadle_cell_validate() has accepted. */
static u64 cell_index(const struct treadle_obj *obj, const struct treadle_desc *d)
{
	return array_index_nospec(d->threshold / sizeof(u64), cells_of(obj)->size / sizeof(u64));
}

/**
 * treadle_cell_disarmed() - show that a command has left its cell
 * @obj: the cells
 * @d:	 descriptor of the command
 *
 * A process that finds the value in the done page may use the cell for another command. The lock
 * keeps the values in the order in which commands leave.
 *
 * Context: the lock of the context's poller is held.
 */
void treadle_cell_disarmed(struct treadle_obj *obj, const struct treadle_desc *d)
{
	lockdep_assert_held(&obj->ctx->poller.trigger.lock);
	treadle_cell_done(&cells_of(obj)->done[cell_index(obj, d)], d->value);
}

/**
 * treadle_cell_value() - the value that a command's cell has now
 * @obj: the cells
 * @d:	 descriptor of the command
 *
 * Context: any.
 * Return: the value, read once.
 */
u64 treadle_cell_value(const struct treadle_obj *obj, const struct treadle_desc *d)
{
	return READ_ONCE(cells_of(obj)->cells[cell_index(obj, d)]);
}

static const u64 *cell_of(const struct treadle_cmd *cmd)
{
	return &cells_of(cmd->cond)->cells[cell_index(cmd->cond, &cmd->d)];
}

/* Has the cell of an armed command the value that it waits for? Barrier G. */
static bool written(const struct treadle_cmd *cmd)
{
	return treadle_cell_read(cell_of(cmd)) == cmd->d.value;
}

/**
 * treadle_cell_follow() - add to a counter what was added to a cell
 * @cmd: the command that follows the cell, armed
 * @run: of the caller; gets what the new value fires
 *
 * The cell is a total that its writer counts up. Whatever it is, the counter grows by the
 * difference, modulo 2^64. The done page shows a total once it is counted.
 *
 * Context: the lock of the context's poller is held, and that of the counter is taken: so a command
 * that was taken off has counted all that the done page shows, and counts no more.
 * Return: true if there was a difference.
 */
bool treadle_cell_follow(struct treadle_cmd *cmd, struct treadle_run *run)
{
	u64 total = treadle_cell_read(cell_of(cmd)); /* G */
	u64 more = total - cmd->d.value;

	lockdep_assert_held(&cmd->cond->ctx->poller.trigger.lock);
	if (!more || READ_ONCE(cmd->cond->ctx->dead))
		return false;
	cmd->d.value = total;
	treadle_cntr_add(cmd->target, more, cmd->d.flags & TREADLE_F_CNTR_ERROR ? -ECANCELED : 0,
			 run);
	treadle_cell_disarmed(cmd->cond, &cmd->d);
	return true;
}

/**
 * treadle_cell_arm() - arm a command on its cell
 * @cmd: the command, on the heap and bound to cmd->cond; consumed
 * @run: of the caller
 *
 * If its endpoint or context has ended, the command is not armed but failed or dropped.
 *
 * Context: takes the lock of the context's poller; may sleep if the command is refused.
 */
void treadle_cell_arm(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_ctx *ctx = cmd->cond->ctx;
	struct treadle_poller *p = &ctx->poller;
	int error;

	spin_lock(&p->trigger.lock);
	error = treadle_arm_error(cmd);
	if (error) {
		treadle_cell_disarmed(cmd->cond, &cmd->d);
		spin_unlock(&p->trigger.lock);
		treadle_arm_refuse(cmd, error, run);
		return;
	}
	treadle_arm(&p->trigger, cmd, cmd->ep ? cmd->ep->obj.id : 0);
	p->fresh = true;
	if (p->state == TREADLE_POLL_IDLE) {
		kref_get(&ctx->ref);
		treadle_user_polls(ctx->user, true);
	}
	if (p->state != TREADLE_POLL_NOW) {
		p->state = TREADLE_POLL_NOW;
		treadle_queue_work(&p->work);
	}
	spin_unlock(&p->trigger.lock);
}

/*
 * Look at a cell that a counter follows. It needs no second look at those before it: that would
 * never end if they are written all the time. False: there is no @run, and it is written.
 */
static bool poller_follow(struct treadle_poller *p, struct treadle_cmd *cmd,
			  struct treadle_run *run)
{
	lockdep_assert_held(&p->trigger.lock);
	if (p->until == cmd->armed.seq)
		p->until = TREADLE_POLL_NONE;
	if (run) {
		if (treadle_cell_follow(cmd, run))
			p->fresh = true;
	} else if (treadle_cell_read(cell_of(cmd)) != cmd->d.value) {
		p->seq = p->until = cmd->armed.seq;
		return false;
	}
	return true;
}

/*
 * Go on looking, at up to *@looks cells, and LOOKS at most. Returns a command that is to start now,
 * taken off; or NULL, with *@end if the last cell has been looked at. Counters follow their cells
 * meanwhile; @run gets what that fires. Without @run: NULL as soon as a cell is found written.
 */
static struct treadle_cmd *poller_look(struct treadle_poller *p, int *looks, bool *end,
				       struct treadle_run *run)
{
	struct rb_root_cached *root = &p->trigger.armed;
	struct treadle_armed *a = treadle_armed_from(root, p->key, p->seq);
	int i;

	lockdep_assert_held(&p->trigger.lock);
	for (i = 0; a && *looks > 0 && i < LOOKS; i++, --*looks) {
		struct treadle_cmd *cmd = container_of(a, struct treadle_cmd, armed);

		if (a->threshold != p->key || a->seq > p->until)
			p->until = TREADLE_POLL_NONE; /* that command was canceled */
		p->key = a->threshold;
		p->seq = a->seq + 1;
		if (unlikely(treadle_cmd_follows(cmd))) {
			if (!poller_follow(p, cmd, run))
				return NULL;
			a = treadle_armed_next(a);
			continue;
		}
		if (run && a->seq == p->until) {
			p->until = TREADLE_POLL_NONE;
			rb_erase_cached(&a->node, root);
			treadle_cond_unbind(cmd);
			treadle_cell_disarmed(cmd->cond, &cmd->d);
			return cmd;
		}
		if (written(cmd)) { /* look once more at those before it */
			p->until = a->seq;
			p->seq = 0;
			if (!run)
				return NULL;
			a = treadle_armed_from(root, p->key, 0);
		} else {
			a = treadle_armed_next(a);
		}
	}
	if (!a) {
		p->key = p->seq = 0;
		p->until = TREADLE_POLL_NONE;
		*end = true;
	}
	return NULL;
}

/* Look at all cells, but at no more than TURN, and start commands. True: some were started. */
static bool poller_turn(struct treadle_poller *p, struct treadle_run *run)
{
	bool started = false, end = false;
	int looks = TURN;

	while (looks > 0 && !end) {
		struct treadle_cmd *cmd;

		spin_lock(&p->trigger.lock);
		cmd = poller_look(p, &looks, &end, run);
		spin_unlock(&p->trigger.lock);
		if (!cmd)
			continue;
		started = true;
		treadle_stat_add(treadle_cmd_stats(cmd, run->ctx), TREADLE_STAT_FIRED, 1);
		if (trace_treadle_fire_enabled())
			treadle_trace_fire(cmd, cmd->cond->id, 0);
		treadle_cond_put(cmd);
		treadle_cmd_issue(cmd, run);
		treadle_run_let_go(run);
		cond_resched();
	}
	return started;
}

/* How long the timer waits. */
static ktime_t poller_pause(const struct treadle_poller *p, u64 now)
{
	const struct treadle_ctx *ctx = container_of(p, struct treadle_ctx, poller);
	u64 most = PAUSE_NS * treadle_user_share(ctx->user);

	return ns_to_ktime(min_t(u64, now - p->since, most));
}

/*
 * After a turn: true if another one is due at once. Else the timer is started, or nothing is armed
 * and the work ends (*@stop).
 *
 * The work ends only if it has not been queued again. Other threads queue it under the lock.
 * Besides them only the timer does, which the work canceled when it began, and the work itself.
 */
static bool poller_goes_on(struct treadle_poller *p, u64 now, bool *stop)
{
	bool again = false;

	spin_lock(&p->trigger.lock);
	if (p->fresh) {
		p->fresh = false;
		p->since = now;
		again = true;
	} else if (RB_EMPTY_ROOT(&p->trigger.armed.rb_root)) {
		*stop = !treadle_work_pending(&p->work);
		if (*stop)
			p->state = TREADLE_POLL_IDLE;
	} else if (p->until != TREADLE_POLL_NONE || now - p->since < SPIN_NS) {
		again = true;
	} else {
		p->state = TREADLE_POLL_LATER;
		hrtimer_start(&p->timer, poller_pause(p, now), HRTIMER_MODE_REL);
	}
	spin_unlock(&p->trigger.lock);
	return again;
}

/* The work of a poller: looks without a pause, then leaves looking to the timer, or ends. */
static void poller_work(struct treadle_work *work, struct treadle_pool *pool)
{
	struct treadle_poller *p = container_of(work, struct treadle_poller, work);
	struct treadle_ctx *ctx = work->ctx;
	bool again = true, stop = false;
	int i;
	TREADLE_RUN(run, ctx);

	run.pool = pool;
	hrtimer_cancel(&p->timer);
	spin_lock(&p->trigger.lock);
	p->state = TREADLE_POLL_NOW;
	spin_unlock(&p->trigger.lock);
	for (i = 0; again && i < TURNS; i++) {
		bool started = poller_turn(p, &run);
		u64 now = ktime_get_ns();

		if (started)
			p->since = now;
		if (started || !treadle_run_empty(&run)) {
			treadle_run_jobs(&run);
			run.budget = TREADLE_CALLER_BUDGET;
		}
		cond_resched();
		again = poller_goes_on(p, now, &stop);
	}
	if (again)
		treadle_queue_work(&p->work);
	if (stop) {
		treadle_user_polls(ctx->user, false);
		treadle_ctx_put(ctx);
	}
}

/*
 * Runs in an interrupt, which may have interrupted a holder of the lock: so it only tries to take
 * it. It owns what is the work's alone, as the work does not run, or waits in hrtimer_cancel().
 */
static enum hrtimer_restart poller_timer(struct hrtimer *timer)
{
	struct treadle_poller *p = container_of(timer, struct treadle_poller, timer);
	bool idle, end = false;
	int looks = LOOKS;

	WRITE_ONCE(p->timers, p->timers + 1); /* only one timer runs at a time */
	/* without SMP a spinlock does not exclude, and trylock always succeeds */
	if (!IS_ENABLED(CONFIG_SMP) || !spin_trylock(&p->trigger.lock))
		goto work;
	poller_look(p, &looks, &end, NULL);
	idle = p->until == TREADLE_POLL_NONE && !RB_EMPTY_ROOT(&p->trigger.armed.rb_root);
	spin_unlock(&p->trigger.lock);
	if (idle) {
		hrtimer_forward_now(timer, poller_pause(p, ktime_get_ns()));
		return HRTIMER_RESTART;
	}
work:
	treadle_queue_work(&p->work);
	return HRTIMER_NORESTART;
}

/**
 * treadle_poller_init() - initialize the poller of a context
 * @ctx: the context, not published yet
 *
 * Context: any.
 */
void treadle_poller_init(struct treadle_ctx *ctx)
{
	struct treadle_poller *p = &ctx->poller;

	treadle_trigger_init(&p->trigger);
	p->until = TREADLE_POLL_NONE;
	treadle_work_init(&p->work, ctx, poller_work, false);
	treadle_timer_setup(&p->timer, poller_timer, HRTIMER_MODE_REL);
}
