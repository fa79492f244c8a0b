/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every call and each kind of command, with each thing that can fail within it failing: the n-th, for n = 1, 2, 3, until it
 * no longer gets that far. Whatever it answers then, it is a clean errno; nothing has changed, so that the same call works
 * afterwards; and nothing leaks. Calls are here, commands in sweep_commands.h, receives in sweep_receives.h. Who includes
 * these says how things are made to fail: fail_nth(n) lets the n-th from here on fail, has_failed() tells if it has come to
 * that, and no more fails after it, live() what the module has got.
 */
#ifndef TREADLE_KSELFTEST_SWEEP_H
#define TREADLE_KSELFTEST_SWEEP_H

#include "abi.h"
#include "connection.h"

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

#endif
