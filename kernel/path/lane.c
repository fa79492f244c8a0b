// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: lanes: memory in which one process leaves messages for another (uapi/treadle/lane.h)
 *
 * Here they are made, and their ends are told to each other. Messages are none of the kernel's
 * business: it writes two words of the memory, and reads of it only what it shows.
 *
 * A lane has three parts. The core is the memory; it holds nothing of either process. Each end is
 * an object of its own context. The sender's end holds and binds its endpoint, and knows nothing of
 * the receiver but one page of its ring. The receiver's end holds its ring, where the core is
 * listed as long as the receiving endpoint is open. So either end may go first, and keeps nothing
 * of the other one.
 *
 * rx->lock protects rx->offers, rx->lanes, rx->nr_lanes, and core->link. Nothing else needs a lock:
 * all other fields are constant, but for end->from, which only the end's creation and its
 * destruction use.
 */
#include "core/limits.h"
#include "match/receive.h"
#include "names/names.h"
#include "path/direct.h"
#include "path/lane.h"

/*
 * struct core - a lane
 * @ref:	of each end, and of the list
 * @link:	in rx->offers or rx->lanes; empty: it was offered to none, or is closed (rx->lock)
 * @area:	a struct treadle_lane and its units
 * @source:	the sender
 */
struct core {
	struct kref ref;
	struct list_head link;
	struct treadle_area area;
	u32 source;
};

/*
 * struct end - an end of a lane
 * @core:	held; NULL: the object is not complete
 * @from:	sender: its endpoint, held and bound until the end is hidden; @from_id: its id
 * @ro:		sender: the read-only page of the peer's ring, held
 * @rx:		receiver: its ring, held
 */
struct end {
	struct treadle_obj obj;
	struct core *core;
	struct treadle_ep *from;
	u32 from_id;
	struct treadle_area ro;
	struct treadle_rx *rx;
};

static struct end *end_of(struct treadle_obj *obj)
{
	return container_of(obj, struct end, obj);
}

static struct treadle_lane *lane_of(const struct core *core)
{
	return core->area.addr;
}

static void core_free(struct kref *ref)
{
	struct core *core = container_of(ref, struct core, ref);

	treadle_area_free(&core->area);
	kfree(core);
}

/* The last reference may sleep. */
static void core_put(struct core *core)
{
	kref_put(&core->ref, core_free);
}

static struct core *core_alloc(u32 source)
{
	struct core *core = kzalloc(sizeof(*core), TREADLE_GFP);

	if (!core)
		return NULL;
	kref_init(&core->ref);
	INIT_LIST_HEAD(&core->link);
	core->source = source;
	if (treadle_area_alloc(&core->area,
			       TREADLE_LANE_BYTES + TREADLE_LANE_UNITS * TREADLE_LANE_UNIT)) {
		kfree(core);
		return NULL;
	}
	return core;
}

/* Close a lane for its receiver. The caller drops the list's reference, without rx->lock. */
static void core_close(struct treadle_rx *rx, struct core *core)
{
	lockdep_assert_held(&rx->lock);
	list_del_init(&core->link);
	rx->nr_lanes--;
	/* not ordered: a compare-and-swap of ->head decides which end has a message */
	WRITE_ONCE(lane_of(core)->state, TREADLE_LANE_CLOSED);
}

/* --- the sender's end ------------------------------------------------------------------------ */

static void sender_hide(struct treadle_obj *obj, struct treadle_run *run)
{
	struct end *end = end_of(obj);

	/* release: pairs with LaneReader::gone() (lib/include/treadle/detail/lane.h) */
	if (end->core)
		smp_store_release(&lane_of(end->core)->gone, 1);
	if (end->from)
		treadle_obj_unbind(&end->from->obj);
	end->from = NULL;
}

/* Perhaps under the mmap_lock of the process: only memory is held. */
static void sender_free(struct treadle_obj *obj)
{
	struct end *end = end_of(obj);

	treadle_area_free(&end->ro);
	if (end->core)
		core_put(end->core);
	atomic_dec(&obj->ctx->nr_lanes);
}

