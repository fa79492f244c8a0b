// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: what has to wait for its turn
 *
 * Most commands have done their work when issue() returns, so they are in order
 * by themselves. Those that go on elsewhere (a worker copies, the receiver has no
 * buffer) are counted here: a flow is an endpoint and what it sends to (a port,
 * or a receive context there), and exists while something is under way from the one to the other. Then
 *
 *	what follows a read, a write or an atomic waits until that has completed
 *	(all of the FI_ORDER_* bits);
 *	so does what follows a send that a worker copies into a part of a buffer for many:
 *	programs count what comes before the completion that gives the buffer back;
 *	what has F_FENCE waits until everything before it has completed;
 *	what follows a command that waits, waits behind it.
 *
 * Any other send that is matched, or kept by the receiver, is in order already and holds up
 * nobody but a fence. But one for which the receiver had no room goes with its endpoint, and so does
 * what follows, which is not copied before that was received: else there would be a gap in what a
 * sender that ends has sent.
 *
 * What waits is started by whoever completes the last that it waits for, through his run queue: one
 * runner at a time (flow->active).
 */
#include <linux/slab.h>

#include "exec/command.h"

#define FLOW_BATCH 16
#define DROP_BATCH 64

/*
 * struct treadle_flow - what is under way from @ep to @port; all under ep->lock
 * @tracked:	how many are as what
 * @waiting:	commands, in order
 * @active:	@job is queued or running, and holds @ep
 * @ordered:	counted in ep->nr_ordered: what comes next waits
 */
struct treadle_flow {
	struct rb_node node;
	struct treadle_ep *ep;
	u32 port;
	bool active, ordered;
	unsigned int tracked[TREADLE_TRACKS];
	struct list_head waiting;
	struct treadle_job job;
};

static struct treadle_flow *flow_of(const struct rb_node *node)
{
	return rb_entry(node, struct treadle_flow, node);
}

static int order(u64 a, u64 b)
{
	return a < b ? -1 : a > b;
}

static int flow_cmp(const void *port, const struct rb_node *node)
{
	return order(*(const u32 *)port, flow_of(node)->port);
}

static bool flow_less(struct rb_node *node, const struct rb_node *other)
{
	return flow_of(node)->port < flow_of(other)->port;
}

static struct treadle_flow *flow_find(struct treadle_ep *ep, u32 port)
{
	struct rb_node *node = rb_find(&port, &ep->flows, flow_cmp);

	return node ? flow_of(node) : NULL;
}

static void flow_insert(struct treadle_ep *ep, struct treadle_flow *flow)
{
	rb_add(&flow->node, &ep->flows, flow_less);
	WRITE_ONCE(ep->nr_flows, ep->nr_flows + 1);
}

/* --- what waits, by context, so that fi_cancel finds it; under the lock of its endpoint ---- */

static struct treadle_cmd *waiting_of(const struct rb_node *node)
{
	return rb_entry(node, struct treadle_cmd, by_context);
}

/* fi_inject(3) and the like have no context of their own to be found by; they come last. */
static bool has_name(const struct treadle_cmd *cmd)
{
	return (cmd->d.flags & (TREADLE_F_INJECT | TREADLE_F_COMPLETION)) != TREADLE_F_INJECT;
}

static int wait_cmp(const void *context, const struct rb_node *node)
{
	return has_name(waiting_of(node)) ?
		       order(*(const u64 *)context, waiting_of(node)->d.context) :
		       -1;
}

static bool wait_less(struct rb_node *node, const struct rb_node *other)
{
	return has_name(waiting_of(node)) && wait_cmp(&waiting_of(node)->d.context, other) < 0;
}

/* Behind those with the same context. */
void treadle_wait_add(struct rb_root *tree, struct treadle_cmd *cmd)
{
	rb_add(&cmd->by_context, tree, wait_less);
}

/* The first one (with *context), or NULL. */
struct treadle_cmd *treadle_wait_find(const struct rb_root *tree, const u64 *context)
{
	struct rb_node *node = context ? rb_find_first(context, tree, wait_cmp) : rb_first(tree);

	return node ? waiting_of(node) : NULL;
}

static void wait_del(struct treadle_ep *ep, struct treadle_cmd *cmd)
{
	list_del(&cmd->wait);
	rb_erase(&cmd->by_context, &ep->waiting);
}

/* Is anything under way that a fence alone waits for? */
static bool is_fenced(const struct treadle_flow *flow)
{
	return flow->tracked[TREADLE_FENCED] || flow->tracked[TREADLE_CROWDED];
}

/*
 * After a change; frees the flow if nothing is left of it. The numbers are read
 * without the lock (acquire) by who issues next: if it finds none it goes on, and
 * must find in memory what those that are done have written.
 */
static void flow_settle(struct treadle_ep *ep, struct treadle_flow *flow)
{
	bool ordered =
		flow->tracked[TREADLE_AWAITED] || flow->active || !list_empty(&flow->waiting);

	if (ordered != flow->ordered)
		smp_store_release(&ep->nr_ordered, ep->nr_ordered + (ordered ? 1 : -1));
	flow->ordered = ordered;
	if (ordered || is_fenced(flow))
		return;
	rb_erase(&flow->node, &ep->flows);
	smp_store_release(&ep->nr_flows, ep->nr_flows - 1);
	kfree(flow);
}

