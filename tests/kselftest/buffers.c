/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Buffers of every kind, good and bad: a copy sees what the process would see at that address at
 * that time, and can do no more than the process could.
 */
#include "slow.h"
#include "treadle.h"

#define LARGE (1UL << 20)

FIXTURE(buffers)
{
	struct node a, b;
	__u64 to;
	char *src, *dst; /* LARGE each */
	__u64 seed;
};

FIXTURE_SETUP(buffers)
{
	node_open(&self->a, (struct options){});
	node_open(&self->b, (struct options){});
	self->to = peer(&self->a, self->b.addr);
	self->src = pages(LARGE);
	self->dst = pages(LARGE);
}

FIXTURE_TEARDOWN(buffers)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

typedef FIXTURE_DATA(buffers) world;

#define EAGER 4096 /* bytes: a longer message stays with its sender until it is received */

static const size_t sizes[] = {1, 100, PAGE, 3 * PAGE, 64 * PAGE};

/* The error of the send, from its doorbell or from its completion, never from both. */
static int send_error(world *self, const void *src, size_t len)
{
	int result = post(&self->a, send_of(src, len, self->to, 1));

	return result == 1 ? (int)cq_next(&self->a.cq).error : -result;
}

/* A message passes between these two buffers. */
static void pass(struct __test_metadata *_metadata, world *self, char *src, char *dst, size_t len)
{
	__u64 seed = ++self->seed;
	struct treadle_cqe c;

	fill(src, len, seed);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(dst, len, ANY, seed)));
	ASSERT_EQ(0, send_error(self, src, len));
	c = cq_next(&self->b.rcq);
	ASSERT_EQ(seed, c.context);
	ASSERT_EQ(0, c.error);
	ASSERT_EQ(len, differs(dst, len, seed));
}

/* --- bad ones ------------------------------------------------------------------------ */

/* Ranges that can't be read, or only their first page. */
static int bad_sources(char *bad[8])
{
	char *hole = pages(2 * PAGE), *partly = pages(8 * PAGE);
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600), n = 0;

	need(munmap(hole, 2 * PAGE) == 0);
	need(munmap(partly + PAGE, 7 * PAGE) == 0);
	need(fd >= 0 && ftruncate(fd, 1) == 0);
	bad[n++] = hole;
	bad[n++] = partly + PAGE - 1;
	bad[n++] = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* The first page of this range is good. The file ends behind it. */
	bad[n++] = (char *)mmap(NULL, 64 * PAGE, PROT_READ, MAP_SHARED, fd, 0) + PAGE - 1;
	bad[n++] = NULL;
	bad[n++] = (char *)0xffffffff81000000; /* the kernel's */
	bad[n++] = (char *)0xffff888000001000;
	bad[n++] = (char *)0x7ffffffff000; /* the last page of user space, and out of it */
	return n;
}

// conformance: ioctl.h: EFAULT: a buffer is not mapped
TEST_F(buffers, sends_of_what_cannot_be_read)
{
	char *bad[8];
	int count = bad_sources(bad);

	for (int i = 0; i < count; i++) {
		for (int s = 1; s < ARRAY_SIZE(sizes); s++) {
			about("source %d, %zu bytes", i, sizes[s]);
			/* The receive that waited has not been used up. */
			ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, LARGE, ANY, 5)));
			EXPECT_EQ(EFAULT, send_error(self, bad[i], sizes[s]));
			EXPECT_TRUE(cq_empty(&self->b.rcq));
			fill(self->src, 100, i);
			EXPECT_EQ(0, send_error(self, self->src, 100));
			EXPECT_EQ(100, cq_next(&self->b.rcq).len);
			EXPECT_TRUE(same(self->dst, 100, i));
		}
	}
	EXPECT_TRUE(cntr_becomes(&self->b.rcvd, count * (ARRAY_SIZE(sizes) - 1), 0));
}

