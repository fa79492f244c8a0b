/* SPDX-License-Identifier: GPL-2.0 */
/* The sweep of sweep.h through commands, each of which goes from one end of a lane to the other. */
#ifndef TREADLE_KSELFTEST_SWEEP_COMMANDS_H
#define TREADLE_KSELFTEST_SWEEP_COMMANDS_H

#include "sweep.h"
#include "triggers.h"

#include <treadle/atomic.h>

/*
 * A command whose n-th point fails is refused by the doorbell, or taken; then it completes, with success or with a clean
 * error. It is not lost, and does not come twice.
 */
struct lane {
	struct node a, b;
	__u64 to, back, key;
	__u32 region;
	char *out, *in, *zero;
	struct cntr c;
	struct cells cells;
};

#define ROOM (2UL << 20)

enum {
	PLAIN,
	WAITS,
	INJECTED,
	TAGGED,
	VECTOR,
	WRITES,
	READS,
	ARMED,
	FETCHES,
	COMPARES,
	COLLECTS,
	STORED, /* waits for a store into a cell */
	KINDS_OF_COMMANDS
};

/* The longest goes to a worker. */
static const size_t lengths[] = {0, 8, 4000, 300000, 1100000};

static bool is_atomic(int kind)
{
	return kind == FETCHES || kind == COMPARES;
}

static bool is_message(int kind)
{
	return kind < WRITES || kind == ARMED || kind > COMPARES;
}

static bool can_have(int kind, size_t len)
{
	if (kind == INJECTED || is_atomic(kind))
		return len && len <= TREADLE_MAX_ATOMIC;
	return kind == VECTOR ? len :
				len < 1000000 || kind == PLAIN || kind == WRITES || kind == READS;
}

static void lane_open(struct lane *l)
{
	node_open(&l->a, (struct options){});
	node_open(&l->b, (struct options){.buffered = 16384});
	l->to = peer(&l->a, l->b.addr);
	l->back = peer(&l->b, l->a.addr);
	l->out = pages(ROOM);
	l->in = pages(ROOM);
	l->zero = pages(ROOM);
	cntr_open(&l->c, l->a.fd);
	cells_open(&l->cells, l->a.fd, 8);
	l->key = 0;
	need(mr(l->b.fd, l->in, ROOM, TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
		TREADLE_MR_KERNEL_KEY, &l->key, &l->region) == 0);
}

static void lane_close(struct lane *l)
{
	node_close(&l->a);
	node_close(&l->b);
	munmap((void *)l->c.page, 4096);
	munmap(l->cells.cell, l->cells.rw.length);
	munmap((void *)l->cells.done, l->cells.ro.length);
	munmap(l->out, ROOM);
	munmap(l->in, ROOM);
	munmap(l->zero, ROOM);
}

static struct treadle_desc command(struct lane *l, int kind, size_t len)
{
	struct treadle_desc d = write_of(l->out, len, l->to, 0, l->key, 7);

	switch (kind) {
	case FETCHES:
		d.opcode = TREADLE_OP_FETCH;
		d.atomic_op = TREADLE_ATOMIC_WRITE;
		break;
	case COMPARES:
		d.opcode = TREADLE_OP_COMPARE;
		d.atomic_op = TREADLE_ATOMIC_CSWAP;
		d.compare = (unsigned long)l->zero;
		break;
	case TAGGED:
		return tsend_of(l->out, len, l->to, 5, 7);
	case WRITES:
		return d;
	case READS:
		return read_of(l->out, len, l->to, 0, l->key, 7);
	case ARMED:
		return when(send_of(l->out, len, l->to, 7), &l->c, 0);
	case COLLECTS:
		d = tsend_of(l->out, len, l->to, 5, 7);
		d.flags |= TREADLE_F_COLLECTIVE;
		return d;
	case STORED:
		return once(send_of(l->out, len, l->to, 7), &l->cells, 0, 1);
	default:
		d = send_of(l->out, len, l->to, 7);
		d.flags |= kind == INJECTED ? TREADLE_F_INJECT : 0;
		return d;
	}
	/* Atomics. */
	d.flags |= TREADLE_F_EXT;
	d.datatype = TREADLE_UINT8;
	d.result = (unsigned long)l->zero + ROOM / 2;
	return d;
}

