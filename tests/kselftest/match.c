/* SPDX-License-Identifier: GPL-2.0 */
/* Matching: which message meets which receive, and in which order. */
#include "treadle.h"

#define ROOM 4096 /* of a message's or a receive's buffer */

struct stage {
	struct node a, a2, b; /* two senders, one receiver, in separate contexts */
	__u64 to, to2;
	__u64 from, from2;
	char *src, *dst; /* ROOM bytes for each context number */
	bool tagged;
	bool late; /* receives are posted after the messages came */
};

static void stage_open(struct stage *s, bool tagged, bool late)
{
	node_open(&s->a, (struct options){});
	node_open(&s->a2, (struct options){});
	node_open(&s->b, (struct options){.flags = TREADLE_EP_SOURCE});
	s->to = peer(&s->a, s->b.addr);
	s->to2 = peer(&s->a2, s->b.addr);
	s->from = peer(&s->b, s->a.addr);
	s->from2 = peer(&s->b, s->a2.addr);
	s->src = pages(64 * ROOM);
	s->dst = pages(64 * ROOM);
	s->tagged = tagged;
	s->late = late;
}

static void stage_is_empty(struct __test_metadata *_metadata, struct stage *s)
{
	EXPECT_TRUE(cq_empty(&s->b.rcq));
	EXPECT_TRUE(cq_empty(&s->b.cq));
	EXPECT_TRUE(cq_empty(&s->a.rcq));
}

/* Each test with plain and with tagged messages. */
FIXTURE(match)
{
	struct stage s;
};

FIXTURE_VARIANT(match)
{
	bool tagged, late;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(match, plain) { };
FIXTURE_VARIANT_ADD(match, plain_unexpected) { .late = true };
FIXTURE_VARIANT_ADD(match, tagged) { .tagged = true };
FIXTURE_VARIANT_ADD(match, tagged_unexpected) { .tagged = true, .late = true };
/* clang-format on */

FIXTURE_SETUP(match)
{
	stage_open(&self->s, variant->tagged, variant->late);
}

FIXTURE_TEARDOWN(match)
{
	stage_is_empty(_metadata, &self->s);
}

/* With tagged messages only. */
FIXTURE(tags)
{
	struct stage s;
};

FIXTURE_VARIANT(tags)
{
	bool late;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(tags, expected) { };
FIXTURE_VARIANT_ADD(tags, unexpected) { .late = true };
/* clang-format on */

FIXTURE_SETUP(tags)
{
	stage_open(&self->s, true, variant->late);
}

FIXTURE_TEARDOWN(tags)
{
	stage_is_empty(_metadata, &self->s);
}

/* A play: messages that are sent and receives that are posted, each in this order. */
struct message {
	bool second; /* by a2 */
	__u64 tag;
};

struct receive {
	bool directed, second;
	__u64 tag, ignore;
	int gets; /* the message that it must get */
};

static void play(struct __test_metadata *_metadata, struct stage *s, const struct message *m,
		 int messages, const struct receive *r, int receives, int taken)
{
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; turn == s->late && i < receives; i++) {
			struct treadle_desc d = recv_of(s->dst + i * ROOM, ROOM, ANY, 100 + i);

			d.opcode = s->tagged ? TREADLE_OP_TRECV : TREADLE_OP_RECV;
			if (r[i].directed)
				d.peer = r[i].second ? s->from2 : s->from;
			if (s->tagged) {
				d.tag = r[i].tag;
				d.ignore = r[i].ignore;
			}
			ASSERT_EQ(0, post_recv(&s->b, d));
			if (i < taken)
				ASSERT_EQ(0, ring_doorbell(&s->b.rx));
		}
		for (int i = 0; turn != s->late && i < messages; i++) {
			struct node *from = m[i].second ? &s->a2 : &s->a;
			struct treadle_desc d = send_of(s->src + i * ROOM, 1 + i * 60, 0, 200 + i);

			d.opcode = s->tagged ? TREADLE_OP_TSEND : TREADLE_OP_SEND;
			d.peer = m[i].second ? s->to2 : s->to;
			if (s->tagged)
				d.tag = m[i].tag;
			fill(s->src + i * ROOM, 1 + i * 60, i);
			ASSERT_EQ(1, post(from, d));
		}
	}
	for (int i = 0; i < receives; i++) {
		struct treadle_cqe c = cq_next(&s->b.rcq);
		int n = c.context - 100, got = r[n].gets;

		ASSERT_LE(0, n);
		ASSERT_GT(receives, n);
		EXPECT_EQ(0, c.error);
		about("receive %d got another message than %d", n, got);
		EXPECT_EQ(1 + got * 60, c.len);
		EXPECT_TRUE(same(s->dst + n * ROOM, 1 + got * 60, got));
		EXPECT_EQ(m[got].second ? s->from2 : s->from, c.src);
		if (s->tagged)
			EXPECT_EQ(m[got].tag, c.tag);
	}
	for (int i = 0; i < messages; i++) {
		EXPECT_EQ(0, cq_next(m[i].second ? &s->a2.cq : &s->a.cq).error);
	}
}