/* No receive is posted: the error is found at once, or when a receive comes. */
// conformance: ioctl.h: EFAULT: a buffer is not mapped
TEST_F(buffers, unexpected_sends_of_what_cannot_be_read)
{
	char *bad[8];
	int count = bad_sources(bad);

	for (int i = 0; i < count; i++) {
		about("source %d", i);
		EXPECT_EQ(EFAULT, send_error(self, bad[i], 100));
		ASSERT_EQ(1, post(&self->a, send_of(bad[i], 64 * PAGE, self->to, 2)));
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 50, self->to, 3)));
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, LARGE, ANY, 4)));
		/* The first receive gets the first good message. */
		EXPECT_EQ(50, cq_next(&self->b.rcq).len);
		for (int j = 0; j < 2; j++) {
			struct treadle_cqe c = cq_next(&self->a.cq);

			EXPECT_EQ(c.context == 2 ? EFAULT : 0, c.error);
		}
	}
}

// conformance: ioctl.h: EFAULT: mapped read-only and would be written
// conformance: ioctl.h: EIO: the peer's memory cannot be read or written
TEST_F(buffers, receives_into_what_cannot_be_written)
{
	char *bad[10];
	int count = bad_sources(bad);

	bad[count++] = mmap(NULL, 64 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bad[count++] =
		mmap(NULL, 64 * PAGE, PROT_READ, MAP_SHARED, open("/proc/self/exe", O_RDONLY), 0);
	for (int i = 0; i < count; i++) {
		for (int late = 0; late < 2; late++) {
			for (int s = 1; s < ARRAY_SIZE(sizes); s++) {
				struct treadle_desc d = recv_of(bad[i], sizes[s], ANY, 6);
				struct treadle_cqe c;
				int result;

				about("target %d, %zu bytes, late %d", i, sizes[s], late);
				if (!late)
					ASSERT_EQ(0, post_recv(&self->b, d));
				ASSERT_EQ(1, post(&self->a,
						  send_of(self->src, sizes[s], self->to, 1)));
				result = late ? post_recv(&self->b, d) : 0;
				EXPECT_EQ(0, result);
				c = cq_next(&self->b.rcq);
				EXPECT_EQ(6, c.context);
				EXPECT_EQ(EFAULT, c.error);
				c = cq_next(&self->a.cq);
				EXPECT_EQ(1, c.context);
				/*
				 * A message that was copied before it was received had completed.
				 */
				EXPECT_EQ(late && sizes[s] <= EAGER ? 0 : EIO, c.error);
			}
		}
	}
	pass(_metadata, self, self->src, self->dst, 1000);
}

/* The private map is writable; the file is not. */
TEST_F(buffers, private_maps_of_files_keep_the_file)
{
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
	char *private, *shared_map, old[PAGE];

	ASSERT_EQ(0, ftruncate(fd, PAGE));
	private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	shared_map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, (void *)private);
	ASSERT_NE(MAP_FAILED, (void *)shared_map);
	pass(_metadata, self, self->src, private, PAGE);
	ASSERT_EQ(PAGE, pread(fd, old, PAGE, 0));
	EXPECT_TRUE(all_are(old, PAGE, 0));
	/* A shared map is the file itself. */
	pass(_metadata, self, self->src, shared_map, PAGE);
	ASSERT_EQ(PAGE, pread(fd, old, PAGE, 0));
	EXPECT_TRUE(same(old, PAGE, self->seed));
	pass(_metadata, self, shared_map, self->dst, PAGE);
	/* The file is truncated under the map. */
	ASSERT_EQ(0, ftruncate(fd, 0));
	EXPECT_EQ(EFAULT, send_error(self, shared_map, EAGER));
	ASSERT_EQ(0, ftruncate(fd, PAGE));
	pass(_metadata, self, self->src, shared_map, PAGE);
}

/* Data that the kernel maps into processes, without pages of the process's own. */
static char *kernel_pages(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[256], *at = NULL;

	while (maps && !at && fgets(line, sizeof(line), maps))
		if (strstr(line, "[vvar]"))
			at = (char *)strtoul(line, NULL, 16);
	need(maps && at && fclose(maps) == 0);
	return at;
}

