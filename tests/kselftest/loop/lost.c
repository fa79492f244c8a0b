/* SPDX-License-Identifier: GPL-2.0 */
/* Nodes that can't be reached, refuse each other, boot again, or send nonsense. */
#include "nodes.h"
#include "remote.h"

#define WAITING 20

/* Sends what has to wait: nothing receives there. */
static void send_large(struct node *n, __u64 to, char *buf)
{
	for (int i = 0; i < WAITING; i++)
		need(post(n, send_of(buf, 1 << 20, to, i)) == 1);
}

static int fail_with(struct node *n, int error)
{
	int wrong = 0;

	for (int i = 0; i < WAITING; i++) {
		struct treadle_cqe c = cq_next(&n->cq);

		if (c.error != error)
			note("message %llu: error %u", c.context, c.error);
		wrong += c.error != error;
	}
	return wrong;
}

/* Messages arrive in both directions, if not at once. */
static void until_it_works(struct node *a, __u64 to, struct node *b, char *src, char *dst)
{
	const __u64 end = now_ns() + PATIENCE_NS;
	int error, failed = 0;

	for (;;) {
		struct treadle_cqe c;

		fill(src, 8, 4711);
		error = outcome(a, send_of(src, 8, to, 1));
		if (!error) {
			need(post_recv(b, recv_of(dst, 8, ANY, 1)) >= 0);
			c = cq_next(&b->rcq);
			need(c.error == 0 && c.len == 8 && same(dst, 8, 4711));
			break;
		}
		need(now_ns() < end);
		failed++;
	}
	note("works again, after %d failures", failed);
}

/* --- nodes that don't answer --------------------------------------------------------------- */

TEST(nodes_with_different_secrets_refuse_each_other)
{
	__u64 began = now_ns();
	struct node a, b;
	char buf[8];

	join("secret=one peer_timeout=2", "secret=two peer_timeout=2");
	node_of(1, &a, (struct options){});
	node_of(2, &b, (struct options){});
	EXPECT_EQ(EACCES, outcome(&a, send_of(buf, 8, peer(&a, b.addr), 1)));
	EXPECT_EQ(EACCES, outcome(&b, send_of(buf, 8, peer(&b, a.addr), 1)));
	note("after %llu ms", (now_ns() - began) / 1000000);
	EXPECT_FALSE(ring_needs_doorbell(&a.rx) || ring_needs_doorbell(&b.rx));
	close(a.fd);
	close(b.fd);
	part();
}

TEST(a_node_without_a_secret_must_be_said_to_be_insecure)
{
	loop_load();
	EXPECT_EQ(-EINVAL, loop("listen 10.0.0.1"));
	EXPECT_EQ(-EINVAL, loop("listen 10.0.0.1 trust_uids"));
	EXPECT_EQ(0, loop("listen 10.0.0.1 insecure"));
	ASSERT_EQ(0, loop_unload());
}

TEST_F(remote, no_node_has_the_address)
{
	__u64 began = now_ns();

	EXPECT_EQ(EHOSTUNREACH, outcome(&self->a, send_of(self->src, 8, peer(&self->a, at(9)), 1)));
	note("after %llu ms", (now_ns() - began) / 1000000);
	/* Others are reached meanwhile, and this node itself. */
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, peer(&self->a, at(9)), 2)));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, 1)));
	EXPECT_EQ(0, outcome(&self->a, send_of(self->src, 8, self->to, 3)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	ASSERT_EQ(0, post_recv(&self->a, recv_of(self->dst, 8, ANY, 1)));
	EXPECT_EQ(0, outcome(&self->a, send_of(self->src, 8, peer(&self->a, self->a.addr), 4)));
	EXPECT_EQ(0, cq_next(&self->a.rcq).error);
	EXPECT_EQ(EHOSTUNREACH, cq_next(&self->a.cq).error);
}

TEST_F(remote, a_cable_that_is_out_for_a_while_loses_nothing)
{
	for (int i = 0; i < 200; i++) {
		struct treadle_desc d = send_of(self->src, i % 10 ? 8 : 10000, self->to, i);

		if (i == 100)
			ASSERT_EQ(0, loop("stall 2000"));
		d.flags |= TREADLE_F_REMOTE_CQ_DATA;
		d.data = i;
		fill(self->src + i * 10000, d.len, i);
		d.addr += i * 10000;
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst + i * 10000, d.len, ANY, i)));
		ASSERT_EQ(1, post(&self->a, d));
	}
	for (int i = 0; i < 200; i++) {
		struct treadle_cqe c = cq_next(&self->b.rcq);

		ASSERT_EQ(0, c.error);
		ASSERT_EQ(c.data, c.context);
		ASSERT_TRUE(same(self->dst + c.data * 10000, c.len, c.data));
		ASSERT_EQ(0, cq_next(&self->a.cq).error);
	}
}

