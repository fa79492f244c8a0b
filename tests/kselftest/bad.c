/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bad input on the data path: each gets its errno and changes nothing. After
 * every one of them a good message still passes, and it is the only one.
 * (fields.c has every flag and every byte.)
 */
#include "treadle.h"

FIXTURE(bad)
{
	struct node a, b;
	__u64 to;
	struct cntr c;
	char *src, *dst;
	__u64 good;		     /* messages so far */
	__u64 refused, bad_receives; /* errors reported by completions */
};

FIXTURE_SETUP(bad)
{
	node_open(&self->a, (struct options){});
	node_open(&self->b, (struct options){});
	self->to = peer(&self->a, self->b.addr);
	cntr_open(&self->c, self->a.fd);
	self->src = pages(65536);
	self->dst = pages(65536);
}

FIXTURE_TEARDOWN(bad)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

typedef FIXTURE_DATA(bad) bad;

/* A message passes, and no other counter has moved. */
static void still_good(struct __test_metadata *_metadata, bad *self)
{
	__u64 seed = ++self->good;
	struct treadle_cqe c;

	fill(self->src, 200, seed);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 200, ANY, seed)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 200, self->to, ~seed)));
	c = cq_next(&self->b.rcq);
	ASSERT_EQ(seed, c.context);
	ASSERT_EQ(0, c.error);
	ASSERT_EQ(~seed, cq_next(&self->a.cq).context);
	ASSERT_TRUE(same(self->dst, 200, seed));
	ASSERT_TRUE(cntr_becomes(&self->a.sent, seed, self->refused));
	ASSERT_TRUE(cntr_becomes(&self->b.rcvd, seed, self->bad_receives));
	ASSERT_EQ(self->a.tx.prod, ring_released(&self->a.tx));
	ASSERT_EQ(0, cntr_value(&self->c));
}

/* --- descriptors ----------------------------------------------------------------- */

enum base { SEND, TSEND, RECV, ADD, ARMED };

#define FIELD(name) \
#name, offsetof(struct treadle_desc, name), sizeof(((struct treadle_desc *)0)->name)
#define FLAG(name) "flag " #name, -1, 0, TREADLE_F_##name

/* One field of a good command is replaced, or one flag added. */
static const struct spoiled {
	enum base base;
	const char *name;
	int at, width;
	__u64 value;
	int error;
} spoiled[] = {
	/* clang-format off */
	{ SEND, FIELD(opcode), TREADLE_OP_LAST, EOPNOTSUPP },
	{ SEND, FIELD(opcode), 255, EOPNOTSUPP },
	{ SEND, FIELD(iov_count), 0, EINVAL },
	{ SEND, FIELD(iov_count), 9, EINVAL },
	{ SEND, FIELD(iov_count), 255, EINVAL },
	{ SEND, FIELD(reserved0), 1, EINVAL },
	{ SEND, FIELD(reserved0), 0x8000, EINVAL },
	{ SEND, FIELD(addr), ~0ULL, EINVAL },
	{ SEND, FIELD(addr), ~0ULL - 98, EINVAL },
	{ SEND, FIELD(len), 1ULL << 63, EMSGSIZE },
	{ SEND, FIELD(len), ~0ULL, EINVAL },
	{ SEND, FIELD(peer), 1, EDESTADDRREQ },
	{ SEND, FIELD(peer), 1ULL << 32, EDESTADDRREQ },
	{ SEND, FIELD(peer), ANY, EDESTADDRREQ },
	{ SEND, FIELD(tag), 1, EINVAL },
	{ SEND, FIELD(ignore), 1, EINVAL },
	{ SEND, FIELD(data), 1, EINVAL },
	{ TSEND, FIELD(ignore), 1, EINVAL },
	{ SEND, FLAG(COND_CNTR), EINVAL },	/* without EXT */
	{ SEND, FLAG(NOTIFY), EINVAL },
	{ SEND, FLAG(CNTR_ERROR), EINVAL },
	{ SEND, FLAG(COND_CELL), EINVAL },
	{ RECV, FLAG(FENCE), EOPNOTSUPP },
	{ SEND, FLAG(MULTI_RECV), EOPNOTSUPP },
	{ RECV, FLAG(PEEK), EOPNOTSUPP },
	{ RECV, FLAG(CLAIM), EOPNOTSUPP },
	{ RECV, FLAG(DISCARD), EOPNOTSUPP },
	{ RECV, FLAG(INJECT), EINVAL },
	{ RECV, FLAG(REMOTE_CQ_DATA), EINVAL },
	{ RECV, FLAG(DELIVERY_COMPLETE), EINVAL },
	{ RECV, FIELD(data), 1, EINVAL },
	{ RECV, FIELD(tag), 1, EINVAL },
	{ RECV, FIELD(peer), 1, EDESTADDRREQ },
	{ ADD, FLAG(INJECT), EINVAL },
	{ ADD, FLAG(DELIVERY_COMPLETE), EINVAL },
	{ ADD, FIELD(iov_count), 1, EINVAL },
	{ ADD, FIELD(addr), 4096, EINVAL },
	{ ADD, FIELD(len), 1, EINVAL },
	{ ADD, FIELD(tag), 1, EINVAL },
	{ ADD, FIELD(ignore), 1, EINVAL },
	{ ADD, FIELD(peer), 0, ENOENT },
	{ ADD, FIELD(peer), 0x7fffffff, ENOENT },
	{ ARMED, FIELD(cond), 0, ENOENT },
	{ ARMED, FIELD(cond), 0x7fffffff, ENOENT },
	{ ARMED, FIELD(ep), 0x7fffffff, ENOENT },
	{ ARMED, FIELD(notify), 1, EINVAL },	/* without NOTIFY */
	{ ARMED, FLAG(NOTIFY), ENOENT },	/* of no counter */
	{ ARMED, FIELD(atomic_op), 1, EINVAL },
	{ ARMED, FIELD(datatype), 1, EINVAL },
	{ ARMED, FIELD(rma_iov_count), 1, EINVAL },
	{ ARMED, FIELD(fetch_iov_count), 1, EINVAL },
	{ ARMED, FIELD(result), 1, EINVAL },
	{ ARMED, FIELD(compare), 1, EINVAL },
	{ ARMED, FIELD(reserved1), 1, EINVAL },
	/* clang-format on */
};

