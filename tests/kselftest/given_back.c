/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages that were reported as sent, while their receive goes with an endpoint of the same ring
 * that they are not for: none is lost, and they keep their order.
 */
#include "three.h"

FIXTURE(given_back)
{
	struct three t;
};

FIXTURE_SETUP(given_back)
{
	three_open(&self->t);
}

FIXTURE_TEARDOWN(given_back) {}

/*
 * A message for the first endpoint is copied to a receive that the second endpoint has armed. A
 * thread posts the receive. Its page is missing until the endpoint closes.
 */
struct closing_receive {
	struct node *n;
	struct treadle_desc d;
	char *slow;
	int fd;
	pthread_t posts, closes;
};

static void *posts(void *arg)
{
	struct closing_receive *r = arg;

	need(post(r->n, r->d) == 1);
	return NULL;
}

static void is_filled(struct closing_receive *r, struct three *t, struct treadle_desc d)
{
	*r = (struct closing_receive){.n = &t->second, .d = d, .slow = pages(PAGE)};
	r->fd = slow_pages(r->slow, PAGE);
	r->d.addr = (unsigned long)r->slow;
	r->d.len = PAGE;
	r->d.iov_count = 1;
	r->posts = thread(posts, r);
	page_asked_for(r->fd);
}

static void is_closed(struct closing_receive *r)
{
	struct treadle_addr addr = r->n->addr;
	int fd = device();
	__u32 id;

	r->closes = thread(destroys, r->n);
	while (ep_create(fd, &addr, NULL, &id) == -EADDRINUSE)
		usleep(1000);
	put_page_at(r->fd, (unsigned long)r->slow, 1);
	pthread_join(r->posts, NULL);
	pthread_join(r->closes, NULL);
	close(fd);
}

/* No receive is posted, so the messages are copied, and their sends complete. */
static void messages_wait(struct three *t, int first, int last)
{
	char text[8] = {};

	for (; first <= last; first++) {
		text[0] = first;
		need(post(&t->from, tsend_of(text, 8, t->to_first, first, 1)) == 1);
		need(!cq_next(&t->from.cq).error);
	}
}

/* The next receive must have this context, and message @i. */
static void has(struct __test_metadata *_metadata, struct three *t, __u64 context, int i)
{
	struct treadle_cqe c;

	ASSERT_TRUE(comes(&t->first, &c));
	EXPECT_EQ(context, c.context);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(i, c.tag);
	EXPECT_EQ(i, t->buf[0]);
}

/* The message was reported as sent. It waits again, before the messages that came after it. */
TEST_F(given_back, a_copied_message_waits_again_if_its_receive_closes)
{
	struct three *t = &self->t;
	struct closing_receive r;

	messages_wait(t, 1, 3);
	is_filled(&r, t, trecv_of(NULL, 0, ANY, 2, 0, 5));
	is_closed(&r);
	for (int i = 1; i <= 3; i++) {
		ASSERT_EQ(0, post_recv(&t->first, trecv_of(t->buf, PAGE, ANY, 0, ~0ULL, 10 + i)));
		has(_metadata, t, 10 + i, i);
	}
}

/*
 * The second receive is posted while no message waits, so without a doorbell. @taken: the ring was
 * drained since.
 */
static void it_is_for(struct __test_metadata *_metadata, struct three *t, __u64 ignore, bool taken)
{
	struct closing_receive r;

	messages_wait(t, 2, 2);
	is_filled(&r, t, trecv_of(NULL, 0, ANY, 2, 0, 5));
	ASSERT_EQ(0, post_recv(&t->first, trecv_of(t->buf, PAGE, ANY, 2, ignore, 6)));
	if (taken)
		ASSERT_EQ(0, ring_doorbell(&t->first.rx));
	is_closed(&r);
	has(_metadata, t, 6, 2);
}

TEST_F(given_back, a_copied_message_is_for_a_receive_posted_meanwhile)
{
	it_is_for(_metadata, &self->t, 0, true);
}

