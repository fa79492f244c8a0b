/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints: the events of each message have one number, and name both sides; they are root's
 * only.
 */
#include "connection.h"
#include "cred.h"
#include "netlink.h"
#include "tracefs.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>

#include <treadle/atomic.h>

#define LEN (1UL << 20)

FIXTURE(trace)
{
	struct node a, b;
	__u64 to, key;
	__u32 region;
	long long a_ctx, b_ctx;
	char *src, *dst;
};

typedef FIXTURE_DATA(trace) ends;

FIXTURE_SETUP(trace)
{
	struct nl nl;

	node_open(&self->a, (struct options){});
	node_open(&self->b, (struct options){});
	self->to = peer(&self->a, self->b.addr);
	self->src = pages(LEN);
	self->dst = pages(LEN);
	self->key = 77;
	ASSERT_EQ(0, mr(self->b.fd, self->dst, LEN,
			TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE, 0, &self->key,
			&self->region));
	nl_open(&nl);
	self->a_ctx = nl_context_of(&nl, &self->a);
	self->b_ctx = nl_context_of(&nl, &self->b);
	close(nl.fd);
	if (!trace_begin())
		SKIP(return, "the kernel has no tracefs");
}

FIXTURE_TEARDOWN(trace)
{
	trace_end();
}

/* The next event of the message, which must name its initiator as a. */
static const struct event *of_a(ends *self, int *from, const char *name, long long msg)
{
	const struct event *e = find(from, name, "msg", msg);

	need(value(e, "ctx") == self->a_ctx && value(e, "ep") == self->a.ep);
	need(value(e, "host") == 0 && value(e, "port") == ntohs(self->a.addr.port));
	return e;
}

/* The same, and its target must be b. */
static const struct event *to_b(ends *self, int *from, const char *name, long long msg)
{
	const struct event *e = of_a(self, from, name, msg);

	need(value(e, "peer_ctx") == self->b_ctx && value(e, "peer_ep") == self->b.ep);
	return e;
}

/* The number of the command that a has posted with this context; *@from: behind that event. */
static long long posted(ends *self, int *from, __u64 context)
{
	const struct event *e = find(from, "post", "context", context);

	need(value(e, "ctx") == self->a_ctx && value(e, "ep") == self->a.ep);
	need(value(e, "error") == 0 && value(e, "msg") > 0);
	return value(e, "msg");
}

static void copied(ends *self, int *at, long long msg, const char *op, long long len)
{
	const struct event *e = to_b(self, at, "copy_begin", msg);

	need(is(e, "op", op) && value(e, "len") == len);
	e = to_b(self, at, "copy_end", msg);
	need(is(e, "op", op) && value(e, "error") == 0);
}

/* The receive with this context, then the send. */
static void both_completed(ends *self, int *at, long long msg, __u64 context)
{
	const struct event *e = to_b(self, at, "complete", msg);

	need((is(e, "op", "recv") || is(e, "op", "trecv")) && value(e, "error") == 0);
	need(value(e, "context") == (long long)context);
	e = of_a(self, at, "complete", msg);
	need((is(e, "op", "send") || is(e, "op", "tsend")) && value(e, "error") == 0);
}

TEST_F(trace, a_message_has_one_number_on_both_sides)
{
	for (int tagged = 0; tagged < 2; tagged++) {
		const struct event *e;
		long long msg;
		int at = 0;

		ASSERT_EQ(0, post_recv(&self->b, tagged ? trecv_of(self->dst, 64, ANY, 9, 0, 501) :
							  recv_of(self->dst, 64, ANY, 500)));
		ASSERT_EQ(1, post(&self->a, tagged ? tsend_of(self->src, 10, self->to, 9, 601) :
						     send_of(self->src, 10, self->to, 600)));
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
		trace_read();
		msg = posted(self, &at, 600 + tagged);
		EXPECT_EQ(ntohs(self->b.addr.port), value(&traced[at - 1], "to_port"));
		e = to_b(self, &at, "match", msg);
		EXPECT_EQ(500 + tagged, value(e, "context"));
		EXPECT_EQ(10, value(e, "len"));
		EXPECT_EQ(64, value(e, "recv_len"));
		EXPECT_EQ(0, value(e, "waited"));
		EXPECT_EQ(tagged * 9, value(e, "tag"));
		copied(self, &at, msg, tagged ? "tsend" : "send", 10);
		both_completed(self, &at, msg, 500 + tagged);
		EXPECT_EQ(nr_traced, at);
	}
}