static struct treadle_desc base_of(bad *self, enum base base)
{
	struct treadle_desc d = send_of(self->src, 100, self->to, 77);

	switch (base) {
	case TSEND:
		d.opcode = TREADLE_OP_TSEND;
		return d;
	case RECV:
		return recv_of(self->src, 100, ANY, 77);
	case ADD:
		return count_of(TREADLE_OP_CNTR_ADD, &self->c, 1, 77);
	case ARMED:
		return when(d, &self->c, 1000);
	default:
		return d;
	}
}

// conformance: ioctl.h: EINVAL: a malformed descriptor
// conformance: ioctl.h: ENOENT: no object with this id in this context
// conformance: ioctl.h: EOPNOTSUPP: no such opcode
// conformance: ioctl.h: EOPNOTSUPP: a flag of another operation
// conformance: ioctl.h: EDESTADDRREQ: no such entry in the address vector
TEST_F(bad, descriptors)
{
	for (int i = 0; i < ARRAY_SIZE(spoiled); i++) {
		const struct spoiled *s = &spoiled[i];
		struct treadle_desc d = base_of(self, s->base);
		int result;

		if (s->at < 0)
			d.flags |= s->value;
		else
			memcpy((char *)&d + s->at, &s->value, s->width < 8 ? s->width : 8);
		about("row %d: base %d, %s, value %#llx", i, s->base, s->name, s->value);
		ring_put(&self->a.tx, &d);
		/* Such a command has a second slot, whatever else is wrong with it. */
		if (d.iov_count > 1)
			ring_put(&self->a.tx, &(union treadle_slot){});
		ring_publish(&self->a.tx);
		result = ring_doorbell(&self->a.tx);
		EXPECT_EQ(-s->error, result);
		still_good(_metadata, self);
	}
}

/* Some are the kernel's own. Behind F_MORE, a refused command has a completion. */
TEST_F(bad, flags_that_no_process_has)
{
	for (int bit = 0; bit < 32; bit++) {
		struct treadle_desc d = send_of(self->src, 8, self->to, bit);
		struct treadle_cqe c;

		if (TREADLE_F_ALL & 1U << bit)
			continue;
		d.flags |= TREADLE_F_MORE | 1U << bit;
		ASSERT_EQ(1, post(&self->a, d));
		c = cq_next(&self->a.cq);
		EXPECT_EQ(EINVAL, c.error);
		EXPECT_EQ(bit, c.context);
		self->refused++;
	}
	still_good(_metadata, self);
}

