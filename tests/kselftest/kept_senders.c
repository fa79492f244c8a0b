/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unexpected messages and their senders: what comes of messages if a sender ends, and if a page of
 * a buffer is missing.
 */
#include "slow.h"
#include "treadle.h"

/* --- senders that end --------------------------------------------------------------------- */

/*
 * A message without room goes with its sender. So do messages behind it, although there is room
 * again: what came is all up to some message, and nothing after that.
 */
// conformance: fi_domain(3): resource management: target EP without an Rx buffer: the message ...
TEST(a_sender_that_ends_leaves_no_gap)
{
	const __u32 len = 1000, room = 3 * len; /* two messages, with their headers */
	char *out = pages(PAGE), *in = pages(PAGE);

	for (int how = 0; how < 2; how++) {
		struct treadle_cqe c;
		struct node a, b;
		__u64 to;

		about("%d", how);
		node_open(&a, (struct options){0});
		node_open(&b, (struct options){.buffered = room});
		to = peer(&a, b.addr);
		for (int i = 0; i < 4; i++) {
			fill(out, len, i);
			ASSERT_EQ(1, post(&a, send_of(out, len, to, i)));
			if (i < 2)
				EXPECT_EQ(i, cq_next(&a.cq).context);
		}
		EXPECT_TRUE(cq_empty(&a.cq));
		ASSERT_EQ(0, post_recv(&b, recv_of(in, len, ANY, 10)));
		EXPECT_EQ(0, cq_next(&b.rcq).error);
		EXPECT_TRUE(same(in, len, 0));
		/* This message has room. */
		ASSERT_EQ(1, post(&a, send_of(out, 8, to, 4)));
		EXPECT_TRUE(cq_empty(&a.cq));
		/* the sender goes on: all messages come, and later ones are copied again */
		if (how) {
			for (int i = 1; i < 5; i++) {
				ASSERT_EQ(0, post_recv(&b, recv_of(in, len, ANY, 10 + i)));
				c = cq_next(&b.rcq);
				EXPECT_EQ(10 + i, c.context);
				EXPECT_EQ(i < 4 ? len : 8, c.len);
				if (i > 1)
					EXPECT_EQ(i, cq_next(&a.cq).context);
			}
			ASSERT_EQ(1, post(&a, send_of(out, len, to, 5)));
			EXPECT_EQ(5, cq_next(&a.cq).context);
		}
		ASSERT_EQ(0, destroy(a.fd, a.ep));
		ASSERT_EQ(0, post_recv(&b, recv_of(in, len, ANY, 20)));
		c = cq_next(&b.rcq);
		EXPECT_EQ(20, c.context);
		EXPECT_EQ(len, c.len);
		ASSERT_EQ(0, post_recv(&b, recv_of(in, len, ANY, 21)));
		EXPECT_EQ(-EAGAIN, cq_wait(&b.rcq, 0));
		close(a.fd);
		close(b.fd);
	}
}

enum { EMPTY = 400 };

struct empties {
	struct treadle_addr to;
	int sent;
};

static void sends_empty_ones(void *arg)
{
	struct empties *s = arg;
	char *out = pages(PAGE);
	struct node a;
	__u64 to;

	node_open(&a, (struct options){.tx = 512});
	to = peer(&a, s->to);
	for (int i = 0; i < EMPTY; i++) {
		struct treadle_desc d = send_of(out, i ? 0 : 4096, to, i);

		d.data = i;
		d.flags |= TREADLE_F_REMOTE_CQ_DATA;
		need(post(&a, d) == 1);
	}
	raise_to(&s->sent, 1);
	pause();
}

/*
 * Nor is there a gap among empty messages, which wait behind one without room, and are taken back
 * one by one.
 */
TEST(a_sender_that_ends_leaves_no_gap_of_empty_messages)
{
	struct empties *s = shared(sizeof(*s));
	char *in = pages(PAGE);

	for (int round = 0; round < 20; round++) {
		struct treadle_cqe c = {0};
		struct node b;
		pid_t pid;

		about("%d", round);
		node_open(&b, (struct options){.buffered = 64});
		s->to = b.addr;
		s->sent = 0;
		pid = spawn(sends_empty_ones, s);
		await(&s->sent, 1);
		kill(pid, SIGKILL);
		if (round % 4)
			usleep(100 * (round % 4));
		for (int i = 0; i < EMPTY && !c.error; i++) {
			ASSERT_EQ(0, post_recv(&b, recv_of(in, 4096, ANY, i)));
			if (cq_wait(&b.rcq, 20000000) || !cq_poll(&b.rcq, &c))
				break; /* the others were taken back */
			if (!c.error)
				ASSERT_EQ(i, c.data);
		}
		reap(pid);
		close(b.fd);
	}
}

struct closing {
	struct node a;
	__u64 to;
	char *out;
	int begun, delay_us;
};

static void *sends_until_it_is_closed(void *arg)
{
	struct closing *s = arg;

	for (int i = 0; i < EMPTY; i++) {
		struct treadle_desc d = send_of(s->out, 64, s->to, i);

		d.data = i;
		d.flags |= TREADLE_F_REMOTE_CQ_DATA;
		d.flags &= ~TREADLE_F_COMPLETION;
		if (post(&s->a, d) != 1)
			break;
		raise_to(&s->begun, i + 1);
	}
	return NULL;
}