TEST_F(trace, numbers_differ)
{
	long long first, second;
	int at = 0;

	ASSERT_EQ(1, post(&self->a, send_of(self->src, 10, self->to, 1)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 10, self->to, 2)));
	trace_read();
	first = posted(self, &at, 1);
	second = posted(self, &at, 2);
	EXPECT_NE(first, second);
}

TEST_F(trace, a_message_that_is_kept)
{
	const struct event *e;
	long long msg;
	int at = 0;

	ASSERT_EQ(1, post(&self->a, send_of(self->src, 10, self->to, 1)));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	ASSERT_LE(0, post_recv(&self->b, recv_of(self->dst, 64, ANY, 2)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	trace_read();
	msg = posted(self, &at, 1);
	to_b(self, &at, "keep", msg);
	EXPECT_TRUE(is(of_a(self, &at, "complete", msg), "op", "send"));
	e = to_b(self, &at, "match", msg);
	EXPECT_EQ(1, value(e, "waited"));
	EXPECT_EQ(2, value(e, "context"));
	copied(self, &at, msg, "send", 10);
	EXPECT_EQ(2, value(to_b(self, &at, "complete", msg), "context"));
}

TEST_F(trace, a_message_that_is_parked)
{
	long long msg;
	int at = 0;

	ASSERT_EQ(1, post(&self->a, send_of(self->src, 100000, self->to, 1)));
	ASSERT_LE(0, post_recv(&self->b, recv_of(self->dst, 100000, ANY, 2)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	trace_read();
	msg = posted(self, &at, 1);
	EXPECT_EQ(100000, value(to_b(self, &at, "park", msg), "len"));
	EXPECT_EQ(1, value(to_b(self, &at, "match", msg), "waited"));
	to_b(self, &at, "copy_begin", msg);
	at = 0;
	both_completed(self, &at, msg, 2);
	EXPECT_FALSE(has("keep", "msg", msg));
}

TEST_F(trace, an_armed_command)
{
	const struct event *e;
	struct cntr c;
	long long msg;
	int at = 0;

	cntr_open(&c, self->a.fd);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 64, ANY, 2)));
	ASSERT_EQ(1, post(&self->a, when(send_of(self->src, 10, self->to, 1), &c, 3)));
	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_ADD, &c, 3, 7)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	trace_read();
	msg = posted(self, &at, 1);
	e = of_a(self, &at, "arm", msg);
	EXPECT_EQ(c.id, value(e, "cond"));
	EXPECT_EQ(3, value(e, "threshold"));
	e = find(&at, "post", "context", 7);
	EXPECT_TRUE(is(e, "op", "cntr_add"));
	EXPECT_EQ(self->a_ctx, value(e, "ctx"));
	e = of_a(self, &at, "fire", msg);
	EXPECT_EQ(c.id, value(e, "cond"));
	EXPECT_EQ(0, value(e, "error"));
	to_b(self, &at, "match", msg);
	copied(self, &at, msg, "send", 10);
	both_completed(self, &at, msg, 2);
}

/* It is known by its context, as it has no number once it is posted. */
TEST_F(trace, an_armed_receive)
{
	struct cntr c;
	int at = 0;

	cntr_open(&c, self->b.fd);
	ASSERT_EQ(1, post(&self->b, when(recv_of(self->dst, 64, ANY, 2), &c, 1)));
	ASSERT_EQ(1, post(&self->b, count_of(TREADLE_OP_CNTR_ADD, &c, 1, 7)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 10, self->to, 1)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	trace_read();
	EXPECT_EQ(self->b_ctx, value(find(&at, "post", "context", 2), "ctx"));
	EXPECT_EQ(self->b.ep, value(find(&at, "arm", "ctx", self->b_ctx), "ep"));
	find(&at, "fire", "ctx", self->b_ctx);
	find(&at, "match", "context", 2);
	find(&at, "complete", "context", 2);
}

TEST_F(trace, reads_writes_and_atomics)
{
	struct treadle_desc d[3] = {
		write_of(self->src, 8, self->to, 0, self->key, 1),
		read_of(self->src, 100000, self->to, 0, self->key, 2),
		write_of(self->src, 8, self->to, 8, self->key, 3),
	};
	static const char *const ops[] = {"write", "read", "atomic"};

	memset(self->src, 1, LEN);
	memset(self->dst, 1, LEN);
	d[2].opcode = TREADLE_OP_ATOMIC;
	d[2].flags |= TREADLE_F_EXT;
	d[2].atomic_op = TREADLE_ATOMIC_SUM;
	d[2].datatype = TREADLE_UINT64;
	for (int i = 0; i < 3; i++) {
		const struct event *e;
		long long msg;
		int at = 0;

		ASSERT_EQ(1, post(&self->a, d[i]));
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
		trace_read();
		msg = posted(self, &at, i + 1);
		to_b(self, &at, "copy_begin", msg);
		e = of_a(self, &at, "complete", msg);
		EXPECT_TRUE(is(e, "op", ops[i]));
		EXPECT_EQ(d[i].len, value(e, "len"));
		EXPECT_TRUE(has("copy_end", "msg", msg));
	}
}

TEST_F(trace, a_page_that_is_missing)
{
	char *fresh = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct event *e;
	long long msg;
	int at = 0;

	ASSERT_NE(MAP_FAILED, fresh);
	memset(self->src, 1, 10);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(fresh, 64, ANY, 2)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 10, self->to, 1)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	trace_read();
	msg = posted(self, &at, 1);
	to_b(self, &at, "copy_begin", msg);
	e = find(&at, "page_wait", "msg", msg);
	EXPECT_EQ(self->b_ctx, value(e, "ctx"));
	EXPECT_EQ((long long)(unsigned long)fresh, value(e, "addr"));
	EXPECT_EQ(1, value(e, "write"));
}