TEST_F(remote, a_node_that_is_gone_for_good_is_told_to_all_that_wait)
{
	__u64 began;

	until_it_works(&self->a, self->to, &self->b, self->src, self->dst);
	send_large(&self->a, self->to, self->src);
	began = now_ns();
	ASSERT_EQ(0, loop("close 10.0.0.2"));
	EXPECT_EQ(0, fail_with(&self->a, ECONNRESET));
	note("after %llu ms", (now_ns() - began) / 1000000);
	EXPECT_EQ(EHOSTUNREACH, outcome(&self->a, send_of(self->src, 8, self->to, 1)));
	note("after %llu ms", (now_ns() - began) / 1000000);
	EXPECT_FALSE(ring_needs_doorbell(&self->b.rx));
}

TEST_F(remote, a_node_that_boots_again_has_lost_what_was_sent)
{
	for (int i = 1; i <= 2; i++) {
		until_it_works(&self->a, self->to, &self->b, self->src, self->dst);
		until_it_works(&self->b, self->back, &self->a, self->src, self->dst);
		send_large(&self->a, self->to, self->src);
		ASSERT_EQ(0, loop("reboot 10.0.0.%d", i));
		EXPECT_EQ(0, fail_with(&self->a, ECONNRESET));
	}
	until_it_works(&self->a, self->to, &self->b, self->src, self->dst);
	until_it_works(&self->b, self->back, &self->a, self->src, self->dst);
}

/* Unloading the transport takes the nodes away, not the contexts. */
TEST_F(remote, unloading_ends_sessions)
{
	until_it_works(&self->a, self->to, &self->b, self->src, self->dst);
	send_large(&self->a, self->to, self->src);
	ASSERT_EQ(0, loop_unload());
	EXPECT_EQ(0, fail_with(&self->a, ECONNRESET));
	EXPECT_EQ(EHOSTUNREACH, outcome(&self->a, send_of(self->src, 8, self->to, 1)));
	ASSERT_EQ(0, post_recv(&self->a, recv_of(self->dst, 8, ANY, 1)));
	EXPECT_EQ(0, outcome(&self->a, send_of(self->src, 8, peer(&self->a, self->a.addr), 4)));
	EXPECT_EQ(0, cq_next(&self->a.rcq).error);
	loop_load();
}

struct hammer {
	struct node *n;
	__u64 to;
	int stop;
};

/* Sends to where nothing receives, as soon as the message before has failed. */
static void *hammers(void *arg)
{
	struct hammer *h = arg;
	__u64 failed = 0;
	struct treadle_cqe c;
	char byte;

	for (; !__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE); failed++) {
		need(post(h->n, send_of(&byte, 1, h->to, 1)) == 1);
		while (!cq_poll(&h->n->cq, &c))
			;
		need(c.error == ECONNREFUSED || c.error == EHOSTUNREACH || c.error == ECONNRESET);
	}
	note("%llu messages failed", failed);
	return NULL;
}

