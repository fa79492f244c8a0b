/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fields of a command: each flag and each byte of both lines, with each operation. Two tables
 * repeat what ring.h says about them, not what the kernel does. Any other flag or byte is refused,
 * and changes nothing.
 */
#include "connection.h"
#include "triggers.h"

#include <treadle/atomic.h>

#define OP(name)   (1U << TREADLE_OP_##name)
#define ALL	   ((1U << TREADLE_OP_LAST) - 1)
#define SENDS	   (OP(SEND) | OP(TSEND))
#define RECVS	   (OP(RECV) | OP(TRECV))
#define RMA	   (OP(READ) | OP(WRITE))
#define ATOMICS	   (OP(ATOMIC) | OP(FETCH) | OP(COMPARE))
#define FETCHES	   (OP(FETCH) | OP(COMPARE))
#define COUNTS	   (OP(CNTR_SET) | OP(CNTR_ADD))
#define HAS_DATA   (SENDS | RECVS | RMA | ATOMICS)
#define F(name)	   TREADLE_F_##name
#define CONDITIONS (F(COND_CNTR) | F(COND_CELL))

/* The operations that a flag is valid with. */
static const struct {
	__u32 flags, ops;
} known[] = {
	{F(EXT) | F(MORE) | CONDITIONS | F(NOTIFY) | F(WORK) | F(STRICT) | F(REPEAT), ALL},
	{F(COMPLETION), ALL & ~COUNTS},
	{F(INJECT), SENDS | OP(WRITE) | ATOMICS},
	{F(REMOTE_CQ_DATA), SENDS | OP(WRITE)},
	{F(DELIVERY_COMPLETE) | F(FENCE), SENDS | RMA | ATOMICS},
	{F(MULTI_RECV), OP(RECV)},
	{F(PEEK) | F(CLAIM) | F(DISCARD), OP(TRECV)},
	{F(CNTR_ERROR), COUNTS},
	{F(COLLECTIVE), OP(TSEND) | OP(TRECV) | OP(NOP)},
	{F(LOCAL), ATOMICS},
};

/* The operations, or flags, that a field is used by. All use @opcode, @flags and @context. */
static const struct field {
	const char *name;
	int at, size;
	__u32 ops, flags;
} fields[] = {
#define FIELD(name) \
#name, offsetof(struct treadle_desc, name), sizeof(((struct treadle_desc *)0)->name)
	/* clang-format off */
	{ FIELD(iov_count), HAS_DATA },
	{ FIELD(reserved0) },
	{ FIELD(addr), HAS_DATA },
	{ FIELD(len), HAS_DATA },
	{ FIELD(peer), HAS_DATA | COUNTS },
	{ FIELD(tag), OP(TSEND) | OP(TRECV) | RMA | ATOMICS },
	{ FIELD(ignore), OP(TRECV) | RMA | ATOMICS },	/* and the remote key */
	{ FIELD(data), COUNTS, F(REMOTE_CQ_DATA) | F(MULTI_RECV) },
	{ FIELD(ep), HAS_DATA, F(COMPLETION) | F(COLLECTIVE) },
	{ FIELD(cond), 0, CONDITIONS },
	{ FIELD(threshold), 0, CONDITIONS },
	{ FIELD(notify), 0, F(NOTIFY) },
	{ FIELD(atomic_op), ATOMICS },
	{ FIELD(datatype), ATOMICS },
	{ FIELD(rma_iov_count), RMA | ATOMICS },
	{ FIELD(fetch_iov_count), FETCHES },
	{ FIELD(result), FETCHES },
	{ FIELD(compare), OP(COMPARE) },
	{ FIELD(value), 0, F(COND_CELL) | F(REPEAT) },
	{ FIELD(rest), 0, F(REPEAT) },
	{ FIELD(reserved1) },
	{ FIELD(rest_threshold) },	/* with @rest, which is 0 here */
	/* clang-format on */
};

/* Valid combinations of flags, to which a flag is added, or a byte is changed. */
static const __u32 bases[] = {
	0,
	F(EXT),
	F(EXT) | F(NOTIFY),
	F(EXT) | F(COND_CELL),
	F(EXT) | F(COND_CNTR),
	F(EXT) | F(COND_CNTR) | F(WORK),
	F(EXT) | F(COND_CNTR) | F(WORK) | F(REPEAT),
};
static const __u32 more[] = {
	0,	 F(COMPLETION),	     F(REMOTE_CQ_DATA), F(MULTI_RECV),
	F(PEEK), F(PEEK) | F(CLAIM), F(COLLECTIVE),	F(LOCAL),
};