TEST_F(trace, errors)
{
	struct treadle_desc bad = send_of(self->src, 10, self->to, 1);
	const struct event *e;
	long long msg;
	int at = 0;

	bad.reserved0 = 1;
	ASSERT_EQ(-EINVAL, post(&self->a, bad));
	self->a.tx.prod = ring_released(&self->a.tx);
	ASSERT_EQ(1, post(&self->a, write_of(self->src, 8, self->to, 0, self->key + 1, 2)));
	EXPECT_NE(0, cq_next(&self->a.cq).error);
	trace_read();
	e = find(&at, "post", "context", 1);
	EXPECT_EQ(-EINVAL, value(e, "error"));
	EXPECT_EQ(0, value(e, "to_port"));
	msg = posted(self, &at, 2);
	EXPECT_GT(0, value(of_a(self, &at, "complete", msg), "error"));
}

TEST_F(trace, connections)
{
	const struct event *e;
	struct pair p;
	int at = 0;

	pair_open(&p);
	expect_message(&p.client, &p.server, 10, 5);
	ASSERT_EQ(0, hang_up(p.client.fd, p.client.ep));
	event_is(p.l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
	trace_read();
	e = find(&at, "connect", "ep", p.client.ep);
	EXPECT_TRUE(is(e, "what", "asked"));
	EXPECT_EQ(p.l.ep, value(e, "peer_ep"));
	e = find(&at, "connect", "ep", p.client.ep);
	EXPECT_TRUE(is(e, "what", "connected"));
	EXPECT_EQ(p.server.ep, value(e, "peer_ep"));
	EXPECT_EQ(p.server.ep, value(find(&at, "match", "ep", p.client.ep), "peer_ep"));
	e = find(&at, "connect", "ep", p.client.ep);
	EXPECT_TRUE(is(e, "what", "over"));
}

/* Also each event alone, and with events that come and go while messages are under way. */
TEST_F(trace, a_single_event)
{
	int at = 0;

	write_to(INSTANCE "/events/treadle/enable", "0");
	write_to(INSTANCE "/events/treadle/treadle_copy_end/enable", "1");
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 10, self->to, 1)));
	write_to(INSTANCE "/events/treadle/treadle_complete/enable", "1");
	ASSERT_LE(0, post_recv(&self->b, recv_of(self->dst, 64, ANY, 2)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	trace_read();
	EXPECT_EQ(2, nr_traced);
	find(&at, "complete", "msg",
	     value(to_b(self, &at, "copy_end", value(&traced[0], "msg")), "msg"));
}

/* What a process without rights gets: 0 if it sees nothing. */
static void looks(void *arg)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .config = *(int *)arg};

	become(ALICE);
	need(open(INSTANCE "/trace", O_RDONLY) < 0 && errno == EACCES);
	need(open(TRACEFS "/events/treadle/treadle_post/format", O_RDONLY) < 0 && errno == EACCES);
	need(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) < 0 &&
	     (errno == EACCES || errno == EPERM));
}

TEST_F(trace, other_users_see_nothing)
{
	FILE *file = fopen(TRACEFS "/events/treadle/treadle_post/id", "r");
	int id;

	ASSERT_TRUE(file);
	ASSERT_EQ(1, fscanf(file, "%d", &id));
	fclose(file);
	EXPECT_EQ(0, reap(spawn(looks, &id)));
}

TEST_HARNESS_MAIN
