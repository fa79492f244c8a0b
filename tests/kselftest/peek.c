/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Peeking at waiting messages, claiming and discarding them: fi_tagged(3), FI_PEEK, FI_CLAIM,
 * FI_DISCARD.
 */
#include "treadle.h"

#define PEEK	TREADLE_F_PEEK
#define CLAIM	TREADLE_F_CLAIM
#define DISCARD TREADLE_F_DISCARD
#define LENGTH	1000

FIXTURE(peek)
{
	struct node a, b;
	__u64 to;
	char *src, *dst;
};

FIXTURE_VARIANT(peek)
{
	bool parked; /* messages wait at their sender */
};

/* clang-format off */
FIXTURE_VARIANT_ADD(peek, copied) { };
FIXTURE_VARIANT_ADD(peek, parked) { .parked = true };
/* clang-format on */

FIXTURE_SETUP(peek)
{
	node_open(&self->a, (struct options){});
	node_open(&self->b, (struct options){.flags = TREADLE_EP_SOURCE});
	self->to = peer(&self->a, self->b.addr);
	peer(&self->b, self->a.addr);
	self->src = pages(1 << 16);
	self->dst = pages(1 << 16);
}

FIXTURE_TEARDOWN(peek)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

/* A message with tag i, and contents that depend on i. */
static void send_tagged(struct __test_metadata *_metadata, FIXTURE_DATA(peek) * self,
			const FIXTURE_VARIANT(peek) * variant, int i)
{
	struct treadle_desc d = tsend_of(self->src + i * LENGTH, LENGTH, self->to, i, i);

	fill(self->src + i * LENGTH, LENGTH, i);
	d.flags |= TREADLE_F_REMOTE_CQ_DATA;
	d.data = 1000 + i;
	if (variant->parked)
		d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	ASSERT_EQ(1, post(&self->a, d));
	if (!variant->parked)
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
}

static void was_delivered(struct __test_metadata *_metadata, FIXTURE_DATA(peek) * self,
			  const FIXTURE_VARIANT(peek) * variant, int i)
{
	struct treadle_cqe c;

	if (!variant->parked)
		return;
	c = cq_next(&self->a.cq);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(i, c.context);
}

static struct treadle_cqe ask(struct __test_metadata *_metadata, FIXTURE_DATA(peek) * self,
			      __u64 tag, __u64 ignore, __u32 flags, __u64 context)
{
	struct treadle_desc d = trecv_of(NULL, 0, ANY, tag, ignore, context);

	if (flags == CLAIM) {
		memset(self->dst, 0xee, LENGTH);
		d = trecv_of(self->dst, LENGTH, ANY, tag, ignore, context);
	}
	d.flags |= flags;
	EXPECT_EQ(1, post(&self->b, d));
	return cq_next(&self->b.rcq);
}

#define reports(c, i, ctx)                                                                 \
	({                                                                                 \
		EXPECT_EQ(0, (c).error);                                                   \
		EXPECT_EQ(ctx, (c).context);                                               \
		EXPECT_EQ(LENGTH, (c).len);                                                \
		EXPECT_EQ(i, (c).tag);                                                     \
		EXPECT_EQ(1000 + (i), (c).data);                                           \
		EXPECT_EQ(0, (c).src);                                                     \
		EXPECT_EQ(TREADLE_CQ_RECV | TREADLE_CQ_TAGGED | TREADLE_CQ_REMOTE_CQ_DATA, \
			  (c).flags);                                                      \
	})