TEST_F(buffers, kernel_pages_are_not_sent)
{
	char *vvar = kernel_pages();

	/* A few bytes may pass: the sender could read them itself. More than that needs a page. */
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, LARGE, ANY, 1)));
	EXPECT_EQ(EFAULT, send_error(self, vvar, 2 * PAGE));
	EXPECT_EQ(EFAULT, send_error(self, (char *)0xffffffffff600000, 100));
	EXPECT_EQ(0, send_error(self, self->src, 100));
	EXPECT_EQ(100, cq_next(&self->b.rcq).len);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(vvar, PAGE, ANY, 2)));
	EXPECT_EQ(EIO, send_error(self, self->src, 100));
	EXPECT_EQ(EFAULT, cq_next(&self->b.rcq).error);
	pass(_metadata, self, self->src, self->dst, 100);
}

/* --- changes ---------------------------------------------------------------------------- */

/* A copy uses the pages that are at the address now, not those of an earlier use. */
TEST_F(buffers, maps_change_between_messages)
{
	char *src = pages(4 * PAGE), *dst = pages(4 * PAGE), *old = pages(4 * PAGE);
	const int rw = PROT_READ | PROT_WRITE;

	for (int round = 0; round < 20; round++) {
		size_t len = 3 * PAGE;

		/* New pages at the same address. */
		pass(_metadata, self, src, dst, len);
		ASSERT_EQ(src,
			  mmap(src, 4 * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		ASSERT_EQ(dst,
			  mmap(dst, 4 * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		pass(_metadata, self, src, dst, len);
		/* Unmapped. */
		ASSERT_EQ(0, munmap(dst, 4 * PAGE));
		ASSERT_EQ(0, post_recv(&self->b, recv_of(dst, len, ANY, 1)));
		send_error(self, src, len);
		EXPECT_EQ(EFAULT, cq_next(&self->b.rcq).error);
		ASSERT_EQ(dst,
			  mmap(dst, 4 * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		/* Moved: the old pages keep their contents. */
		pass(_metadata, self, src, dst, len);
		ASSERT_EQ(old, mremap(dst, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, old));
		ASSERT_EQ(dst,
			  mmap(dst, 4 * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		pass(_metadata, self, src, dst, len);
		EXPECT_TRUE(same(old, len, self->seed - 1));
		/* Emptied. */
		ASSERT_EQ(0, madvise(src, 4 * PAGE, MADV_DONTNEED));
		ASSERT_EQ(0, post_recv(&self->b, recv_of(dst, len, ANY, 1)));
		ASSERT_EQ(0, send_error(self, src, len));
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
		EXPECT_TRUE(all_are(dst, len, 0));
		/* Read-only, and back. */
		ASSERT_EQ(0, mprotect(dst, 4 * PAGE, PROT_READ));
		ASSERT_EQ(0, post_recv(&self->b, recv_of(dst, len, ANY, 1)));
		send_error(self, self->src, len);
		EXPECT_EQ(EFAULT, cq_next(&self->b.rcq).error);
		EXPECT_TRUE(all_are(dst, len, 0));
		ASSERT_EQ(0, mprotect(dst, 4 * PAGE, rw));
		pass(_metadata, self, src, dst, len);
	}
}

/* After fork parent and child share pages until one of them writes. Here the kernel writes. */
TEST_F(buffers, a_child_does_not_see_what_its_parent_receives)
{
	int *turn = shared(sizeof(*turn));
	pid_t pid;

	fill(self->dst, PAGE, 1000);
	pass(_metadata, self, self->src, self->dst + PAGE, PAGE);
	pid = fork();
	if (pid == 0) {
		await(turn, 1);
		need(same(self->dst, PAGE, 1000));
		need(same(self->dst + PAGE, PAGE, 1));
		fill(self->dst, 2 * PAGE, 2000);
		fill(self->src, PAGE, 2001);
		raise_to(turn, 2);
		pause();
	}
	pass(_metadata, self, self->src, self->dst, 2 * PAGE);
	raise_to(turn, 1);
	while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != 2 && waitpid(pid, NULL, WNOHANG) == 0)
		usleep(1000);
	EXPECT_EQ(2, *turn);
	EXPECT_TRUE(same(self->dst, 2 * PAGE, self->seed));
	EXPECT_TRUE(same(self->src, PAGE, self->seed));
	kill(pid, SIGKILL);
}

/* KSM merges pages of the same contents. A receive into one breaks the sharing. */
TEST_F(buffers, merged_pages_are_parted)
{
	const size_t count = LARGE / PAGE;
	char *twin = pages(LARGE);

	write_to("/sys/kernel/mm/ksm/pages_to_scan", "5000");
	write_to("/sys/kernel/mm/ksm/sleep_millisecs", "1");
	/* Newer kernels skip pages that were not merged the last times. */
	if (access("/sys/kernel/mm/ksm/smart_scan", W_OK) == 0)
		write_to("/sys/kernel/mm/ksm/smart_scan", "0");
	write_to("/sys/kernel/mm/ksm/run", "1");
	ASSERT_EQ(0, madvise(self->dst, LARGE, MADV_MERGEABLE));
	ASSERT_EQ(0, madvise(twin, LARGE, MADV_MERGEABLE));
	for (int round = 0; round < 3; round++) {
		/* The kernel has one page pinned for writing before the merge. */
		pass(_metadata, self, self->src, self->dst, LARGE);
		fill(twin, LARGE, self->seed);
		while (number_in("/sys/kernel/mm/ksm/pages_sharing", NULL) < count)
			usleep(1000);
		pass(_metadata, self, self->src, self->dst, LARGE);
		EXPECT_TRUE(same(twin, LARGE, self->seed - 1));
		/* The same for reading: the message has the current contents. */
		pass(_metadata, self, twin, self->src, LARGE);
	}
	write_to("/sys/kernel/mm/ksm/run", "2");
	write_to("/sys/kernel/mm/ksm/run", "0");
}

TEST_F(buffers, one_buffer_for_both)
{
	fill(self->src, LARGE, 1);
	for (int s = 0; s < ARRAY_SIZE(sizes); s++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->src, sizes[s], ANY, 1)));
		ASSERT_EQ(0, send_error(self, self->src, sizes[s]));
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
		EXPECT_TRUE(same(self->src, LARGE, 1));
	}
	/* Overlapping: the contents are undefined, but the message completes. */
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->src + 100, LARGE / 2, ANY, 1)));
	ASSERT_EQ(0, send_error(self, self->src, LARGE / 2));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_TRUE(same(self->src, 100, 1));
}

/* --- slow ones ---------------------------------------------------------------------------- */

/*
 * A triggered send that another context fires keeps its place in the order while its page is
 * missing.
 */
TEST_F(buffers, a_fired_send_with_a_slow_page_is_not_overtaken)
{
	struct node *a = &self->a, *b = &self->b;
	__u64 back = peer(b, a->addr);
	char *slow = pages(PAGE);
	int fd = slow_pages(slow, PAGE);
	struct treadle_cqe c;

	fill(self->src, 64, 2);
	ASSERT_EQ(1, post(a, when(send_of(slow, 64, self->to, 1), &a->rcvd, 1)));
	ASSERT_EQ(1, post(a, when(send_of(self->src, 64, self->to, 2), &a->rcvd, 1)));
	ASSERT_EQ(0, post_recv(a, recv_of(self->dst + 1000, 8, ANY, 3)));
	ASSERT_EQ(1, post(b, send_of(self->src, 8, back, 4)));
	EXPECT_EQ(4, cq_next(&b->cq).context);
	EXPECT_EQ(3, cq_next(&a->rcq).context);
	ASSERT_EQ(0, post_recv(b, recv_of(self->dst, 64, ANY, 5)));
	ASSERT_EQ(0, post_recv(b, recv_of(self->dst + 64, 64, ANY, 6)));
	give_page(fd, 1);
	for (int i = 0; i < 2; i++) {
		c = cq_next(&b->rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_TRUE(same(self->dst + (c.context - 5) * 64, 64, c.context - 4));
		EXPECT_EQ(0, cq_next(&a->cq).error);
	}
	close(fd);
	munmap(slow, PAGE);
}

/* Page faults of a receiver hold neither its sender nor other senders. */
TEST_F(buffers, a_receivers_slow_page_holds_no_sender)
{
	char *slow = pages(2 * PAGE);
	int fd = slow_pages(slow, 2 * PAGE);

	fill(self->src, 2 * PAGE, 1);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(slow, 2 * PAGE, ANY, 1)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 2 * PAGE, self->to, 1)));
	for (int i = 10; i < 20; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, i)));
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, i)));
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
		EXPECT_EQ(i, cq_next(&self->a.cq).context);
	}
	give_page(fd, 0);
	give_page(fd, 0);
	EXPECT_EQ(1, cq_next(&self->b.rcq).context);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	EXPECT_TRUE(same(slow, 2 * PAGE, 1));
}

