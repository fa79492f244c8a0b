/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Limits, and the cost of large numbers of objects. Times are reported, not checked, except that a
 * cost that grows with the number would take for ever.
 */
#include "module.h"
#include "triggers.h"

#define LARGE (64UL << 20)
#define MANY  100000

/* --- limits ------------------------------------------------------------------------ */

// conformance: ioctl.h: ENOSPC: a limit of the context
TEST(objects_of_a_context)
{
	int fd = device(), other = device();
	struct treadle_query q = query(fd);
	struct treadle_av_create av = {.size = sizeof(av)};
	struct treadle_cq_create cq = {.size = sizeof(cq), .entries = 8};
	struct treadle_addr addr = loopback(0);
	__u32 id;

	for (__u32 i = 0; i < q.max_objects; i++) {
		ASSERT_EQ(0, call(fd, TREADLE_IOC_AV_CREATE, &av));
	}
	EXPECT_EQ(-ENOSPC, call(fd, TREADLE_IOC_AV_CREATE, &av));
	EXPECT_EQ(-ENOSPC, call(fd, TREADLE_IOC_CQ_CREATE, &cq));
	EXPECT_EQ(-ENOSPC, ep_create(fd, &addr, NULL, &id));
	/* The limit is this context's, and counts existing objects only. */
	EXPECT_EQ(0, call(other, TREADLE_IOC_AV_CREATE, &av));
	EXPECT_EQ(0, destroy(fd, 1));
	EXPECT_EQ(0, call(fd, TREADLE_IOC_CQ_CREATE, &cq));
	EXPECT_EQ(-ENOSPC, call(fd, TREADLE_IOC_AV_CREATE, &av));
}

// conformance: ioctl.h: EMFILE: no free file descriptor
TEST(files_of_a_process)
{
	struct treadle_cntr_create cntr = {.size = sizeof(cntr)};
	struct treadle_wait_fd f = {.size = sizeof(f)};
	int fd = device();
	struct rlimit none = {.rlim_cur = fd + 1, .rlim_max = fd + 1};

	ASSERT_EQ(0, call(fd, TREADLE_IOC_CNTR_CREATE, &cntr));
	f.id = cntr.id;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
	EXPECT_EQ(-EMFILE, call(fd, TREADLE_IOC_WAIT_FD, &f));
	EXPECT_EQ(0, destroy(fd, cntr.id));
}

#define MOST_ARMED 1000

/* Arms one more command of each kind. A command that is refused holds no object. */
static void arms_one_too_many(struct node *n, const struct cntr *c)
{
	struct treadle_desc d;
	struct cntr other, told, rest;
	struct cells cells;
	char buf[8];

	cntr_open(&other, n->fd);
	cntr_open(&told, n->fd);
	cntr_open(&rest, n->fd);
	cells_open(&cells, n->fd, 1);
	need(post(n, then(when(nop(1), &other, 1), &told)) == -ENOSPC);
	need(post(n, then(when(send_of(buf, 8, 0, 1), &other, 1), &told)) == -ENOSPC);
	need(post(n, then(when(recv_of(buf, 8, ANY, 1), &other, 1), &told)) == -ENOSPC);
	need(post(n, then(when(count_of(TREADLE_OP_CNTR_ADD, &told, 1, 1), &other, 1), &told)) ==
	     -ENOSPC);
	need(post(n, then(once(nop(1), &cells, 0, 1), &told)) == -ENOSPC);
	need(post(n, follow(&other, &cells, 0, 0)) == -ENOSPC);
	d = then(when(count_of(TREADLE_OP_CNTR_ADD, &told, 1, 1), &other, 1), &told);
	d.flags |= TREADLE_F_REPEAT;
	d.value = 1;
	d.rest = rest.id;
	need(post(n, d) == -ENOSPC);
	/* After F_MORE the error comes as a completion. */
	d = then(when(nop(8), &other, 1), &told);
	d.flags |= TREADLE_F_MORE;
	need(post(n, d) == 1 && cq_next(&n->cq).error == ENOSPC);
	need(cntr_value(&told) == 0 && cntr_errors(&told) == 1);
	need(destroy(n->fd, other.id) == 0 && destroy(n->fd, told.id) == 0);
	need(destroy(n->fd, rest.id) == 0 && destroy(n->fd, cells.id) == 0);
	need(cq_empty(&n->cq) && cq_empty(&n->rcq) && ring_released(&n->tx) == n->tx.prod);
	/* A command that is not armed does not count. */
	need(post(n, nop(9)) == 1 && cq_next(&n->cq).context == 9);
	need(cntr_value(c) == 0);
}

