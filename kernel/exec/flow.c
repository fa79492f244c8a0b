// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: commands that wait for their turn
 *
 * Most commands have done their work when issue() returns, so they are in order by themselves.
 * Those that go on elsewhere (a worker copies, the receiver has no buffer) are counted here. A flow
 * is an endpoint and what it sends to (another one, or a receive context of it). It exists while
 * something is under way from the one to the other. Then
 *
 *	a command after a read, a write or an atomic waits until that has completed (all of the
 *	FI_ORDER_* bits);
 *	so does a command after a send that a worker copies into a part of a multi-receive: programs
 *	count what comes before the completion that gives the buffer back;
 *	a command with F_FENCE waits until all before it have completed;
 *	a command after one that waits, waits behind it.
 *
 * Any other send that is matched, or kept by the receiver, is in order already and holds up only a
 * fence. But a send for which the receiver had no room is dropped if its endpoint closes. Later
 * sends are then not copied before it was received: otherwise there would be a gap in what a sender
 * that ends has sent.
 *
 * The thread that completes the last command waited for starts the waiting ones, through its run
 * queue: one runner at a time (flow->active).
 */
#include <linux/slab.h>

#include "exec/command.h"

#define FLOW_BATCH 16
#define DROP_BATCH 64

/*
 * struct treadle_flow - what is under way from @ep to @dest; all under ep->lock
 * @node:	in ep->flows
 * @tracked:	how many commands are tracked as FENCED, CROWDED, AWAITED
 * @waiting:	commands, in order
 * @active:	@job is queued or running, and holds @ep
 * @ordered:	counted in ep->nr_ordered: the next command waits
 * @job:	issues the waiting commands
 */
struct treadle_flow {
	struct rb_node node;
	struct treadle_ep *ep;
	u64 dest;
	bool active, ordered;
	unsigned int tracked[TREADLE_TRACKS];
	struct list_head waiting;
	struct treadle_job job;
};

static struct treadle_flow *flow_of(const struct rb_node *node)
{
	return rb_entry(node, struct treadle_flow, node);
}

static int flow_cmp(const void *dest, const struct rb_node *node)
{
	return treadle_order(*(const u64 *)dest, flow_of(node)->dest);
}

static bool flow_less(struct rb_node *node, const struct rb_node *other)
{
	return flow_of(node)->dest < flow_of(other)->dest;
}

/* The flow to @dest, or NULL. */
static struct treadle_flow *flow_find(struct treadle_ep *ep, u64 dest)
{
	struct rb_node *node = rb_find(&dest, &ep->flows, flow_cmp);

	lockdep_assert_held(&ep->lock);
	return node ? flow_of(node) : NULL;
}

/* Enter @flow, the only one to its ->dest. flow_update() frees it. */
static void flow_insert(struct treadle_ep *ep, struct treadle_flow *flow)
{
	lockdep_assert_held(&ep->lock);
	rb_add(&flow->node, &ep->flows, flow_less);
	WRITE_ONCE(ep->nr_flows, ep->nr_flows + 1);
}

static void wait_del(struct treadle_ep *ep, struct treadle_cmd *cmd)
{
	lockdep_assert_held(&ep->lock);
	list_del(&cmd->wait);
	rb_erase(&cmd->by_context, &ep->waiting);
}

/* Is anything under way that only a fence waits for? */
static bool is_fenced(const struct treadle_flow *flow)
{
	return flow->tracked[TREADLE_FENCED] || flow->tracked[TREADLE_CROWDED];
}

/*
 * Recompute what follows from a change of @flow; frees @flow if nothing is left of it.
 *
 * treadle_flow_idle() reads the counters without the lock. If it finds 0 the command goes on and
 * must see what the finished commands have written: the releasing stores pair with its acquiring
 * loads.
 */
static void flow_update(struct treadle_ep *ep, struct treadle_flow *flow)
{
	bool ordered =
		flow->tracked[TREADLE_AWAITED] || flow->active || !list_empty(&flow->waiting);

	lockdep_assert_held(&ep->lock);
	if (ordered != flow->ordered)
		smp_store_release(&ep->nr_ordered, ep->nr_ordered + (ordered ? 1 : -1));
	flow->ordered = ordered;
	if (ordered || is_fenced(flow))
		return;
	rb_erase(&flow->node, &ep->flows);
	smp_store_release(&ep->nr_flows, ep->nr_flows - 1);
	kfree(flow);
}

/* May @cmd start, as far as tracked commands are concerned? */
static bool may_start(const struct treadle_flow *flow, const struct treadle_cmd *cmd)
{
	lockdep_assert_held(&flow->ep->lock);
	return !flow->tracked[TREADLE_AWAITED] &&
	       !((cmd->d.flags & TREADLE_F_FENCE) && is_fenced(flow));
}

