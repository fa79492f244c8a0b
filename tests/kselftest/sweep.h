/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every call and each kind of command, with each thing that can fail within it failing: the n-th, for n = 1, 2, 3, until it
 * no longer gets that far. Whatever it answers then, it is a clean errno; nothing has changed, so that the same call works
 * afterwards; and nothing leaks. Who includes this says how things are made to fail: fail_nth(n) lets the n-th from here
 * on fail, has_failed() tells if it has come to that, and no more fails after it, live() what the module has got.
 */
#ifndef TREADLE_KSELFTEST_SWEEP_H
#define TREADLE_KSELFTEST_SWEEP_H

#include "abi.h"
#include "connection.h"
#include "triggers.h"

#include <treadle/atomic.h>

/* What may be told of memory that is not there: none for the kernel, or none that it can reach; or of a file. */
static bool is_clean(int result)
{
	return result == -ENOMEM || result == -EFAULT || result == -EMFILE;
}

/* By a completion, in which EIO is the peer's memory. */
static bool told_cleanly(int result)
{
	return is_clean(result) || result == -EIO;
}

/* What was got meanwhile has been given back, or soon is. */
static bool all_given_back(long long before)
{
	__u64 end = now_ns() + PATIENCE_NS;

	while (live() > before && now_ns() < end)
		usleep(1000);
	return live() <= before;
}

/* --- ioctls --------------------------------------------------------------------------- */

/* What the rows of abi.h do not come to: pages that are pinned, names, keys. */
static void valid_pinned(world *w, void *arg)
{
	valid_mr(w, arg);
	((struct treadle_mr_create *)arg)->flags |= TREADLE_MR_PINNED;
}

static void valid_named(world *w, void *arg)
{
	static char name[16];
	static int names;

	((struct treadle_av_create *)arg)->name_size = snprintf(name, sizeof(name), "%d", names++);
	((struct treadle_av_create *)arg)->name = (unsigned long)name;
}

static void valid_keyed(world *w, void *arg)
{
	valid_ep(w, arg);
	((struct treadle_ep_create *)arg)->auth_key = (unsigned long)"key";
	((struct treadle_ep_create *)arg)->auth_key_size = 3;
}

static const struct row more_rows[] = {
	{CASE(MR_CREATE, 56, 0, valid_pinned)},
	{CASE(AV_CREATE, 16, 0, valid_named), .grown = 32},
	{CASE(EP_CREATE, 56, 0, valid_keyed), .grown = 64},
};

/* Calls @row by @fn with each of its points failing; how many there were. */
static int sweep(struct __test_metadata *_metadata, world *w, const struct row *row,
		 int (*fn)(int fd, unsigned long cmd, const void *arg))
{
	int n = 0, result;
	bool failed;

	do {
		struct arg arg = prepare(row, w), before = arg;
		long long had = live();

		fail_nth(++n);
		result = fn(w->fd, row->cmd, &arg);
		failed = has_failed();
		about("%s, failing at %d", row->name, n);
		if (result != row->result) {
			EXPECT_TRUE(failed && is_clean(result))
			{
				TH_LOG("result %d", result);
			}
			EXPECT_TRUE(all_given_back(had))
			{
				TH_LOG("%lld more", live() - had);
			}
			arg = before;
			about("%s, after a failure at %d", row->name, n);
			EXPECT_EQ(row->result, fn(w->fd, row->cmd, &arg));
		}
		ASSERT_GT(1000, n);
	} while (failed);
	return n - 1;
}

static int sweep_all(struct __test_metadata *_metadata, world *w,
		     int (*fn)(int fd, unsigned long cmd, const void *arg))
{
	int points = 0;

	for (int i = 0; i < ARRAY_SIZE(rows); i++)
		points += sweep(_metadata, w, &rows[i], fn);
	for (int i = 0; i < ARRAY_SIZE(more_rows); i++)
		points += sweep(_metadata, w, &more_rows[i], fn);
	note("%d points of failure", points);
	return points;
}

TEST_F(abi, each_call_fails_cleanly_wherever_it_fails)
{
	EXPECT_LT(ARRAY_SIZE(rows), sweep_all(_metadata, self, call));
}