/* A vector has the same bytes as one buffer would have. */
static int put(struct lane *l, int kind, struct treadle_desc d)
{
	struct treadle_iov iov[] = {{d.addr, d.len / 2}, {d.addr + d.len / 2, d.len - d.len / 2}};

	if (kind != VECTOR)
		return post(&l->a, d);
	d = vector(d, iov, 2);
	ring_put_vector(&l->a.tx, &d, iov);
	return ring_doorbell(&l->a.tx);
}

/* Workers have done their part, and may have failed. Without a call, in which something else could fail. */
static void until_completed(const struct cq *q)
{
	__u64 end = now_ns() + PATIENCE_NS;

	while (__atomic_load_n(&q->ro->prod, __ATOMIC_ACQUIRE) == q->cons && now_ns() < end)
		sched_yield();
}

static struct treadle_desc receive(struct lane *l, int kind)
{
	struct treadle_desc r = recv_of(l->in, ROOM, ANY, 9);

	if (kind == TAGGED || kind == COLLECTS)
		r = trecv_of(l->in, ROOM, l->back, 5, 0, 9);
	if (kind == COLLECTS)
		r.flags |= TREADLE_F_COLLECTIVE;
	return r;
}

static void post_receive(struct lane *l, int kind)
{
	if (kind == COLLECTS) /* which are no matter of the receive ring */
		need(post(&l->b, receive(l, kind)) == 1);
	else
		need(post_recv(&l->b, receive(l, kind)) == 0);
}

/*
 * What became of it: 0, or the errno of the doorbell or of the completion. In both cases it works when it is posted once
 * more. The receive of one that failed may have failed with it, or it waits for the next.
 */
static int outcome(struct lane *l, int kind, size_t len, int n, bool *failed)
{
	bool message = is_message(kind), waits = kind == WAITS || kind == INJECTED;
	struct treadle_desc d = command(l, kind, len);
	struct treadle_cqe c;
	int result;

	if (message && !waits)
		post_receive(l, kind);
	fail_nth(n);
	result = put(l, kind, d);
	if (result == 1 && kind == STORED)
		cell_write(&l->cells, 0, 1);
	if (result == 1 && !waits)
		until_completed(&l->a.cq);
	*failed = has_failed();
	if (waits)
		post_receive(l, kind);
	if (result == 1) {
		c = cq_next(&l->a.cq);
		need(c.context == 7);
		result = -(int)c.error;
	}
	if (result) {
		if (message)
			post_receive(l, kind);
		need(put(l, kind, d) == 1);
		cell_write(&l->cells, 0, 1);
		c = cq_next(&l->a.cq);
		need(c.context == 7 && c.error == 0);
	}
	if (message) {
		c = cq_next(&l->b.rcq);
		need(c.error == 0 || (result && told_cleanly(-(int)c.error)));
		if (c.error)
			c = cq_next(&l->b.rcq);
		need(c.error == 0 && c.len == len);
	}
	need(cq_empty(&l->a.cq) && cq_empty(&l->b.rcq));
	return result;
}

FIXTURE(commands)
{
	int points, failures;
};

FIXTURE_SETUP(commands) {}

FIXTURE_TEARDOWN(commands) {}

TEST_F(commands, each_fails_cleanly_wherever_it_fails)
{
	long long had = live();

	for (int kind = 0; kind < KINDS_OF_COMMANDS; kind++) {
		for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
			bool failed = can_have(kind, lengths[i]);
			int n = 0;

			while (failed) {
				struct lane l;
				int result;

				lane_open(&l);
				fill(kind == READS ? l.in : l.out, lengths[i], n);
				about("command %d, %zu bytes, failing at %d", kind, lengths[i],
				      ++n);
				result = outcome(&l, kind, lengths[i], n, &failed);
				self->failures += !!result;
				EXPECT_TRUE(!result || told_cleanly(result))
				{
					TH_LOG("result %d", result);
				}
				EXPECT_TRUE(same(kind == READS ? l.out : l.in, lengths[i], n - 1));
				ASSERT_GT(1000, n);
				lane_close(&l);
			}
			self->points += n ? n - 1 : 0;
		}
		EXPECT_TRUE(all_given_back(had))
		{
			TH_LOG("%lld more", live() - had);
		}
	}
	note("%d points of failure, of which %d were noticed", self->points, self->failures);
	EXPECT_LT(0, self->failures);
}

#endif
