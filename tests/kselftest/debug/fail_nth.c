/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every call, with each thing that can fail within it failing: /proc/thread-self/fail-nth lets the n-th allocation or
 * access to user memory of this thread fail (fault-injection.rst), for n = 1, 2, 3, until the call no longer gets that
 * far. Whatever it answers then, it is a clean errno; nothing has changed, so that the same call works afterwards; and
 * nothing leaks, for which the kernel is asked after the run.
 *
 * test-timeout: 1500
 */
#include "../abi.h"
#include "../connection.h"

/* What may be told of memory that is not there: none for the kernel, or none that it can reach. */
static bool is_clean(int result)
{
	return result == -ENOMEM || result == -EFAULT;
}

static int control = -1;

/* The n-th point from here on fails. Other threads need not know. */
static void fail_nth(int n)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%d", n);

	if (control < 0)
		control = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	need(control >= 0 && pwrite(control, text, length, 0) == length);
}

/* Has it come to that? No more fails after this. What asks, copies to and from this process, and so is a point itself. */
static bool has_failed(void)
{
	char text[16] = "";

	if (pread(control, text, sizeof(text) - 1, 0) < 0) {
		need(errno == EFAULT);
		return false;
	}
	if (atoi(text) == 0)
		return true;
	if (pwrite(control, "0", 1, 0) != 1)
		need(errno == EFAULT);
	return false;
}

static void debugfs(const char *file, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s", file);
	write_to(path, text);
}

static __attribute__((constructor)) void failures_are_silent(void)
{
	static const char *kinds[] = {"failslab", "fail_page_alloc", "fail_usercopy"};
	char file[64];

	for (int i = 0; i < ARRAY_SIZE(kinds); i++) {
		/* Each tells of itself in the kernel's log, else, which looks like a complaint. */
		snprintf(file, sizeof(file), "%s/verbose", kinds[i]);
		debugfs(file, "0");
	}
	/* Those that may sleep and reclaim are just those that can fail. */
	debugfs("failslab/ignore-gfp-wait", "N");
	debugfs("fail_page_alloc/ignore-gfp-wait", "N");
	debugfs("fail_page_alloc/ignore-gfp-highmem", "N");
	debugfs("fail_page_alloc/min-order", "0");
}

/* --- ioctls --------------------------------------------------------------------------- */

TEST_F(abi, each_call_fails_cleanly_wherever_it_fails)
{
	int points = 0;

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		int n = 0, result;
		bool failed;

		do {
			struct arg arg = prepare(&rows[i], self), before = arg;

			fail_nth(++n);
			result = call(self->fd, rows[i].cmd, &arg);
			failed = has_failed();
			about("%s, failing at %d", rows[i].name, n);
			if (result != rows[i].result) {
				EXPECT_TRUE(failed && is_clean(result)) { TH_LOG("result %d", result); }
				arg = before;
				about("%s, after a failure at %d", rows[i].name, n);
				EXPECT_EQ(rows[i].result, call(self->fd, rows[i].cmd, &arg));
			}
			ASSERT_GT(1000, n);
		} while (failed);
		points += n - 1;
	}
	note("%d points of failure", points);
	EXPECT_LT(ARRAY_SIZE(rows), points);
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

/* --- commands ------------------------------------------------------------------------- */

/*
 * A command whose n-th point fails is refused by the doorbell, or taken; then it completes, with success or with a clean
 * error. It is not lost, and does not come twice.
 */
struct lane {
	struct node a, b;
	__u64 to, key;
	__u32 region;
	char *out, *in;
	struct cntr c;
};

enum { PLAIN, WAITS, TAGGED, WRITES, READS, ARMED, KINDS_OF_COMMANDS };

static const size_t lengths[] = {0, 8, 5000, 300000};

static void lane_open(struct lane *l)
{
	node_open(&l->a, (struct options){});
	node_open(&l->b, (struct options){.buffered = 16384});
	l->to = peer(&l->a, l->b.addr);
	l->out = pages(1 << 20);
	l->in = pages(1 << 20);
	cntr_open(&l->c, l->a.fd);
	l->key = 0;
	need(mr(l->b.fd, l->in, 1 << 20, TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
		TREADLE_MR_KERNEL_KEY, &l->key, &l->region) == 0);
}

static void lane_close(struct lane *l)
{
	node_close(&l->a);
	node_close(&l->b);
	munmap(l->out, 1 << 20);
	munmap(l->in, 1 << 20);
}

static struct treadle_desc command(struct lane *l, int kind, size_t len)
{
	switch (kind) {
	case TAGGED:
		return tsend_of(l->out, len, l->to, 5, 7);
	case WRITES:
		return write_of(l->out, len, l->to, 0, l->key, 7);
	case READS:
		return read_of(l->out, len, l->to, 0, l->key, 7);
	case ARMED:
		return when(send_of(l->out, len, l->to, 7), &l->c, 0);
	default:
		return send_of(l->out, len, l->to, 7);
	}
}

static void post_receive(struct lane *l, int kind)
{
	struct treadle_desc r = kind == TAGGED ? trecv_of(l->in, 1 << 20, ANY, 5, 0, 9) :
						 recv_of(l->in, 1 << 20, ANY, 9);

	need(post_recv(&l->b, r) == 0);
}

/*
 * What became of it: 0, or the errno of the doorbell or of the completion. In both cases it works when it is posted once
 * more. The receive of one that failed may have failed with it, or it waits for the next.
 */
static int outcome(struct lane *l, int kind, size_t len, int n, bool *failed)
{
	bool message = kind != WRITES && kind != READS;
	struct treadle_desc d = command(l, kind, len);
	struct treadle_cqe c;
	int result;

	if (message && kind != WAITS)
		post_receive(l, kind);
	fail_nth(n);
	result = post(&l->a, d);
	*failed = has_failed();
	if (kind == WAITS)
		post_receive(l, kind);
	if (result == 1) {
		c = cq_next(&l->a.cq);
		need(c.context == 7);
		result = -(int)c.error;
	}
	if (result) {
		if (message)
			post_receive(l, kind);
		need(post(&l->a, d) == 1);
		c = cq_next(&l->a.cq);
		need(c.context == 7 && c.error == 0);
	}
	if (message) {
		c = cq_next(&l->b.rcq);
		need(c.error == 0 || (result && is_clean(-(int)c.error)));
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

FIXTURE_SETUP(commands)
{
}

FIXTURE_TEARDOWN(commands)
{
}

TEST_F_TIMEOUT(commands, each_fails_cleanly_wherever_it_fails, 1200)
{
	for (int kind = 0; kind < KINDS_OF_COMMANDS; kind++) {
		for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
			bool failed;
			int n = 0;

			do {
				struct lane l;
				int result;

				lane_open(&l);
				fill(l.out, lengths[i], n);
				about("command %d, %zu bytes, failing at %d", kind, lengths[i], ++n);
				result = outcome(&l, kind, lengths[i], n, &failed);
				self->failures += !!result;
				/* EIO: it was the peer's memory. */
				EXPECT_TRUE(!result || is_clean(result) || result == -EIO)
				{
					TH_LOG("result %d", result);
				}
				EXPECT_TRUE(kind == READS || same(l.in, lengths[i], n - 1));
				ASSERT_GT(1000, n);
				lane_close(&l);
			} while (failed);
			self->points += n - 1;
		}
	}
	note("%d points of failure, of which %d were noticed", self->points, self->failures);
	EXPECT_LT(0, self->failures);
}

TEST_HARNESS_MAIN
