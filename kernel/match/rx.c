// SPDX-License-Identifier: GPL-2.0
/* treadle: receive rings: creation, slots, the charge for copies of messages, hash tables */
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "core/limits.h"
#include "match/receive.h"

#define BUFFERED_DEFAULT (1u << 20)

static void rx_free(struct treadle_obj *obj)
{
	struct treadle_rx *rx = container_of(obj, struct treadle_rx, obj);

	int i;

	kvfree(rx->slots);
	for (i = 0; i < TREADLE_MATCHES; i++)
		treadle_match_exit(&rx->match[i]);
	treadle_ring_exit(&rx->ring);
}

static const struct treadle_area *rx_area(struct treadle_obj *obj, enum treadle_region region)
{
	struct treadle_ring *ring = &container_of(obj, struct treadle_rx, obj)->ring;

	return region == TREADLE_RO ? &ring->ro : &ring->rw;
}

static long rx_doorbell(struct treadle_obj *obj)
{
	return treadle_rx_doorbell(container_of(obj, struct treadle_rx, obj));
}

static const struct treadle_obj_ops rx_ops = {
	.type = TREADLE_RX,
	.free = rx_free,
	.area = rx_area,
	.doorbell = rx_doorbell,
};

/**
 * treadle_ioc_rx_create() - RX_CREATE: make a receive ring
 * @u:	the call, with a struct treadle_ring_create
 *
 * Context: May sleep.
 * Return: 0, with the ring in u->new; or -errno.
 */
int treadle_ioc_rx_create(struct treadle_ucmd *u)
{
	struct treadle_ring_create *arg = u->arg;
	struct treadle_rx *rx;
	u32 i;
	int ret;

	if ((arg->flags & ~(TREADLE_RX_SHARED | TREADLE_RX_LANES)) ||
	    arg->flags == (TREADLE_RX_SHARED | TREADLE_RX_LANES) || arg->idle ||
	    arg->buffered > treadle_max_buffered)
		return -EINVAL;
	ret = treadle_round_entries(&arg->entries, treadle_max_ring);
	if (ret)
		return ret;
	rx = kzalloc(sizeof(*rx), TREADLE_GFP);
	if (!rx)
		return -ENOMEM;
	ret = treadle_obj_init(u->ctx, &rx->obj, &rx_ops);
	if (ret) {
		kfree(rx);
		return ret;
	}
	spin_lock_init(&rx->lock);
	INIT_LIST_HEAD(&rx->eps);
	INIT_LIST_HEAD(&rx->named);
	rx->queued = &rx->eps;
	INIT_LIST_HEAD(&rx->feeding);
	treadle_match_mark_init(&rx->at);
	rx->armed = rx->awaiting = RB_ROOT_CACHED;
	rx->shared = arg->flags & TREADLE_RX_SHARED;
	rx->laned = arg->flags & TREADLE_RX_LANES;
	INIT_LIST_HEAD(&rx->offers);
	INIT_LIST_HEAD(&rx->lanes);
	rx->buffered_max = arg->buffered ?: min(BUFFERED_DEFAULT, treadle_max_buffered);
	for (i = 0, ret = 0; i < TREADLE_MATCHES && !ret; i++)
		ret = treadle_match_init(&rx->match[i], get_random_u64());
	if (!ret)
		ret = treadle_ring_init(&rx->ring, arg->entries);
	if (!ret) {
		rx->slots = treadle_table_alloc(arg->entries, sizeof(*rx->slots), TREADLE_GFP);
		ret = rx->slots ? 0 : -ENOMEM;
	}
	if (ret) {
		treadle_obj_put(&rx->obj);
		return ret;
	}
	for (i = arg->entries; i--;) {
		rx->slots[i].recv.rx = rx;
		rx->slots[i].recv.next = rx->free;
		rx->free = &rx->slots[i].recv;
	}
	treadle_ring_answer(&rx->obj, &rx->ring, arg);
	arg->buffered = rx->buffered_max;
	u->new = &rx->obj;
	return 0;
}

