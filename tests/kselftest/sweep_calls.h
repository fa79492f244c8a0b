/* SPDX-License-Identifier: GPL-2.0 */
/* The sweep of sweep.h through calls, maps and events. */
#ifndef TREADLE_KSELFTEST_SWEEP_CALLS_H
#define TREADLE_KSELFTEST_SWEEP_CALLS_H

#include "abi.h"
#include "sweep.h"

/* --- ioctls --------------------------------------------------------------------------- */

/* Paths that the rows of abi.h do not reach: pinned pages, names, keys, ports, tables that grow. */
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

/* Several ranges, each of more pages than are pinned at once, with a key. */
static void valid_ranges(world *w, void *arg)
{
	enum { RANGE = 600 * PAGE };
	static struct treadle_iov iov[3];
	struct treadle_mr_create *a = arg;

	for (int i = 0; i < ARRAY_SIZE(iov); i++)
		if (!iov[i].addr)
			iov[i] = (struct treadle_iov){(unsigned long)pages(RANGE), RANGE};
	valid_pinned(w, arg);
	a->iov = (unsigned long)iov;
	a->iov_count = ARRAY_SIZE(iov);
	a->auth_key = (unsigned long)"key";
	a->auth_key_size = 3;
}

/* A name that exists already. */
static void valid_known(world *w, void *arg)
{
	struct treadle_av_create *a = arg, first;

	a->name = (unsigned long)"known";
	a->name_size = 5;
	first = *a;
	first.size = sizeof(first);
	need(call(w->fd, TREADLE_IOC_AV_CREATE, &first) == 0);
}

/* A port that is free. */
static void valid_port(world *w, void *arg)
{
	static __u16 port = 20000;

	valid_ep(w, arg);
	((struct treadle_ep_create *)arg)->addr = loopback(++port);
}

static void valid_receive_context(world *w, void *arg)
{
	valid_context(w, arg);
	((struct treadle_ep_create *)arg)->flags = TREADLE_EP_RX_CONTEXT;
}

/* More addresses than a new vector has room for. */
static void valid_inserts(world *w, void *arg)
{
	static struct treadle_addr addrs[40];
	static __u64 indices[ARRAY_SIZE(addrs)];
	struct treadle_av_insert *a = arg;

	for (int i = 0; i < ARRAY_SIZE(addrs); i++)
		addrs[i] = loopback(7001 + i);
	valid_insert(w, arg);
	a->av = av_open(w->fd);
	a->count = ARRAY_SIZE(addrs);
	a->addrs = (unsigned long)addrs;
	a->out = (unsigned long)indices;
}

/* A wait that sleeps. */
static void valid_sleep(world *w, void *arg)
{
	valid_wait(w, arg);
	((struct treadle_wait *)arg)->timeout_ns = 1000000;
}

static const struct row more_rows[] = {
	{CASE(MR_CREATE, 56, 0, valid_pinned)},
	{CASE(MR_CREATE, 56, 0, valid_ranges)},
	{CASE(AV_CREATE, 16, 0, valid_named), .grown = 32},
	{CASE(AV_CREATE, 16, 0, valid_known), .grown = 32},
	{CASE(AV_INSERT, 32, 0, valid_inserts), .grown = 40},
	{CASE(EP_CREATE, 56, 0, valid_keyed), .grown = 64},
	{CASE(EP_CREATE, 56, 0, valid_port), .grown = 64},
	{CASE(EP_CREATE, 56, 0, valid_receive_context), .grown = 64},
	{CASE(WAIT, 40, -ETIMEDOUT, valid_sleep)},
};

/*
 * Makes the call of @row with @fn, each of its points failing in turn; returns the number of
 * points.
 */
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
			/* the receiver may have seen the offer of a call that failed at last */
			if (row->cmd == TREADLE_IOC_LANE_MAKE)
				close_offers(w);
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

// conformance: ioctl.h: ENOMEM: no memory
TEST_F(abi, each_call_fails_cleanly_wherever_it_fails)
{
	EXPECT_LT(ARRAY_SIZE(rows), sweep_all(_metadata, self, call));
}