static void arms_the_most(void *arg)
{
	struct node n, other;
	struct cntr c, c2;
	__u64 count;

	node_open(&n, (struct options){.cq = 2 * MOST_ARMED});
	need(peer(&n, n.addr) == 0);
	need(query(n.fd).max_armed == MOST_ARMED);
	cntr_open(&c, n.fd);
	for (int i = 0; i < MOST_ARMED; i++)
		need(post(&n, when(nop(i), &c, 1 + i % 2)) == 1);
	arms_one_too_many(&n, &c);
	/* Another context has a limit of its own. */
	node_open(&other, (struct options){});
	cntr_open(&c2, other.fd);
	need(post(&other, when(nop(1), &c2, 1)) == 1);

	/*
	 * A canceled command makes room for another one. So do commands that have fired, or were
	 * flushed.
	 */
	need(cancel(n.fd, TREADLE_CANCEL_OP, n.ep, 5, 0, &count) == 0 && count == 1);
	need(cq_next(&n.cq).error == ECANCELED);
	need(post(&n, when(nop(5), &c, 2)) == 1);
	arms_one_too_many(&n, &c);
	need(post(&n, count_of(TREADLE_OP_CNTR_ADD, &c, 1, 0)) == 1);
	for (int i = 0; i < MOST_ARMED / 2; i++)
		need(cq_next(&n.cq).error == 0);
	need(post(&n, count_of(TREADLE_OP_CNTR_SET, &c, 0, 0)) == 1);
	for (int i = 0; i < MOST_ARMED / 2; i++)
		need(post(&n, when(count_of(TREADLE_OP_CNTR_ADD, &n.sent, 1, i), &c, 9)) == 1);
	arms_one_too_many(&n, &c);
	need(cancel(n.fd, TREADLE_FLUSH_WORK, c.id, 0, 0, &count) == 0);
	need(count == MOST_ARMED / 2);
	for (__u64 i = 0; i < count; i++)
		need(post(&n, when(nop(i), &c, 9)) == 1);
	arms_one_too_many(&n, &c);
}

/* The module is loaded with a limit for this test. By default memory is the only limit. */
// conformance: ioctl.h: ENOSPC: a limit of the context
TEST(commands_armed_in_a_context)
{
	char parameter[32];
	int result;

	module_unload();
	snprintf(parameter, sizeof(parameter), "max_armed=%d", MOST_ARMED);
	need(module_load(false, parameter) == 0);
	result = reap(spawn(arms_the_most, NULL));
	module_unload();
	need(module_load(false, "") == 0);
	EXPECT_EQ(0, result);
}

#define FILE_MAX "/proc/sys/fs/file-max"

/* An unprivileged process at the limit of open files; all other processes here run as root. */
// conformance: ioctl.h: ENFILE: the system can have no more files
TEST(files_of_the_system)
{
	struct treadle_cntr_create cntr = {.size = sizeof(cntr)};
	struct treadle_wait_fd f = {.size = sizeof(f)};
	int fd = device(), result;
	char most[32];

	ASSERT_EQ(0, call(fd, TREADLE_IOC_CNTR_CREATE, &cntr));
	f.id = cntr.id;
	snprintf(most, sizeof(most), "%lld", number_in(FILE_MAX, NULL));
	write_to(FILE_MAX, "0");
	need(seteuid(1000) == 0);
	result = call(fd, TREADLE_IOC_WAIT_FD, &f);
	need(seteuid(0) == 0);
	write_to(FILE_MAX, most);
	EXPECT_EQ(-ENFILE, result);
	/* The file descriptor that it would have had is free. */
	EXPECT_EQ(0, call(fd, TREADLE_IOC_WAIT_FD, &f));
	EXPECT_EQ(fd + 1, f.fd);
	EXPECT_EQ(0, destroy(fd, cntr.id));
}

/* The largest buffer is larger than the default. */
TEST(buffered_bytes)
{
	static const __u32 asked[] = {1, 4096, 1 << 20, 4 << 20};
	char buf[1000];
	int last = 0;

	for (int i = 0; i < ARRAY_SIZE(asked); i++) {
		struct treadle_cqe c;
		struct node a, b;
		int done = 0;
		__u64 to;

		node_open(&a, (struct options){.tx = 64});
		node_open(&b, (struct options){.buffered = asked[i]});
		to = peer(&a, b.addr);
		while (ring_room(&a.tx)) {
			ASSERT_EQ(1, post(&a, send_of(buf, sizeof(buf), to, 0)));
			while (cq_poll(&a.cq, &c)) {
				ASSERT_EQ(0, c.error);
				done++;
			}
		}
		EXPECT_GE(asked[i] / sizeof(buf), done);
		EXPECT_LE(asked[i] / sizeof(buf) / 2, done);
		EXPECT_LE(last, done);
		last = done;
		close(a.fd);
		close(b.fd);
	}
}

