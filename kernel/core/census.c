// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the contexts of a network namespace, and sums of statistics
 *
 * A context is in the table until its last reference is gone, so that the sum over the table and
 * over what has ended never shrinks. A walk holds one context at a time, and no lock.
 */
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "core/object.h"

#define SUM_TRIES 4

/*
 * struct treadle_census - the contexts of a network namespace
 * @contexts:	with a process, by ctx->number. Its lock protects the rest, and makes a lookup safe
 *		against the removal
 * @next:	where the search for a free number begins
 * @changes:	a context has ended, or was seen while it ends
 * @ended:	the sums of those that have ended
 */
struct treadle_census {
	struct xarray contexts;
	u32 next, changes;
	u64 ended[TREADLE_STATS];
};

static unsigned int census_id;

static struct treadle_census *census_of(const struct net *net)
{
	return net_generic(net, census_id);
}

static int __net_init census_init_one(struct net *net)
{
	struct treadle_census *census = census_of(net);

	xa_init_flags(&census->contexts, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	return 0;
}

static void __net_exit census_exit_one(struct net *net)
{
	struct treadle_census *census = census_of(net);

	xa_destroy(&census->contexts); /* empty, as contexts hold their namespace */
}

static struct pernet_operations census_ops = {
	.init = census_init_one,
	.exit = census_exit_one,
	.id = &census_id,
	.size = sizeof(struct treadle_census),
};

/**
 * treadle_census_init() - at module load: make a table of contexts for each network namespace
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int treadle_census_init(void)
{
	return register_pernet_subsys(&census_ops);
}

/**
 * treadle_census_exit() - at module exit: free the tables, which are empty
 *
 * Context: may sleep.
 */
void treadle_census_exit(void)
{
	unregister_pernet_subsys(&census_ops);
}

/**
 * treadle_census_add() - give a context a number, by which it is found
 * @ctx:	of a process
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int treadle_census_add(struct treadle_ctx *ctx)
{
	struct treadle_census *census = census_of(ctx->net);
	u32 number;
	int ret;

	ret = xa_alloc_cyclic(&census->contexts, &number, ctx, xa_limit_31b, &census->next,
			      TREADLE_GFP);
	if (ret < 0)
		return -ENOMEM;
	ctx->number = number;
	return 0;
}

/**
 * treadle_census_remove() - the last reference of a context is gone
 * @ctx:	the context; may not have been added
 *
 * Context: may sleep.
 */
void treadle_census_remove(struct treadle_ctx *ctx)
{
	struct treadle_census *census = census_of(ctx->net);
	u64 counted[TREADLE_STATS] = {};
	int i;

	if (!ctx->number)
		return;
	treadle_stats_sum(&ctx->sums.stats, counted);
	xa_lock(&census->contexts);
	__xa_erase(&census->contexts, ctx->number);
	for (i = 0; i < TREADLE_STATS; i++)
		census->ended[i] += counted[i];
	census->changes++;
	xa_unlock(&census->contexts);
}

/**
 * treadle_census_next() - the context with the next number
 * @net:	the network namespace
 * @id:		the smallest number
 *
 * Context: any but interrupts.
 * Return: the context, held, for treadle_ctx_put(); or NULL.
 */
struct treadle_ctx *treadle_census_next(struct net *net, u32 id)
{
	struct treadle_census *census = census_of(net);
	unsigned long index = id;
	struct treadle_ctx *ctx;

	xa_lock(&census->contexts); /* treadle_census_remove() takes it before the memory goes */
	ctx = xa_find(&census->contexts, &index, U32_MAX, XA_PRESENT);
	while (ctx && !kref_get_unless_zero(&ctx->ref)) {
		census->changes++; /* a sum would lack it: treadle_net_sum() tries again */
		ctx = xa_find_after(&census->contexts, &index, U32_MAX, XA_PRESENT);
	}
	xa_unlock(&census->contexts);
	return ctx;
}

/* Add what the objects of @ctx have counted, and what @ctx has. */
static void ctx_sum(struct treadle_ctx *ctx, u64 *sum)
{
	struct treadle_obj *obj;
	unsigned long id;

	xa_for_each(&ctx->objs, id, obj) {
		obj = treadle_obj_get(ctx, id, 0);
		if (IS_ERR(obj))
			continue;
		treadle_stats_sum(&obj->stats, sum);
		treadle_obj_put(obj);
		cond_resched();
	}
	treadle_stats_sum(&ctx->sums.stats, sum);
}

/**
 * treadle_ctx_sum() - the statistics of a context: of its objects, also of those that have ended
 * @ctx:	held
 * @sum:	TREADLE_STATS words, to which they are added
 *
 * Exact, unless objects end in each of SUM_TRIES walks.
 *
 * Context: may sleep.
 */
void treadle_ctx_sum(struct treadle_ctx *ctx, u64 *sum)
{
	u64 mine[TREADLE_STATS];
	int done, tries = 0, i;

	do {
		memset(mine, 0, sizeof(mine));
		done = treadle_sums_read(&ctx->sums);
		ctx_sum(ctx, mine);
	} while (!treadle_sums_settled(&ctx->sums, done) && ++tries < SUM_TRIES);
	for (i = 0; i < TREADLE_STATS; i++)
		sum[i] += mine[i];
}

/**
 * treadle_net_sum() - the statistics of the contexts of a network namespace
 * @net:	the namespace
 * @all:	also of those that have ended
 * @sees:	which contexts count
 * @reader:	for @sees
 * @sum:	TREADLE_STATS words, which are set
 *
 * Exact, unless contexts end in each of SUM_TRIES walks.
 *
 * Context: may sleep.
 * Return: the number of contexts that have not ended.
 */
u32 treadle_net_sum(struct net *net, bool all,
		    bool (*sees)(const void *reader, struct treadle_ctx *), const void *reader,
		    u64 *sum)
{
	struct treadle_census *census = census_of(net);
	struct treadle_ctx *ctx;
	u32 id, n, changes;
	int i, tries = 0;
	bool settled;

	do {
		memset(sum, 0, TREADLE_STATS * sizeof(*sum));
		changes = READ_ONCE(census->changes);
		for (id = n = 0; (ctx = treadle_census_next(net, id)); treadle_ctx_put(ctx)) {
			id = ctx->number + 1;
			if (fatal_signal_pending(current) || !sees(reader, ctx))
				continue;
			treadle_ctx_sum(ctx, sum);
			n += !READ_ONCE(ctx->dead);
		}
		xa_lock(&census->contexts);
		for (i = 0; all && i < TREADLE_STATS; i++)
			sum[i] += census->ended[i];
		settled = census->changes == changes;
		xa_unlock(&census->contexts);
	} while (!settled && ++tries < SUM_TRIES);
	return n;
}