/* A message that is peeked at, claimed or discarded is not received, and not counted. */
// conformance: fi_tagged(3): FI_RECV counters count received messages, neither peeks nor discarded
//   messages
TEST_F(peek, only_received_messages_count)
{
	send_tagged(_metadata, self, variant, 1);
	EXPECT_EQ(ENOMSG, ask(_metadata, self, 2, 0, PEEK, 10).error);
	EXPECT_EQ(0, ask(_metadata, self, 1, 0, PEEK, 11).error);
	EXPECT_EQ(0, ask(_metadata, self, 1, 0, PEEK | CLAIM, 12).error);
	EXPECT_TRUE(cntr_becomes(&self->b.rcvd, 0, 0));
	EXPECT_EQ(0, ask(_metadata, self, 1, 0, CLAIM, 12).error);
	EXPECT_TRUE(cntr_becomes(&self->b.rcvd, 1, 0));
	was_delivered(_metadata, self, variant, 1);
	send_tagged(_metadata, self, variant, 3);
	EXPECT_EQ(0, ask(_metadata, self, 3, 0, PEEK | DISCARD, 13).error);
	was_delivered(_metadata, self, variant, 3);
	EXPECT_TRUE(cntr_becomes(&self->b.rcvd, 1, 0));
}

/* Nor is a canceled command. */
TEST_F(peek, a_canceled_command_does_not_count)
{
	static const __u32 kinds[] = {PEEK, PEEK | DISCARD, PEEK | CLAIM, CLAIM | DISCARD, CLAIM};
	struct cntr go;
	__u64 n;

	cntr_open(&go, self->b.fd);
	for (int i = 0; i < 5; i++) {
		struct treadle_desc d = trecv_of(NULL, 0, ANY, 1, 0, i);
		struct treadle_cqe c;

		d.flags |= kinds[i];
		ASSERT_EQ(1, post(&self->b, when(d, &go, 1)));
		EXPECT_EQ(0, cancel(self->b.fd, TREADLE_CANCEL_OP, self->b.ep, i, 0, &n));
		c = cq_next(&self->b.rcq);
		EXPECT_EQ(ECANCELED, c.error);
		EXPECT_EQ(i, c.context);
		/* except for the last one, which would have received */
		EXPECT_TRUE(cntr_becomes(&self->b.rcvd, 0, i == 4));
	}
}

static void receive(struct __test_metadata *_metadata, FIXTURE_DATA(peek) * self, int i)
{
	struct treadle_cqe c;

	memset(self->dst, 0xee, LENGTH);
	ASSERT_EQ(0, post_recv(&self->b, trecv_of(self->dst, LENGTH, ANY, i, 0, 5)));
	c = cq_next(&self->b.rcq);
	reports(c, i, 5);
	EXPECT_TRUE(same(self->dst, LENGTH, i));
}

// conformance: ioctl.h: ENOMSG: no message waits, or was claimed
TEST_F(peek, nothing_is_found)
{
	struct treadle_cqe c;

	send_tagged(_metadata, self, variant, 1);
	c = ask(_metadata, self, 2, 0, PEEK, 7);
	EXPECT_EQ(ENOMSG, c.error);
	EXPECT_EQ(7, c.context);
	EXPECT_EQ(ENOMSG, ask(_metadata, self, 2, 0, PEEK | CLAIM, 7).error);
	EXPECT_EQ(ENOMSG, ask(_metadata, self, 2, 0, PEEK | DISCARD, 7).error);
	EXPECT_EQ(ENOMSG, ask(_metadata, self, 1, 0, CLAIM, 7).error);
	EXPECT_EQ(ENOMSG, ask(_metadata, self, 1, 0, CLAIM | DISCARD, 7).error);
	receive(_metadata, self, 1);
	was_delivered(_metadata, self, variant, 1);
}

/* A peek reports the oldest message that matches, which stays. */
// conformance: fi_tagged(3): FI_PEEK: the message's length, flags, data, tag and source; it stays
TEST_F(peek, a_message_that_waits_stays)
{
	struct treadle_cqe c;

	send_tagged(_metadata, self, variant, 1);
	send_tagged(_metadata, self, variant, 2);
	for (int i = 0; i < 3; i++) {
		c = ask(_metadata, self, 2, 0, PEEK, 7);
		reports(c, 2, 7);
		EXPECT_EQ(0, c.buf);
		c = ask(_metadata, self, 0, ~0ULL, PEEK, 8);
		reports(c, 1, 8);
	}
	receive(_metadata, self, 1);
	was_delivered(_metadata, self, variant, 1);
	receive(_metadata, self, 2);
	was_delivered(_metadata, self, variant, 2);
	EXPECT_EQ(ENOMSG, ask(_metadata, self, 0, ~0ULL, PEEK, 7).error);
}

