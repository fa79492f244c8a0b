// SPDX-License-Identifier: GPL-2.0
/* treadle: cancel and flush, fi_cancel(3), fi_trigger(3) */
#include "ep/endpoint.h"

/*
 * Cancel one command that has started: a receive, a send that waits in its flow or at a peer. True:
 * there was one. May sleep.
 */
static bool cancel_started(struct treadle_ep *ep, u32 sides, u64 context, struct treadle_run *run)
{
	u64 n = 0;

	if (sides != TREADLE_CANCEL_TX && ep->rx && treadle_rx_cancel(ep->rx, ep, context, run))
		return true;
	if (sides == TREADLE_CANCEL_RX)
		return false;
	/* in the order in which a send goes on, so that none is missed: flow, then peer */
	if (treadle_flow_cancel(ep, context, run))
		return true;
	treadle_ep_withdraw(ep, &context, -ECANCELED, 1, &n, run);
	return n;
}

/* Cancel the oldest operation with @context, started or armed. Returns how many: 0 or 1. */
static u64 cancel_op(struct treadle_ep *ep, u32 sides, u64 context, struct treadle_run *run)
{
	struct treadle_cull cull = {
		.ep = ep,
		.sides = sides,
		.exact = true,
		.context = context,
		.killable = true,
		.max = 1,
		.error = -ECANCELED,
	};

	if (!smp_load_acquire(&ep->enabled))
		return 0;
	/* a command that fires during the search becomes a started one: search those again */
	return cancel_started(ep, sides, context, run) ||
	       treadle_cull_all(ep->obj.ctx, &cull, run) || cancel_started(ep, sides, context, run);
}

/**
 * treadle_ioc_cancel() - CANCEL: cancel an operation or deferred work, or flush deferred work
 * @u:	the call, with a struct treadle_cancel
 *
 * Context: may sleep. Killable.
 * Return: 0, -EINVAL, -EBADF: an object of another kind, -ENOENT: no object, or nothing to cancel.
 */
int treadle_ioc_cancel(struct treadle_ucmd *u)
{
	struct treadle_cancel *arg = u->arg;
	struct treadle_cull cull = { .work = true, .killable = true, .max = U64_MAX };
	struct treadle_obj *obj = NULL;
	int ret = 0;
	TREADLE_RUN(run, u->ctx);

	if (arg->kind > TREADLE_FLUSH_WORK ||
	    arg->flags &
		    ~(arg->kind == TREADLE_CANCEL_OP ? TREADLE_CANCEL_RX | TREADLE_CANCEL_TX : 0) ||
	    (arg->kind != TREADLE_CANCEL_WORK && arg->threshold) ||
	    (arg->kind == TREADLE_FLUSH_WORK && arg->context))
		return -EINVAL;
	arg->count = 0;
	if (arg->id || arg->kind != TREADLE_FLUSH_WORK) {
		obj = treadle_obj_get(u->ctx, arg->id, 0);
		if (IS_ERR(obj))
			return PTR_ERR(obj);
		if (arg->kind == TREADLE_CANCEL_OP ?
			    obj->type != TREADLE_EP :
			    obj->type != TREADLE_CNTR && obj->type != TREADLE_CELL) {
			treadle_obj_put(obj);
			return -EBADF;
		}
	}
	switch (arg->kind) {
	case TREADLE_CANCEL_OP:
		arg->count = cancel_op(container_of(obj, struct treadle_ep, obj), arg->flags,
				       arg->context, &run);
		break;
	case TREADLE_CANCEL_WORK:
		cull.exact = cull.at = true;
		cull.context = arg->context;
		cull.threshold = arg->threshold;
		cull.max = 1;
		fallthrough;
	case TREADLE_FLUSH_WORK:
		cull.lax = !obj;
		arg->count = obj ? treadle_cull(obj, &cull, &run) :
				   treadle_cull_all(u->ctx, &cull, &run);
		break;
	}
	treadle_stat_add(obj && obj->type == TREADLE_EP ? &obj->stats : &u->ctx->sums.stats,
			 TREADLE_STAT_CANCELED, arg->count);
	if (!arg->count && arg->kind != TREADLE_FLUSH_WORK)
		ret = -ENOENT;
	if (obj)
		treadle_obj_put(obj);
	treadle_run_jobs(&run);
	return ret;
}