TEST(opening_fails_cleanly)
{
	int n = 0, other, error;
	bool failed;

	do {
		fail_nth(++n);
		errno = 0;
		other = open(TREADLE_DEVICE, O_RDWR | O_CLOEXEC);
		error = errno;
		failed = has_failed();
		/* The call reads the name, too. */
		EXPECT_TRUE(other >= 0 || (failed && is_clean(-error)));
		if (other >= 0)
			close(other);
	} while (failed);
	EXPECT_LT(1, n);
}

struct area {
	const char *name;
	struct treadle_map map;
	int prot;
};

/* One of each kind of object that can be mapped. */
static int make_areas(int fd, struct area area[])
{
	struct treadle_cq_create cq = {.size = sizeof(cq), .entries = 1024};
	struct treadle_cntr_create cntr = {.size = sizeof(cntr)};
	struct treadle_cell_create cell = {.size = sizeof(cell), .count = 1024};
	struct treadle_ring_create tx = {.size = sizeof(tx), .entries = 64}, rx = tx;
	const int both = PROT_READ | PROT_WRITE;
	int n = 0;

	need(call(fd, TREADLE_IOC_CQ_CREATE, &cq) == 0);
	need(call(fd, TREADLE_IOC_CNTR_CREATE, &cntr) == 0);
	need(call(fd, TREADLE_IOC_CELL_CREATE, &cell) == 0);
	need(call(fd, TREADLE_IOC_TX_CREATE, &tx) == 0);
	need(call(fd, TREADLE_IOC_RX_CREATE, &rx) == 0);
	area[n++] = (struct area){"completions", cq.ro, PROT_READ};
	area[n++] = (struct area){"what of them is read", cq.rw, both};
	area[n++] = (struct area){"transmit ring", tx.rw, both};
	area[n++] = (struct area){"what of it is free", tx.ro, PROT_READ};
	area[n++] = (struct area){"receive ring", rx.rw, both};
	area[n++] = (struct area){"what of that is free", rx.ro, PROT_READ};
	area[n++] = (struct area){"counter", cntr.ro, PROT_READ};
	area[n++] = (struct area){"cells", cell.rw, both};
	area[n++] = (struct area){"what has left them", cell.ro, PROT_READ};
	return n;
}

TEST(mapping_each_kind_of_area_fails_cleanly)
{
	struct area area[16];
	int fd = device(), areas = make_areas(fd, area), points = 0;
	long long had = live();

	for (struct area *a = area; a < area + areas; a++) {
		bool failed = true;
		int n = 0;

		while (failed) {
			void *at;
			int error;

			about("%s, failing at %d", a->name, ++n);
			fail_nth(n);
			at = mmap(NULL, a->map.length, a->prot, MAP_SHARED, fd, a->map.offset);
			error = errno;
			failed = has_failed();
			EXPECT_TRUE(at != MAP_FAILED || (failed && error == ENOMEM));
			EXPECT_TRUE(all_given_back(had));
			if (at == MAP_FAILED)
				at = map(fd, a->map, a->prot);
			EXPECT_EQ(0, *(volatile char *)at);
			munmap(at, a->map.length);
			ASSERT_GT(1000, n);
		}
		EXPECT_LT(1, n);
		points += n - 1;
	}
	note("%d points of failure, mapping %d areas", points, areas);
	close(fd);
}

/* Lets the n-th step of reading an event fail, from the first one on. Returns how many n. */
static int read_until_it_works(struct __test_metadata *_metadata)
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
	return n;
}

/*
 * An event that could not be read is still there for the next read. A worker that still ends the
 * connection may meet the failure instead.
 */
TEST(reading_events_fails_cleanly)
{
	int n = 1;

	for (int tries = 0; n == 1 && tries < 10; tries++)
		n = read_until_it_works(_metadata);
	EXPECT_LT(1, n);
}

#endif