/*
 * The job of a flow: issue the waiting commands that may start, in order. Holds the endpoint until
 * there is none. May sleep.
 */
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
		if (cmd && may_start(flow, cmd)) {
			wait_del(ep, cmd);
		} else {
			cmd = NULL;
			flow->active = false;
			flow_update(ep, flow);
		}
		spin_unlock(&ep->lock);
		if (!cmd) {
			treadle_ep_put(ep);
			return;
		}
		cmd->admitted = true;
		/* for another context: wait for no page and no receive (struct treadle_run) */
		run->guest = run->ctx != ep->obj.ctx;
		treadle_cmd_issue(cmd, run);
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
 * Start the flow's job if commands wait and no job is active: in the queue of @run, or, if that is
 * NULL, in the worker. As in treadle_cntr_activate(), the job is queued before the lock is dropped.
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

/**
 * treadle_flow_done() - a tracked command has completed or was dropped
 * @ep:   its endpoint
 * @dest: where it went
 * @how:  enum treadle_track that it is counted as
 * @run:  of the caller, starts what waited for it; NULL: a worker does
 *
 * Context: takes ep->lock; does not sleep.
 */
void treadle_flow_done(struct treadle_ep *ep, u64 dest, enum treadle_track how,
		       struct treadle_run *run)
{
	struct treadle_flow *flow;

	spin_lock(&ep->lock);
	flow = flow_find(ep, dest); /* exists while something is counted in it */
	flow->tracked[how]--;
	flow_start(ep, flow, run);
	flow_update(ep, flow);
	spin_unlock(&ep->lock);
}

/**
 * treadle_flow_relax() - let only fences wait for a command that is about to complete
 * @ep:   its endpoint
 * @dest: where it went; it is tracked there as TREADLE_CROWDED
 *
 * Context: takes ep->lock; does not sleep.
 * Return: enum treadle_track that it is counted as now.
 */
enum treadle_track treadle_flow_relax(struct treadle_ep *ep, u64 dest)
{
	struct treadle_flow *flow;

	spin_lock(&ep->lock);
	flow = flow_find(ep, dest);
	flow->tracked[TREADLE_CROWDED]--;
	flow->tracked[TREADLE_FENCED]++;
	spin_unlock(&ep->lock);
	return TREADLE_FENCED;
}

/**
 * treadle_flow_track() - count a command that goes on elsewhere in its flow
 * @cmd: the command, on the heap
 * @how: what has to wait for it; never lowered
 * @run: of the caller
 *
 * Context: takes ep->lock; may sleep.
 * Return: true; false: no memory, which only a command needs that is not tracked yet.
 */
