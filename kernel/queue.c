// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: transmit rings, receive rings, completion queues: making and freeing, and what a receive ring's messages may take up
 */
#include <linux/log2.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "treadle.h"

#define BUFFERED_DEFAULT (1u << 20)

static int ring_init(struct treadle_ring *ring, u32 entries)
{
	int ret;

	ret = treadle_area_alloc(&ring->rw,
				 TREADLE_SLOTS_OFFSET + (size_t)entries * TREADLE_SLOT_SIZE);
	if (!ret)
		ret = treadle_area_alloc(&ring->ro, PAGE_SIZE);
	if (ret)
		return ret;
	ring->user = ring->rw.addr;
	ring->slots = ring->rw.addr + TREADLE_SLOTS_OFFSET;
	ring->kern = ring->ro.addr;
	ring->entries = entries;
	return 0;
}

static void ring_exit(struct treadle_ring *ring)
{
	treadle_area_free(&ring->rw);
	treadle_area_free(&ring->ro);
}

/* Round up to a power of two within 1..limit; a page of slots at least. */
static int round_entries(u32 *entries, u32 limit)
{
	if (!*entries || *entries > limit)
		return -EINVAL;
	*entries = roundup_pow_of_two(max(*entries, 32u));
	return *entries > limit ? -EINVAL : 0;
}

static void ring_answer(struct treadle_obj *obj, struct treadle_ring *ring,
			struct treadle_ring_create *arg)
{
	arg->id = obj->id;
	treadle_map_cookie(obj, &ring->rw, TREADLE_RW, &arg->rw);
	treadle_map_cookie(obj, &ring->ro, TREADLE_RO, &arg->ro);
}

int treadle_ioc_tx_create(struct treadle_ucmd *u)
{
	struct treadle_ring_create *arg = u->arg;
	struct treadle_tx *tx;
	int ret;

	if ((arg->flags & ~TREADLE_TX_SHARED) || arg->reserved || arg->buffered)
		return -EINVAL;
	ret = round_entries(&arg->entries, treadle_max_ring);
	if (ret)
		return ret;
	tx = kzalloc(sizeof(*tx), TREADLE_GFP);
	if (!tx)
		return -ENOMEM;
	ret = treadle_obj_init(u->ctx, &tx->obj, TREADLE_TX);
	if (ret) {
		kfree(tx);
		return ret;
	}
	mutex_init(&tx->lock);
	tx->shared = arg->flags & TREADLE_TX_SHARED;
	ret = ring_init(&tx->ring, arg->entries) ?: treadle_tx_reserve(tx);
	if (ret) {
		treadle_obj_put(&tx->obj);
		return ret;
	}
	ring_answer(&tx->obj, &tx->ring, arg);
	u->new = &tx->obj;
	return 0;
}

void treadle_tx_free(struct treadle_obj *obj)
{
	struct treadle_tx *tx = container_of(obj, struct treadle_tx, obj);

	if (tx->reserve)
		kmem_cache_free(treadle_cmd_cache, tx->reserve);
	ring_exit(&tx->ring);
}

int treadle_ioc_rx_create(struct treadle_ucmd *u)
{
	struct treadle_ring_create *arg = u->arg;
	struct treadle_rx *rx;
	u32 i;
	int ret;

	if ((arg->flags & ~TREADLE_RX_SHARED) || arg->reserved ||
	    arg->buffered > treadle_max_buffered)
		return -EINVAL;
	ret = round_entries(&arg->entries, treadle_max_ring);
	if (ret)
		return ret;
	rx = kzalloc(sizeof(*rx), TREADLE_GFP);
	if (!rx)
		return -ENOMEM;
	ret = treadle_obj_init(u->ctx, &rx->obj, TREADLE_RX);
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
	rx->buffered_max = arg->buffered ?: min(BUFFERED_DEFAULT, treadle_max_buffered);
	for (i = 0, ret = 0; i < TREADLE_MATCHES && !ret; i++)
		ret = treadle_match_init(&rx->match[i], get_random_u64());
	if (!ret)
		ret = ring_init(&rx->ring, arg->entries);
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
	ring_answer(&rx->obj, &rx->ring, arg);
	arg->buffered = rx->buffered_max;
	u->new = &rx->obj;
	return 0;
}

void treadle_rx_free(struct treadle_obj *obj)
{
	struct treadle_rx *rx = container_of(obj, struct treadle_rx, obj);

	int i;

	kvfree(rx->slots);
	for (i = 0; i < TREADLE_MATCHES; i++)
		treadle_match_exit(&rx->match[i]);
	ring_exit(&rx->ring);
}

