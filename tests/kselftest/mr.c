/* SPDX-License-Identifier: GPL-2.0 */
/* Memory regions: keys, rights, and the charge for pinned pages. */
// conformance: fi_arch(7): registration: permissions and keys

#include "slow.h"
#include "treadle.h"

#define LARGE (1UL << 20)

#define READS  (TREADLE_ACCESS_SEND | TREADLE_ACCESS_WRITE | TREADLE_ACCESS_REMOTE_READ)
#define WRITES (TREADLE_ACCESS_RECV | TREADLE_ACCESS_READ | TREADLE_ACCESS_REMOTE_WRITE)

FIXTURE(mr)
{
	int fd;
	char *buf;
};

FIXTURE_SETUP(mr)
{
	self->fd = device();
	self->buf = pages(LARGE);
	fill(self->buf, LARGE, 1);
}

FIXTURE_TEARDOWN(mr)
{
	close(self->fd);
}

/* --- keys ---------------------------------------------------------------------------- */

// conformance: ioctl.h: EEXIST: memory key in use
TEST_F(mr, keys_of_the_process)
{
	__u64 key = 42, other = ~0ULL;
	__u32 id, id2;
	int fd = device();

	EXPECT_EQ(0, mr(self->fd, self->buf, LARGE, READS, 0, &key, &id));
	EXPECT_EQ(42, key);
	EXPECT_EQ(-EEXIST, mr(self->fd, self->buf, LARGE, READS, 0, &key, &id2));
	EXPECT_EQ(-EEXIST,
		  mr(self->fd, self->buf + PAGE, 1, WRITES, TREADLE_MR_PINNED, &key, &id2));
	EXPECT_EQ(0, mr(self->fd, self->buf, LARGE, READS, 0, &other, &id2));
	/* Another context has keys of its own. */
	EXPECT_EQ(0, mr(fd, self->buf, LARGE, READS, 0, &key, &id2));
	/* The key of a closed region is free. */
	EXPECT_EQ(0, destroy(self->fd, id));
	EXPECT_EQ(0, mr(self->fd, self->buf, LARGE, READS, 0, &key, &id));
	EXPECT_EQ(-EEXIST, mr(self->fd, self->buf, LARGE, READS, 0, &key, &id2));
}