TEST_F(remote, nodes_close_while_processes_send)
{
	struct treadle_addr here = at(1), there = at(2);
	struct hammer h[2] = {{&self->a}, {&self->b}};
	pthread_t threads[2];

	here.port = there.port = htons(9);
	h[0].to = peer(&self->a, there);
	h[1].to = peer(&self->b, here);

	for (int i = 0; i < 2; i++)
		threads[i] = thread(hammers, &h[i]);
	for (int i = 0; i < 20; i++) {
		ASSERT_EQ(0, loop("close 10.0.0.1"));
		usleep(10000);
		enter(1);
		ASSERT_EQ(0, loop("listen 10.0.0.1 " TRUSTED));
		enter(0);
		usleep(i * 10000);
	}
	for (int i = 0; i < 2; i++)
		__atomic_store_n(&h[i].stop, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 2; i++)
		need(pthread_join(threads[i], NULL) == 0);
	until_it_works(&self->a, self->to, &self->b, self->src, self->dst);
}

/* --- nodes without the secret ---------------------------------------------------------------- */

/*
 * A node at the address of the other one, which is gone, has another secret. It connects, and this
 * node connects to it, as what was sent before waits for an answer.
 */
TEST_F(remote, an_impostor_without_the_secret_ends_no_session)
{
	struct other_node n;
	char *src = pages(LARGE);
	struct node a, b, c;
	__u64 end, to;

	enter(1);
	ASSERT_EQ(0, loop("close 10.0.0.1"));
	ASSERT_EQ(0, loop("listen 10.0.0.1 secret=of-tests trust_uids peer_timeout=600"));
	enter(0);
	node_of(1, &a, (struct options){});
	node_of(2, &b, (struct options){});
	to = peer(&a, b.addr);
	ASSERT_EQ(1, post(&a, send_of(src, LARGE, to, 1)));
	end = now_ns() + PATIENCE_NS;
	while (node_of_side(2).executing != 1 && now_ns() < end)
		usleep(1000);
	enter(2);
	ASSERT_EQ(0, loop("close 10.0.0.2"));
	ASSERT_EQ(0, loop("listen 10.0.0.2 secret=another peer_timeout=4"));
	enter(0);
	node_of(2, &c, (struct options){});
	for (int i = 0; i < 3; i++)
		EXPECT_NE(0, outcome(&c, send_of(src, 8, peer(&c, a.addr), i)));
	n = node_of_side(1);
	EXPECT_NE(TREADLE_PEER_STATE_IDLE, n.state);
	EXPECT_EQ(1, n.sessions);
	EXPECT_EQ(1, n.under_way);
	EXPECT_TRUE(cq_empty(&a.cq));
	close(a.fd);
	close(b.fd);
	close(c.fd);
	munmap(src, LARGE);
}

/* A node that may connect, and proves nothing, must not end what others use. */
TEST_F(remote, intruders_end_no_session_and_no_link)
{
	struct other_node n[2], m;

	until_it_works(&self->a, self->to, &self->b, self->src, self->dst);
	n[0] = node_of_side(1);
	n[1] = node_of_side(2);
	for (int i = 0; i < 6; i++) {
		const __u64 end = now_ns() + PATIENCE_NS;
		const long long declined = loop_count("declined");

		if (i < 3)
			ASSERT_EQ(1, post(&self->a, send_of(self->src, LARGE, self->to, 7)));
		ASSERT_EQ(0, loop("intrude 10.0.0.%d 10.0.0.%d", 1 + i % 2, 2 - i % 2));
		while (loop_count("declined") == declined) {
			ASSERT_GT(end, now_ns());
			usleep(1000);
		}
		if (i >= 3)
			ASSERT_EQ(1, post(&self->a, send_of(self->src, LARGE, self->to, 7)));
		ASSERT_LE(0, post_recv(&self->b, recv_of(self->dst, LARGE, ANY, 7)));
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	}
	for (int i = 0; i < 2; i++) {
		m = node_of_side(1 + i);
		EXPECT_EQ(n[i].links, m.links);
		EXPECT_EQ(n[i].sessions, m.sessions);
	}
}

/* --- processes that die -------------------------------------------------------------------- */

struct meeting {
	struct treadle_addr addr, other;
	int ready, sends;
};