/* A claimed message is only for a receive with the context of its claim. */
// conformance: fi_tagged(3): FI_PEEK and FI_CLAIM: only a paired receive with FI_CLAIM and the ...
// conformance: ioctl.h: ENOMSG: no message waits, or was claimed
TEST_F(peek, a_claimed_message_is_set_aside)
{
	struct treadle_cqe c;

	for (int i = 1; i <= 3; i++)
		send_tagged(_metadata, self, variant, i);
	c = ask(_metadata, self, 2, 0, PEEK | CLAIM, 20);
	reports(c, 2, 20);
	c = ask(_metadata, self, 0, ~0ULL, PEEK | CLAIM, 10);
	reports(c, 1, 10);
	EXPECT_EQ(ENOMSG, ask(_metadata, self, 2, 0, PEEK, 7).error);
	c = ask(_metadata, self, 0, ~0ULL, PEEK, 7);
	reports(c, 3, 7);
	EXPECT_EQ(ENOMSG, ask(_metadata, self, 0, 0, CLAIM, 30).error);
	c = ask(_metadata, self, 0, 0, CLAIM, 10);
	reports(c, 1, 10);
	EXPECT_TRUE(same(self->dst, LENGTH, 1));
	was_delivered(_metadata, self, variant, 1);
	EXPECT_EQ(ENOMSG, ask(_metadata, self, 0, 0, CLAIM, 10).error);
	c = ask(_metadata, self, 0, 0, CLAIM, 20);
	reports(c, 2, 20);
	EXPECT_TRUE(same(self->dst, LENGTH, 2));
	was_delivered(_metadata, self, variant, 2);
	receive(_metadata, self, 3);
	was_delivered(_metadata, self, variant, 3);
}

// conformance: fi_tagged(3): FI_DISCARD with FI_PEEK or FI_CLAIM
// conformance: fi_cq(3): FI_MATCH_COMPLETE: after the message was matched or discarded; with
//   FI_FENCE this does not hold for earlier operations with a lower level, as buffered messages
//   count as delivered
TEST_F(peek, a_discarded_message_is_gone)
{
	struct treadle_cqe c;

	for (int i = 1; i <= 3; i++)
		send_tagged(_metadata, self, variant, i);
	c = ask(_metadata, self, 2, 0, PEEK | DISCARD, 7);
	reports(c, 2, 7);
	was_delivered(_metadata, self, variant, 2);
	EXPECT_EQ(ENOMSG, ask(_metadata, self, 2, 0, PEEK, 7).error);
	c = ask(_metadata, self, 1, 0, PEEK | CLAIM, 8);
	reports(c, 1, 8);
	c = ask(_metadata, self, 0, 0, CLAIM | DISCARD, 8);
	reports(c, 1, 8);
	was_delivered(_metadata, self, variant, 1);
	EXPECT_EQ(ENOMSG, ask(_metadata, self, 0, 0, CLAIM, 8).error);
	receive(_metadata, self, 3);
	was_delivered(_metadata, self, variant, 3);
}

/* Peeks at waiting messages until it is stopped. */
struct looker {
	struct node node;
	bool over;
	int seen, wrong;
};

static void *looks(void *arg)
{
	struct looker *l = arg;

	while (!__atomic_load_n(&l->over, __ATOMIC_RELAXED)) {
		struct treadle_desc d = trecv_of(NULL, 0, ANY, 1, 0, 7);
		struct treadle_cqe c;

		d.flags |= PEEK;
		need(post(&l->node, d) == 1);
		c = cq_next(&l->node.rcq);
		l->seen += !c.error;
		l->wrong += !c.error && c.tag != 1;
	}
	return NULL;
}

