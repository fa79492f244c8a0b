/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory charges: kept messages are charged to the sender that causes them, or to the receiver that
 * will have them, whichever process runs at the allocation. No process reclaims memory for another
 * one's group.
 */
#include "treadle.h"

struct full {
	char dir[64];
	struct treadle_addr addr;
	int ready;
};

enum { INJECTED = 2000, BYTES = 4000 };

static void injects(void *arg)
{
	struct full *f = arg;
	char buf[BYTES] = {0};
	long long before;
	struct cntr c;
	struct node n;
	__u64 to;

	cgroup_enter(f->dir);
	node_open(&n, (struct options){});
	cntr_open(&c, n.fd);
	to = peer(&n, f->addr);
	before = cgroup_kernel(f->dir);
	for (int i = 0; i < INJECTED; i++) {
		struct treadle_desc d = when(send_of(buf, BYTES, to, i), &c, 1);

		d.flags = (d.flags & ~TREADLE_F_COMPLETION) | TREADLE_F_INJECT;
		need(post(&n, d) == 1);
	}
	need(post(&n, count_of(TREADLE_OP_CNTR_ADD, &c, 1, 0)) == 1);
	need(cntr_becomes(&n.sent, INJECTED, 0));
	before = cgroup_kernel(f->dir) - before;
	note("%d messages of %d bytes: %lld KiB", INJECTED, BYTES, before >> 10);
	need(before > (long long)INJECTED * BYTES);
}

/*
 * A message beyond the receiver's buffer is charged to its sender, even if a worker fires it, as
 * for most of these.
 */
TEST(injected_messages_are_charged_to_the_sender)
{
	struct full *f = shared(sizeof(*f));
	struct node b;

	node_open(&b, (struct options){.buffered = 1});
	f->addr = b.addr;
	EXPECT_EQ(0, reap(spawn(injects, f)));
	close(b.fd);
}

/* Arms commands until there is no memory left. */
static void use_up(struct node *n, struct cntr *c)
{
	int result;

	cntr_open(c, n->fd);
	do
		result = post(n, when(count_of(TREADLE_OP_CNTR_ADD, c, 1, 0), c, 1));
	while (result == 1);
	need(result == -ENOMEM);
}

static void receives_at_its_limit(void *arg)
{
	struct full *f = arg;
	char path[128], *buf = pages(1 << 16);
	struct treadle_desc d;
	struct cntr c;
	struct node n;

	cgroup_enter(f->dir);
	snprintf(path, sizeof(path), "%s/memory.max", f->dir);
	write_to(path, "24M");
	node_open(&n, (struct options){.buffered = 1 << 20});
	memset(buf, 1, 1 << 16);
	d = recv_of(buf, 1 << 16, ANY, 0);
	d.flags |= TREADLE_F_MULTI_RECV;
	need(post_recv(&n, d) == 0);
	f->addr = n.addr;
	raise_to(&f->ready, 1);
	need(cq_next(&n.rcq).error == 0); /* its pages are in the pagemap now */
	use_up(&n, &c);
	raise_to(&f->ready, 2);
	pause();
}

/* A sender does not reclaim memory for a receiver at its limit: that could take for ever. */
TEST(no_process_reclaims_for_another)
{
	struct full *f = shared(sizeof(*f));
	pid_t pid = spawn(receives_at_its_limit, f);
	struct node a, b;
	char path[128], buf[1000] = {0};
	long long before;
	__u64 to;

	await(&f->ready, 1);
	node_open(&a, (struct options){.tx = 256, .cq = 256});
	node_open(&b, (struct options){});
	to = peer(&a, f->addr);
	ASSERT_EQ(1, post(&a, send_of(buf, 8, to, 0)));
	ASSERT_EQ(0, cq_next(&a.cq).error);
	await(&f->ready, 2);
	snprintf(path, sizeof(path), "%s/memory.events", f->dir);
	before = number_in(path, "max ");
	ASSERT_LE(0, before);
	/* received, and waiting, messages */
	for (int i = 0; i < 16; i++)
		EXPECT_EQ(1, post(&a, send_of(buf, 8, to, 0)));
	for (int i = 0; i < 16; i++)
		EXPECT_EQ(0, cq_next(&a.cq).error);
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(1, post(&a, tsend_of(buf, sizeof(buf), to, i, 0)));
	/* some are due to calls of its own */
	note("%lld times at the limit, of which %lld before", number_in(path, "max "), before);
	EXPECT_GT(before + 10, number_in(path, "max "));
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
	close(a.fd);
	close(b.fd);
}

