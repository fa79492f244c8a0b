/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unexpected messages: they are kept at the target, or wait at their sender, and are received later
 * in the order in which they were sent.
 */
#include "slow.h"
#include "treadle.h"

FIXTURE(kept)
{
	struct node a, b;
	__u64 to;
	char *src, *dst;
	size_t size;
};

FIXTURE_SETUP(kept)
{
	node_open(&self->a, (struct options){.tx = 256, .cq = 1024});
	node_open(&self->b, (struct options){.rx = 256, .rcq = 1024, .buffered = 16384});
	self->to = peer(&self->a, self->b.addr);
	self->size = 64UL << 20;
	self->src = pages(self->size);
	self->dst = pages(self->size);
}

FIXTURE_TEARDOWN(kept)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

/* Sends until commands no longer complete: from then on they wait for room at the target. */
// conformance: fi_domain(3): resource management: target EP without an Rx buffer: the message is
//   copied within the budget, else it is parked, and those behind it wait
TEST_F(kept, a_full_buffer_parks_senders)
{
	const int count = 200, len = 500;
	struct treadle_cqe c;
	int completed = 0;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < count; i++) {
			fill(self->src + i * len, len, round * count + i);
			ASSERT_EQ(1,
				  post(&self->a, send_of(self->src + i * len, len, self->to, i)));
		}
		/* A message without room is not complete, and its slot not free. */
		for (completed = 0; cq_poll(&self->a.cq, &c); completed++) {
			ASSERT_EQ(completed, c.context);
		}
		EXPECT_LT(0, completed);
		EXPECT_GE(16384 / len, completed);
		EXPECT_EQ(round * count + completed, ring_released(&self->a.tx));
		for (int i = 0; i < count; i++) {
			ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, len, ANY, i)));
			c = cq_next(&self->b.rcq);
			ASSERT_EQ(i, c.context);
			ASSERT_EQ(0, c.error);
			about("message %d", i);
			ASSERT_TRUE(same(self->dst, len, round * count + i));
		}
		for (; completed < count; completed++) {
			c = cq_next(&self->a.cq);
			ASSERT_EQ(0, c.error);
		}
		ring_wait(&self->a.tx, 256);
	}
}

/* Not even a small message overtakes one that waits. */
// conformance: fi_domain(3): resource management: target EP without an Rx buffer: the message ...
TEST_F(kept, nothing_overtakes_a_parked_message)
{
	static const size_t sizes[] = {100000, 8, 5000, 0, 3000, 1 << 20, 1, 100, 70000, 16};

	for (int late = 0; late < 2; late++) {
		for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
			fill(self->src + (i << 20), sizes[i], i + late * 100);
			ASSERT_EQ(1, post(&self->a,
					  send_of(self->src + (i << 20), sizes[i], self->to, i)));
		}
		for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
			ASSERT_EQ(0, post_recv(&self->b,
					       recv_of(self->dst + (i << 20), 1 << 20, ANY, i)));
		}
		for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct treadle_cqe c = cq_next(&self->b.rcq);

			EXPECT_EQ(0, c.error);
			about("receive %llu", c.context);
			EXPECT_EQ(sizes[c.context], c.len);
			EXPECT_EQ(0, cq_next(&self->a.cq).error);
		}
		for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
			about("%d", i);
			EXPECT_TRUE(same(self->dst + (i << 20), sizes[i], i + late * 100));
		}
	}
}

/* The kernel reads the buffer of a large message when it is received, not before. */
TEST_F(kept, a_large_message_stays_with_its_sender)
{
	fill(self->src, self->size, 1);
	ASSERT_EQ(1, post(&self->a, send_of(self->src, self->size, self->to, 1)));
	EXPECT_EQ(-ETIMEDOUT, cq_wait(&self->a.cq, 50000000));
	EXPECT_EQ(0, cntr_value(&self->a.sent));
	EXPECT_EQ(0, ring_released(&self->a.tx));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, self->size, ANY, 2)));
	EXPECT_EQ(self->size, cq_next(&self->b.rcq).len);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	EXPECT_EQ(self->size, differs(self->dst, self->size, 1));
	ring_wait(&self->a.tx, 256); /* after the completion */
	EXPECT_EQ(1, ring_released(&self->a.tx));
}

TEST_F(kept, injected_ones_are_kept_though_the_buffer_is_full)
{
	const int count = 100, len = 1000;

	for (int i = 0; i < count; i++) {
		struct treadle_desc d = send_of(self->src, len, self->to, i);

		d.flags |= TREADLE_F_INJECT;
		fill(self->src, len, i);
		ASSERT_EQ(1, post(&self->a, d));
		memset(self->src, 0, len);
	}
	for (int i = 0; i < count; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, len, ANY, i)));
		ASSERT_EQ(i, cq_next(&self->b.rcq).context);
		about("message %d", i);
		ASSERT_TRUE(same(self->dst, len, i));
		ASSERT_EQ(0, cq_next(&self->a.cq).error);
	}
}

/*
 * The flag that makes receives need a doorbell is set exactly while there are unmatched messages.
 */
TEST_F(kept, the_ring_says_when_a_doorbell_is_needed)
{
	EXPECT_FALSE(ring_needs_doorbell(&self->b.rx));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 10, self->to, i)));
		EXPECT_TRUE(ring_needs_doorbell(&self->b.rx));
	}
	for (int i = 0; i < 3; i++) {
		EXPECT_TRUE(ring_needs_doorbell(&self->b.rx));
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 10, ANY, i)));
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
		EXPECT_EQ(i, cq_next(&self->a.cq).context);
	}
	EXPECT_FALSE(ring_needs_doorbell(&self->b.rx));
	/* Posted receives need no doorbell: the next sender takes them off the ring. */
	for (int i = 0; i < 3; i++) {
		struct treadle_desc d = recv_of(self->dst, 10, ANY, i);

		ring_put(&self->b.rx, &d);
		ring_publish(&self->b.rx);
		EXPECT_FALSE(ring_needs_doorbell(&self->b.rx));
	}
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 10, self->to, i)));
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
		EXPECT_EQ(i, cq_next(&self->a.cq).context);
	}
}

/* An injected send without a completion has no context of its own: fi_endpoint(3), fi_cancel. */
// conformance: fi_endpoint(3): fi_cancel: one operation, by its context; operations without a ...
TEST_F(kept, an_injected_send_without_completion_is_not_found_by_context)
{
	const int count = 250, named = 240; /* then they wait at the target */
	struct treadle_cqe c;

	for (int i = 0; i < count; i++) {
		struct treadle_desc send = send_of(self->src, 64, self->to, 7);

		send.flags |= TREADLE_F_INJECT | TREADLE_F_DELIVERY_COMPLETE;
		if (i != named)
			send.flags &= ~TREADLE_F_COMPLETION;
		ASSERT_EQ(1, post(&self->a, send));
	}
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 7, 0, NULL));
	c = cq_next(&self->a.cq);
	EXPECT_EQ(7, c.context);
	EXPECT_EQ(ECANCELED, c.error);
	EXPECT_EQ(-ENOENT, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 7, 0, NULL));
	for (int i = 0; i < count - 1; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 64, ANY, i)));
		c = cq_next(&self->b.rcq);
		EXPECT_EQ(i, c.context);
		EXPECT_EQ(0, c.error);
	}
}

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