/* A peek reports what was sent, even if another endpoint claims the message meanwhile. */
TEST_F(peek, a_message_is_claimed_while_it_is_looked_at)
{
	__u64 end = now_ns() + 1000000000;
	struct looker l = {0};
	struct treadle_cqe c;
	pthread_t t;

	node_open(&l.node, (struct options){.context = self->b.fd, .shared_rx = &self->b.rx});
	t = thread(looks, &l);
	do {
		send_tagged(_metadata, self, variant, 1);
		c = ask(_metadata, self, 1, 0, PEEK | CLAIM, 20);
		reports(c, 1, 20);
		c = ask(_metadata, self, 0, 0, CLAIM, 20);
		reports(c, 1, 20);
		was_delivered(_metadata, self, variant, 1);
	} while (now_ns() < end);
	__atomic_store_n(&l.over, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	note("looked at %d times", l.seen);
	EXPECT_LT(0, l.seen);
	EXPECT_EQ(0, l.wrong);
}

/* A sender can cancel a message that waits at it, but not a claimed one. */
TEST_F(peek, claimed_is_matched)
{
	struct treadle_cqe c;
	__u64 n;

	send_tagged(_metadata, self, variant, 1);
	c = ask(_metadata, self, 1, 0, PEEK, 8);
	reports(c, 1, 8);
	if (variant->parked) {
		EXPECT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 1, 0, &n));
		EXPECT_EQ(ECANCELED, cq_next(&self->a.cq).error);
		EXPECT_EQ(ENOMSG, ask(_metadata, self, 1, 0, PEEK, 8).error);
	} else {
		EXPECT_EQ(-ENOENT, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 1, 0, &n));
		receive(_metadata, self, 1);
	}
	send_tagged(_metadata, self, variant, 2);
	c = ask(_metadata, self, 2, 0, PEEK | CLAIM, 8);
	reports(c, 2, 8);
	EXPECT_EQ(-ENOENT, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 2, 0, &n));
	c = ask(_metadata, self, 0, 0, CLAIM, 8);
	reports(c, 2, 8);
	was_delivered(_metadata, self, variant, 2);
}

/* The receiver closes with claimed messages: a send that still waits ends with an error. */
TEST_F(peek, closing_drops_claimed_messages)
{
	struct treadle_cqe c;

	send_tagged(_metadata, self, variant, 1);
	c = ask(_metadata, self, 1, 0, PEEK | CLAIM, 8);
	reports(c, 1, 8);
	ASSERT_EQ(0, destroy(self->b.fd, self->b.ep));
	if (variant->parked)
		EXPECT_EQ(ECONNRESET, cq_next(&self->a.cq).error);
}

struct victim {
	struct treadle_addr to;
	bool parked;
	int sent;
};

static void send_and_wait(void *arg)
{
	struct victim *m = arg;
	struct treadle_desc d;
	struct node n;

	node_open(&n, (struct options){});
	d = tsend_of(pages(LENGTH), LENGTH, peer(&n, m->to), 1, 1);
	if (m->parked)
		d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	need(post(&n, d) == 1);
	raise_to(&m->sent, 1);
	pause();
}

/* The sender dies, and with it a message that was not copied. */
TEST_F(peek, the_sender_of_a_claimed_message_may_die)
{
	struct victim *m = shared(sizeof(*m));
	pid_t pid;

	m->to = self->b.addr;
	m->parked = variant->parked;
	pid = spawn(send_and_wait, m);
	await(&m->sent, 1);
	EXPECT_EQ(0, ask(_metadata, self, 1, 0, PEEK | CLAIM, 8).error);
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
	EXPECT_EQ(variant->parked ? ECONNRESET : 0, ask(_metadata, self, 0, 0, CLAIM, 8).error);
}

/*
 * Nor can the claim be received once the sender's endpoint closed, although the receiver has access
 * to the memory.
 */