/**
 * treadle_rx_ep - the endpoint that reports what belongs to no endpoint of a ring
 * @rx:	the ring
 *
 * Endpoints with a completion queue come first in rx->eps. A closing endpoint is passed over, as
 * its completions are dropped, unless all are closing.
 *
 * Context: rx->lock held.
 * Return: the endpoint, which is not held; NULL if none receives here.
 */
struct treadle_ep *treadle_rx_ep(struct treadle_rx *rx)
{
	struct treadle_own_ep *own;

	lockdep_assert_held(&rx->lock);
	list_for_each_entry(own, &rx->eps, rx_link)
		if (likely(!READ_ONCE(own->ep.dead)) ||
		    READ_ONCE(rx->obj.ctx->dead)) /* all endpoints are dead */
			return &own->ep;
	own = list_first_entry_or_null(&rx->eps, struct treadle_own_ep, rx_link);
	return own ? &own->ep : NULL;
}

/**
 * treadle_recv_free - free a receive: give back its slots of the ring, or free its memory and
 * command
 * @recv:	the receive, in no matcher
 *
 * Context: No spinlock held. Takes rx->lock.
 */
TREADLE_HOT void treadle_recv_free(struct treadle_recv *recv)
{
	if (recv->cmd || recv->kind == TREADLE_RECV_PART) {
		struct treadle_cmd *cmd = recv->cmd;

		if (!cmd || recv != &cmd->as_recv)
			kfree(recv);
		if (cmd)
			treadle_cmd_free(cmd);
		return;
	}
	treadle_recv_release(recv);
}

/**
 * treadle_rx_charge - charge a ring for a copy of a message
 * @rx:	the ring
 * @bytes:	size of the copy; treadle_rx_uncharge() refunds it when the copy is freed
 *
 * Context: Takes rx->lock.
 * Return: false if less than @bytes is left of the ring's limit.
 */
bool treadle_rx_charge(struct treadle_rx *rx, u32 bytes)
{
	bool room;

	spin_lock(&rx->lock);
	room = bytes <= rx->buffered_max - rx->buffered;
	if (room)
		rx->buffered += bytes;
	spin_unlock(&rx->lock);
	return room;
}

/**
 * treadle_rx_uncharge - refund treadle_rx_charge()
 * @rx:	the ring
 * @bytes:	as charged
 *
 * Context: Takes rx->lock.
 */
void treadle_rx_uncharge(struct treadle_rx *rx, u32 bytes)
{
	spin_lock(&rx->lock);
	rx->buffered -= bytes;
	spin_unlock(&rx->lock);
}

#define MUST_GROW 4096 /* new buckets, which double the table */

/**
 * treadle_rx_grow - enlarge the hash tables of a matcher if they want it
 * @rx:	the ring
 * @which:	the matcher
 * @run:	of the caller
 *
 * The owner of the ring is charged. Up to MUST_GROW buckets are charged beyond its limit, too, so
 * that its senders don't walk long chains. Failing only costs speed.
 *
 * Context: May sleep. Takes rx->lock, and drops it to allocate.
 */
void treadle_rx_grow(struct treadle_rx *rx, u32 which, struct treadle_run *run)
{
	struct treadle_match *match = &rx->match[which];
	struct treadle_hnode **seg;
	struct treadle_hash *hash;
	struct mem_cgroup *old;
	u32 buckets;
	gfp_t gfp;

	/* data_race(): a hint without the lock, which is asked again under it */
	if (likely(!data_race(treadle_match_wants(match, &buckets))))
		return;
	spin_lock(&rx->lock);
	hash = treadle_match_wants(match, &buckets);
	spin_unlock(&rx->lock);
	if (!hash)
		return;
	treadle_run_let_go(run); /* allocating may take long */
	old = set_active_memcg(rx->obj.ctx->memcg);
	gfp = treadle_run_is_for(run, rx->obj.ctx) ? TREADLE_GFP : TREADLE_GFP_OTHER;
	if (buckets <= MUST_GROW)
		gfp |= __GFP_HIGH;
	seg = treadle_table_alloc(buckets, sizeof(*seg), gfp);
	set_active_memcg(old);
	if (!seg)
		return;
	spin_lock(&rx->lock);
	seg = treadle_hash_give(hash, seg, buckets);
	spin_unlock(&rx->lock);
	kvfree(seg);
}