/* May @cmd start, as far as what is under way is concerned? */
static bool flow_free(const struct treadle_flow *flow, const struct treadle_cmd *cmd)
{
	return !flow->tracked[TREADLE_AWAITED] &&
	       !((cmd->d.flags & TREADLE_F_FENCE) && is_fenced(flow));
}

static void flow_go_on(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_flow *flow = container_of(job, struct treadle_flow, job);
	struct treadle_ep *ep = flow->ep;
	int i;

	for (i = 0; i < FLOW_BATCH && run->budget > 0;
	     i++, treadle_run_charge(run, TREADLE_CHARGE)) {
		struct treadle_cmd *cmd;

		spin_lock(&ep->lock);
		cmd = list_first_entry_or_null(&flow->waiting, struct treadle_cmd, wait);
		if (cmd && flow_free(flow, cmd)) {
			wait_del(ep, cmd);
		} else {
			cmd = NULL;
			flow->active = false;
			flow_settle(ep, flow);
		}
		spin_unlock(&ep->lock);
		if (!cmd) {
			treadle_ep_put(ep);
			return;
		}
		cmd->admitted = true;
		/* as for what is armed on a counter: what is behind it goes on */
		run->guest = run->ctx != ep->obj.ctx;
		treadle_opdefs[cmd->d.opcode].issue(cmd, run);
		if (unlikely(run->guest)) {
			run->guest = false;
			if (need_resched()) {
				treadle_queue_job(job);
				return;
			}
		}
	}
	treadle_run_add(run, job);
}

/*
 * If anything waits and no job looks at it, start one: in the queue of @run, or, without one, of
 * the worker. As in cntr_activate(), before the lock is dropped.
 */
static void flow_start(struct treadle_ep *ep, struct treadle_flow *flow, struct treadle_run *run)
{
	lockdep_assert_held(&ep->lock);
	if (flow->active || list_empty(&flow->waiting))
		return;
	flow->active = true;
	treadle_ep_get(ep);
	if (run)
		treadle_run_add(run, &flow->job);
	else
		treadle_queue_job(&flow->job);
}

/*
 * A command has completed that was tracked. Without @run (it was dropped) a
 * worker starts what comes next.
 */
void treadle_flow_done(struct treadle_ep *ep, u32 port, enum treadle_track how,
		       struct treadle_run *run)
{
	struct treadle_flow *flow;

	spin_lock(&ep->lock);
	flow = flow_find(ep, port); /* it is there as long as something is counted in it */
	flow->tracked[how]--;
	flow_start(ep, flow, run);
	flow_settle(ep, flow);
	spin_unlock(&ep->lock);
}

/* One that was CROWDED is about to complete: only fences wait for that. */
enum treadle_track treadle_flow_relax(struct treadle_ep *ep, u32 port)
{
	struct treadle_flow *flow;

	spin_lock(&ep->lock);
	flow = flow_find(ep, port);
	flow->tracked[TREADLE_CROWDED]--;
	flow->tracked[TREADLE_FENCED]++;
	spin_unlock(&ep->lock);
	return TREADLE_FENCED;
}

/*
 * @cmd, which is allocated, goes on elsewhere: what follows may have to wait for it. False: no memory, which
 * is needed only for a command that is not tracked yet.
 */
bool treadle_flow_track(struct treadle_cmd *cmd, enum treadle_track how, struct treadle_run *run)
{
	struct treadle_flow *flow, *new = NULL;
	struct treadle_ep *ep = cmd->ep;

	if (cmd->tracked >= how)
		return true;
	spin_lock(&ep->lock);
	flow = flow_find(ep, cmd->port);
	if (!flow) {
		spin_unlock(&ep->lock);
		new = treadle_cmd_alloc(cmd, sizeof(*new), TREADLE_GFP | __GFP_ZERO, run);
		if (!new)
			return false;
		new->ep = ep;
		new->port = cmd->port;
		INIT_LIST_HEAD(&new->waiting);
		new->job.ctx = ep->obj.ctx;
		new->job.fn = flow_go_on;
		spin_lock(&ep->lock);
		flow = flow_find(ep, cmd->port);
		if (!flow) {
			flow = new;
			new = NULL;
			flow_insert(ep, flow);
		}
	}
	if (cmd->tracked)
		flow->tracked[cmd->tracked]--;
	flow->tracked[how]++;
	cmd->tracked = how;
	flow_settle(ep, flow);
	spin_unlock(&ep->lock);
	kfree(new);
	return true;
}