TEST_F(given_back, a_copied_message_is_for_a_receive_in_the_ring)
{
	it_is_for(_metadata, &self->t, 0, false);
}

TEST_F(given_back, a_copied_message_is_for_a_receive_with_a_mask)
{
	it_is_for(_metadata, &self->t, ~0ULL, false);
}

/* Another endpoint that closes may have armed the next receive, too. */
TEST_F(given_back, a_copied_message_goes_from_one_closed_receive_to_the_next)
{
	struct three *t = &self->t;
	struct closing_receive r, other;
	struct three more = {};

	node_open(&more.second,
		  (struct options){.context = t->first.fd, .shared_rx = &t->first.rx});
	messages_wait(t, 1, 2);
	is_filled(&r, t, trecv_of(NULL, 0, ANY, 1, 0, 5));
	is_filled(&other, &more, trecv_of(NULL, 0, ANY, 0, ~0ULL, 6));
	is_closed(&r);
	is_closed(&other);
	for (int i = 1; i <= 2; i++) {
		ASSERT_EQ(0, post_recv(&t->first, trecv_of(t->buf, PAGE, ANY, 0, ~0ULL, 10 + i)));
		has(_metadata, t, 10 + i, i);
	}
}

TEST_F(given_back, several_in_one_buffer_keep_their_order)
{
	struct three *t = &self->t;
	struct treadle_desc d = recv_of(NULL, 0, ANY, 5);
	struct closing_receive r;

	for (int i = 1; i <= 4; i++) {
		t->buf[PAGE - 1] = i;
		ASSERT_EQ(1, post(&t->from, send_of(&t->buf[PAGE - 1], 1, t->to_first, 1)));
		ASSERT_EQ(0, cq_next(&t->from.cq).error);
	}
	d.flags |= TREADLE_F_MULTI_RECV;
	d.data = 2;
	is_filled(&r, t, d);
	is_closed(&r);
	for (int i = 1; i <= 4; i++) {
		struct treadle_cqe c;

		ASSERT_EQ(0, post_recv(&t->first, recv_of(t->buf, PAGE, ANY, 10 + i)));
		ASSERT_TRUE(comes(&t->first, &c));
		EXPECT_EQ(10 + i, c.context);
		EXPECT_EQ(i, t->buf[0]);
	}
}

/* The claim can be received again. */
TEST_F(given_back, a_claimed_message_stays_claimed)
{
	struct three *t = &self->t;
	struct treadle_desc d = trecv_of(NULL, 0, ANY, 2, 0, 9);
	struct closing_receive r;
	struct treadle_cqe c;

	messages_wait(t, 2, 2);
	d.flags |= TREADLE_F_PEEK | TREADLE_F_CLAIM;
	ASSERT_EQ(1, post(&t->second, d));
	ASSERT_TRUE(comes(&t->second, &c));
	d.flags &= ~TREADLE_F_PEEK;
	is_filled(&r, t, d);
	is_closed(&r);
	ASSERT_EQ(0, post_recv(&t->first, trecv_of(t->buf + 64, 8, ANY, 2, 0, 6)));
	d.addr = (unsigned long)t->buf;
	d.len = 8;
	d.iov_count = 1;
	ASSERT_EQ(1, post(&t->first, d));
	has(_metadata, t, 9, 2);
}

#define CLAIMS 16

/* An endpoint that claims all messages of another one, and closes meanwhile. */
struct claims {
	struct node n;
	pthread_t thread;
	int begun;
};

static void *claims(void *arg)
{
	struct claims *c = arg;
	struct treadle_desc d;

	for (int i = 1; i <= CLAIMS; i++) {
		d = trecv_of(NULL, 0, ANY, i, 0, 100 + i);
		d.flags |= TREADLE_F_PEEK | TREADLE_F_CLAIM | TREADLE_F_COMPLETION;
		ring_put(&c->n.tx, &d);
	}
	ring_publish(&c->n.tx);
	raise_to(&c->begun, 1);
	ring_doorbell(&c->n.tx);
	return NULL;
}

