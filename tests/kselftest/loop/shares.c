/* SPDX-License-Identifier: GPL-2.0 */
/* The commands of a session are shared by all users of two nodes. */
#include "nodes.h"
#include "remote.h"

enum { MANY = 1500, SIZE = 20000 };

/* A user's sender and receiver, which posts nothing before @receives is raised. */
struct pair_of {
	struct treadle_addr to;
	int listens, receives, received, done;
};

static void receives_late(void *arg)
{
	struct pair_of *p = arg;
	char *buf = pages(SIZE);
	struct node n;

	enter(2);
	become(ALICE);
	node_open(&n, (struct options){.addr = at(2), .rx = 2048, .rcq = 2048, .buffered = 4096});
	p->to = n.addr;
	raise_to(&p->listens, 1);
	await(&p->receives, 1);
	for (int i = 0; i < MANY; i++)
		need(post_recv(&n, recv_of(buf, SIZE, ANY, i)) >= 0);
	for (int i = 0; i < MANY; i++) {
		struct treadle_cqe c = cq_next(&n.rcq);

		if (c.error || c.context != c.data)
			note("receive %llu: error %u, message %llu", c.context, c.error, c.data);
		/* matched in the order of the sends, also where some had no place at first */
		need(c.error == 0 && c.context == c.data);
	}
	raise_to(&p->received, 1);
	await(&p->done, 1);
}

static void sends_much(void *arg)
{
	struct pair_of *p = arg;
	char *buf = pages(SIZE);
	struct node n;
	__u64 to;

	enter(1);
	become(ALICE);
	node_open(&n, (struct options){.addr = at(1), .tx = 2048, .cq = 2048});
	to = peer(&n, p->to);
	for (int i = 0; i < MANY; i++) {
		struct treadle_desc d = send_of(buf, SIZE, to, i);

		d.flags |= TREADLE_F_REMOTE_CQ_DATA;
		d.data = i;
		need(post(&n, d) == 1);
	}
	await(&p->receives, 1);
	for (int i = 0; i < MANY; i++)
		need(cq_next(&n.cq).error == 0);
	await(&p->done, 1);
}

static void until_sent(__u32 under_way, __u32 queued)
{
	const __u64 end = now_ns() + PATIENCE_NS;
	struct other_node n;

	while (n = node_of_side(1), n.under_way != under_way || n.queued != queued) {
		if (now_ns() > end)
			note("under way %llu, queued %llu", n.under_way, n.queued);
		need(now_ns() < end);
		usleep(1000);
	}
}

static void exchange(struct node *a, __u64 to, struct node *b, char *src, char *dst)
{
	need(post_recv(b, recv_of(dst, 8, ANY, 1)) >= 0);
	need(outcome(a, send_of(src, 8, to, 1)) == 0);
	need(cq_next(&b->rcq).error == 0);
}

/* A user sends to another one, which has no receives: until its share is full. */
static void fill_share(FIXTURE_DATA(remote) * self, struct pair_of *p, pid_t *receiver,
		       pid_t *sender)
{
	*receiver = spawn(receives_late, p);
	await(&p->listens, 1);
	*sender = spawn(sends_much, p);
	until_sent(512, MANY - 512);
}

/* One user's commands wait for receives. Those of another user go on, and so do the rest. */
TEST_F(remote, a_user_leaves_places_to_others)
{
	struct pair_of *p = shared(sizeof(*p));
	pid_t receiver, sender;

	fill_share(self, p, &receiver, &sender);
	for (int i = 0; i < 100; i++)
		exchange(&self->a, self->to, &self->b, self->src, self->dst);
	until_sent(512, MANY - 512);
	raise_to(&p->receives, 1);
	await(&p->received, 1);
	raise_to(&p->done, 1);
	EXPECT_EQ(0, reap(receiver));
	EXPECT_EQ(0, reap(sender));
	until_sent(0, 0);
}

/* What is held goes with its sender. */
TEST_F(remote, commands_without_a_place_end_with_their_process)
{
	struct pair_of *p = shared(sizeof(*p));
	pid_t receiver, sender;

	fill_share(self, p, &receiver, &sender);
	ASSERT_EQ(0, kill(sender, SIGKILL));
	EXPECT_EQ(-SIGKILL, reap(sender));
	until_sent(0, 0);
	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	ASSERT_EQ(0, kill(receiver, SIGKILL));
	EXPECT_EQ(-SIGKILL, reap(receiver));
}

/* All of it ends with the session. */
TEST_F(remote, commands_without_a_place_end_with_the_session)
{
	struct treadle_cqe c;
	struct node n;
	__u64 to;

	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	node_of(1, &n, (struct options){.tx = 1024, .cq = 1024});
	to = peer(&n, self->b.addr);
	for (int i = 0; i < 600; i++)
		ASSERT_EQ(1, post(&n, send_of(self->src, LARGE, to, i)));
	until_sent(512, 600 - 512);
	ASSERT_EQ(0, loop("close 10.0.0.2"));
	for (int i = 0; i < 600; i++) {
		c = cq_next(&n.cq);
		ASSERT_TRUE(c.error == ECONNRESET || c.error == EHOSTUNREACH);
	}
	until_sent(0, 0);
	close(n.fd);
}

TEST_HARNESS_MAIN