static void *closes(void *arg)
{
	struct closing *s = arg;

	await(&s->begun, 20);
	usleep(s->delay_us);
	need(destroy(s->a.fd, s->a.ep) == 0);
	return NULL;
}

/* Nor if another thread closes the endpoint while this one is in its doorbell. */
TEST(an_endpoint_closed_in_its_doorbell_leaves_no_gap)
{
	char *in = pages(PAGE);
	int whole = 0;

	for (int round = 0; round < 60; round++) {
		struct closing s = {.out = pages(PAGE), .delay_us = round % 20 * 100};
		struct treadle_cqe c = {0};
		pthread_t sender, closer;
		struct node b;
		int i;

		about("%d", round);
		node_open(&s.a, (struct options){.tx = 512});
		node_open(&b, (struct options){.buffered = round % 2 ? 64 : 512});
		s.to = peer(&s.a, b.addr);
		pthread_create(&sender, NULL, sends_until_it_is_closed, &s);
		pthread_create(&closer, NULL, closes, &s);
		await(&s.begun, 10);
		for (i = 0; i < EMPTY && !c.error; i++) {
			ASSERT_EQ(0, post_recv(&b, recv_of(in, 4096, ANY, i)));
			if (cq_wait(&b.rcq, 20000000) || !cq_poll(&b.rcq, &c))
				break;
			if (!c.error)
				ASSERT_EQ(i, c.data);
		}
		whole += i == EMPTY;
		pthread_join(sender, NULL);
		pthread_join(closer, NULL);
		munmap(s.out, PAGE);
		close(s.a.fd);
		close(b.fd);
	}
	EXPECT_GT(60, whole); /* some were closed in the middle */
}

/* --- pages of a sender ------------------------------------------------------------------------ */

struct slow_sender {
	struct node n;
	struct treadle_desc d;
};

static void *rings(void *arg)
{
	struct slow_sender *s = arg;

	need(post(&s->n, s->d) == 1);
	return NULL;
}

/*
 * A sender that waits for a page holds no room at the receiver, whether in its doorbell or when
 * another context fires its send. Other senders' messages are kept meanwhile, and its own comes in
 * its turn.
 */
