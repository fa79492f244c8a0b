/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Statistics by netlink: each counter is driven, and read back exactly, at both ends; nothing of
 * another user is seen.
 */
#include "cred.h"
#include "netlink.h"
#include "triggers.h"

#include <treadle/atomic.h>

FIXTURE(stats)
{
	struct node a, b;
	__u64 to;
	struct nl nl;
	__u32 a_ctx, b_ctx;
	char *buf, *dst;
};

FIXTURE_SETUP(stats)
{
	node_open(&self->a, (struct options){});
	node_open(&self->b, (struct options){});
	self->to = peer(&self->a, self->b.addr);
	self->buf = pages(1 << 21);
	self->dst = pages(1 << 21);
	nl_open(&self->nl);
	self->a_ctx = nl_context_of(&self->nl, &self->a);
	self->b_ctx = nl_context_of(&self->nl, &self->b);
	need(self->a_ctx && self->b_ctx && self->a_ctx != self->b_ctx);
}

FIXTURE_TEARDOWN(stats)
{
	close(self->nl.fd);
}

typedef FIXTURE_DATA(stats) ends;

static struct counters of_a(ends *self)
{
	return nl_counters_of(&self->nl, TREADLE_CMD_ENDPOINT_GET, self->a_ctx, self->a.ep);
}

static struct counters of_b(ends *self)
{
	return nl_counters_of(&self->nl, TREADLE_CMD_ENDPOINT_GET, self->b_ctx, self->b.ep);
}

#define N(c, name)	   ((c).n[TREADLE_A_COUNTERS_##name])
#define OUT(c, kind)	   (c).messages[TREADLE_KIND_##kind][TREADLE_DIRECTION_OUT]
#define IN(c, kind)	   (c).messages[TREADLE_KIND_##kind][TREADLE_DIRECTION_IN]
#define OUT_BYTES(c, kind) (c).bytes[TREADLE_KIND_##kind][TREADLE_DIRECTION_OUT]
#define IN_BYTES(c, kind)  (c).bytes[TREADLE_KIND_##kind][TREADLE_DIRECTION_IN]

TEST_F(stats, messages_and_bytes_of_both_ends)
{
	struct counters a, b;

	for (int i = 0; i < 5; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 64, ANY, i)));
		ASSERT_EQ(1, post(&self->a, send_of(self->buf, 10, self->to, i)));
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, post_recv(&self->b, trecv_of(self->dst, 64, ANY, 7, 0, i)));
		ASSERT_EQ(1, post(&self->a, tsend_of(self->buf, 20, self->to, 7, i)));
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	a = of_a(self);
	b = of_b(self);
	EXPECT_EQ(5, OUT(a, MESSAGE));
	EXPECT_EQ(50, OUT_BYTES(a, MESSAGE));
	EXPECT_EQ(3, OUT(a, TAGGED));
	EXPECT_EQ(60, OUT_BYTES(a, TAGGED));
	EXPECT_EQ(0, IN(a, MESSAGE) + IN(a, TAGGED));
	EXPECT_EQ(5, IN(b, MESSAGE));
	EXPECT_EQ(50, IN_BYTES(b, MESSAGE));
	EXPECT_EQ(3, IN(b, TAGGED));
	EXPECT_EQ(60, IN_BYTES(b, TAGGED));
	EXPECT_EQ(0, OUT(b, MESSAGE) + OUT(b, TAGGED));
	EXPECT_EQ(8, N(a, DOORBELLS));
	EXPECT_EQ(8, N(a, COMMANDS));
	EXPECT_EQ(8, N(a, LOCAL));
	EXPECT_EQ(0, N(a, REMOTE));
	EXPECT_EQ(8, N(b, COPIES_CALLER) + N(b, COPIES_WORKER));
	EXPECT_EQ(0, N(b, UNEXPECTED));
}

TEST_F(stats, commands_of_one_doorbell)
{
	struct treadle_desc d = send_of(self->buf, 1, self->to, 0);
	struct counters a;

	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 64, ANY, i)));
	for (int i = 0; i < 4; i++)
		ring_put(&self->a.tx, &d);
	ring_publish(&self->a.tx);
	ASSERT_EQ(4, ring_doorbell(&self->a.tx));
	a = of_a(self);
	EXPECT_EQ(1, N(a, DOORBELLS));
	EXPECT_EQ(4, N(a, COMMANDS));
	EXPECT_EQ(4, OUT(a, MESSAGE));
}