/* None, some, or all of the receives are off the ring before the messages come. */
#define PLAY(m, r)                                                       \
	for (int taken = 0; taken < (variant->late ? 1 : 7); taken += 3) \
	play(_metadata, &self->s, m, ARRAY_SIZE(m), r, ARRAY_SIZE(r), taken)

// conformance: fi_arch(7): messages: boundaries kept, FIFO, matched in the order received
TEST_F(match, first_come_first_served)
{
	static const struct message m[] = {{}, {}, {true}, {}, {true}, {}};
	static const struct receive r[] = {{.gets = 0}, {.gets = 1}, {.gets = 2},
					   {.gets = 3}, {.gets = 4}, {.gets = 5}};

	PLAY(m, r);
}

TEST_F(match, receives_from_a_named_source)
{
	static const struct message m[] = {{}, {true}, {}, {true}, {true}};
	static const struct receive r[] = {{.directed = true, .second = true, .gets = 1},
					   {.directed = true, .gets = 0},
					   {.gets = 2},
					   {.directed = true, .second = true, .gets = 3},
					   {.gets = 4}};

	PLAY(m, r);
}

TEST_F(match, receives_from_any_source_match_in_order)
{
	/*
	 * The receive from any source is older, so it takes the message that the directed one could
	 * have had.
	 */
	static const struct message m[] = {{true}, {true}, {}};
	static const struct receive r[] = {{.gets = 0},
					   {.directed = true, .second = true, .gets = 1},
					   {.directed = true, .gets = 2}};

	PLAY(m, r);
}

TEST_F(tags, tags_choose)
{
	static const struct message m[] = {{.tag = 5}, {.tag = 1ULL << 63},
					   {.tag = 6}, {.tag = 5},
					   {.tag = 0}, {.second = true, .tag = 5}};
	static const struct receive r[] = {{.tag = 6, .gets = 2},
					   {.tag = 5, .directed = true, .second = true, .gets = 5},
					   {.tag = 0, .gets = 4},
					   {.tag = 5, .gets = 0},
					   {.tag = 1ULL << 63, .gets = 1},
					   {.tag = 5, .directed = true, .gets = 3}};

	PLAY(m, r);
}

// conformance: fi_arch(7): tagged messages: send_tag | ignore == recv_tag | ignore
TEST_F(tags, ignored_bits_do_not_count)
{
	static const struct message m[] = {
		{.tag = 0x15}, {.tag = 0x26}, {.tag = 0x35}, {.tag = ~0ULL}, {.tag = 0x45}};
	static const struct receive r[] = {{.tag = 0x25, .ignore = 0x30, .gets = 0},
					   {.tag = 0xf5, .ignore = 0xf0, .gets = 2},
					   {.tag = 0, .ignore = ~0ULL, .gets = 1},
					   {.tag = ~0xfULL, .ignore = 0xf, .gets = 3},
					   {.tag = 0x05, .ignore = ~0xfULL, .gets = 4}};

	PLAY(m, r);
}