struct group {
	char dir[64];
	int armed;
};

/* Arms commands until it is refused. */
static void is_greedy(void *arg)
{
	struct group *g = arg;
	char path[128];
	struct cntr c;
	struct node n;
	int result;

	cgroup_enter(g->dir);
	snprintf(path, sizeof(path), "%s/memory.max", g->dir);
	write_to(path, "48M");
	node_open(&n, (struct options){});
	cntr_open(&c, n.fd);
	do {
		result = post(&n, when(count_of(TREADLE_OP_CNTR_ADD, &c, 1, 0), &c, 1));
		g->armed += result == 1;
	} while (result == 1);
	need(result == -ENOMEM);
	/* The context still works. */
	need(cancel(n.fd, TREADLE_FLUSH_WORK, c.id, 0, 0, NULL) == 0);
	need(post(&n, count_of(TREADLE_OP_CNTR_ADD, &c, 1, 0)) == 1);
	need(cntr_value(&c) == 1);
}

/*
 * All memory is charged to the group of the process. At its limit calls fail with ENOMEM, and the
 * process is not killed.
 */
// conformance: ioctl.h: ENOMEM: the memory cgroup's limit
TEST(the_memory_of_a_group)
{
	struct group *g = shared(sizeof(*g));

	EXPECT_EQ(0, reap(spawn(is_greedy, g)));
	note("%d commands in 48 MiB", g->armed);
	EXPECT_LT((48 << 20) / 2 / 256, g->armed);
	EXPECT_GT((48 << 20) / 128, g->armed);
	until_unused();
}

/* --- costs ---------------------------------------------------------------------------- */

FIXTURE(costs)
{
	struct node a, b;
	__u64 to;
	char *src, *dst;
};

FIXTURE_SETUP(costs)
{
	__u32 most = query(device()).max_buffered;

	node_open(&self->a, (struct options){.tx = 64, .cq = 256});
	node_open(&self->b, (struct options){.rx = 1 << 17, .rcq = 1 << 17, .buffered = most});
	self->to = peer(&self->a, self->b.addr);
	self->src = pages(LARGE);
	self->dst = pages(LARGE);
}

FIXTURE_TEARDOWN(costs)
{
	close(self->a.fd);
	close(self->b.fd);
}

static __u64 shortest_post(FIXTURE_DATA(costs) * self, size_t len)
{
	__u64 best = ~0ULL;

	for (int i = 0; i < 10; i++) {
		__u64 start;

		need(post_recv(&self->b, recv_of(self->dst, len, ANY, i)) == 0);
		ring_doorbell(&self->b.rx);
		start = own_ns();
		need(post(&self->a, send_of(self->src, len, self->to, i)) == 1);
		if (own_ns() - start < best)
			best = own_ns() - start;
		need(cq_next(&self->b.rcq).len == len);
		need(cq_next(&self->a.cq).error == 0);
	}
	return best;
}

/*
 * The factor by which a constant cost may grow beside a number that grows a thousand times or more:
 * caches and a busy machine add something.
 */
#define NO_MORE 20

TEST_F(costs, posting_does_not_copy)
{
	static const size_t sizes[] = {64 << 10, 128 << 10, 1 << 20, LARGE};
	__u64 took[ARRAY_SIZE(sizes)];

	fill(self->src, LARGE, 1);
	/*
	 * On a busy host an emulated processor may wait for its turn once in a while; a copy takes
	 * time each time.
	 */
	for (int tries = 0; tries < 10; tries++) {
		for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
			took[i] = shortest_post(self, sizes[i]);
			note("posting %zu KiB: %llu ns", sizes[i] >> 10, took[i]);
		}
		if (took[ARRAY_SIZE(sizes) - 1] < NO_MORE * took[0])
			break;
	}
	EXPECT_LT(took[ARRAY_SIZE(sizes) - 1], NO_MORE * took[0]);
	EXPECT_TRUE(same(self->dst, LARGE, 1));
}