static struct counters of_module(ends *self)
{
	nl_send(&self->nl, self->nl.family, TREADLE_CMD_MODULE_GET, 0, 0, NULL, 0);
	return nl_counters(nl_attr(nl_next(&self->nl), TREADLE_A_MODULE_COUNTERS));
}

/* A small message is copied, a large one stays with its sender. */
TEST_F(stats, unexpected_messages)
{
	struct counters a, b, before = of_module(self), module;

	for (int i = 0; i < 3; i++)
		ASSERT_EQ(1, post(&self->a, send_of(self->buf, 8, self->to, i)));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(1, post(&self->a, send_of(self->buf, 100000, self->to, i)));
	a = of_a(self);
	b = of_b(self);
	EXPECT_EQ(5, N(b, UNEXPECTED));
	EXPECT_EQ(3, N(b, KEPT));
	EXPECT_EQ(2, N(a, PARKED));
	EXPECT_EQ(2, N(a, PARKED_NOW));
	module = of_module(self);
	EXPECT_EQ(N(before, PARKED_NOW) + 2, N(module, PARKED_NOW));
	EXPECT_LE(2, N(module, PARKED_MOST));
	EXPECT_EQ(3, OUT(a, MESSAGE));
	EXPECT_EQ(0, IN(b, MESSAGE));
	for (int i = 0; i < 5; i++) {
		ASSERT_LE(0, post_recv(&self->b, recv_of(self->dst, 1 << 20, ANY, i)));
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	a = of_a(self);
	b = of_b(self);
	EXPECT_EQ(5, N(b, UNEXPECTED));
	EXPECT_EQ(5, IN(b, MESSAGE));
	EXPECT_EQ(200024, IN_BYTES(b, MESSAGE));
	EXPECT_EQ(5, OUT(a, MESSAGE));
	EXPECT_EQ(200024, OUT_BYTES(a, MESSAGE));
	EXPECT_EQ(2, N(a, PARKED));
	EXPECT_EQ(0, N(a, PARKED_NOW));
	module = of_module(self);
	EXPECT_EQ(N(before, PARKED_NOW), N(module, PARKED_NOW));
	EXPECT_EQ(2, N(a, PARKED_MOST));
}

/* RMA counts at the initiator, and at the region. */
TEST_F(stats, regions)
{
	struct treadle_desc d;
	struct counters a, b, r, ctx;
	__u64 key = 5;
	__u32 id;

	ASSERT_EQ(0, mr(self->b.fd, self->dst, PAGE,
			TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE, 0, &key, &id));
	ASSERT_EQ(1, post(&self->a, write_of(self->buf, 8, self->to, 0, key, 0)));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	ASSERT_EQ(1, post(&self->a, write_of(self->buf, 3000, self->to, 0, key, 0)));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	ASSERT_EQ(1, post(&self->a, read_of(self->buf, 8, self->to, 0, key, 0)));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	d = write_of(self->buf, 8, self->to, 0, key, 0);
	d.opcode = TREADLE_OP_ATOMIC;
	d.flags |= TREADLE_F_EXT;
	d.atomic_op = TREADLE_ATOMIC_SUM;
	d.datatype = TREADLE_UINT64;
	ASSERT_EQ(1, post(&self->a, d));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	a = of_a(self);
	b = of_b(self);
	r = nl_counters_of(&self->nl, TREADLE_CMD_REGION_GET, self->b_ctx, id);
	EXPECT_EQ(2, OUT(a, WRITE));
	EXPECT_EQ(3008, OUT_BYTES(a, WRITE));
	EXPECT_EQ(1, OUT(a, READ));
	EXPECT_EQ(1, OUT(a, ATOMIC));
	EXPECT_EQ(8, OUT_BYTES(a, ATOMIC));
	EXPECT_EQ(4, N(a, COPIES_CALLER) + N(a, COPIES_WORKER));
	EXPECT_EQ(0, IN(b, WRITE));
	EXPECT_EQ(2, IN(r, WRITE));
	EXPECT_EQ(3008, IN_BYTES(r, WRITE));
	EXPECT_EQ(1, IN(r, READ));
	EXPECT_EQ(8, IN_BYTES(r, READ));
	EXPECT_EQ(1, IN(r, ATOMIC));
	/* the sums keep what a region has counted that is gone */
	ASSERT_EQ(0, destroy(self->b.fd, id));
	ctx = nl_counters_of(&self->nl, TREADLE_CMD_CONTEXT_GET, self->b_ctx, 0);
	EXPECT_EQ(2, IN(ctx, WRITE));
	EXPECT_EQ(3008, IN_BYTES(ctx, WRITE));
	EXPECT_EQ(1, IN(ctx, READ));
	EXPECT_EQ(1, IN(ctx, ATOMIC));
}

TEST_F(stats, armed_fired_and_canceled)
{
	struct counters a, ctx, before = of_module(self), module;
	struct cntr c;
	__u64 count;

	cntr_open(&c, self->a.fd);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 64, ANY, 0)));
	ASSERT_EQ(1, post(&self->a, when(send_of(self->buf, 8, self->to, 1), &c, 1)));
	ASSERT_EQ(1, post(&self->a, when(send_of(self->buf, 8, self->to, 2), &c, 9)));
	a = of_a(self);
	EXPECT_EQ(2, N(a, ARMED));
	EXPECT_EQ(0, N(a, FIRED));
	ctx = nl_counters_of(&self->nl, TREADLE_CMD_CONTEXT_GET, self->a_ctx, 0);
	EXPECT_EQ(2, N(ctx, ARMED_NOW));
	module = of_module(self);
	EXPECT_EQ(N(before, ARMED_NOW) + 2, N(module, ARMED_NOW));
	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_ADD, &c, 1, 0)));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	ASSERT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 2, 0, &count));
	EXPECT_EQ(1, count);
	EXPECT_EQ(ECANCELED, cq_next(&self->a.cq).error);
	a = of_a(self);
	EXPECT_EQ(1, N(a, FIRED));
	EXPECT_EQ(1, N(a, CANCELED));
	EXPECT_EQ(1, a.failures[ECANCELED]);
	EXPECT_EQ(1, OUT(a, MESSAGE));
	ctx = nl_counters_of(&self->nl, TREADLE_CMD_CONTEXT_GET, self->a_ctx, 0);
	EXPECT_EQ(0, N(ctx, ARMED_NOW));
	module = of_module(self);
	EXPECT_EQ(N(before, ARMED_NOW), N(module, ARMED_NOW));
}