/* Is something before @cmd under way that would be missing if it were copied, and then their endpoint ended? */
bool treadle_flow_crowded(const struct treadle_cmd *cmd)
{
	struct treadle_ep *ep = cmd->ep;
	struct treadle_flow *flow;
	bool crowded;

	if (!smp_load_acquire(&ep->nr_flows))
		return false;
	spin_lock(&ep->lock);
	flow = flow_find(ep, cmd->port);
	crowded = flow && flow->tracked[TREADLE_CROWDED];
	spin_unlock(&ep->lock);
	return crowded;
}

/*
 * Is there something that @cmd has to wait for? Under ep->lock; what is closed, or whose connection is over, does not
 * wait: nobody looks for it again (treadle_flow_drop), and it finds no peer.
 */
static struct treadle_flow *flow_before(struct treadle_ep *ep, const struct treadle_cmd *cmd)
{
	struct treadle_flow *flow = ep->closed || cmd->route ? NULL : flow_find(ep, cmd->port);

	if (!flow)
		return NULL;
	return flow->active || !list_empty(&flow->waiting) || !flow_free(flow, cmd) ? flow : NULL;
}

/*
 * treadle_flow_wait - something is under way; is it a command's turn?
 *
 * Returns the command to go on with (it may have been moved off the stack), or
 * NULL: it waits, or has failed.
 */
struct treadle_cmd *treadle_flow_wait(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_cmd *heap = NULL;
	struct treadle_ep *ep = cmd->ep;
	struct treadle_flow *flow;
	int ret = 0;

	if (cmd->admitted)
		return cmd;
	spin_lock(&ep->lock);
	flow = flow_before(ep, cmd);
	spin_unlock(&ep->lock);
	if (!flow)
		return cmd;
	if (cmd->d.flags & TREADLE_F_INJECT)
		ret = treadle_take_inject(cmd, run);
	if (!ret)
		heap = treadle_cmd_persist(cmd, TREADLE_GFP, run);
	if (!heap) {
		treadle_cmd_fail(cmd, ret ?: -ENOMEM, run);
		return NULL;
	}
	cmd = heap;
	spin_lock(&ep->lock);
	flow = flow_before(ep, cmd);
	if (flow) {
		list_add_tail(&cmd->wait, &flow->waiting);
		treadle_wait_add(&ep->waiting, cmd);
		flow_settle(ep, flow);
		cmd = NULL;
	}
	spin_unlock(&ep->lock);
	return cmd;
}

/* Take back the first command with @context that waits, if there is one. */
bool treadle_flow_cancel(struct treadle_ep *ep, u64 context, struct treadle_run *run)
{
	struct treadle_flow *flow;
	struct treadle_cmd *cmd;

	spin_lock(&ep->lock);
	cmd = treadle_wait_find(&ep->waiting, &context);
	if (cmd) {
		flow = flow_find(ep, cmd->port);
		wait_del(ep, cmd);
		flow_start(ep, flow, run); /* it may have been a fence */
		flow_settle(ep, flow);
	}
	spin_unlock(&ep->lock);
	if (cmd)
		treadle_cmd_fail(cmd, -ECANCELED, run);
	return cmd;
}

/* The first flow to @port or beyond, or NULL. */
static struct treadle_flow *flow_from(struct treadle_ep *ep, u32 port)
{
	struct rb_node *node = ep->flows.rb_node;
	struct treadle_flow *found = NULL;

	while (node) {
		if (flow_of(node)->port < port) {
			node = node->rb_right;
		} else {
			found = flow_of(node);
			node = node->rb_left;
		}
	}
	return found;
}

/*
 * Up to DROP_BATCH commands that wait, taken out; looks at as many flows, from that to *port on. Is there more? None
 * comes after it: flow_before().
 */
static bool flow_drop_some(struct treadle_ep *ep, u32 *port, struct list_head *dropped)
{
	struct treadle_flow *flow = flow_from(ep, *port);
	struct treadle_cmd *cmd;
	struct rb_node *node;
	int n;

	for (n = 0; flow && n < DROP_BATCH; n++) {
		node = &flow->node;
		cmd = list_first_entry_or_null(&flow->waiting, struct treadle_cmd, wait);
		if (cmd) {
			wait_del(ep, cmd);
			list_add_tail(&cmd->wait, dropped);
		}
		if (list_empty(&flow->waiting)) {
			node = rb_next(node);
			flow_settle(ep, flow);
		}
		flow = node ? flow_of(node) : NULL;
	}
	*port = flow ? flow->port : 0;
	return flow;
}

/* The endpoint is closed, or its connection over: what waits ends with @error, or, if that is 0, without a completion. */
void treadle_flow_drop(struct treadle_ep *ep, int error, struct treadle_run *run)
{
	struct treadle_cmd *cmd, *next;
	LIST_HEAD(dropped);
	u32 port = 0;
	bool more;

	do {
		spin_lock(&ep->lock);
		more = flow_drop_some(ep, &port, &dropped);
		spin_unlock(&ep->lock);
		list_for_each_entry_safe(cmd, next, &dropped, wait) {
			list_del(&cmd->wait);
			if (error)
				treadle_cmd_complete(cmd, error, run);
			else
				treadle_cmd_free(cmd);
		}
		cond_resched();
	} while (more);
}