TEST(opening_and_mapping_fail_cleanly)
{
	struct treadle_cq_create c = {.size = sizeof(c), .entries = 1024};
	int fd = device(), n = 0, other, error;
	void *at;
	bool failed;

	do {
		fail_nth(++n);
		errno = 0;
		other = open(TREADLE_DEVICE, O_RDWR | O_CLOEXEC);
		error = errno;
		failed = has_failed();
		/* It reads the name, too. */
		EXPECT_TRUE(other >= 0 || (failed && is_clean(-error)));
		if (other >= 0)
			close(other);
	} while (failed);
	EXPECT_LT(1, n);

	need(call(fd, TREADLE_IOC_CQ_CREATE, &c) == 0);
	n = 0;
	do {
		fail_nth(++n);
		at = mmap(NULL, c.ro.length, PROT_READ, MAP_SHARED, fd, c.ro.offset);
		failed = has_failed();
		EXPECT_TRUE(at != MAP_FAILED || (failed && errno == ENOMEM));
		if (at != MAP_FAILED)
			munmap(at, c.ro.length);
	} while (failed);
	EXPECT_LT(1, n);
	close(fd);
}

/* An event that could not be told is told the next time. */
TEST(reading_events_fails_cleanly)
{
	struct treadle_event ev;
	struct pair p;
	int n = 0, result;
	bool failed;

	pair_open(&p);
	need(hang_up(p.client.fd, p.client.ep) == 0);
	do {
		fail_nth(++n);
		result = event_take(p.ceq, &ev);
		failed = has_failed();
		EXPECT_TRUE(result > 0 || (failed && is_clean(result)));
	} while (result < 0);
	EXPECT_EQ(TREADLE_EVENT_SHUTDOWN, ev.event);
	EXPECT_LT(1, n);
}

/* --- commands ------------------------------------------------------------------------- */

/*
 * A command whose n-th point fails is refused by the doorbell, or taken; then it completes, with success or with a clean
 * error. It is not lost, and does not come twice.
 */
struct lane {
	struct node a, b;
	__u64 to, back, key;
	__u32 region;
	char *out, *in, *zero;
	struct cntr c;
	struct cells cells;
};

#define ROOM (2UL << 20)

enum {
	PLAIN,
	WAITS,
	INJECTED,
	TAGGED,
	VECTOR,
	WRITES,
	READS,
	ARMED,
	FETCHES,
	COMPARES,
	COLLECTS,
	STORED, /* waits for a store into a cell */
	KINDS_OF_COMMANDS
};

/* The longest goes to a worker. */
static const size_t lengths[] = {0, 8, 4000, 300000, 1100000};

static bool is_atomic(int kind)
{
	return kind == FETCHES || kind == COMPARES;
}

static bool is_message(int kind)
{
	return kind < WRITES || kind == ARMED || kind > COMPARES;
}

static bool can_have(int kind, size_t len)
{
	if (kind == INJECTED || is_atomic(kind))
		return len && len <= TREADLE_MAX_ATOMIC;
	return kind == VECTOR ? len :
				len < 1000000 || kind == PLAIN || kind == WRITES || kind == READS;
}

static void lane_open(struct lane *l)
{
	node_open(&l->a, (struct options){});
	node_open(&l->b, (struct options){.buffered = 16384});
	l->to = peer(&l->a, l->b.addr);
	l->back = peer(&l->b, l->a.addr);
	l->out = pages(ROOM);
	l->in = pages(ROOM);
	l->zero = pages(ROOM);
	cntr_open(&l->c, l->a.fd);
	cells_open(&l->cells, l->a.fd, 8);
	l->key = 0;
	need(mr(l->b.fd, l->in, ROOM, TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
		TREADLE_MR_KERNEL_KEY, &l->key, &l->region) == 0);
}

static void lane_close(struct lane *l)
{
	node_close(&l->a);
	node_close(&l->b);
	munmap((void *)l->c.page, 4096);
	munmap(l->cells.cell, l->cells.rw.length);
	munmap((void *)l->cells.done, l->cells.ro.length);
	munmap(l->out, ROOM);
	munmap(l->in, ROOM);
	munmap(l->zero, ROOM);
}