TEST_F(bad, fields_of_the_other_line_do_not_count_without_ext)
{
	struct treadle_desc d = send_of(self->src, 100, self->to, 5);

	memset(&d.ep, 0xff, sizeof(d) - offsetof(struct treadle_desc, ep));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 100, ANY, 6)));
	EXPECT_EQ(1, post(&self->a, d));
	EXPECT_EQ(6, cq_next(&self->b.rcq).context);
	EXPECT_EQ(5, cq_next(&self->a.cq).context);
}

// conformance: ioctl.h: EBADF: an object of another kind
TEST_F(bad, objects_of_another_kind)
{
	struct treadle_desc d = count_of(TREADLE_OP_CNTR_ADD, &self->c, 1, 0);
	struct node *a = &self->a;

	d.peer = a->cq.id;
	EXPECT_EQ(-EBADF, post(a, d));
	d = when(send_of(self->src, 8, self->to, 0), &self->c, 1);
	d.cond = a->ep;
	EXPECT_EQ(-EBADF, post(a, d));
	d = then(send_of(self->src, 8, self->to, 0), &self->c);
	d.notify = a->av;
	EXPECT_EQ(-EBADF, post(a, d));
	d.notify = self->c.id;
	d.ep = a->tx.id;
	EXPECT_EQ(-EBADF, post(a, d));
	still_good(_metadata, self);
}

// conformance: ioctl.h: EINVAL: a malformed descriptor
// conformance: ioctl.h: EMSGSIZE: longer than max_msg_size
TEST_F(bad, lengths)
{
	__u64 max = query(self->a.fd).max_msg_size;
	struct treadle_iov iov[8] = {{(unsigned long)self->src, 10},
				     {(unsigned long)self->src, 10}};
	struct treadle_desc d = send_of(self->src, max + 1, self->to, 1);
	static const struct {
		__u64 addr, len, sum;
		int error;
	} second[] = {
		{4096, 10, 21, EINVAL},		 /* sum is 20 */
		{4096, ~0ULL - 9, 0, EINVAL},	 /* sums pass 2^64 */
		{4096, ~0ULL - 9, 0x14, EINVAL}, /* and meet the truth again */
		{~0ULL - 5, 10, 20, EINVAL},	 /* an end passes 2^64 */
		{4096, 1ULL << 62, (1ULL << 62) + 10, EMSGSIZE},
	};

	EXPECT_EQ(-EMSGSIZE, post(&self->a, d));
	for (int i = 0; i < ARRAY_SIZE(second); i++) {
		about("%d", i);
		iov[1] = (struct treadle_iov){second[i].addr, second[i].len};
		d = vector(send_of(NULL, 0, self->to, 1), iov, 2);
		d.len = second[i].sum;
		ring_put_vector(&self->a.tx, &d, iov);
		EXPECT_EQ(-second[i].error, ring_doorbell(&self->a.tx));
		still_good(_metadata, self);
	}
	/* With a vector the address is not used, and must be zero. */
	iov[1] = iov[0];
	d = vector(send_of(NULL, 0, self->to, 1), iov, 2);
	d.addr = iov[0].addr;
	ring_put_vector(&self->a.tx, &d, iov);
	EXPECT_EQ(-EINVAL, ring_doorbell(&self->a.tx));
	still_good(_metadata, self);
}

/* A receive is validated when it is taken off its ring: its error comes as a completion. */
// conformance: ioctl.h: EINVAL: a malformed descriptor
TEST_F(bad, receives)
{
	static const struct spoiled rows[] = {
		/* clang-format off */
		{ RECV, FIELD(opcode), TREADLE_OP_SEND, EINVAL },
		{ RECV, FIELD(opcode), 255, EINVAL },
		{ RECV, FIELD(iov_count), 0, EINVAL },
		{ RECV, FIELD(reserved0), 1, EINVAL },
		{ RECV, FIELD(flags), 1U << 20, EINVAL },
		{ RECV, FIELD(addr), ~0ULL - 1, EINVAL },
		{ RECV, FIELD(len), ~0ULL, EINVAL },
		{ RECV, FIELD(tag), 1, EINVAL },
		{ RECV, FIELD(ignore), 1, EINVAL },
		{ RECV, FIELD(data), 1, EINVAL },
		{ RECV, FIELD(peer), 5, EDESTADDRREQ },
		{ RECV, FLAG(INJECT), EINVAL },
		/* clang-format on */
	};

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct treadle_desc d = recv_of(self->dst, 100, ANY, 1000 + i);
		struct treadle_cqe c;

		if (rows[i].at < 0)
			d.flags |= rows[i].value;
		else
			memcpy((char *)&d + rows[i].at, &rows[i].value, rows[i].width);
		about("row %d: %s", i, rows[i].name);
		ring_put(&self->b.rx, &d);
		ring_publish(&self->b.rx);
		ASSERT_EQ(0, ring_doorbell(&self->b.rx));
		c = cq_next(&self->b.rcq);
		EXPECT_EQ(1000 + i, c.context);
		EXPECT_EQ(rows[i].error, c.error);
		self->bad_receives++;
		still_good(_metadata, self);
		EXPECT_EQ(self->b.rx.prod, ring_released(&self->b.rx));
	}
	/* a slot that was never written is no receive */
	ring_put(&self->b.rx, &(union treadle_slot){});
	ring_publish(&self->b.rx);
	ASSERT_EQ(0, ring_doorbell(&self->b.rx));
	EXPECT_EQ(EINVAL, cq_next(&self->b.rcq).error);
	self->bad_receives++;
	still_good(_metadata, self);
}