/*
 * The receiver's worker keeps the order of messages, also if one of them waits for a page while
 * others are behind it (3) and more have come since (4).
 */
// conformance: fi_msg(3): FI_MULTI_RECV: messages are packed into the buffer until it has been ...
TEST_F(buffers, a_workers_page_faults_change_no_order)
{
	const size_t len = 12 * LARGE; /* which takes a worker a while */
	char *slow = pages(4 * PAGE), *from = pages(len), *to = pages(len);
	char *const bufs[] = {slow, to, slow + PAGE, slow + 2 * PAGE, slow + 3 * PAGE};
	int fd = slow_pages(slow, 4 * PAGE);

	fill(to, len, 1);
	fill(from, len, 2);
	for (int i = 0; i < ARRAY_SIZE(bufs); i++)
		ASSERT_EQ(0, post_recv(&self->b, recv_of(bufs[i], len, ANY, i)));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(1, post(&self->a, send_of(from, i == 1 ? len : 8, self->to, i)));
	give_page(fd, 0);
	EXPECT_EQ(0, cq_next(&self->b.rcq).context);
	usleep(500);
	ASSERT_EQ(1, post(&self->a, send_of(from, 8, self->to, 4)));
	for (int i = 1; i < ARRAY_SIZE(bufs); i++) {
		if (i > 1)
			give_page(fd, 0);
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
	}
	for (int i = 0; i < ARRAY_SIZE(bufs); i++)
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_TRUE(same(to, len, 2));
}