static const struct treadle_area *sender_area(struct treadle_obj *obj, enum treadle_region region)
{
	struct end *end = end_of(obj);

	return region == TREADLE_RO ? &end->ro : &end->core->area;
}

static const struct treadle_obj_ops sender_ops = {
	.type = TREADLE_LANE,
	.hide = sender_hide,
	.free = sender_free,
	.area = sender_area,
};

/* Hold the pages of @from by @to, which is zeroed. They get no second map in the kernel. */
static int share_pages(struct treadle_area *to, const struct treadle_area *from)
{
	to->pages = treadle_table_alloc(from->count, sizeof(*to->pages), TREADLE_GFP);
	if (!to->pages)
		return -ENOMEM;
	for (; to->count < from->count; to->count++) {
		to->pages[to->count] = from->pages[to->count];
		get_page(to->pages[to->count]);
	}
	return 0;
}

/* Find the endpoint that messages would go to: held, or an ERR_PTR(). */
static struct treadle_ep *find_receiver(struct treadle_ep *from, u64 peer)
{
	struct treadle_ep *to;
	int ret = -EOPNOTSUPP;

	if (from->type != TREADLE_EP_RDM || from->role)
		return ERR_PTR(-EOPNOTSUPP);
	to = treadle_direct_find(from, TREADLE_OP_SEND, peer);
	if (IS_ERR(to))
		return to;
	if (!to->role && to->rx->laned)
		ret = treadle_is_open(from->obj.ctx, to->obj.ctx) ? 0 : -EXDEV;
	if (!ret)
		return to;
	treadle_ep_put(to);
	return ERR_PTR(ret);
}

/*
 * Let the receiver's process find a lane. It may find it before the sender has its answer, and, if
 * that can't be written, finds a lane that is closed. Takes rx->lock. 0; -ECONNREFUSED: it has
 * closed; -ENOSPC. The list gets a reference of its own.
 */
static int offer(struct core *core, struct treadle_ep *to)
{
	struct treadle_rx *rx = to->rx;
	int ret = 0;

	spin_lock(&rx->lock);
	/* closing sets ->dead, then takes this lock: treadle_lanes_end() */
	if (READ_ONCE(to->dead))
		ret = -ECONNREFUSED;
	else if (rx->nr_lanes >= treadle_max_lanes)
		ret = -ENOSPC;
	if (!ret) {
		kref_get(&core->ref);
		list_add_tail(&core->link, &rx->offers);
		rx->nr_lanes++;
		WRITE_ONCE(rx->ring.kern->offers, rx->ring.kern->offers + 1);
	}
	spin_unlock(&rx->lock);
	return ret;
}

/* Complete the sender's end. The caller aborts it after an error. */
static int sender_start(struct end *end, struct treadle_ep *to)
{
	int ret = share_pages(&end->ro, &to->rx->ring.ro);

	if (ret)
		return ret;
	end->core = core_alloc(end->from->id.source);
	return end->core ? offer(end->core, to) : -ENOMEM;
}

/* Make the sender's end. It owns the binding of @from, and the count in ctx->nr_lanes. */
static struct end *sender_make(struct treadle_ctx *ctx, struct treadle_ep *from)
{
	struct end *end = kzalloc(sizeof(*end), TREADLE_GFP);
	int ret;

	if (!end)
		return ERR_PTR(-ENOMEM);
	end->from = from;
	end->from_id = from->obj.id;
	ret = treadle_obj_init(ctx, &end->obj, &sender_ops);
	if (!ret)
		return end;
	kfree(end);
	return ERR_PTR(ret);
}

/**
 * treadle_ioc_lane_make() - LANE_MAKE: make a lane to a peer, and offer it
 * @u: the call, with a struct treadle_lane_make
 *
 * Context: may sleep. Takes ctx->lock, and rx->lock of the peer.
 * Return: 0, with the sender's end in u->new; or -errno.
 */