/* --- indices ------------------------------------------------------------------------ */

// conformance: ioctl.h: ESHUTDOWN: its ring is broken
TEST(an_index_out_of_range_breaks_the_ring_for_good)
{
	static const __u32 jumps[] = {65, 1000, 0x7fffffff, 0x80000000, 0xffffffff};

	for (int i = 0; i < 2 * ARRAY_SIZE(jumps); i++) {
		bool tx = i & 1;
		struct node a, b;
		struct ring *r;
		char got[8];

		node_open(&a, (struct options){.tx = 64, .rx = 64});
		node_open(&b, (struct options){});
		peer(&a, b.addr);
		peer(&b, a.addr);
		r = tx ? &a.tx : &a.rx;
		about("%s by %u", tx ? "tx" : "rx", jumps[i / 2]);
		r->rw->prod = jumps[i / 2];
		EXPECT_GT(0, ring_doorbell(r));
		EXPECT_TRUE(r->ro->flags & TREADLE_RING_BROKEN);
		EXPECT_EQ(-ESHUTDOWN, ring_doorbell(r));
		/* A valid index does not mend the ring. */
		r->rw->prod = 0;
		EXPECT_EQ(-ESHUTDOWN, ring_doorbell(r));
		EXPECT_EQ(0, ring_released(r));
		/* The other direction goes on. */
		if (tx) {
			ASSERT_EQ(0, post_recv(&a, recv_of(got, 8, ANY, 1)));
			ASSERT_EQ(1, post(&b, send_of("abcdefg", 8, 0, 2)));
			EXPECT_EQ(1, cq_next(&a.rcq).context);
		} else {
			ASSERT_EQ(0, post_recv(&b, recv_of(got, 8, ANY, 1)));
			ASSERT_EQ(1, post(&a, send_of("abcdefg", 8, 0, 2)));
			EXPECT_EQ(1, cq_next(&b.rcq).context);
		}
		EXPECT_EQ(0, destroy(a.fd, a.ep));
		EXPECT_EQ(0, destroy(a.fd, r->id));
		close(a.fd);
		close(b.fd);
	}
}

/* An armed receive needs no ring: it receives all that it has room for. */
TEST(a_broken_ring_stops_no_receive_for_several)
{
	struct treadle_desc d;
	struct treadle_cqe c;
	char in[64] = "";
	struct node n;
	__u64 self;

	node_open(&n, (struct options){});
	self = peer(&n, n.addr);
	__atomic_store_n(&n.rx.rw->prod, 1 << 20, __ATOMIC_RELEASE);
	ASSERT_EQ(-ESHUTDOWN, ring_doorbell(&n.rx));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(1, post(&n, send_of("abcdefgh" + i, 4, self, i)));
		ASSERT_EQ(0, cq_next(&n.cq).error);
	}
	d = recv_of(in, 12, ANY, 7);
	d.flags |= TREADLE_F_MULTI_RECV;
	d.data = 1;
	ASSERT_EQ(1, post(&n, d));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, cq_wait(&n.rcq, PATIENCE_NS / 10));
		ASSERT_TRUE(cq_poll(&n.rcq, &c));
		EXPECT_EQ(7, c.context);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(4, c.len);
	}
	EXPECT_EQ(0, memcmp(in, "abcdbcdecdef", 12));
}

/*
 * A vector fails if its second slot is beyond the published index. Commands before it are done and
 * complete.
 */