static void *gives_pages(void *arg)
{
	int fd = *(int *)arg;

	give_page(fd, 1);
	give_page(fd, 2);
	return NULL;
}

TEST_F(buffers, a_senders_slow_page)
{
	char *slow = pages(2 * PAGE);
	int fd = slow_pages(slow, 2 * PAGE);
	pthread_t t;

	/* The sender may have to wait; another thread provides its pages. */
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 2 * PAGE, ANY, 1)));
	t = thread(gives_pages, &fd);
	ASSERT_EQ(0, send_error(self, slow, 2 * PAGE));
	pthread_join(t, NULL);
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_TRUE(same(self->dst, PAGE, 1));
	EXPECT_TRUE(same(self->dst + PAGE, PAGE, 2));
}

/* A process that waits for a page that never comes can still be killed. */
static void sends_slowly(void *arg)
{
	char *slow = pages(PAGE), *buf = pages(PAGE);
	struct node n;

	slow_pages(slow, PAGE);
	node_open(&n, (struct options){});
	need(post_recv(&n, recv_of(buf, PAGE, ANY, 1)) == 0);
	need(post_recv(&n, recv_of(slow, PAGE, ANY, 2)) == 0);
	raise_to(arg, 1);
	post(&n, send_of(slow, PAGE, peer(&n, n.addr), 1));
	post(&n, send_of(buf, PAGE, 0, 2));
	pause();
}

TEST(a_sender_that_waits_for_a_page_can_be_killed)
{
	int *ready = shared(sizeof(*ready));
	pid_t pid = spawn(sends_slowly, ready);

	await(ready, 1);
	usleep(50000);
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
	until_unused();
}

TEST_HARNESS_MAIN