static bool knows(int op, __u32 flags)
{
	for (int i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].ops >> op & 1)
			flags &= ~known[i].flags;
	return !flags;
}

/* Flags that need others, or exclude them. */
static bool valid_together(int op, __u32 f)
{
	const __u32 second = CONDITIONS | F(NOTIFY) | F(STRICT) | F(REPEAT);
	const __u32 once =
		F(COMPLETION) | F(INJECT) | F(COLLECTIVE) | F(MULTI_RECV) | F(PEEK) | F(CLAIM);

	if (!(f & F(EXT)) && (f & second || ATOMICS >> op & 1))
		return false;
	if ((f & CONDITIONS) == CONDITIONS || (f & F(STRICT) && !(f & F(COND_CNTR))))
		return false;
	if (f & F(REPEAT) && (!(f & F(COND_CNTR)) || !(f & F(WORK)) || f & once))
		return false;
	if (f & F(LOCAL) && f & F(FENCE))
		return false;
	if (f & F(COLLECTIVE) && f & (F(PEEK) | F(CLAIM)))
		return false;
	/* with exactly one of the two */
	return !(f & F(DISCARD)) || !(f & F(PEEK)) != !(f & F(CLAIM));
}

static bool is_right(int op, __u32 flags)
{
	return knows(op, flags) && valid_together(op, flags);
}

static bool is_used(const struct field *field, int op, __u32 f)
{
	if (f & F(LOCAL) && (field->at == offsetof(struct treadle_desc, peer) ||
			     field->at == offsetof(struct treadle_desc, remote_key)))
		return false;
	if (f & F(PEEK) && (field->at == offsetof(struct treadle_desc, iov_count) ||
			    field->at == offsetof(struct treadle_desc, addr) ||
			    field->at == offsetof(struct treadle_desc, len)))
		return false;
	if (f & F(COLLECTIVE) && op == TREADLE_OP_TRECV &&
	    field->at == offsetof(struct treadle_desc, ignore))
		return false;
	/* the cell's value names the command for CANCEL_WORK */
	if (field->at == offsetof(struct treadle_desc, value) && f & F(COND_CNTR) && f & F(WORK))
		return true;
	return field->ops >> op & 1 || field->flags & f;
}

FIXTURE(fields)
{
	struct node a, b;
	struct cntr c, notified; /* of a */
	struct cells cells;
	__u64 to, key;
	__u64 *src, *dst;
};

typedef FIXTURE_DATA(fields) ends;

static void ends_open(ends *e)
{
	struct options small = {.tx = 8, .rx = 8, .cq = 8, .rcq = 8};
	__u32 region;

	node_open(&e->a, small);
	node_open(&e->b, small);
	e->to = peer(&e->a, e->b.addr);
	cntr_open(&e->c, e->a.fd);
	cntr_open(&e->notified, e->a.fd);
	cells_open(&e->cells, e->a.fd, 1);
	e->key = 0;
	need(mr(e->b.fd, e->dst, 4096, TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
		TREADLE_MR_KERNEL_KEY, &e->key, &region) == 0);
}

static void ends_close(ends *e)
{
	munmap((void *)e->c.page, PAGE);
	munmap((void *)e->notified.page, PAGE);
	munmap(e->cells.cell, e->cells.rw.length);
	munmap((void *)e->cells.done, e->cells.ro.length);
	node_close(&e->a);
	node_close(&e->b);
	memset(e->dst, 0, 4096);
}

FIXTURE_SETUP(fields)
{
	self->src = pages(PAGE);
	self->dst = pages(PAGE);
	self->src[0] = self->src[1] = 7;
	ends_open(self);
}

FIXTURE_TEARDOWN(fields)
{
	ends_close(self);
}

/* A valid command with these flags, as ring.h describes it. */
static struct treadle_desc command(const ends *e, int op, __u32 f)
{
	struct treadle_desc d = {.opcode = op, .flags = f, .context = 77};