struct other {
	struct treadle_addr peer; /* from which a message comes */
	struct node n;
	int ready;
};

/* Receives 1 MiB, and has a region without pages. */
static void is_other(void *arg)
{
	struct other *o = arg;
	__u64 key = 5;
	__u32 id;

	node_open(&o->n, (struct options){});
	peer(&o->n, o->peer);
	need(mr(o->n.fd, pages(1 << 21), 1 << 21, TREADLE_ACCESS_REMOTE_WRITE, 0, &key, &id) == 0);
	need(post_recv(&o->n, recv_of(pages(1 << 20), 1 << 20, ANY, 0)) == 0);
	raise_to(&o->ready, 1);
	for (;;)
		pause();
}

/* Another process's memory: a worker copies what is long, and waits for pages. */
TEST_F(stats, copies_of_workers_and_late_pages)
{
	struct other *o = shared(sizeof(*o));
	struct counters a, b;
	__u32 context;
	__u64 to;
	pid_t pid;

	o->peer = self->a.addr;
	pid = spawn(is_other, o);
	await(&o->ready, 1);
	to = peer(&self->a, o->n.addr);
	context = nl_context_of(&self->nl, &o->n);
	memset(self->buf, 1, 1 << 20);
	ASSERT_EQ(1, post(&self->a, write_of(self->buf, 8, to, 0, 5, 0)));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	a = of_a(self);
	EXPECT_LT(0, N(a, LATE_PAGES));
	ASSERT_EQ(1, post(&self->a, write_of(self->buf, 1 << 20, to, 0, 5, 0)));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_LT(N(a, COPIES_WORKER), N(of_a(self), COPIES_WORKER));
	ASSERT_EQ(1, post(&self->a, send_of(self->buf, 1 << 20, to, 0)));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	b = nl_counters_of(&self->nl, TREADLE_CMD_ENDPOINT_GET, context, o->n.ep);
	EXPECT_EQ(1, N(b, COPIES_WORKER));
	EXPECT_EQ(0, N(b, COPIES_CALLER));
	b = nl_counters_of(&self->nl, TREADLE_CMD_CONTEXT_GET, context, 0);
	EXPECT_LT(0, N(b, WORKER_NS));
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
}