static struct treadle_desc command(struct lane *l, int kind, size_t len)
{
	struct treadle_desc d = write_of(l->out, len, l->to, 0, l->key, 7);

	switch (kind) {
	case FETCHES:
		d.opcode = TREADLE_OP_FETCH;
		d.atomic_op = TREADLE_ATOMIC_WRITE;
		break;
	case COMPARES:
		d.opcode = TREADLE_OP_COMPARE;
		d.atomic_op = TREADLE_ATOMIC_CSWAP;
		d.compare = (unsigned long)l->zero;
		break;
	case TAGGED:
		return tsend_of(l->out, len, l->to, 5, 7);
	case WRITES:
		return d;
	case READS:
		return read_of(l->out, len, l->to, 0, l->key, 7);
	case ARMED:
		return when(send_of(l->out, len, l->to, 7), &l->c, 0);
	case COLLECTS:
		d = tsend_of(l->out, len, l->to, 5, 7);
		d.flags |= TREADLE_F_COLLECTIVE;
		return d;
	case STORED:
		return once(send_of(l->out, len, l->to, 7), &l->cells, 0, 1);
	default:
		d = send_of(l->out, len, l->to, 7);
		d.flags |= kind == INJECTED ? TREADLE_F_INJECT : 0;
		return d;
	}
	/* Atomics. */
	d.flags |= TREADLE_F_EXT;
	d.datatype = TREADLE_UINT8;
	d.result = (unsigned long)l->zero + ROOM / 2;
	return d;
}

/* A vector has the same bytes as one buffer would have. */
static int put(struct lane *l, int kind, struct treadle_desc d)
{
	struct treadle_iov iov[] = {{d.addr, d.len / 2}, {d.addr + d.len / 2, d.len - d.len / 2}};

	if (kind != VECTOR)
		return post(&l->a, d);
	d = vector(d, iov, 2);
	ring_put_vector(&l->a.tx, &d, iov);
	return ring_doorbell(&l->a.tx);
}

/* Workers have done their part, and may have failed. Without a call, in which something else could fail. */
static void until_completed(const struct cq *q)
{
	__u64 end = now_ns() + PATIENCE_NS;

	while (__atomic_load_n(&q->ro->prod, __ATOMIC_ACQUIRE) == q->cons && now_ns() < end)
		sched_yield();
}

static struct treadle_desc receive(struct lane *l, int kind)
{
	struct treadle_desc r = recv_of(l->in, ROOM, ANY, 9);

	if (kind == TAGGED || kind == COLLECTS)
		r = trecv_of(l->in, ROOM, l->back, 5, 0, 9);
	if (kind == COLLECTS)
		r.flags |= TREADLE_F_COLLECTIVE;
	return r;
}

static void post_receive(struct lane *l, int kind)
{
	if (kind == COLLECTS) /* which are no matter of the receive ring */
		need(post(&l->b, receive(l, kind)) == 1);
	else
		need(post_recv(&l->b, receive(l, kind)) == 0);
}

/*
 * What became of it: 0, or the errno of the doorbell or of the completion. In both cases it works when it is posted once
 * more. The receive of one that failed may have failed with it, or it waits for the next.
 */
static int outcome(struct lane *l, int kind, size_t len, int n, bool *failed)
{
	bool message = is_message(kind), waits = kind == WAITS || kind == INJECTED;
	struct treadle_desc d = command(l, kind, len);
	struct treadle_cqe c;
	int result;

	if (message && !waits)
		post_receive(l, kind);
	fail_nth(n);
	result = put(l, kind, d);
	if (result == 1 && kind == STORED)
		cell_write(&l->cells, 0, 1);
	if (result == 1 && !waits)
		until_completed(&l->a.cq);
	*failed = has_failed();
	if (waits)
		post_receive(l, kind);
	if (result == 1) {
		c = cq_next(&l->a.cq);
		need(c.context == 7);
		result = -(int)c.error;
	}
	if (result) {
		if (message)
			post_receive(l, kind);
		need(put(l, kind, d) == 1);
		cell_write(&l->cells, 0, 1);
		c = cq_next(&l->a.cq);
		need(c.context == 7 && c.error == 0);
	}
	if (message) {
		c = cq_next(&l->b.rcq);
		need(c.error == 0 || (result && told_cleanly(-(int)c.error)));
		if (c.error)
			c = cq_next(&l->b.rcq);
		need(c.error == 0 && c.len == len);
	}
	need(cq_empty(&l->a.cq) && cq_empty(&l->b.rcq));
	return result;
}