	if (HAS_DATA >> op & 1 && !(f & (F(PEEK) | F(DISCARD)))) {
		d.iov_count = 1;
		d.addr = (unsigned long)(RECVS >> op & 1 ? &e->dst[8] : e->src);
		d.len = 8;
	}
	if (RECVS >> op & 1)
		d.peer = f & F(COLLECTIVE) ? e->to : ANY;
	else if (HAS_DATA >> op & 1)
		d.peer = e->to;
	if (op == TREADLE_OP_TSEND || op == TREADLE_OP_TRECV)
		d.tag = 5;
	if ((RMA | ATOMICS) >> op & 1)
		d.remote_key = e->key;
	if (f & F(LOCAL)) {
		d.peer = d.remote_key = 0;
		d.remote_addr = (unsigned long)e->dst;
	}
	if (ATOMICS >> op & 1) {
		d.datatype = TREADLE_UINT64;
		d.atomic_op = op == TREADLE_OP_COMPARE ? TREADLE_ATOMIC_CSWAP : TREADLE_ATOMIC_SUM;
		d.result = FETCHES >> op & 1 ? (unsigned long)&e->dst[16] : 0;
		d.compare = op == TREADLE_OP_COMPARE ? (unsigned long)&e->src[1] : 0;
	}
	if (COUNTS >> op & 1) {
		d.peer = e->c.id;
		d.data = 1;
	}
	if (f & F(NOTIFY))
		d.notify = e->notified.id;
	if (f & CONDITIONS)
		d.cond = f & F(COND_CELL) ? e->cells.id : e->c.id;
	if (f & F(COND_CNTR))
		d.threshold = 1000;
	if (f & (F(COND_CELL) | F(REPEAT)))
		d.value = 1;
	return d;
}

/* The refused command has left the ring, and had no effect. */
static bool nothing_happened(ends *e)
{
	const struct cntr *counters[] = {&e->a.sent, &e->a.rcvd, &e->b.sent,
					 &e->b.rcvd, &e->c,	 &e->notified};

	for (int i = 0; i < ARRAY_SIZE(counters); i++)
		if (cntr_value(counters[i]) || cntr_errors(counters[i]))
			return false;
	return ring_released(&e->a.tx) == e->a.tx.prod && nothing_is_left(&e->a, &e->b) &&
	       !ring_needs_doorbell(&e->b.rx) && all_are(e->dst, 4096, 0);
}

/*
 * The command is accepted. Both ends are opened anew, so that its effect does not reach the next
 * command.
 */
static void expect_taken(struct __test_metadata *_metadata, ends *e, struct treadle_desc d)
{
	EXPECT_EQ(1, post(&e->a, d));
	ends_close(e);
	ends_open(e);
}

/* --- flags ------------------------------------------------------------------------------- */

// conformance: ioctl.h: EINVAL: a malformed descriptor
// conformance: ioctl.h: EOPNOTSUPP: a flag of another operation
TEST_F(fields, each_flag_of_each_operation)
{
	int taken = 0, refused = 0;

	for (int i = 0; i < TREADLE_OP_LAST * ARRAY_SIZE(bases) * 32; i++) {
		int op = i / 32 / ARRAY_SIZE(bases), result;
		__u32 base = bases[i / 32 % ARRAY_SIZE(bases)], flag = 1U << i % 32;
		struct treadle_desc d = command(self, op, base | flag);

		if (base & flag || !is_right(op, base))
			continue;
		about("operation %d, flags %#x and %#x", op, base, flag);
		if (is_right(op, base | flag)) {
			expect_taken(_metadata, self, d);
			taken++;
			continue;
		}
		result = post(&self->a, d);
		EXPECT_TRUE(result == -EINVAL || (result == -EOPNOTSUPP && flag & TREADLE_F_ALL))
		{
			TH_LOG("result %d", result);
		}
		ASSERT_TRUE(nothing_happened(self));
		refused++;
	}
	note("%d commands taken, %d refused", taken, refused);
	EXPECT_LT(300, taken);
	EXPECT_LT(1000, refused);
}

/* --- bytes --------------------------------------------------------------------------------- */

static void expect_byte_refused(struct __test_metadata *_metadata, ends *e, struct treadle_desc d,
				const struct field *field, int byte, __u8 value)
{
	int result;

	((__u8 *)&d)[field->at + byte] = value;
	about("operation %d, flags %#x: byte %d of %s is %#x", d.opcode, d.flags, byte, field->name,
	      value);
	result = post(&e->a, d);
	/* An endpoint that does not exist has an errno of its own. */
	EXPECT_TRUE(result == -EINVAL || (field->at == offsetof(struct treadle_desc, ep) &&
					  (result == -ENOENT || result == -EBADF)))
	{
		TH_LOG("result %d", result);
	}
	ASSERT_TRUE(nothing_happened(e));
}