TEST_F(stats, commands_on_cells)
{
	struct cells cells;

	cells_open(&cells, self->a.fd, 2);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 64, ANY, 0)));
	ASSERT_EQ(1, post(&self->a, once(send_of(self->buf, 8, self->to, 1), &cells, 0, 5)));
	ASSERT_EQ(1, post(&self->a, once(send_of(self->buf, 8, self->to, 2), &cells, 1, 5)));
	EXPECT_EQ(2, N(of_a(self), ARMED));
	cell_write(&cells, 0, 5);
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_EQ(1, N(of_a(self), FIRED));
}

/* A command for which there is no room is posted again, and counted each time. */
TEST_F(stats, commands_that_are_posted_again)
{
	struct counters before = of_a(self), after;
	int taken = 0;

	while (post(&self->a, nop(0)) == 1)
		need(++taken < 100000);
	EXPECT_LT(0, taken);
	after = of_a(self);
	EXPECT_EQ(1, N(after, RETRIED) - N(before, RETRIED));
	while (taken--)
		cq_next(&self->a.cq);
}

TEST_F(stats, failures_by_errno)
{
	struct treadle_desc bad = send_of(self->buf, 8, self->to, 0);
	struct counters a, b;
	struct node gone;
	__u64 nowhere;

	node_open(&gone, (struct options){});
	nowhere = peer(&self->a, gone.addr);
	ASSERT_EQ(0, destroy(gone.fd, gone.ep));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(1, post(&self->a, write_of(self->buf, 8, self->to, 0, 99, 0)));
		EXPECT_EQ(EKEYREJECTED, cq_next(&self->a.cq).error);
	}
	ASSERT_EQ(1, post(&self->a, read_of(self->buf, 8, nowhere, 0, 99, 0)));
	EXPECT_EQ(ECONNREFUSED, cq_next(&self->a.cq).error);
	bad.reserved0 = 1;
	ASSERT_EQ(-EINVAL, post(&self->a, bad));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 4, ANY, 0)));
	ASSERT_EQ(1, post(&self->a, send_of(self->buf, 8, self->to, 0)));
	EXPECT_EQ(TREADLE_ETRUNC, cq_next(&self->b.rcq).error);
	a = of_a(self);
	b = of_b(self);
	EXPECT_EQ(2, a.failures[EKEYREJECTED]);
	EXPECT_EQ(1, a.failures[ECONNREFUSED]);
	EXPECT_EQ(1, a.failures[EINVAL]);
	EXPECT_EQ(0, OUT(a, WRITE) + OUT(a, READ));
	EXPECT_EQ(1, b.failures[TREADLE_ETRUNC]);
	EXPECT_EQ(0, IN(b, MESSAGE));
}

/* --- other users ------------------------------------------------------------- */

struct looker {
	enum cred cred;
	struct treadle_addr addr; /* of the endpoint to look for */
	__u32 seen, others, contexts;
	__u64 messages;
};

/* Looks for an endpoint, and counts what else is seen. */
static void looks(void *arg)
{
	struct looker *l = arg;
	const struct nlmsghdr *h;
	struct counters c;
	struct nl nl;

	become(l->cred);
	nl_open(&nl);
	nl_dump(&nl, TREADLE_CMD_ENDPOINT_GET, 0, 0);
	while ((h = nl_next(&nl))) {
		if (nl_u(h, TREADLE_A_ENDPOINT_PORT) == ntohs(l->addr.port))
			l->seen++;
		else
			l->others++;
	}
	need(nl.error == 0);
	nl_dump(&nl, TREADLE_CMD_REGION_GET, 0, 0);
	while ((h = nl_next(&nl)))
		l->others++;
	nl_dump(&nl, TREADLE_CMD_CONTEXT_GET, 0, 0);
	while ((h = nl_next(&nl)))
		l->contexts++;
	nl_send(&nl, nl.family, TREADLE_CMD_MODULE_GET, 0, 0, NULL, 0);
	h = nl_next(&nl);
	need(h);
	need(nl_u(h, TREADLE_A_MODULE_CONTEXTS) == l->contexts);
	c = nl_counters(nl_attr(h, TREADLE_A_MODULE_COUNTERS));
	l->messages = IN(c, MESSAGE) + OUT(c, MESSAGE);
}