static int by_value(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

TEST_F(mr, keys_of_the_kernel_are_random)
{
	static __u64 keys[2000];
	int bits[64] = {0};
	__u64 key = 5;
	__u32 id;

	for (int i = 0; i < ARRAY_SIZE(keys); i++) {
		ASSERT_EQ(0, mr(self->fd, self->buf, LARGE, READS, TREADLE_MR_KERNEL_KEY, &keys[i],
				&id));
		for (int b = 0; b < 64; b++)
			bits[b] += keys[i] >> b & 1;
		if (i & 1)
			ASSERT_EQ(0, destroy(self->fd, id));
	}
	/* Each bit is a coin: 1000 of 2000 times, and never ten standard deviations off. */
	for (int b = 0; b < 64; b++) {
		EXPECT_LT(776, bits[b]);
		EXPECT_GT(1224, bits[b]);
	}
	qsort(keys, ARRAY_SIZE(keys), sizeof(*keys), by_value);
	for (int i = 1; i < ARRAY_SIZE(keys); i++) {
		EXPECT_NE(keys[i], keys[i - 1]);
	}
	/* The caller may not give a key if the kernel chooses it. */
	EXPECT_EQ(-EINVAL, mr(self->fd, self->buf, LARGE, READS, TREADLE_MR_KERNEL_KEY, &key, &id));
}

/* A call that fails holds no object. */
TEST_F(mr, a_failed_call_holds_no_counter)
{
	struct treadle_iov iov = {(unsigned long)self->buf, PAGE};
	struct treadle_mr_create c = {
		.size = sizeof(c),
		.access = READS,
		.iov_count = 1,
		.iov = (unsigned long)&iov,
		.key = 42,
	};
	struct cntr counter;
	__u32 id;

	cntr_open(&counter, self->fd);
	ASSERT_EQ(0, mr(self->fd, self->buf, LARGE, READS, 0, &c.key, &id));
	c.cntr = counter.id;
	EXPECT_EQ(-EEXIST, call(self->fd, TREADLE_IOC_MR_CREATE, &c));
	c.flags = TREADLE_MR_PINNED;
	EXPECT_EQ(-EEXIST, call(self->fd, TREADLE_IOC_MR_CREATE, &c));
	EXPECT_EQ(0, destroy(self->fd, counter.id));
}

/* --- rights ---------------------------------------------------------------------------- */

static void expect_rights(struct __test_metadata *_metadata, int fd, void *buf, __u64 len,
			  int reads, int writes)
{
	for (int pinned = 0; pinned < 2; pinned++) {
		for (int bit = 0; bit < 6; bit++) {
			__u32 access = 1U << bit, id = 0;
			int flags = TREADLE_MR_KERNEL_KEY | (pinned ? TREADLE_MR_PINNED : 0);
			int result = mr(fd, buf, len, access, flags, NULL, &id);

			about("access %#x, pinned %d", access, pinned);
			EXPECT_EQ(access & WRITES ? writes : reads, result);
			if (result == 0)
				EXPECT_EQ(0, destroy(fd, id));
		}
	}
}

// conformance: ioctl.h: EFAULT: a pointer in the structure
TEST_F(mr, the_map_decides_on_rights)
{
	int file = open("/proc/self/exe", O_RDONLY);
	char *hole = pages(4 * PAGE), *ro, *none;

	expect_rights(_metadata, self->fd, self->buf + 5, 3 * PAGE, 0, 0);
	ASSERT_EQ(0, mprotect(self->buf + 2 * PAGE, PAGE, PROT_READ));
	expect_rights(_metadata, self->fd, self->buf + 5, 3 * PAGE, 0, -EFAULT);
	expect_rights(_metadata, self->fd, self->buf, 2 * PAGE, 0, 0);
	ASSERT_EQ(0, munmap(hole + PAGE, PAGE));
	expect_rights(_metadata, self->fd, hole, 3 * PAGE, -EFAULT, -EFAULT);
	expect_rights(_metadata, self->fd, hole + PAGE, 1, -EFAULT, -EFAULT);
	expect_rights(_metadata, self->fd, hole + PAGE - 1, 1, 0, 0);
	none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect_rights(_metadata, self->fd, none, PAGE, -EFAULT, -EFAULT);
	ro = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
	expect_rights(_metadata, self->fd, ro, PAGE, 0, -EFAULT);
	expect_rights(_metadata, self->fd, NULL, PAGE, -EFAULT, -EFAULT);
	expect_rights(_metadata, self->fd, (void *)0xffff888000000000, PAGE, -EFAULT, -EFAULT);
}

// conformance: ioctl.h: EINVAL: value out of its documented range
TEST_F(mr, bad_input)
{
	struct treadle_iov iov = {(unsigned long)self->buf, PAGE};
	struct treadle_mr_create good = {
		.size = sizeof(good),
		.access = READS,
		.flags = TREADLE_MR_KERNEL_KEY,
		.iov_count = 1,
		.iov = (unsigned long)&iov,
	};
	struct treadle_mr_create c = good;
	__u32 id;

	EXPECT_EQ(0, call(self->fd, TREADLE_IOC_MR_CREATE, &c));
	c = good;
	c.access = 0; /* useless, but valid */
	EXPECT_EQ(0, call(self->fd, TREADLE_IOC_MR_CREATE, &c));
	c = good;
	c.iov_count = 0;
	EXPECT_EQ(-EINVAL, call(self->fd, TREADLE_IOC_MR_CREATE, &c));
	c = good;
	c.iov = 8;
	EXPECT_EQ(-EFAULT, call(self->fd, TREADLE_IOC_MR_CREATE, &c));
	c = good;
	c.auth_key_size = query(self->fd).max_auth_key + 1;
	EXPECT_EQ(-EINVAL, call(self->fd, TREADLE_IOC_MR_CREATE, &c));
	c = good;
	c.auth_key_size = 4;
	c.auth_key = 8;
	EXPECT_EQ(-EFAULT, call(self->fd, TREADLE_IOC_MR_CREATE, &c));
	/* Ends beyond 2^64. */
	EXPECT_GT(0, mr(self->fd, self->buf, ~0ULL, READS, 0, NULL, &id));
	EXPECT_GT(0, mr(self->fd, (void *)~4095UL, PAGE, READS, 0, NULL, &id));
	EXPECT_GT(0, mr(self->fd, (void *)~0UL, 1, READS, TREADLE_MR_PINNED, NULL, &id));
	/* A region that need not be mapped can't be pinned. */
	EXPECT_EQ(-EINVAL, mr(self->fd, self->buf, PAGE, READS,
			      TREADLE_MR_UNMAPPED | TREADLE_MR_PINNED, NULL, &id));
	EXPECT_EQ(-EINVAL, mr(self->fd, self->buf, 0, READS, TREADLE_MR_UNMAPPED, NULL, &id));
	EXPECT_EQ(-EINVAL, mr(self->fd, self->buf, ~0ULL, READS, TREADLE_MR_UNMAPPED, NULL, &id));
}

/* --- pinning ------------------------------------------------------------------------------ */

static long long status_kb(const char *key)
{
	return number_in("/proc/self/status", key);
}

TEST_F(mr, pinned_pages_are_charged_and_uncharged)
{
	long long locked = status_kb("VmLck:");
	__u32 ids[3];

	EXPECT_EQ(0, mr(self->fd, self->buf, LARGE, READS, TREADLE_MR_KERNEL_KEY, NULL, &ids[0]));
	EXPECT_EQ(locked, status_kb("VmLck:"));
	EXPECT_EQ(0, destroy(self->fd, ids[0]));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++) {
			EXPECT_EQ(0, mr(self->fd, self->buf + i, LARGE - 3, i & 1 ? WRITES : READS,
					TREADLE_MR_KERNEL_KEY | TREADLE_MR_PINNED, NULL, &ids[i]));
			EXPECT_EQ(locked + (i + 1) * 1024, status_kb("VmLck:"));
		}
		if (round == 2)
			break;
		for (int i = 0; i < 3; i++) {
			EXPECT_EQ(0, destroy(self->fd, ids[i]));
		}
		EXPECT_EQ(locked, status_kb("VmLck:"));
	}
	/* Closing the file releases the rest. */
	close(self->fd);
	EXPECT_EQ(locked, status_kb("VmLck:"));
	self->fd = device();
}