static void is_killed(void *arg)
{
	struct meeting *m = arg;
	char *buf = pages(LARGE);
	struct node n;
	__u64 to;

	enter(2);
	node_open(&n, (struct options){.addr = at(2)});
	to = peer(&n, m->other);
	for (int i = 0; i < m->sends; i++)
		need(post(&n, send_of(buf, i % 2 ? 1 << 20 : 8, to, i)) == 1);
	/* What was sent before them has arrived, too. */
	if (m->sends)
		need(cq_next(&n.cq).error == 0);
	m->addr = n.addr;
	raise_to(&m->ready, 1);
	for (;;)
		pause();
}

TEST_F(remote, senders_to_a_process_that_is_killed_get_errors)
{
	struct meeting *m = shared(sizeof(*m));
	pid_t pid;
	__u64 to;

	until_it_works(&self->a, self->to, &self->b, self->src, self->dst);
	m->other = self->a.addr;
	pid = spawn(is_killed, m);
	await(&m->ready, 1);
	to = peer(&self->a, m->addr);
	send_large(&self->a, to, self->src);
	EXPECT_NE(0, cq_wait(&self->a.cq, 10000000));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(-SIGKILL, reap(pid));
	EXPECT_EQ(0, fail_with(&self->a, ECONNRESET));
	EXPECT_EQ(ECONNREFUSED, outcome(&self->a, send_of(self->src, 8, to, 1)));
}

TEST_F(remote, what_waits_goes_with_its_sender_and_what_was_kept_stays)
{
	struct meeting *m = shared(sizeof(*m));
	struct node *a = &self->a;
	struct treadle_cqe c;
	pid_t pid;

	m->other = a->addr;
	m->sends = 10;
	pid = spawn(is_killed, m);
	await(&m->ready, 1);
	EXPECT_TRUE(ring_needs_doorbell(&a->rx));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(-SIGKILL, reap(pid));
	/* The end of the process is known here when something that came behind it is. */
	EXPECT_EQ(ECONNREFUSED, outcome(a, send_of(self->src, 8, peer(a, m->addr), 1)));
	usleep(100000);
	for (int i = 0; i < 10; i++)
		ASSERT_LE(0, post_recv(a, recv_of(self->dst, LARGE, ANY, i)));
	for (int i = 0; i < 5; i++) {
		c = cq_next(&a->rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(8, c.len);
	}
	EXPECT_NE(0, cq_wait(&a->rcq, 10000000));
}

/* --- hostile nodes ------------------------------------------------------------------------- */

/*
 * Whatever arrives, the kernel bears it. What is sent meanwhile may get lost, as what arrives is
 * not what was sent; but each command ends.
 */
TEST_F(remote, hostile_frames_end_the_session_and_nothing_else)
{
	const char *rounds = getenv("HOSTILE_ROUNDS");
	int failed = 0;

	for (int round = 0; round < (rounds ? atoi(rounds) : 30); round++) {
		char *src = pages(LARGE);
		struct node a, b;
		__u64 to;

		node_of(1, &a, (struct options){.tx = 256, .cq = 1024});
		node_of(2, &b, (struct options){.rx = 256, .rcq = 1024});
		to = peer(&a, b.addr);
		ASSERT_EQ(0, loop("hostile %d %d", round % 3 ? 20 : 3, round));
		for (int i = 0; i < 100; i++) {
			size_t len = i % 10 ? 8 : i * 1000;

			need(post_recv(&b, recv_of(self->dst, LARGE, ANY, i)) >= 0);
			need(post(&a, i % 3 ? send_of(src, len, to, i) :
					      write_of(src, len, self->to, 0, self->key, i)) == 1);
		}
		for (int i = 0; i < 100; i++)
			failed += !!cq_next(&a.cq).error;
		ASSERT_EQ(0, loop("off"));
		close(a.fd);
		close(b.fd);
		munmap(src, LARGE);
	}
	note("%lld hostile frames, %lld links, %d commands have failed", loop_count("hostile"),
	     loop_count("links"), failed);
	EXPECT_LT(0, loop_count("hostile"));
	until_it_works(&self->a, self->to, &self->b, self->src, self->dst);
	until_it_works(&self->b, self->back, &self->a, self->src, self->dst);
}

TEST_HARNESS_MAIN