TEST(a_slow_page_takes_no_room)
{
	static const struct {
		__u32 type, len;
	} kinds[] = {{TREADLE_EP_RDM, 4096}, {TREADLE_EP_DGRAM, TREADLE_MAX_DGRAM}};

	for (int i = 0; i < 2 * ARRAY_SIZE(kinds); i++) {
		__u32 type = kinds[i / 2].type, len = kinds[i / 2].len;
		struct options o = {.type = type};
		char *slow = pages(len), *out = pages(len), *in = pages(len);
		int fd = slow_pages(slow, len);
		struct slow_sender s;
		struct node other, to;
		struct treadle_cqe c;
		bool armed = i % 2;
		pthread_t t = 0;

		about("%d", i);
		node_open(&s.n, o);
		node_open(&other, o);
		o.buffered = len + len / 2; /* one message, with its header */
		node_open(&to, o);
		s.d = tsend_of(slow, len, peer(&s.n, to.addr), 1, 1);
		if (armed) {
			ASSERT_EQ(1, post(&s.n, when(s.d, &s.n.rcvd, 1)));
			ASSERT_EQ(0, post_recv(&s.n, recv_of(in, 0, ANY, 1)));
			ASSERT_EQ(1, post(&other, send_of(out, 0, peer(&other, s.n.addr), 1)));
			EXPECT_EQ(0, cq_next(&other.cq).error);
			EXPECT_EQ(0, cq_next(&s.n.rcq).error);
		} else {
			t = thread(rings, &s);
		}
		/* a page of an armed reliable message is only asked for when it is received */
		if (!armed || type == TREADLE_EP_DGRAM)
			EXPECT_EQ((unsigned long)slow, page_asked_for(fd));

		fill(out, len, 2);
		ASSERT_EQ(1, post(&other, tsend_of(out, len, peer(&other, to.addr), 2, 2)));
		EXPECT_EQ(0, cq_next(&other.cq).error); /* it was copied */
		ASSERT_EQ(0, post_recv(&to, trecv_of(in, len, ANY, 2, 0, 2)));
		c = cq_next(&to.rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(len, c.len);
		EXPECT_TRUE(same(in, len, 2));

		/* Now there is room for the slow message. */
		memset(in, 0, len);
		ASSERT_EQ(0, post_recv(&to, trecv_of(in, len, ANY, 1, 0, 1)));
		for (__u32 at = 0; at < len; at += 4096)
			put_page_at(fd, (unsigned long)slow + at, 3);
		c = cq_next(&to.rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(len, c.len);
		for (__u32 at = 0; at < len; at += 4096)
			EXPECT_TRUE(same(in + at, 4096, 3));
		EXPECT_EQ(0, cq_next(&s.n.cq).error);
		if (!armed)
			pthread_join(t, NULL);
		close(s.n.fd);
		close(other.fd);
		close(to.fd);
		close(fd);
		munmap(slow, len);
		munmap(out, len);
		munmap(in, len);
	}
}

/*
 * A message that was matched leaves no gap: messages behind it are copied, although the receiver's
 * page is missing.
 */
TEST(messages_behind_a_receivers_slow_page_are_copied)
{
	char *slow = pages(PAGE), *out = pages(PAGE), *in = pages(PAGE);
	int fd = slow_pages(slow, PAGE);
	struct treadle_cqe c;
	struct node a, b;
	__u64 to;

	node_open(&a, (struct options){0});
	node_open(&b, (struct options){0});
	to = peer(&a, b.addr);
	ASSERT_EQ(0, post_recv(&b, recv_of(slow, 64, ANY, 1)));
	fill(out, 64, 1);
	ASSERT_EQ(1, post(&a, send_of(out, 64, to, 1)));
	EXPECT_EQ((unsigned long)slow, page_asked_for(fd));
	for (int i = 2; i < 5; i++) {
		ASSERT_EQ(1, post(&a, send_of(out, 8, to, i)));
		EXPECT_EQ(i, cq_next(&a.cq).context);
	}
	put_page_at(fd, (unsigned long)slow, 9);
	EXPECT_EQ(1, cq_next(&a.cq).context);
	EXPECT_EQ(1, cq_next(&b.rcq).context);
	EXPECT_TRUE(same(slow, 64, 1));
	for (int i = 2; i < 5; i++) {
		ASSERT_EQ(0, post_recv(&b, recv_of(in, 64, ANY, i)));
		c = cq_next(&b.rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(8, c.len);
	}
	close(fd);
	munmap(slow, PAGE);
}

/* An injected message comes although its sender has gone: its send was reported as complete. */
TEST(an_injected_message_needs_no_sender)
{
	char *slow = pages(PAGE), *out = pages(PAGE);
	int fd = slow_pages(slow, PAGE);
	struct treadle_cqe c;
	struct treadle_desc d;
	struct node a, b;

	node_open(&a, (struct options){0});
	node_open(&b, (struct options){0});
	ASSERT_EQ(0, post_recv(&b, recv_of(slow, 64, ANY, 1)));
	fill(out, 64, 1);
	d = send_of(out, 64, peer(&a, b.addr), 1);
	d.flags |= TREADLE_F_INJECT;
	ASSERT_EQ(1, post(&a, d));
	EXPECT_EQ((unsigned long)slow, page_asked_for(fd));
	close(a.fd);
	put_page_at(fd, (unsigned long)slow, 9);
	c = cq_next(&b.rcq);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(64, c.len);
	EXPECT_TRUE(same(slow, 64, 1));
	close(fd);
	munmap(slow, PAGE);
}

struct toggled {
	char *at;
	size_t len;
	int stop;
};

static void *toggles(void *arg)
{
	struct toggled *t = arg;

	for (int i = 0; !__atomic_load_n(&t->stop, __ATOMIC_RELAXED); i++)
		need(mprotect(t->at, t->len, i % 2 ? PROT_READ | PROT_WRITE : PROT_READ) == 0);
	return NULL;
}

/*
 * The buffer is the process's when the doorbell returns, even if pages are invalidated all the
 * time.
 */
TEST(injected_bytes_are_taken_at_once)
{
	struct toggled t = {pages(4 << 20), 4 << 20};
	char *in = pages(PAGE), *alias;
	struct treadle_iov iov[2];
	struct treadle_desc d;
	struct node a, b;
	pthread_t thr;
	int fd = memfd_create("bytes", 0);
	__u64 to;

	/* the same bytes at an address that stays writable */
	need(ftruncate(fd, t.len) == 0);
	alias = mmap(NULL, t.len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	t.at = mmap(t.at, t.len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE | MAP_FIXED, fd,
		    0);
	need(alias != MAP_FAILED && t.at != MAP_FAILED);
	node_open(&a, (struct options){0});
	node_open(&b, (struct options){0});
	to = peer(&a, b.addr);
	thr = thread(toggles, &t);
	for (int i = 0; i < 2000; i++) {
		fill(alias + 100, 200, i);
		iov[0] = (struct treadle_iov){(unsigned long)t.at + 100, 120};
		iov[1] = (struct treadle_iov){(unsigned long)t.at + 220, 80};
		d = vector(send_of(NULL, 0, to, i), iov, 2);
		d.flags |= TREADLE_F_INJECT;
		ring_put_vector(&a.tx, &d, iov);
		ASSERT_EQ(1, ring_doorbell(&a.tx));
		memset(alias + 100, 0xee, 200);
		ASSERT_EQ(0, post_recv(&b, recv_of(in, 200, ANY, i)));
		EXPECT_EQ(0, cq_next(&b.rcq).error);
		ASSERT_TRUE(same(in, 200, i));
		ASSERT_EQ(0, cq_next(&a.cq).error);
	}
	__atomic_store_n(&t.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thr, NULL);
	close(fd);
	munmap(alias, t.len);
	munmap(t.at, t.len);
}

TEST_HARNESS_MAIN