enum { HUGE = 2 << 20 };

static void sends_there(void *arg)
{
	struct full *f = arg;
	char path[128];
	struct node n;

	cgroup_enter(f->dir);
	node_open(&n, (struct options){});
	need(post(&n, send_of("abc", 4, peer(&n, f->addr), 1)) == 1);
	need(cq_next(&n.cq).error == 0);
	snprintf(path, sizeof(path), "%s/hugetlb.2MB.current", f->dir);
	if (access(path, R_OK) == 0)
		need(number_in(path, NULL) == 0);
}

/* A sender neither allocates a huge page for its receiver, nor waits for one. */
TEST(a_huge_page_is_not_allocated_by_the_sender)
{
	struct full *f = shared(sizeof(*f));
	struct node b;
	char *buf;
	int fd;

	write_to("/proc/sys/vm/nr_hugepages", "4");
	buf = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
		   -1, 0);
	ASSERT_NE(MAP_FAILED, buf);
	fd = open("/sys/fs/cgroup/cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
	if (write(fd, "+hugetlb", 8) < 0)
		note("this kernel does not count huge pages");
	close(fd);
	node_open(&b, (struct options){});
	f->addr = b.addr;
	ASSERT_EQ(0, post_recv(&b, recv_of(buf + 5, 4, ANY, 7)));
	EXPECT_EQ(0, reap(spawn(sends_there, f)));
	EXPECT_EQ(0, cq_next(&b.rcq).error);
	EXPECT_STREQ("abc", buf + 5);
	close(b.fd);
	munmap(buf, HUGE);
	write_to("/proc/sys/vm/nr_hugepages", "0");
}

struct flooded {
	char dir[64];
	struct treadle_addr addr;
	int stage;
	long sent;
};

enum { FAR = 32 };

static void receives_from_afar(void *arg)
{
	static char near[4096];
	struct flooded *f = arg;
	char *far[FAR], path[128];
	struct node n;

	/*
	 * Pages that exist, each in a part of the address space that the pagemap does not cover
	 * yet.
	 */
	for (int i = 0; i < FAR; i++) {
		far[i] = mmap((void *)(0x200000000000 + ((unsigned long)i << 32)), 4096,
			      PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		need(far[i] != MAP_FAILED);
		far[i][0] = 0;
	}
	cgroup_enter(f->dir);
	snprintf(path, sizeof(path), "%s/memory.max", f->dir);
	write_to(path, "12M");
	node_open(&n, (struct options){.buffered = 64 << 20});
	near[0] = 0;
	f->addr = n.addr;
	raise_to(&f->stage, 1);
	await(&f->stage, 2);
	for (long i = 0; i < f->sent; i++) {
		struct treadle_cqe c;

		need(post_recv(&n, recv_of(i < FAR ? far[i] : near, 4096, ANY, i)) == 0);
		c = cq_next(&n.rcq);
		if (c.error || c.len != i % 4096)
			note("message %ld: error %u, %llu bytes", i, c.error, c.len);
		need(c.error == 0 && c.len == i % 4096);
	}
}

/*
 * Other processes have filled the receiver's group with copied messages. It can receive all of
 * them.
 */
TEST(a_message_reported_as_sent_is_received)
{
	struct flooded *f = shared(sizeof(*f));
	char *out = pages(PAGE);
	long done = 0;
	pid_t child;
	struct node n;
	__u64 to;

	child = spawn(receives_from_afar, f);
	await(&f->stage, 1);
	node_open(&n, (struct options){.tx = 1024, .cq = 1024});
	to = peer(&n, f->addr);
	/* Of many sizes, so that no allocator has room left. */
	while (f->sent - done < 900) {
		ASSERT_EQ(1, post(&n, send_of(out, f->sent % 4096, to, f->sent)));
		f->sent++;
		for (struct treadle_cqe c; cq_poll(&n.cq, &c); done++)
			ASSERT_EQ(0, c.error);
	}
	note("%ld messages were copied, %ld wait", done, f->sent - done);
	raise_to(&f->stage, 2);
	for (; done < f->sent; done++)
		EXPECT_EQ(0, cq_next(&n.cq).error);
	EXPECT_EQ(0, reap(child));
	close(n.fd);
}

TEST_HARNESS_MAIN