// conformance: ioctl.h: EINVAL: a malformed descriptor
TEST_F(fields, each_unused_byte_of_each_operation)
{
	int bytes = 0;

	for (int i = 0; i < TREADLE_OP_LAST * ARRAY_SIZE(bases) * ARRAY_SIZE(more); i++) {
		int op = i / ARRAY_SIZE(more) / ARRAY_SIZE(bases);
		__u32 f = bases[i / ARRAY_SIZE(more) % ARRAY_SIZE(bases)] |
			  more[i % ARRAY_SIZE(more)];

		if (!is_right(op, f))
			continue;
		about("operation %d, flags %#x", op, f);
		expect_taken(_metadata, self, command(self, op, f));
		for (int n = 0; n < ARRAY_SIZE(fields); n++) {
			const struct field *field = &fields[n];

			if (is_used(field, op, f) ||
			    (!(f & F(EXT)) && field->at >= offsetof(struct treadle_desc, ep)))
				continue;
			for (int byte = 0; byte < field->size; byte++) {
				struct treadle_desc d = command(self, op, f);

				expect_byte_refused(_metadata, self, d, field, byte, 1);
				bytes++;
				/* more than one range takes a slot of its own */
				if (strstr(field->name, "iov_count"))
					continue;
				expect_byte_refused(_metadata, self, d, field, byte, 0x80);
			}
		}
	}
	note("%d bytes", bytes);
	EXPECT_LT(3000, bytes);
}

/* An existing endpoint is refused as well. */
TEST_F(fields, an_endpoint_for_a_command_that_needs_none)
{
	for (int op = 0; op < TREADLE_OP_LAST; op++) {
		struct treadle_desc d = command(self, op, F(EXT));

		if (HAS_DATA >> op & 1)
			continue;
		d.ep = self->a.ep;
		about("operation %d", op);
		EXPECT_EQ(-EINVAL, post(&self->a, d));
		EXPECT_TRUE(nothing_happened(self));
	}
}

TEST_F(fields, the_second_line_does_not_count_without_ext)
{
	for (int op = 0; op < TREADLE_OP_LAST; op++) {
		struct treadle_desc d = command(self, op, 0);

		if (!is_right(op, 0))
			continue;
		memset(&d.ep, 0xff, sizeof(d) - offsetof(struct treadle_desc, ep));
		about("operation %d", op);
		expect_taken(_metadata, self, d);
	}
}

/* --- receive rings ---------------------------------------------------------------------------- */

/* A receive ring reports errors by completions, as its doorbell can't. */
static void expect_in_ring(struct __test_metadata *_metadata, ends *e, struct treadle_desc d,
			   bool good)
{
	struct treadle_cqe c;

	ring_put(&e->b.rx, &d);
	ring_publish(&e->b.rx);
	ASSERT_EQ(0, ring_doorbell(&e->b.rx));
	if (good) {
		EXPECT_TRUE(cq_empty(&e->b.rcq));
		EXPECT_EQ(0, cancel(e->b.fd, TREADLE_CANCEL_OP, e->b.ep, 77, 0, NULL));
	}
	c = cq_next(&e->b.rcq);
	EXPECT_EQ(77, c.context);
	EXPECT_EQ(good ? ECANCELED : EINVAL, c.error);
	ASSERT_EQ(e->b.rx.prod, ring_released(&e->b.rx));
}

TEST_F(fields, a_receive_ring_takes_receives_and_nothing_else)
{
	for (int i = 0; i < (TREADLE_OP_LAST + 1) * 32; i++) {
		int op = i / 32;
		__u32 flag = 1U << i % 32, fits = F(COMPLETION) | F(MORE);
		struct treadle_desc d = command(self, op, F(COMPLETION) | flag);

		d.peer = ANY; /* an unknown source would be another error */
		if (op == TREADLE_OP_RECV)
			fits |= F(MULTI_RECV);
		about("operation %d, flag %#x", op, flag);
		expect_in_ring(_metadata, self, d, RECVS >> op & 1 && flag & fits);
	}
}

TEST_F(fields, a_receive_ring_takes_no_unused_byte)
{
	for (int i = 0; i < 2 * ARRAY_SIZE(fields); i++) {
		const struct field *field = &fields[i / 2];
		int op = i % 2 ? TREADLE_OP_TRECV : TREADLE_OP_RECV;
		bool second = field->at >= offsetof(struct treadle_desc, ep);

		for (int byte = 0; byte < field->size && !is_used(field, op, 0); byte++) {
			struct treadle_desc d = command(self, op, F(COMPLETION));

			((__u8 *)&d)[field->at + byte] = 1;
			about("operation %d: byte %d of %s", op, byte, field->name);
			expect_in_ring(_metadata, self, d, second);
		}
	}
}

TEST_HARNESS_MAIN