bool treadle_flow_track(struct treadle_cmd *cmd, enum treadle_track how, struct treadle_run *run)
{
	struct treadle_flow *flow, *new = NULL;
	struct treadle_ep *ep = cmd->ep;

	if (cmd->tracked >= how)
		return true;
	spin_lock(&ep->lock);
	flow = flow_find(ep, cmd->dest);
	if (!flow) {
		spin_unlock(&ep->lock);
		new = treadle_cmd_alloc(cmd, sizeof(*new), TREADLE_GFP | __GFP_ZERO, run);
		if (!new)
			return false;
		new->ep = ep;
		new->dest = cmd->dest;
		INIT_LIST_HEAD(&new->waiting);
		new->job.ctx = ep->obj.ctx;
		new->job.fn = flow_go_on;
		spin_lock(&ep->lock);
		flow = flow_find(ep, cmd->dest);
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
	flow_update(ep, flow);
	spin_unlock(&ep->lock);
	kfree(new);
	return true;
}

/**
 * treadle_flow_crowded() - must the receiver not buffer a send?
 * @cmd: the send
 *
 * Context: takes ep->lock; does not sleep.
 * Return: true if an earlier send waits that the receiver had no room for. If the endpoint ended
 * then, it would be missing before @cmd.
 */
bool treadle_flow_crowded(const struct treadle_cmd *cmd)
{
	struct treadle_ep *ep = cmd->ep;
	struct treadle_flow *flow;
	bool crowded;

	if (!smp_load_acquire(&ep->nr_flows))
		return false;
	spin_lock(&ep->lock);
	flow = flow_find(ep, cmd->dest);
	crowded = flow && flow->tracked[TREADLE_CROWDED];
	spin_unlock(&ep->lock);
	return crowded;
}

/*
 * The flow in which @cmd has to wait, or NULL. If the endpoint is closed, or its connection over, a
 * command does not wait: treadle_flow_drop() has been there already, and the command finds no peer.
 */
static struct treadle_flow *flow_before(struct treadle_ep *ep, const struct treadle_cmd *cmd)
{
	struct treadle_flow *flow = ep->closed || cmd->route ? NULL : flow_find(ep, cmd->dest);

	lockdep_assert_held(&ep->lock);
	if (flow && (flow->active || !list_empty(&flow->waiting) || !may_start(flow, cmd)))
		return flow;
	return NULL;
}

/**
 * treadle_flow_wait() - let a command wait if it is not its turn
 * @cmd: the command; see treadle_cmd_leave()
 * @run: of the caller
 *
 * Context: takes ep->lock; may sleep. For a command on the stack, tx->lock is held.
 * Return: TREADLE_GO_ON; TREADLE_KEPT: it waits; or an error of treadle_cmd_leave(). Unless it
 * waits, *@cmd is the command to go on with, which may have moved to the heap.
 */
int treadle_flow_wait(struct treadle_cmd **cmd, struct treadle_run *run)
{
	struct treadle_ep *ep = (*cmd)->ep;
	struct treadle_flow *flow;
	int ret;

	if ((*cmd)->admitted)
		return TREADLE_GO_ON;
	spin_lock(&ep->lock);
	flow = flow_before(ep, *cmd);
	spin_unlock(&ep->lock);
	if (!flow)
		return TREADLE_GO_ON;
	ret = treadle_cmd_leave(cmd, TREADLE_UNTRACKED, run);
	if (ret)
		return ret;
	spin_lock(&ep->lock);
	flow = flow_before(ep, *cmd);
	if (flow) {
		list_add_tail(&(*cmd)->wait, &flow->waiting);
		treadle_wait_add(&ep->waiting, *cmd);
		flow_update(ep, flow);
	}
	spin_unlock(&ep->lock);
	return flow ? TREADLE_KEPT : TREADLE_GO_ON;
}

/**
 * treadle_flow_cancel() - cancel a command that waits for its turn
 * @ep:      the endpoint
 * @context: of the command; the oldest one is taken
 * @run:     of the caller
 *
 * Context: takes ep->lock; may sleep.
 * Return: true if there was one.
 */
bool treadle_flow_cancel(struct treadle_ep *ep, u64 context, struct treadle_run *run)
{
	struct treadle_flow *flow;
	struct treadle_cmd *cmd;

	spin_lock(&ep->lock);
	cmd = treadle_wait_find(&ep->waiting, &context);
	if (cmd) {
		flow = flow_find(ep, cmd->dest);
		wait_del(ep, cmd);
		flow_start(ep, flow, run); /* it may have been a fence */
		flow_update(ep, flow);
	}
	spin_unlock(&ep->lock);
	if (cmd)
		treadle_cmd_fail(cmd, -ECANCELED, run);
	return cmd;
}

/* The first flow to @dest or beyond, or NULL. */
static struct treadle_flow *flow_from(struct treadle_ep *ep, u64 dest)
{
	struct rb_node *node = ep->flows.rb_node;
	struct treadle_flow *found = NULL;

	lockdep_assert_held(&ep->lock);
	while (node) {
		if (flow_of(node)->dest < dest) {
			node = node->rb_right;
		} else {
			found = flow_of(node);
			node = node->rb_left;
		}
	}
	return found;
}

/*
 * Move up to DROP_BATCH waiting commands to @dropped, and look at as many flows, beginning at
 * *@dest. True: there are more, from *@dest on. None are added meanwhile: flow_before().
 */
static bool flow_drop_some(struct treadle_ep *ep, u64 *dest, struct list_head *dropped)
{
	struct treadle_flow *flow = flow_from(ep, *dest);
	struct treadle_cmd *cmd;
	struct rb_node *node;
	int n;

	lockdep_assert_held(&ep->lock);
	for (n = 0; flow && n < DROP_BATCH; n++) {
		node = &flow->node;
		cmd = list_first_entry_or_null(&flow->waiting, struct treadle_cmd, wait);
		if (cmd) {
			wait_del(ep, cmd);
			list_add_tail(&cmd->wait, dropped);
		}
		if (list_empty(&flow->waiting)) {
			node = rb_next(node);
			flow_update(ep, flow);
		}
		flow = node ? flow_of(node) : NULL;
	}
	*dest = flow ? flow->dest : 0;
	return flow;
}

/**
 * treadle_flow_drop() - end all commands that wait for their turn
 * @ep:    the endpoint; closed, or its connection is over
 * @error: complete them with it; 0: drop them without completions
 * @run:   of the caller
 *
 * Context: takes ep->lock; may sleep.
 */
void treadle_flow_drop(struct treadle_ep *ep, int error, struct treadle_run *run)
{
	struct treadle_cmd *cmd, *next;
	LIST_HEAD(dropped);
	u64 dest = 0;
	bool more;

	do {
		spin_lock(&ep->lock);
		more = flow_drop_some(ep, &dest, &dropped);
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