int treadle_ioc_lane_make(struct treadle_ucmd *u)
{
	struct treadle_lane_make *arg = u->arg;
	struct treadle_ep *from, *to;
	struct treadle_obj *obj;
	struct end *end;
	int ret;

	if (arg->flags || arg->reserved)
		return -EINVAL;
	if (!READ_ONCE(treadle_direct))
		return -EOPNOTSUPP;
	obj = treadle_obj_bind(u->ctx, arg->ep, TREADLE_EP);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	from = container_of(obj, struct treadle_ep, obj);
	to = find_receiver(from, arg->peer);
	if (IS_ERR(to)) {
		treadle_obj_unbind(obj);
		return PTR_ERR(to);
	}
	if (atomic_inc_return(&u->ctx->nr_lanes) > treadle_max_lanes)
		end = ERR_PTR(-ENOSPC);
	else
		end = sender_make(u->ctx, from);
	if (IS_ERR(end)) {
		atomic_dec(&u->ctx->nr_lanes);
		treadle_obj_unbind(obj);
		treadle_ep_put(to);
		return PTR_ERR(end);
	}
	ret = sender_start(end, to);
	treadle_ep_put(to);
	if (ret) {
		treadle_obj_abort(&end->obj);
		return ret;
	}
	arg->id = end->obj.id;
	treadle_map_cookie(&end->obj, &end->core->area, TREADLE_RW, &arg->rw);
	treadle_map_cookie(&end->obj, &end->ro, TREADLE_RO, &arg->ro);
	u->new = &end->obj;
	return 0;
}

/* --- the receiver's end ---------------------------------------------------------------------- */

/**
 * treadle_lanes_end() - close the lanes to the endpoint of a ring, those that were offered, too
 * @rx:	a ring with lanes, of an endpoint that is dead, and has not left the ring
 *
 * Context: may sleep. Takes rx->lock.
 */
void treadle_lanes_end(struct treadle_rx *rx)
{
	struct core *core;

	spin_lock(&rx->lock);
	while (rx->nr_lanes) {
		core = list_first_entry(list_empty(&rx->offers) ? &rx->lanes : &rx->offers,
					struct core, link);
		core_close(rx, core);
		spin_unlock(&rx->lock);
		core_put(core);
		cond_resched();
		spin_lock(&rx->lock);
	}
	spin_unlock(&rx->lock);
}

static void receiver_hide(struct treadle_obj *obj, struct treadle_run *run)
{
	struct end *end = end_of(obj);
	struct treadle_rx *rx = end->rx;
	bool listed;

	if (!end->core)
		return;
	spin_lock(&rx->lock);
	listed = !list_empty(&end->core->link);
	if (listed)
		core_close(rx, end->core);
	spin_unlock(&rx->lock);
	if (listed)
		core_put(end->core);
}

/* Perhaps under the mmap_lock of the process: a ring can be freed there, too. */
static void receiver_free(struct treadle_obj *obj)
{
	struct end *end = end_of(obj);

	if (end->core)
		core_put(end->core);
	treadle_obj_put(&end->rx->obj);
}

static const struct treadle_area *receiver_area(struct treadle_obj *obj, enum treadle_region region)
{
	return region == TREADLE_RW ? &end_of(obj)->core->area : NULL;
}

static const struct treadle_obj_ops receiver_ops = {
	.type = TREADLE_LANE,
	.hide = receiver_hide,
	.free = receiver_free,
	.area = receiver_area,
};

static bool has_offer(struct treadle_rx *rx)
{
	bool has;

	spin_lock(&rx->lock);
	has = !list_empty(&rx->offers);
	spin_unlock(&rx->lock);
	return has;
}

/* Take the oldest offer, with a reference of the caller's; NULL: there is none. */
static struct core *take_offer(struct treadle_rx *rx)
{
	struct core *core;

	spin_lock(&rx->lock);
	core = list_first_entry_or_null(&rx->offers, struct core, link);
	if (core) {
		list_move_tail(&core->link, &rx->lanes);
		kref_get(&core->ref);
	}
	spin_unlock(&rx->lock);
	return core;
}