FIXTURE(commands)
{
	int points, failures;
};

FIXTURE_SETUP(commands) {}

FIXTURE_TEARDOWN(commands) {}

TEST_F(commands, each_fails_cleanly_wherever_it_fails)
{
	long long had = live();

	for (int kind = 0; kind < KINDS_OF_COMMANDS; kind++) {
		for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
			bool failed = can_have(kind, lengths[i]);
			int n = 0;

			while (failed) {
				struct lane l;
				int result;

				lane_open(&l);
				fill(kind == READS ? l.in : l.out, lengths[i], n);
				about("command %d, %zu bytes, failing at %d", kind, lengths[i],
				      ++n);
				result = outcome(&l, kind, lengths[i], n, &failed);
				self->failures += !!result;
				EXPECT_TRUE(!result || told_cleanly(result))
				{
					TH_LOG("result %d", result);
				}
				EXPECT_TRUE(same(kind == READS ? l.out : l.in, lengths[i], n - 1));
				ASSERT_GT(1000, n);
				lane_close(&l);
			}
			self->points += n ? n - 1 : 0;
		}
		EXPECT_TRUE(all_given_back(had))
		{
			TH_LOG("%lld more", live() - had);
		}
	}
	note("%d points of failure, of which %d were noticed", self->points, self->failures);
	EXPECT_LT(0, self->failures);
}

/*
 * A receive whose message waits already. What fails says so, in a completion or by the doorbell, and is posted once more
 * then. If it was the message, the receive waits for the next; if it was the receive, the next one works.
 */
enum { TAKES, TAKES_MANY, LOOKS, CLAIMS, KINDS_OF_RECEIVES };

/* What has become of a receive, or of a look, and of the message that it was to meet. */
struct meeting {
	int rung, receive, message; /* 0, or the errno that it ended with */
	bool waits;		    /* the receive does, for another message */
	bool failed;		    /* it came to the point that fails */
	char *at;
};

static void send_one(struct lane *l, int kind, size_t len, bool copied)
{
	struct treadle_desc d =
		kind < LOOKS ? send_of(l->out, len, l->to, 7) : tsend_of(l->out, len, l->to, 5, 7);

	d.flags |= copied ? 0 : TREADLE_F_DELIVERY_COMPLETE;
	need(post(&l->a, d) == 1);
	if (copied)
		need(cq_next(&l->a.cq).error == 0);
}

static struct treadle_desc look_for(struct lane *l, int kind)
{
	struct treadle_desc r = trecv_of(NULL, 0, ANY, 5, 0, 9);

	r.flags |= TREADLE_F_PEEK | (kind == CLAIMS ? TREADLE_F_CLAIM : 0);
	return r;
}

static struct treadle_desc take(struct lane *l, int kind)
{
	struct treadle_desc r =
		kind < LOOKS ? recv_of(l->in, ROOM, ANY, 9) : trecv_of(l->in, ROOM, ANY, 5, 0, 9);

	r.flags |= kind == TAKES_MANY ? TREADLE_F_MULTI_RECV : kind == CLAIMS ? TREADLE_F_CLAIM : 0;
	return r;
}

static bool has_error(const struct cq *q)
{
	return __atomic_load_n(&q->ro->prod, __ATOMIC_ACQUIRE) != q->cons &&
	       q->cqes[q->cons & (q->entries - 1)].error;
}

/* Who looks, or takes what he has claimed, posts to the transmit ring. */
static int post_receive_of(struct lane *l, struct treadle_desc r)
{
	int result;

	if (!(r.flags & (TREADLE_F_PEEK | TREADLE_F_CLAIM)))
		return post_recv(&l->b, r);
	result = post(&l->b, r);
	return result == 1 ? 0 : result;
}