/* A process without privileges. */
static void pins_without_privileges(void *arg)
{
	struct rlimit limit = {256 << 10, 256 << 10};
	char *buf = pages(LARGE);
	__u32 id, id2;
	__u64 key = 7;
	int fd;

	need(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	need(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
	fd = device();
	need(mr(fd, buf, LARGE, READS, TREADLE_MR_PINNED, &key, &id) == -ENOMEM);
	need(status_kb("VmLck:") == 0);
	/* A call that is refused leaves no key. */
	need(mr(fd, buf, 192 << 10, READS, TREADLE_MR_PINNED, &key, &id) == 0);
	need(status_kb("VmLck:") == 192);
	need(mr(fd, buf + (512 << 10), 128 << 10, READS, TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY,
		NULL, &id2) == -ENOMEM);
	need(mr(fd, buf + (512 << 10), 64 << 10, READS, TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY,
		NULL, &id2) == 0);
	need(status_kb("VmLck:") == 256);
	need(destroy(fd, id) == 0);
	need(status_kb("VmLck:") == 64);
	/* A hole is found after a part was pinned: the part is released. */
	need(munmap(buf + (64 << 10), PAGE) == 0);
	need(mr(fd, buf, 128 << 10, READS, TREADLE_MR_PINNED, &key, &id) == -EFAULT);
	need(status_kb("VmLck:") == 64);
	/* Regions on demand are not charged. */
	need(mr(fd, buf + (512 << 10), 512 << 10, READS, 0, &key, &id) == 0);
	need(status_kb("VmLck:") == 64);
	close(fd);
	need(status_kb("VmLck:") == 0);
}

// conformance: ioctl.h: ENOMEM: the limit of locked memory
TEST(the_limit_of_locked_memory)
{
	EXPECT_EQ(0, reap(spawn(pins_without_privileges, NULL)));
}

/* A pinned range that is unmapped is no longer the process's. A new map there has new pages. */
TEST(pinned_ranges_can_be_unmapped)
{
	const int rw = PROT_READ | PROT_WRITE;
	char *src = pages(LARGE), *dst = pages(LARGE);
	struct node a, b;
	__u32 id;
	__u64 to;

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	to = peer(&a, b.addr);
	for (int round = 0; round < 6; round++) {
		__u32 access = round & 1 ? WRITES : READS;

		fill(src, LARGE, 100);
		ASSERT_EQ(0, mr(a.fd, src, LARGE, access, TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY,
				NULL, &id));
		ASSERT_EQ(0, mr(b.fd, dst, LARGE, access, TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY,
				NULL, &id));
		for (int i = 0; i < 2; i++) {
			fill(src, LARGE, 2 * round + i);
			ASSERT_EQ(0, post_recv(&b, recv_of(dst, LARGE, ANY, i)));
			ASSERT_EQ(1, post(&a, send_of(src, LARGE, to, i)));
			ASSERT_EQ(0, cq_next(&b.rcq).error);
			ASSERT_EQ(0, cq_next(&a.cq).error);
			ASSERT_TRUE(same(dst, LARGE, 2 * round + i));
			if (i)
				break;
			ASSERT_EQ(0, munmap(src, LARGE));
			ASSERT_EQ(src, mmap(src, LARGE, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
					    -1, 0));
			ASSERT_EQ(0, madvise(dst, LARGE, MADV_DONTNEED));
		}
	}
	EXPECT_EQ(0, destroy(b.fd, id));
	close(a.fd);
	close(b.fd);
}

/* Revoking works with many regions: one page, in very many of them. */
TEST(all_that_was_pinned_is_revoked)
{
	enum { REGIONS = 1000 };
	const int rw = PROT_READ | PROT_WRITE;
	char *src = pages(PAGE), *dst = pages(PAGE);
	__u64 to, keys[REGIONS];
	__u32 ids[REGIONS];
	struct node n;

	node_open(&n, (struct options){});
	to = peer(&n, n.addr);
	for (int i = 0; i < REGIONS; i++) {
		keys[i] = 0;
		ASSERT_EQ(0, mr(n.fd, dst, PAGE, WRITES, TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY,
				&keys[i], &ids[i]));
	}
	ASSERT_EQ(1, post(&n, write_of(src, 8, to, 0, keys[REGIONS - 1], 1)));
	EXPECT_EQ(0, cq_next(&n.cq).error);
	ASSERT_EQ(0, munmap(dst, PAGE));
	ASSERT_EQ(dst, mmap(dst, PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	for (int i = 0; i < REGIONS; i++) {
		ASSERT_EQ(1, post(&n, write_of(src, 8, to, 0, keys[i], 1)));
		EXPECT_EQ(EKEYREJECTED, cq_next(&n.cq).error);
		EXPECT_EQ(0, destroy(n.fd, ids[i]));
	}
	close(n.fd);
}

/* Pinned pages stay the parent's after fork. */
TEST(pinned_pages_survive_fork)
{
	char *src = pages(PAGE), *dst = pages(PAGE);
	struct node n;
	__u64 to;
	__u32 id;
	pid_t pid;

	node_open(&n, (struct options){});
	to = peer(&n, n.addr);
	ASSERT_EQ(0, mr(n.fd, dst, PAGE, WRITES, TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY, NULL,
			&id));
	fill(dst, PAGE, 1);
	pid = fork();
	if (pid == 0) {
		fill(dst, PAGE, 2);
		pause();
	}
	dst[0]++;
	fill(src, PAGE, 3);
	ASSERT_EQ(0, post_recv(&n, recv_of(dst, PAGE, ANY, 1)));
	ASSERT_EQ(1, post(&n, send_of(src, PAGE, to, 1)));
	EXPECT_EQ(0, cq_next(&n.rcq).error);
	EXPECT_TRUE(same(dst, PAGE, 3));
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
	EXPECT_TRUE(same(dst, PAGE, 3));
}

/* --- concurrent use ------------------------------------------------------------------------- */

struct reader {
	struct node n;
	__u64 to, key;
	char *slow;
};

static void *reads_into_a_slow_page(void *arg)
{
	struct reader *r = arg;

	need(post(&r->n, read_of(r->slow, PAGE, r->to, 0, r->key, 1)) == 1);
	return NULL;
}

/* Closing a region uncharges its pins, although a peer is still reading from it. */
TEST(a_reader_of_a_closed_region_keeps_no_pins)
{
	struct reader r = {.slow = pages(PAGE)};
	int fd = slow_pages(r.slow, PAGE);
	char *buf = pages(LARGE);
	long long locked;
	struct node owner;
	pthread_t t;
	__u32 id;

	node_open(&r.n, (struct options){});
	node_open(&owner, (struct options){});
	r.to = peer(&r.n, owner.addr);
	locked = status_kb("VmLck:");
	ASSERT_EQ(0, mr(owner.fd, buf, LARGE, TREADLE_ACCESS_REMOTE_READ,
			TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY, &r.key, &id));
	EXPECT_EQ(locked + 1024, status_kb("VmLck:"));
	t = thread(reads_into_a_slow_page, &r);
	page_asked_for(fd);
	EXPECT_EQ(0, destroy(owner.fd, id));
	EXPECT_EQ(locked, status_kb("VmLck:"));
	take_pages_away(fd, r.slow, PAGE);
	pthread_join(t, NULL);
	EXPECT_EQ(EFAULT, cq_next(&r.n.cq).error);
}

struct mapper {
	int fd, stop;
	__u32 id;
};

static void *maps_what_has_no_pages(void *arg)
{
	struct mapper *m = arg;

	while (!__atomic_load_n(&m->stop, __ATOMIC_ACQUIRE)) {
		__u64 id = __atomic_load_n(&m->id, __ATOMIC_RELAXED);

		need(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, m->fd, id << 12) == MAP_FAILED);
	}
	return NULL;
}

/* Regions can't be mapped. An attempt must not hold the region, as closing would wait for it. */
TEST_F(mr, closed_during_attempts_to_map_it)
{
	__u64 end = now_ns() + 2000000000ULL;
	struct mapper m = {.fd = self->fd};
	pthread_t t = thread(maps_what_has_no_pages, &m);
	int n;

	for (n = 0; now_ns() < end; n++) {
		__u32 id;

		ASSERT_EQ(0, mr(self->fd, self->buf, PAGE, READS,
				TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY, NULL, &id));
		__atomic_store_n(&m.id, id, __ATOMIC_RELAXED);
		ASSERT_EQ(0, destroy(self->fd, id));
	}
	raise_to(&m.stop, 1);
	pthread_join(t, NULL);
	note("%d regions", n);
}

TEST_HARNESS_MAIN