/* With so many receives of other tags posted, each message still finds its own. */
TEST_F(costs, receives_that_wait)
{
	const int messages = 30000;
	__u64 took[2];

	for (int step = 0; step < 2; step++) {
		int from = step ? 10 : 0, count = step ? MANY : 10;
		__u64 state = 1, start;

		for (int i = from; i < count; i++) {
			ASSERT_EQ(0,
				  post_recv(&self->b, trecv_of(self->dst, 8, ANY, i * 17, 0, i)));
		}
		ASSERT_EQ(0, ring_doorbell(&self->b.rx));
		start = own_ns();
		for (int i = 0; i < messages; i++) {
			int tag = lottery(&state) % count;

			ASSERT_EQ(1, post(&self->a, tsend_of(self->src, 8, self->to, tag * 17, i)));
			ASSERT_EQ(tag, cq_next(&self->b.rcq).context);
			ASSERT_EQ(0, cq_next(&self->a.cq).error);
			ASSERT_EQ(0, post_recv(&self->b,
					       trecv_of(self->dst, 8, ANY, tag * 17, 0, tag)));
		}
		took[step] = own_ns() - start;
		note("%d receives wait: %llu ns a message", count, took[step] / messages);
	}
	EXPECT_LT(took[1], NO_MORE * took[0]);
}

TEST_F(costs, messages_that_wait)
{
	const int messages = 30000;
	__u64 took[2];

	for (int step = 0; step < 2; step++) {
		int from = step ? 10 : 0, count = step ? MANY : 10;
		__u64 state = 1, start;

		for (int i = from; i < count; i++) {
			ASSERT_EQ(1, post(&self->a, tsend_of(self->src, 8, self->to, i * 17, i)));
			ASSERT_EQ(i, cq_next(&self->a.cq).context);
		}
		start = own_ns();
		for (int i = 0; i < messages; i++) {
			int tag = lottery(&state) % count;

			ASSERT_EQ(0, post_recv(&self->b,
					       trecv_of(self->dst, 8, ANY, tag * 17, 0, tag)));
			ASSERT_EQ(tag, cq_next(&self->b.rcq).context);
			ASSERT_EQ(1, post(&self->a, tsend_of(self->src, 8, self->to, tag * 17, i)));
			ASSERT_EQ(0, cq_next(&self->a.cq).error);
		}
		took[step] = own_ns() - start;
		note("%d messages wait: %llu ns a message", count, took[step] / messages);
	}
	EXPECT_LT(took[1], NO_MORE * took[0]);
}

/* Wildcards in between must not make the other messages search. */
TEST_F(costs, receives_with_wildcards_that_wait)
{
	const int messages = 10000, wild = 20, counts[] = {10, MANY};
	__u64 state = 1, start, took[2];
	int posted = 0;

	for (int i = 0; i < wild; i++) {
		ASSERT_EQ(0, post_recv(&self->b, trecv_of(self->dst, 8, ANY, i * 16 + 1, 2, MANY)));
	}
	for (int step = 0; step < 2; step++) {
		for (; posted < counts[step]; posted++) {
			struct treadle_desc d = trecv_of(self->dst, 8, ANY, posted * 16, 0, posted);

			ASSERT_EQ(0, post_recv(&self->b, d));
		}
		ASSERT_EQ(0, ring_doorbell(&self->b.rx));
		start = own_ns();
		for (int i = 0; i < messages; i++) {
			int tag = lottery(&state) % posted;

			ASSERT_EQ(1, post(&self->a, tsend_of(self->src, 8, self->to, tag * 16, i)));
			ASSERT_EQ(tag, cq_next(&self->b.rcq).context);
			ASSERT_EQ(0, cq_next(&self->a.cq).error);
			ASSERT_EQ(0, post_recv(&self->b,
					       trecv_of(self->dst, 8, ANY, tag * 16, 0, tag)));
		}
		took[step] = own_ns() - start;
		note("%d receives beside %d wildcards: %llu ns a message", posted, wild,
		     took[step] / messages);
	}
	EXPECT_LT(took[1], NO_MORE * took[0]);
}

/* Small messages of other senders pass while large ones are copied. */
TEST_F(costs, large_ones_let_others_pass)
{
	struct node c, d;
	int messages = 0;
	__u64 to;

	node_open(&c, (struct options){});
	node_open(&d, (struct options){});
	to = peer(&c, d.addr);
	for (int i = 0; i < 8; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, LARGE, ANY, i)));
		ASSERT_EQ(1, post(&self->a, send_of(self->src, LARGE, self->to, i)));
	}
	while (cntr_value(&self->b.rcvd) < 8) {
		char buf[16];

		ASSERT_EQ(0, post_recv(&d, recv_of(buf, 8, ANY, messages)));
		ASSERT_EQ(1, post(&c, send_of(buf + 8, 8, to, messages)));
		ASSERT_EQ(messages, cq_next(&d.rcq).context);
		ASSERT_EQ(messages, cq_next(&c.cq).context);
		messages++;
	}
	EXPECT_LT(10, messages);
	note("%d messages beside 512 MiB", messages);
}

TEST_HARNESS_MAIN
