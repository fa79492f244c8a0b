/* SPDX-License-Identifier: GPL-2.0 */
/* Two endpoints: commands of the failure sweep go from one to the other. */
#ifndef TREADLE_KSELFTEST_SWEEP_COUPLE_H
#define TREADLE_KSELFTEST_SWEEP_COUPLE_H

#include "sweep.h"
#include "triggers.h"

#define ROOM	 (2UL << 20)
#define BUFFERED 16384
#define FILLER	 99 /* context of completions that fill a queue */

/* The kind of the ends. SHARED: connected, and the receiver uses a ring for several endpoints. */
enum ends { RDM, DGRAM, MSG, SHARED };

struct couple {
	enum ends ends;
	struct node a, b;
	struct listener l; /* of connected ends */
	struct ring shared;
	__u64 to, back, key;
	__u32 region;
	char *out, *in, *zero;
	struct cntr c, told;
	struct cells cells;
};

static bool is_connected(const struct couple *l)
{
	return l->ends >= MSG;
}

/* As pair_open(), with one event queue for both. */
static void couple_connect(struct couple *l, struct options a, struct options b)
{
	listener_open(&l->l);
	msg_open(&l->a, a, l->l.eq, CLIENT);
	need(connect_to(l->a.fd, l->a.ep, l->l.addr, NULL, 0) == 0);
	b.request = event_is(l->l.eq, TREADLE_EVENT_CONNREQ, PEP).request;
	if (l->ends == SHARED) {
		b.context = device();
		ring_open(&l->shared, b.context, TREADLE_IOC_RX_CREATE, TREADLE_RX_SHARED, 64,
			  BUFFERED);
		b.shared_rx = &l->shared;
	}
	msg_open(&l->b, b, l->l.eq, SERVER);
	need(accept_with(l->b.fd, l->b.ep, NULL, 0) == 0);
	/* in any order: they come from several workers if the ends are on two nodes */
	for (int i = 0; i < 2; i++)
		need(event_next(l->l.eq).event == TREADLE_EVENT_CONNECTED);
}

/* @crowded: queues as short as possible, to be filled. */
static void couple_open(struct couple *l, enum ends ends, bool crowded)
{
	struct options a = {.cq = crowded, .rcq = crowded}, b = a;

	*l = (struct couple){.ends = ends};
	b.buffered = BUFFERED;
	if (is_connected(l)) {
		couple_connect(l, a, b);
	} else {
		a.type = b.type = ends == DGRAM ? TREADLE_EP_DGRAM : TREADLE_EP_RDM;
		node_open(&l->a, a);
		node_open(&l->b, b);
		l->to = peer(&l->a, l->b.addr);
		l->back = peer(&l->b, l->a.addr);
	}
	l->out = pages(ROOM);
	l->in = pages(ROOM);
	l->zero = pages(ROOM);
	cntr_open(&l->c, l->a.fd);
	cntr_open(&l->told, l->a.fd);
	cells_open(&l->cells, l->a.fd, 8);
	need(mr(l->b.fd, l->in, ROOM, TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
		TREADLE_MR_KERNEL_KEY, &l->key, &l->region) == 0);
}

static void couple_close(struct couple *l)
{
	node_close(&l->a);
	node_close(&l->b);
	if (is_connected(l))
		listener_close(&l->l);
	munmap((void *)l->c.page, PAGE);
	munmap((void *)l->told.page, PAGE);
	munmap(l->cells.cell, l->cells.rw.length);
	munmap((void *)l->cells.done, l->cells.ro.length);
	munmap(l->out, ROOM);
	munmap(l->in, ROOM);
	munmap(l->zero, ROOM);
}

/* How many completions there are. */
static __u32 completed(const struct cq *q)
{
	return __atomic_load_n(&q->ro->prod, __ATOMIC_ACQUIRE) - q->cons;
}

/* Fills both queues, so that the next completions have no room. */
static void crowd_queues(struct couple *l)
{
	struct treadle_desc look = trecv_of(NULL, 0, ANY, 77, 0, FILLER);

	look.flags |= TREADLE_F_PEEK;
	for (int i = 0; i < l->a.cq.entries; i++)
		need(post(&l->a, nop(FILLER)) == 1);
	for (int i = 0; i < l->b.rcq.entries; i++)
		need(post(&l->b, look) == 1);
	need(completed(&l->a.cq) == l->a.cq.entries && completed(&l->b.rcq) == l->b.rcq.entries);
	need(!cq_overflows(&l->a.cq) && !cq_overflows(&l->b.rcq));
}

/* The next completion that is no filler. */
static struct treadle_cqe next_of(struct cq *q)
{
	struct treadle_cqe c;

	do
		c = cq_next(q);
	while (c.context == FILLER);
	return c;
}

/*
 * Waits until workers have done their part, and may have failed. Makes no call, as a call could
 * fail.
 */
static void until_completed(const struct cq *q, __u32 count, bool crowded)
{
	__u64 end = now_ns() + PATIENCE_NS;

	while (!(crowded ? cq_overflows(q) : completed(q) >= count)) {
		need(now_ns() < end);
		sched_yield();
	}
}

#endif