/**
 * treadle_ioc_lane_take() - LANE_TAKE: take the oldest lane that was offered to a ring
 * @u: the call, with a struct treadle_lane_take
 *
 * Context: may sleep. Takes ctx->lock and rx->lock.
 * Return: 0, with the receiver's end in u->new; or -errno.
 */
int treadle_ioc_lane_take(struct treadle_ucmd *u)
{
	struct treadle_lane_take *arg = u->arg;
	struct treadle_obj *obj;
	struct treadle_rx *rx;
	struct end *end;
	int ret;

	if (arg->flags || arg->reserved)
		return -EINVAL;
	obj = treadle_obj_get(u->ctx, arg->rx, TREADLE_RX);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	rx = container_of(obj, struct treadle_rx, obj);
	ret = rx->laned ? -EAGAIN : -EOPNOTSUPP;
	if (!rx->laned || !has_offer(rx))
		goto fail;
	ret = -ENOMEM;
	end = kzalloc(sizeof(*end), TREADLE_GFP);
	if (!end)
		goto fail;
	end->rx = rx;
	ret = treadle_obj_init(u->ctx, &end->obj, &receiver_ops);
	if (ret) {
		kfree(end);
		goto fail;
	}
	end->core = take_offer(rx);
	if (!end->core) {
		treadle_obj_abort(&end->obj);
		return -EAGAIN;
	}
	arg->id = end->obj.id;
	treadle_map_cookie(&end->obj, &end->core->area, TREADLE_RW, &arg->rw);
	u->new = &end->obj;
	return 0;
fail:
	treadle_obj_put(obj);
	return ret;
}

/* The endpoint that a lane leads to, held; NULL: the lane is closed. */
static struct treadle_ep *receiver_ep(const struct end *end)
{
	struct treadle_ep *to = NULL;

	spin_lock(&end->rx->lock);
	/* a lane is listed only while its endpoint has the ring: treadle_lanes_end() */
	if (!list_empty(&end->core->link))
		to = treadle_ep_get(treadle_rx_ep(end->rx));
	spin_unlock(&end->rx->lock);
	return to;
}

/**
 * treadle_ioc_lane_source() - LANE_SOURCE: name the sender of a lane
 * @u: the call, with a struct treadle_lane_source
 *
 * Context: may sleep. Takes rx->lock.
 * Return: 0 or -errno.
 */
int treadle_ioc_lane_source(struct treadle_ucmd *u)
{
	struct treadle_lane_source *arg = u->arg;
	struct treadle_obj *obj;
	struct treadle_ep *to;
	int ret = -EINVAL;

	if (arg->flags || arg->reserved)
		return -EINVAL;
	obj = treadle_obj_get(u->ctx, arg->lane, TREADLE_LANE);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (!end_of(obj)->rx)
		goto out;
	ret = 0;
	arg->src = TREADLE_ADDR_ANY;
	to = receiver_ep(end_of(obj));
	if (!to)
		goto out;
	if (to->av)
		treadle_av_peer(to->av, end_of(obj)->core->source, &arg->src);
	treadle_ep_put(to);
out:
	treadle_obj_put(obj);
	return ret;
}

/**
 * treadle_lane_describe() - say what is to be shown of an end of a lane
 * @obj:	the end; complete
 * @info:	what it is now, as far as the two processes say the truth
 *
 * Context: any.
 */
void treadle_lane_describe(struct treadle_obj *obj, struct treadle_lane_info *info)
{
	const struct end *end = end_of(obj);
	const struct treadle_lane *lane = lane_of(end->core);
	const u32 state = READ_ONCE(lane->state);

	*info = (struct treadle_lane_info){
		.in = end->rx,
		.open = state & TREADLE_LANE_OPEN,
		.closed = (state & TREADLE_LANE_CLOSED) || READ_ONCE(lane->gone),
		.id = end->rx ? end->rx->obj.id : end->from_id,
		.source = end->core->source,
		.waiting = min_t(u64, READ_ONCE(lane->tail) - READ_ONCE(lane->head),
				 TREADLE_LANE_UNITS),
	};
}