TEST_F(peek, the_sender_of_a_claimed_message_may_close)
{
	struct treadle_desc d;
	struct node from;

	send_tagged(_metadata, self, variant, 2); /* so that the pagemap knows the buffer's page */
	receive(_metadata, self, 2);
	was_delivered(_metadata, self, variant, 2);
	node_open(&from, (struct options){.context = self->b.fd});
	d = tsend_of(self->src, 64, peer(&from, self->b.addr), 1, 1);
	if (variant->parked)
		d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	ASSERT_EQ(1, post(&from, d));
	EXPECT_EQ(0, ask(_metadata, self, 1, 0, PEEK | CLAIM, 8).error);
	ASSERT_EQ(0, destroy(self->b.fd, from.ep));
	EXPECT_EQ(variant->parked ? ECONNRESET : 0, ask(_metadata, self, 0, 0, CLAIM, 8).error);
}

// conformance: ioctl.h: EIO: a claimed message could not be read
TEST_F(peek, a_claimed_message_without_its_buffer)
{
	struct treadle_cqe c;

	send_tagged(_metadata, self, variant, 1);
	c = ask(_metadata, self, 1, 0, PEEK | CLAIM, 8);
	reports(c, 1, 8);
	need(munmap(self->src, 1 << 16) == 0);
	c = ask(_metadata, self, 0, 0, CLAIM, 8);
	if (variant->parked) {
		EXPECT_EQ(EIO, c.error);
		EXPECT_EQ(EFAULT, cq_next(&self->a.cq).error);
	} else {
		reports(c, 1, 8);
	}
}

/* A claimed message keeps its room among waiting messages. */
TEST_F(peek, claimed_messages_are_counted)
{
	struct treadle_desc d;
	struct node c;
	int kept = 0;
	__u64 to;

	node_open(&c, (struct options){.buffered = 8192, .rcq = 1024});
	to = peer(&self->a, c.addr);
	for (int i = 0; i < 32; i++) {
		d = tsend_of(self->src, 1000, to, i, i);
		if (variant->parked)
			d.flags |= TREADLE_F_DELIVERY_COMPLETE;
		ASSERT_EQ(1, post(&self->a, d));
		d = trecv_of(NULL, 0, ANY, i, 0, i);
		d.flags |= PEEK | CLAIM;
		ASSERT_EQ(1, post(&c, d));
		ASSERT_EQ(0, cq_next(&c.rcq).error);
	}
	for (struct treadle_cqe e; cq_poll(&self->a.cq, &e);)
		kept++;
	EXPECT_LE(variant->parked ? 0 : 6, kept);
	EXPECT_GE(variant->parked ? 0 : 8, kept);
	for (int i = 0; i < 32; i++) {
		d = trecv_of(NULL, 0, ANY, 0, 0, i);
		d.flags |= CLAIM | DISCARD;
		ASSERT_EQ(1, post(&c, d));
		ASSERT_EQ(0, cq_next(&c.rcq).error);
	}
	for (; kept < 32; kept++)
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
}

TEST_F(peek, combinations_are_validated)
{
	static const __u32 bad[] = {DISCARD, PEEK | CLAIM | DISCARD};

	for (int i = 0; i < 2; i++) {
		struct treadle_desc d = trecv_of(NULL, 0, ANY, 1, 0, 1);

		d.flags |= bad[i];
		EXPECT_EQ(-EINVAL, post(&self->b, d));
	}
	for (int i = 0; i < 3; i++) {
		struct treadle_desc d = trecv_of(self->dst, 10, ANY, 1, 0, 1);

		d.flags |= (__u32[]){PEEK, PEEK | CLAIM, CLAIM | DISCARD}[i];
		EXPECT_EQ(-EINVAL, post(&self->b, d));
		/* a receive ring takes none of them */
		ASSERT_EQ(0, post_recv(&self->b, d));
		EXPECT_EQ(0, ring_doorbell(&self->b.rx));
		EXPECT_EQ(EINVAL, cq_next(&self->b.rcq).error);
	}
}

TEST_HARNESS_MAIN