/* Give a receive back: its slot of the ring, or its memory. Without rx->lock. */
TREADLE_HOT void treadle_recv_free(struct treadle_recv *recv)
{
	struct treadle_rx *rx = recv->rx;
	u32 slots = 1;

	if (recv->cmd || recv->kind == TREADLE_RECV_PART) {
		struct treadle_cmd *cmd = recv->cmd;

		if (!cmd || recv != &cmd->as_recv)
			kfree(recv);
		if (cmd)
			treadle_cmd_free(cmd);
		return;
	}
	spin_lock(&rx->lock);
	if (unlikely(recv->iov_count > 1)) {
		struct treadle_recv *ext = &recv->ext->recv;

		ext->rx = rx; /* the vector lay over it */
		ext->next = rx->free;
		rx->free = ext;
		slots++;
	}
	recv->next = rx->free;
	rx->free = recv;
	treadle_ring_release(&rx->ring, slots);
	spin_unlock(&rx->lock);
}

/* Of the room for copies of messages, which each has until it is freed; false: there is not so much left. */
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

void treadle_rx_uncharge(struct treadle_rx *rx, u32 bytes)
{
	spin_lock(&rx->lock);
	rx->buffered -= bytes;
	spin_unlock(&rx->lock);
}

#define MUST_GROW 4096 /* buckets, added to as many */

/*
 * A larger hash table, allocated without the lock, and paid by whose receives these are; one of up to
 * MUST_GROW also beyond the limit of his group, so that those who send to him do not walk long chains
 * for it. Failing only costs speed.
 */
void treadle_rx_grow(struct treadle_rx *rx, u32 which, struct treadle_run *run)
{
	struct treadle_match *match = &rx->match[which];
	struct treadle_hnode **seg;
	struct treadle_hash *hash;
	struct mem_cgroup *old;
	u32 buckets;

	/* data_race(): without the lock a hint, which is believed only when it is had with it */
	if (likely(!data_race(treadle_match_wants(match, &buckets))))
		return;
	spin_lock(&rx->lock);
	hash = treadle_match_wants(match, &buckets);
	spin_unlock(&rx->lock);
	if (!hash)
		return;
	treadle_run_let_go(run); /* for memory */
	old = set_active_memcg(rx->obj.ctx->memcg);
	seg = treadle_table_alloc(buckets, sizeof(*seg),
				  (treadle_run_is_for(run, rx->obj.ctx) ? TREADLE_GFP :
									  TREADLE_GFP_OTHER) |
					  (buckets <= MUST_GROW ? __GFP_HIGH : 0));
	set_active_memcg(old);
	if (!seg)
		return;
	spin_lock(&rx->lock);
	seg = treadle_hash_give(hash, seg, buckets);
	spin_unlock(&rx->lock);
	kvfree(seg);
}

int treadle_ioc_cq_create(struct treadle_ucmd *u)
{
	struct treadle_cq_create *arg = u->arg;
	struct treadle_cq *cq;
	int ret;

	if (arg->flags)
		return -EINVAL;
	ret = round_entries(&arg->entries, treadle_max_cq);
	if (ret)
		return ret;
	cq = kzalloc(sizeof(*cq), TREADLE_GFP);
	if (!cq)
		return -ENOMEM;
	ret = treadle_obj_init(u->ctx, &cq->obj, TREADLE_CQ);
	if (ret) {
		kfree(cq);
		return ret;
	}
	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->overflow);
	treadle_waitq_init(&cq->waitq);
	ret = treadle_area_alloc(
		&cq->ro, TREADLE_SLOTS_OFFSET + (size_t)arg->entries * sizeof(struct treadle_cqe));
	if (!ret)
		ret = treadle_area_alloc(&cq->rw, PAGE_SIZE);
	if (ret) {
		treadle_obj_put(&cq->obj);
		return ret;
	}
	cq->cqes = cq->ro.addr + TREADLE_SLOTS_OFFSET;
	cq->mask = arg->entries - 1;
	arg->id = cq->obj.id;
	treadle_map_cookie(&cq->obj, &cq->ro, TREADLE_RO, &arg->ro);
	treadle_map_cookie(&cq->obj, &cq->rw, TREADLE_RW, &arg->rw);
	u->new = &cq->obj;
	return 0;
}

void treadle_cq_free(struct treadle_obj *obj)
{
	struct treadle_cq *cq = container_of(obj, struct treadle_cq, obj);

	treadle_area_free(&cq->ro);
	treadle_area_free(&cq->rw);
}
