// SPDX-License-Identifier: GPL-2.0
/* treadle: transmit rings, and the reserve that each has for one command */
#include <linux/slab.h>

#include "core/limits.h"
#include "exec/command.h"

#define IDLE_US 1000 /* a thread that finds no command for so long leaves a ring alone */

/**
 * treadle_tx_refill() - refill the reserve of a ring
 * @tx: the ring
 *
 * Context: may sleep. tx->lock is held, or @tx is not published yet.
 * Return: 0 or -ENOMEM.
 */
int treadle_tx_refill(struct treadle_tx *tx)
{
	if (!tx->reserve)
		tx->reserve = kmem_cache_alloc(treadle_cmd_cache, TREADLE_GFP);
	return tx->reserve ? 0 : -ENOMEM;
}

/**
 * treadle_cmd_take_reserve() - take the reserve of a command's ring
 * @cmd: on its doorbell's stack; takes it at most once
 *
 * submit_one() has filled it before the command was issued. The caller owns it: it becomes a
 * command or a kept completion, or goes back to tx->reserve.
 *
 * Context: cmd->tx->lock is held.
 * Return: the memory, not initialized.
 */
struct treadle_cmd *treadle_cmd_take_reserve(const struct treadle_cmd *cmd)
{
	struct treadle_cmd *reserve = cmd->tx->reserve;

	lockdep_assert_held(&cmd->tx->lock);
	cmd->tx->reserve = NULL;
	return reserve;
}

static void tx_free(struct treadle_obj *obj)
{
	struct treadle_tx *tx = container_of(obj, struct treadle_tx, obj);

	treadle_polled_leave(tx); /* a ring that was never published is not hidden */
	if (tx->reserve)
		kmem_cache_free(treadle_cmd_cache, tx->reserve);
	if (tx->spare)
		kmem_cache_free(treadle_cmd_cache, tx->spare);
	treadle_ring_exit(&tx->ring);
}

static void polled_hide(struct treadle_obj *obj, struct treadle_run *run)
{
	treadle_polled_leave(container_of(obj, struct treadle_tx, obj));
}

static const struct treadle_area *tx_area(struct treadle_obj *obj, enum treadle_region region)
{
	struct treadle_ring *ring = &container_of(obj, struct treadle_tx, obj)->ring;

	return region == TREADLE_RO ? &ring->ro : &ring->rw;
}

/* The doorbell is treadle_doorbell() itself. */
const struct treadle_obj_ops treadle_tx_ops = {
	.type = TREADLE_TX,
	.stats = TREADLE_STAT_DOORBELLS,
	.stats_end = TREADLE_STAT_TX_END,
	.stats_own = offsetof(struct treadle_tx, counted),
	.free = tx_free,
	.area = tx_area,
};

static const struct treadle_obj_ops polled_ops = {
	.type = TREADLE_TX,
	.stats = TREADLE_STAT_DOORBELLS,
	.stats_end = TREADLE_STAT_TX_END,
	.stats_own = offsetof(struct treadle_tx, counted),
	.hide = polled_hide,
	.free = tx_free,
	.area = tx_area,
	.doorbell = treadle_polled_doorbell,
};

/* How long to look without finding a command: @arg->idle, or the default. -EINVAL: too long. */
static int idle_time(struct treadle_ring_create *arg)
{
	if (!(arg->flags & TREADLE_TX_POLLED))
		return arg->idle ? -EINVAL : 0;
	if (arg->idle > TREADLE_MAX_IDLE)
		return -EINVAL;
	arg->idle = arg->idle ?: IDLE_US;
	return 0;
}

/**
 * treadle_ioc_tx_create() - TX_CREATE: make a transmit ring
 * @u: the call, with a struct treadle_ring_create
 *
 * Context: may sleep.
 * Return: 0, with the ring in u->new; or -errno.
 */
int treadle_ioc_tx_create(struct treadle_ucmd *u)
{
	struct treadle_ring_create *arg = u->arg;
	bool polled = arg->flags & TREADLE_TX_POLLED;
	struct treadle_tx *tx;
	int ret;

	if ((arg->flags & ~(TREADLE_TX_SHARED | TREADLE_TX_POLLED)) || arg->buffered)
		return -EINVAL;
	ret = idle_time(arg) ?: treadle_round_entries(&arg->entries, treadle_max_ring);
	if (ret)
		return ret;
	tx = kzalloc(sizeof(*tx), TREADLE_GFP);
	if (!tx)
		return -ENOMEM;
	INIT_LIST_HEAD(&tx->polled.link);
	ret = treadle_obj_init(u->ctx, &tx->obj, polled ? &polled_ops : &treadle_tx_ops);
	if (ret) {
		kfree(tx);
		return ret;
	}
	mutex_init(&tx->lock);
	tx->shared = arg->flags & TREADLE_TX_SHARED;
	ret = treadle_ring_init(&tx->ring, arg->entries) ?: treadle_tx_refill(tx);
	if (ret) {
		treadle_obj_put(&tx->obj);
		return ret;
	}
	if (polled) {
		tx->polled.idle = arg->idle * NSEC_PER_USEC;
		treadle_polled_join(tx);
	}
	treadle_ring_answer(&tx->obj, &tx->ring, arg);
	u->new = &tx->obj;
	return 0;
}