/* The messages reported as claimed, a bit each. */
static __u32 claimed(struct cq *q)
{
	struct treadle_cqe c;
	__u32 told = 0;

	while (cq_poll(q, &c))
		if (!c.error)
			told |= 1u << (c.context - 100);
	return told;
}

static void node_close(struct node *n)
{
	need(destroy(n->fd, n->tx.id) == 0);
	need(destroy(n->fd, n->cq.id) == 0 && destroy(n->fd, n->rcq.id) == 0);
	need(destroy(n->fd, n->sent.id) == 0 && destroy(n->fd, n->rcvd.id) == 0);
	need(destroy(n->fd, n->av) == 0);
}

static __u32 claim_and_close(struct three *t, __u64 delay)
{
	struct claims c = {.begun = 0};
	__u64 start;
	__u32 told;

	node_open(&c.n, (struct options){.context = t->first.fd, .shared_rx = &t->first.rx});
	c.thread = thread(claims, &c);
	await(&c.begun, 1);
	for (start = now_ns(); now_ns() - start < delay;)
		;
	destroys(&c.n);
	pthread_join(c.thread, NULL);
	told = claimed(&c.n.rcq);
	node_close(&c.n);
	return told;
}

/*
 * A claim without a completion before its endpoint closes is no claim: the message waits where it
 * was, at its sender (each third) or as a copy. A claim with a completion stays.
 */
// conformance: fi_tagged(3): FI_PEEK and FI_CLAIM: only a paired receive with FI_CLAIM and the ...
TEST_F(given_back, a_claim_without_a_completion_is_none)
{
	struct three *t = &self->t;
	__u32 told, some = 0;
	__u64 random = 1;

	for (int round = 0; round < 300 || (!some && round < 3000); round++) {
		for (int i = 1; i <= CLAIMS; i++) {
			struct treadle_desc d = tsend_of(t->buf + 8 * i, 8, t->to_first, i, i);

			t->buf[8 * i] = i;
			if (i % 3 == 0)
				d.flags |= TREADLE_F_DELIVERY_COMPLETE;
			ASSERT_EQ(1, post(&t->from, d));
			if (i % 3)
				ASSERT_EQ(0, cq_next(&t->from.cq).error);
		}
		told = claim_and_close(t, lottery(&random) % 200000);
		some += told && told != (2u << CLAIMS) - 2;
		about("round %d: %#x", round, told);
		for (int i = 1; i <= CLAIMS; i++)
			if (!(told & (1u << i))) {
				ASSERT_EQ(0, post_recv(&t->first,
						       trecv_of(t->buf, PAGE, ANY, 0, ~0ULL, i)));
				has(_metadata, t, i, i);
			}
		for (int i = 1; i <= CLAIMS; i++)
			if (told & (1u << i)) {
				struct treadle_desc d = trecv_of(t->buf, PAGE, ANY, i, 0, 100 + i);

				d.flags |= TREADLE_F_CLAIM;
				ASSERT_EQ(1, post(&t->first, d));
				has(_metadata, t, 100 + i, i);
			}
		for (int i = 3; i <= CLAIMS; i += 3)
			ASSERT_EQ(0, cq_next(&t->from.cq).error);
	}
	EXPECT_LT(0, some);
}

/* The message's own endpoint closes, too, and all its messages are dropped. */
static void closes_both(void *arg)
{
	struct closing_receive r;
	struct treadle_cqe c;
	struct three t;

	(void)arg;
	three_open(&t);
	messages_wait(&t, 1, 3);
	is_filled(&r, &t, trecv_of(NULL, 0, ANY, 2, 0, 5));
	need(destroy(t.first.fd, t.first.ep) == 0);
	is_closed(&r);
	need(!comes(&t.first, &c) && !comes(&t.second, &c));
}

TEST(a_copied_message_goes_with_its_own_endpoint)
{
	EXPECT_EQ(0, reap(spawn(closes_both, NULL)));
	until_unused();
}

TEST_HARNESS_MAIN