// conformance: ioctl.h: EINVAL: a malformed descriptor
TEST_F(bad, half_a_command)
{
	struct treadle_desc d = send_of(NULL, 0, self->to, 1);
	int room = ring_room(&self->a.tx);

	ring_put(&self->a.tx, &d);
	d.iov_count = 2;
	ring_put(&self->a.tx, &d);
	ring_publish(&self->a.tx);
	EXPECT_EQ(1, ring_doorbell(&self->a.tx));
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	EXPECT_EQ(room - 1, ring_room(&self->a.tx));
	EXPECT_EQ(-EINVAL, ring_doorbell(&self->a.tx));
	EXPECT_EQ(-ESHUTDOWN, ring_doorbell(&self->a.tx));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

/* --- peers ---------------------------------------------------------------------------- */

// conformance: ioctl.h: ECONNREFUSED: no endpoint has that address
// conformance: ioctl.h: EHOSTUNREACH: the address is not on this machine, nor on a node that
//   is reached
TEST_F(bad, peers)
{
	static const struct {
		struct treadle_addr addr;
		int error;
	} unreachable[] = {
		/* clang-format off */
		{ { .family = AF_INET, .port = 0x0100, .addr = { 127, 0, 0, 1 } }, ECONNREFUSED },
		{ { .family = AF_INET6, .port = 0x0100, .addr = { [15] = 1 } }, ECONNREFUSED },
		{ { .family = AF_INET, .port = 0x0100, .addr = { 192, 0, 2, 1 } }, EHOSTUNREACH },
		{ { .family = AF_INET6, .port = 0x0100, .addr = { 0x20, 1, 13, 0xb8, [15] = 1 } },
		  EHOSTUNREACH },
		/* clang-format on */
	};
	struct treadle_cqe c;

	for (int i = 0; i < ARRAY_SIZE(unreachable); i++) {
		about("%d", i);
		ASSERT_EQ(1, post(&self->a,
				  send_of(self->src, 8, peer(&self->a, unreachable[i].addr), i)));
		c = cq_next(&self->a.cq);
		EXPECT_EQ(i, c.context);
		EXPECT_EQ(unreachable[i].error, c.error);
		EXPECT_EQ(TREADLE_CQ_SEND | TREADLE_CQ_MSG, c.flags);
		self->refused++;
	}
	still_good(_metadata, self);
}

// conformance: ioctl.h: ENOTCONN: the endpoint is not enabled
TEST_F(bad, endpoints_that_are_not_enabled)
{
	struct treadle_desc d = send_of(self->src, 8, 0, 1);
	struct treadle_ep_enable e;
	struct node n;

	node_create(&n, (struct options){});
	peer(&n, self->b.addr);
	EXPECT_EQ(-ENOTCONN, post(&n, d));
	d.flags |= TREADLE_F_EXT;
	d.ep = n.ep;
	EXPECT_EQ(-ENOTCONN, post(&n, d));
	/* Other contexts don't find it yet. */
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, peer(&self->a, n.addr), 2)));
	EXPECT_EQ(ECONNREFUSED, cq_next(&self->a.cq).error);
	e = node_bindings(&n);
	ASSERT_EQ(0, call(n.fd, TREADLE_IOC_EP_ENABLE, &e));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, 3)));
	EXPECT_EQ(1, post(&n, d));
	EXPECT_EQ(3, cq_next(&self->b.rcq).context);
}

// conformance: ioctl.h: ESHUTDOWN: the endpoint is closed
TEST_F(bad, endpoints_that_were_closed)
{
	struct node n, gone;
	int result;

	node_open(&n, (struct options){});
	node_open(&gone, (struct options){});
	peer(&n, self->b.addr);
	peer(&n, gone.addr);
	ASSERT_EQ(0, destroy(gone.fd, gone.ep));
	ASSERT_EQ(1, post(&n, send_of(self->src, 8, 1, 1)));
	EXPECT_EQ(ECONNREFUSED, cq_next(&n.cq).error);
	ASSERT_EQ(0, destroy(n.fd, n.ep));
	result = post(&n, send_of(self->src, 8, 0, 2));
	EXPECT_TRUE(result == -ESHUTDOWN || result == -ENOTCONN);
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	EXPECT_EQ(0, destroy(n.fd, n.tx.id));
	EXPECT_EQ(-ENOENT, post(&n, send_of(self->src, 8, 0, 2)));
}

TEST_HARNESS_MAIN