// conformance: fi_arch(7): tagged messages: duplicate tags are allowed; the oldest match wins
TEST_F(tags, wildcards_and_exact_ones_in_order_of_posting)
{
	static const struct message m[] = {
		{.tag = 1}, {.tag = 1}, {.tag = 2}, {.tag = 1}, {.second = true, .tag = 1},
		{.tag = 3}};
	static const struct receive r[] = {{.tag = 1, .gets = 0},
					   {.tag = 0, .ignore = ~0ULL, .gets = 1},
					   {.tag = 2, .gets = 2},
					   {.tag = 1, .directed = true, .gets = 3},
					   {.tag = 1, .ignore = 2, .gets = 4},
					   {.tag = 1, .ignore = 2, .directed = true, .gets = 5}};

	PLAY(m, r);
}

/* A plain message never meets a tagged receive, nor the other way round. */
TEST_F(match, plain_and_tagged_never_match)
{
	bool tagged = variant->tagged;
	struct treadle_desc recv = recv_of(self->s.dst, ROOM, ANY, 1),
			    send = send_of(self->s.src, 8, self->s.to, 2);
	struct treadle_desc other_recv = trecv_of(self->s.dst + ROOM, ROOM, ANY, 0, ~0ULL, 3);
	struct treadle_desc other_send = tsend_of(self->s.src, 16, self->s.to, 0, 4);

	ASSERT_EQ(0, post_recv(&self->s.b, tagged ? recv : other_recv));
	ASSERT_EQ(1, post(&self->s.a, tagged ? other_send : send));
	EXPECT_TRUE(cq_empty(&self->s.b.rcq));
	ASSERT_EQ(0, post_recv(&self->s.b, tagged ? other_recv : recv));
	EXPECT_EQ(tagged ? 3 : 1, cq_next(&self->s.b.rcq).context);
	EXPECT_TRUE(cq_empty(&self->s.b.rcq));
	ASSERT_EQ(1, post(&self->s.a, tagged ? send : other_send));
	EXPECT_EQ(tagged ? 1 : 3, cq_next(&self->s.b.rcq).context);
}

/* Many tags, received backwards, then forwards. */
TEST_F(tags, many_tags)
{
	const int count = 500;
	struct treadle_cqe c;

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < count; i++) {
			*(__u64 *)self->s.src = i * 7919;
			ASSERT_EQ(1, post(&self->s.a,
					  tsend_of(self->s.src, 8, self->s.to, i * 7919, i)));
			ASSERT_EQ(0, cq_next(&self->s.a.cq).error);
		}
		for (int n = 0; n < count; n++) {
			int i = round & 1 ? n : count - 1 - n;

			ASSERT_EQ(0, post_recv(&self->s.b,
					       trecv_of(self->s.dst, 8, ANY, i * 7919, 0, i)));
			c = cq_next(&self->s.b.rcq);
			ASSERT_EQ(i, c.context);
			ASSERT_EQ(i * 7919, c.tag);
			ASSERT_EQ(i * 7919, *(__u64 *)self->s.dst);
		}
	}
}

/* --- random sequences, compared with a model ------------------------------------ */

#define MOST 48 /* of waiting messages, and of posted receives */

struct waiting {
	int id;
	__u64 tag, ignore;
	int from; /* which sender; -1: any */
	int slot; /* its buffer */
};

/* By age, the oldest first. */
struct queue {
	struct waiting all[MOST + 1];
	int count;
};

static struct waiting take(struct queue *q, int n)
{
	struct waiting w = q->all[n];

	memmove(&q->all[n], &q->all[n + 1], (--q->count - n) * sizeof(w));
	return w;
}