/* Nothing is seen of another user, not even that there is something; root sees all. */
TEST(only_the_owner_and_root_see)
{
	static const struct {
		enum cred owner, looker;
		bool sees;
	} cases[] = {{ALICE, ALICE, true},	   {ALICE, BOB, false},
		     {ALICE, ROOT, true},	   {ROOT, ALICE, false},
		     {ROOT, ELSEWHERE, false},	   {ELSEWHERE, ROOT, true},
		     {ELSEWHERE, ELSEWHERE, false}};

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct receiver *r = shared(sizeof(*r));
		struct looker *l = shared(sizeof(*l));
		pid_t pid;

		about("case %d", i);
		r->cred = cases[i].owner;
		pid = spawn(receives, r);
		await(&r->ready, 1);
		l->cred = cases[i].looker;
		l->addr = r->addr;
		ASSERT_EQ(0, reap(spawn(looks, l)));
		EXPECT_EQ(cases[i].sees, l->seen);
		EXPECT_EQ(0, l->others);
		EXPECT_EQ(cases[i].sees, l->contexts);
		if (l->cred != ROOT)
			EXPECT_EQ(0, l->messages);
		raise_to(&r->stop, 1);
		ASSERT_EQ(0, reap(pid));
	}
}

/* --- dumps while objects come and go ------------------------------------------ */

#define STORMS 3
#define ROUNDS 40

static void storms(void *arg)
{
	struct node a, b;
	char buf[64];
	__u64 to;

	for (int i = 0; i < ROUNDS; i++) {
		node_open(&a, (struct options){});
		node_open(&b, (struct options){.context = a.fd});
		to = peer(&a, b.addr);
		need(post_recv(&b, recv_of(buf, 8, ANY, 0)) == 0);
		need(post(&a, send_of(buf, 8, to, 0)) == 1);
		need(cq_next(&b.rcq).error == 0);
		if (i % 2)
			need(destroy(a.fd, b.ep) == 0);
		munmap(a.tx.rw, a.tx.rw_map.length);
		close(a.fd);
	}
}

/* Dumps go on, and what has ended stays in the sums. */
TEST(dumps_while_objects_come_and_go)
{
	struct counters before, after;
	pid_t pids[STORMS];
	struct nl nl;
	__u64 end;
	int status, left = STORMS, dumps = 0;

	nl_open(&nl);
	nl_send(&nl, nl.family, TREADLE_CMD_MODULE_GET, 0, 0, NULL, 0);
	before = nl_counters(nl_attr(nl_next(&nl), TREADLE_A_MODULE_COUNTERS));
	for (int i = 0; i < STORMS; i++)
		pids[i] = spawn(storms, NULL);
	for (; left || !dumps; dumps++) {
		for (__u8 cmd = TREADLE_CMD_CONTEXT_GET; cmd <= TREADLE_CMD_LANE_GET; cmd++) {
			nl_dump(&nl, cmd, 0, 0);
			while (nl_next(&nl))
				;
			ASSERT_EQ(0, nl.error);
		}
		for (int i = 0; i < STORMS; i++) {
			if (!pids[i] || waitpid(pids[i], &status, WNOHANG) != pids[i])
				continue;
			ASSERT_EQ(0, status);
			pids[i] = 0;
			left--;
		}
	}
	/* the memory of the last contexts may be going still: a sum lacks them then */
	end = now_ns() + PATIENCE_NS;
	do {
		nl_send(&nl, nl.family, TREADLE_CMD_MODULE_GET, 0, 0, NULL, 0);
		after = nl_counters(nl_attr(nl_next(&nl), TREADLE_A_MODULE_COUNTERS));
	} while (OUT(after, MESSAGE) - OUT(before, MESSAGE) < STORMS * ROUNDS && now_ns() < end);
	EXPECT_EQ(STORMS * ROUNDS, OUT(after, MESSAGE) - OUT(before, MESSAGE));
	EXPECT_EQ(STORMS * ROUNDS, IN(after, MESSAGE) - IN(before, MESSAGE));
	EXPECT_EQ(STORMS * ROUNDS * 8, IN_BYTES(after, MESSAGE) - IN_BYTES(before, MESSAGE));
	note("%d dumps", dumps);
}

TEST_HARNESS_MAIN