/* After @r is posted, whose @n-th point fails. Until that is over there is no other call, in which something could fail. */
static struct meeting meet(struct lane *l, const struct treadle_desc *r, bool told, int n)
{
	__u64 end = now_ns() + PATIENCE_NS;
	struct meeting m = {.waits = true};
	struct treadle_cqe c;

	fail_nth(n);
	m.rung = r ? post_receive_of(l, *r) : 0;
	if (m.rung < 0) {
		m.failed = has_failed();
		need(post_receive_of(l, *r) == 0);
	}
	while (cq_empty(&l->b.rcq) && (told || !has_error(&l->a.cq)) && now_ns() < end)
		sched_yield();
	if (m.rung == 0)
		m.failed = has_failed();
	if (!told)
		m.message = -(int)cq_next(&l->a.cq).error;
	if (cq_poll(&l->b.rcq, &c)) {
		need(c.context == 9);
		m.receive = -(int)c.error;
		m.waits = r && (r->flags & TREADLE_F_MULTI_RECV) &&
			  !(c.flags & TREADLE_CQ_MULTI_RECV);
		m.at = (char *)c.buf;
	}
	need(!m.waits || m.receive || m.message || m.at);
	return m;
}

static bool is_well(struct meeting m)
{
	return !m.rung && !m.receive && !m.message && m.at;
}

/* Sends, looks, takes; what the latter but one, or the last, has come to if its @n-th point fails. */
static struct meeting received(struct lane *l, int kind, size_t len, bool copied, int n)
{
	struct treadle_desc look = look_for(l, kind), r = take(l, kind);
	struct meeting m;

	send_one(l, kind, len, copied);
	if (kind == LOOKS) {
		m = meet(l, &look, true, n);
		need(!m.waits);
		m.at = meet(l, &r, copied, 0).at;
		return m;
	}
	if (kind == CLAIMS)
		need(meet(l, &look, true, 0).receive == 0);
	return meet(l, &r, copied, n);
}

TEST_F(commands, each_receive_fails_cleanly_wherever_it_fails)
{
	static const size_t sizes[] = {8, 4000, 300000};
	long long had = live();

	for (int row = 0; row < KINDS_OF_RECEIVES * ARRAY_SIZE(sizes) * 2; row++) {
		int kind = row / 2 / ARRAY_SIZE(sizes), n = 0;
		size_t len = sizes[row / 2 % ARRAY_SIZE(sizes)];
		bool failed = true, copied = row % 2 && len < 16384;

		while (failed) {
			struct meeting m;
			struct lane l;

			lane_open(&l);
			fill(l.out, len, n);
			about("receive %d, %zu bytes, %s, failing at %d", kind, len,
			      copied ? "copied" : "parked", ++n);
			m = received(&l, kind, len, copied, n);
			failed = m.failed;
			EXPECT_TRUE(!m.rung || is_clean(m.rung));
			EXPECT_TRUE(!m.receive || told_cleanly(m.receive));
			EXPECT_TRUE(!m.message || told_cleanly(m.message));
			if (m.receive || m.message) {
				self->failures++;
				if (m.waits) {
					send_one(&l, kind, len, copied);
					m = meet(&l, NULL, copied, 0);
				} else {
					m = received(&l, kind, len, copied, 0);
				}
				EXPECT_TRUE(is_well(m));
			}
			ASSERT_NE(NULL, m.at);
			EXPECT_TRUE(same(m.at, len, n - 1));
			EXPECT_TRUE(cq_empty(&l.a.cq) && cq_empty(&l.b.rcq));
			ASSERT_GT(1000, n);
			lane_close(&l);
		}
		self->points += n - 1;
	}
	EXPECT_TRUE(all_given_back(had))
	{
		TH_LOG("%lld more", live() - had);
	}
	note("%d points of failure, of which %d were noticed", self->points, self->failures);
	/* Most, or all, are made up for by a worker. */
	EXPECT_LT(0, self->points);
}

#endif