/* Takes the oldest entry that matches @w, a message or a receive; id -1: there is none. */
static struct waiting suitable(struct queue *q, const struct waiting *w)
{
	for (int i = 0; i < q->count; i++) {
		const struct waiting *x = &q->all[i];

		if (((x->tag ^ w->tag) & ~(x->ignore | w->ignore)) == 0 &&
		    (x->from == w->from || x->from < 0 || w->from < 0))
			return take(q, i);
	}
	return (struct waiting){.id = -1};
}

TEST(a_model_agrees)
{
	static const __u64 ignore[] = {0, 0, 0, 1, 2, 3, ~0ULL};
	struct queue receives = {.count = 0}, messages = {.count = 0};
	struct waiting w, other;
	struct node s[2], b;
	__u64 from[2], to[2], state = 1;
	char *src = pages(64 * 8192), *dst = pages(64 * 8192);
	__u64 sending = 0, receiving = 0; /* slots in use */

	node_open(&b, (struct options){.flags = TREADLE_EP_SOURCE, .buffered = 20000});
	for (int i = 0; i < 2; i++) {
		node_open(&s[i], (struct options){.cq = 8192});
		to[i] = peer(&s[i], b.addr);
		from[i] = peer(&b, s[i].addr);
	}
	for (int id = 0; id < 8000; id++) {
		int what = lottery(&state) % 16;
		struct treadle_cqe c;
		char *at;

		w = (struct waiting){.id = id, .tag = lottery(&state) % 4};
		about("step %d", id);
		if (what == 0 && receives.count) {
			w = take(&receives, lottery(&state) % receives.count);
			receiving &= ~(1ULL << w.slot);
			ASSERT_EQ(0, cancel(b.fd, TREADLE_CANCEL_OP, b.ep, w.id, 0, NULL));
			c = cq_next(&b.rcq);
			ASSERT_EQ(w.id, c.context);
			ASSERT_EQ(ECANCELED, c.error);
			continue;
		} else if (what < 8 && receives.count < MOST) {
			w.ignore = ignore[lottery(&state) % ARRAY_SIZE(ignore)];
			w.from = (int)(lottery(&state) % 3) - 1;
			w.slot = __builtin_ctzll(~receiving);
			receiving |= 1ULL << w.slot;
			other = suitable(&messages, &w);
			at = dst + w.slot * 8192;
			ASSERT_EQ(0,
				  post_recv(&b, trecv_of(at, 8192, w.from < 0 ? ANY : from[w.from],
							 w.tag, w.ignore, id)));
			if (lottery(&state) % 4 == 0)
				ASSERT_EQ(0, ring_doorbell(&b.rx));
			if (other.id < 0)
				receives.all[receives.count++] = w;
		} else if (messages.count < MOST) {
			size_t len = lottery(&state) % 8 ? 64 : 6000;

			other = w;
			other.from = lottery(&state) % 2;
			other.slot = __builtin_ctzll(~sending);
			sending |= 1ULL << other.slot;
			w = suitable(&receives, &other);
			at = src + other.slot * 8192;
			*(int *)at = id;
			ASSERT_EQ(1, post(&s[other.from],
					  tsend_of(at, len, to[other.from], other.tag, id)));
			if (w.id < 0)
				messages.all[messages.count++] = other;
		} else {
			continue;
		}
		/* If a message met its receive, both complete; otherwise nothing does. */
		if (w.id >= 0 && other.id >= 0) {
			c = cq_next(&b.rcq);
			ASSERT_EQ(w.id, c.context);
			ASSERT_EQ(other.id, *(int *)(dst + w.slot * 8192));
			ASSERT_EQ(other.tag, c.tag);
			ASSERT_EQ(from[other.from], c.src);
			sending &= ~(1ULL << other.slot);
			receiving &= ~(1ULL << w.slot);
		}
		ASSERT_TRUE(cq_empty(&b.rcq));
	}
}

TEST_HARNESS_MAIN
