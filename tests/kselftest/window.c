// SPDX-License-Identifier: GPL-2.0
/* Windows: rights, what they show, and how pages leave them. window_late.c has the races. */
#include "cred.h"
#include "window.h"

#include <treadle/atomic.h>

#define LEN (16 * PAGE)

FIXTURE(window)
{
	struct node a, b;
	__u64 to, key;
	__u32 region;
	char *there;
	struct window w;
};

typedef FIXTURE_DATA(window) window;

FIXTURE_SETUP(window)
{
	node_open(&self->a, (struct options){});
	node_open(&self->b, (struct options){});
	self->to = peer(&self->a, self->b.addr);
	self->there = pages(LEN);
	memset(self->there, 0, LEN);
	self->key = 77;
	ASSERT_EQ(0, mr(self->b.fd, self->there, LEN, BOTH, 0, &self->key, &self->region));
	ASSERT_EQ(0, window_open(&self->w, &self->a, self->to, self->key, 8, 8, BOTH));
	window_map(&self->w);
}

FIXTURE_TEARDOWN(window)
{
	window_unmap(&self->w);
	close(self->a.fd);
	close(self->b.fd);
}

static int opens(window *self, __u64 key, __u64 addr, __u64 len, __u32 access)
{
	struct window w;
	int ret = window_open(&w, &self->a, self->to, key, addr, len, access);

	if (ret == 0)
		need(destroy(self->a.fd, w.o.id) == 0);
	return ret;
}

TEST_F(window, loads_and_stores_are_on_the_peers_memory)
{
	__u64 value;

	EXPECT_EQ(0, self->w.o.addr);
	EXPECT_EQ(LEN, self->w.o.len);
	EXPECT_EQ(0, self->w.o.skip);
	EXPECT_EQ(LEN, self->w.o.data.length);
	EXPECT_EQ(0, self->w.o.flags);
	/* Nothing is there yet: an access has no effect, and does no harm. */
	EXPECT_FALSE(is_there(&self->w, 0));
	*word_at(&self->w, 0) = 5;
	*word_at(&self->w, LEN - 8) = 5;
	EXPECT_EQ(0, *(__u64 *)self->there);
	/* Pages come when the library asks, also where the scratch page was mapped. */
	ASSERT_EQ(0, window_fill(&self->w, 0, LEN));
	EXPECT_TRUE(window_store(&self->w, 8, 7));
	EXPECT_EQ(7, ((__u64 *)self->there)[1]);
	((__u64 *)self->there)[LEN / 8 - 1] = 9;
	EXPECT_TRUE(window_load(&self->w, LEN - 8, &value));
	EXPECT_EQ(9, value);
	/* A window that is destroyed shows nothing, but its maps stay. */
	ASSERT_EQ(0, destroy(self->a.fd, self->w.o.id));
	EXPECT_TRUE(is_closed(&self->w));
	EXPECT_FALSE(is_there(&self->w, 0));
	*word_at(&self->w, 8) = 11;
	EXPECT_EQ(7, ((__u64 *)self->there)[1]);
	EXPECT_EQ(-ENOENT, window_fill(&self->w, 0, LEN));
}

TEST_F(window, pages_that_the_owner_does_not_have)
{
	char *far = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct window w;
	__u64 key = 1;
	__u32 id;

	ASSERT_NE(MAP_FAILED, far);
	ASSERT_EQ(0, mr(self->b.fd, far, LEN, BOTH, 0, &key, &id));
	ASSERT_EQ(0, window_open(&w, &self->a, self->to, key, PAGE, 8, BOTH));
	window_map(&w);
	far[PAGE] = 1;
	/* WINDOW_FILL never makes the owner's page faults. */
	EXPECT_EQ(-EAGAIN, window_fill(&w, 0, LEN));
	EXPECT_TRUE(is_there(&w, PAGE));
	EXPECT_FALSE(is_there(&w, 0));
	EXPECT_FALSE(is_there(&w, 2 * PAGE));
	EXPECT_EQ(0, window_fill(&w, PAGE, PAGE));
	/* A command does. */
	ASSERT_EQ(1, post(&self->a, write_of(self->there, 8, self->to, 0, key, 1)));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_EQ(0, window_fill(&w, 0, 2 * PAGE));
	window_unmap(&w);
}

// conformance: ioctl.h: errors of WINDOW_OPEN are those of the command
TEST_F(window, an_access_that_is_not_granted)
{
	struct treadle_iov two[2] = {{(unsigned long)self->there, PAGE},
				     {(unsigned long)self->there + 2 * PAGE, PAGE}};
	__u64 reads = 2, writes = 3, ranges = 4;
	struct window w;
	struct node c;
	__u32 id;

	ASSERT_EQ(0, mr(self->b.fd, self->there, LEN, TREADLE_ACCESS_REMOTE_READ, 0, &reads, &id));
	ASSERT_EQ(0,
		  mr(self->b.fd, self->there, LEN, TREADLE_ACCESS_REMOTE_WRITE, 0, &writes, &id));
	ASSERT_EQ(0, mr_ranges(self->b.fd, two, 2, BOTH, 0, &ranges, &id));
	EXPECT_EQ(0, opens(self, 77, LEN - 8, 8, BOTH));
	EXPECT_EQ(-EREMOTEIO, opens(self, 77, LEN - 8, 9, BOTH));
	EXPECT_EQ(-EREMOTEIO, opens(self, 77, -8, 16, BOTH));
	EXPECT_EQ(-EKEYREJECTED, opens(self, 78, 0, 8, BOTH));
	EXPECT_EQ(-EACCES, opens(self, reads, 0, 8, BOTH));
	EXPECT_EQ(0, opens(self, reads, 0, 8, TREADLE_ACCESS_REMOTE_READ));
	EXPECT_EQ(-EACCES, opens(self, writes, 0, 8, TREADLE_ACCESS_REMOTE_READ));
	EXPECT_EQ(0, opens(self, writes, 0, 8, TREADLE_ACCESS_REMOTE_WRITE));
	EXPECT_EQ(-EOPNOTSUPP, opens(self, ranges, 0, 8, BOTH));
	EXPECT_EQ(-EINVAL, opens(self, 77, 0, 0, BOTH));
	EXPECT_EQ(-EINVAL, opens(self, 77, 0, 8, 0));
	EXPECT_EQ(-EINVAL, opens(self, 77, 0, 8, BOTH | TREADLE_ACCESS_SEND));
	EXPECT_EQ(-EDESTADDRREQ, window_open(&w, &self->a, 99, 77, 0, 8, BOTH));
	w.o.ep = 12345;
	EXPECT_EQ(-ENOENT, call(self->a.fd, TREADLE_IOC_WINDOW_OPEN, &w.o));
	w.o.ep = self->a.tx.id;
	EXPECT_EQ(-EBADF, call(self->a.fd, TREADLE_IOC_WINDOW_OPEN, &w.o));
	w.o.flags = 1;
	EXPECT_EQ(-EINVAL, call(self->a.fd, TREADLE_IOC_WINDOW_OPEN, &w.o));
	EXPECT_EQ(-EBADF,
		  window_fill(&(struct window){.fd = self->a.fd, .o.id = self->a.ep}, 0, 8));
	EXPECT_EQ(-EREMOTEIO, window_fill(&self->w, LEN - 8, 9));
	EXPECT_EQ(-EREMOTEIO, window_fill(&self->w, LEN, 1));
	EXPECT_EQ(-EREMOTEIO, window_fill(&self->w, -8, 16));
	EXPECT_EQ(-EINVAL, window_fill(&self->w, 0, 0));
	/* An endpoint that is not enabled, one of another type, and one that denies RMA. */
	node_create(&c, (struct options){});
	EXPECT_EQ(-ENOTCONN, window_open(&w, &c, 0, 77, 0, 8, BOTH));
	close(c.fd);
	node_open(&c, (struct options){.type = TREADLE_EP_DGRAM});
	EXPECT_EQ(-EINVAL, window_open(&w, &c, peer(&c, self->b.addr), 77, 0, 8, BOTH));
	close(c.fd);
	node_open(&c, (struct options){.context = self->b.fd, .flags = TREADLE_EP_NO_RMA});
	EXPECT_EQ(-EACCES, window_open(&w, &self->a, peer(&self->a, c.addr), 77, 0, 8, BOTH));
	ASSERT_EQ(0, destroy(self->b.fd, c.ep));
	EXPECT_EQ(-ECONNREFUSED, window_open(&w, &self->a, peer(&self->a, c.addr), 77, 0, 8, BOTH));
}

TEST_F(window, accesses_that_are_counted)
{
	struct treadle_mr_bind bind = {.size = sizeof(bind), .mr = self->region};
	struct treadle_ep_enable e;
	struct cntr c;
	struct node n;

	cntr_open(&c, self->b.fd);
	node_create(&n, (struct options){.context = self->b.fd});
	e = node_bindings(&n);
	e.cntr_remote_write = c.id;
	ASSERT_EQ(0, call(n.fd, TREADLE_IOC_EP_ENABLE, &e));
	self->to = peer(&self->a, n.addr);
	EXPECT_EQ(-EOPNOTSUPP, opens(self, 77, 0, 8, BOTH));
	EXPECT_EQ(0, opens(self, 77, 0, 8, TREADLE_ACCESS_REMOTE_READ));
	/* A counter that comes later ends the window. */
	ASSERT_EQ(0, window_fill(&self->w, 0, LEN));
	bind.cntr = c.id;
	ASSERT_EQ(0, call(self->b.fd, TREADLE_IOC_MR_BIND, &bind));
	EXPECT_TRUE(is_closed(&self->w));
	EXPECT_FALSE(is_there(&self->w, 0));
	EXPECT_EQ(-EKEYREJECTED, window_fill(&self->w, 0, LEN));
	self->to = peer(&self->a, self->b.addr);
	EXPECT_EQ(-EOPNOTSUPP, opens(self, 77, 0, 8, BOTH));
}

/* --- memory that is open ------------------------------------------------------------------ */

struct attempt {
	enum cred from, to;
	size_t len;
	bool hidden; /* the initiator is not dumpable */
	int error;
};

static void looks(void *arg)
{
	const struct attempt *a = ((void **)arg)[0];
	struct owner *o = ((void **)arg)[1];
	struct window w;
	struct node n;
	int ret;

	become(a->from);
	/* After a change of its user a process is not dumpable until it says so. */
	need(prctl(PR_SET_DUMPABLE, !a->hidden) == 0);
	node_open(&n, (struct options){.auth_key = "key"});
	ret = window_open(&w, &n, peer(&n, o->addr), o->key, 0, 8, BOTH);
	if (ret != a->error)
		note("%d, expected %d", ret, a->error);
	need(ret == a->error);
}

static void owns_openly(void *arg)
{
	struct owner *o = arg;
	enum cred cred = o->cred;

	become(cred);
	need(prctl(PR_SET_DUMPABLE, 1) == 0);
	o->cred = ROOT;
	owns(o);
}

// conformance: ioctl.h: EXDEV: no window shows more than the region, unless all of the owner's
//   memory is open
TEST(memory_that_is_open)
{
	static const struct attempt attempts[] = {
		{ALICE, ALICE, PAGE, false, 0},
		{ALICE, ALICE, 100, false, 0},
		{ALICE, ALICE, 100, true, -EXDEV},
		{ALICE, BOB, PAGE, false, 0}, /* by the key */
		{ALICE, BOB, PAGE, true, 0},
		{ALICE, BOB, 100, false, -EXDEV},
		{ALICE, BOB, PAGE + 8, false, -EXDEV},
		{ROOT, ALICE, 100, false, -EXDEV},
		{ALICE, ROOT, 100, false, -EXDEV},
		{ELSEWHERE, ROOT, 100, false, -EXDEV},
		{ROOT, ELSEWHERE, 100, false, -EXDEV},
		{ELSEWHERE, ROOT, PAGE, false, 0},
	};

	for (int i = 0; i < ARRAY_SIZE(attempts); i++) {
		const struct attempt *a = &attempts[i];
		struct owner *o = shared(sizeof(*o));
		pid_t pid;

		about("attempt %d", i);
		*o = (struct owner){.cred = a->to, .ep_key = "key", .mr_key = "key", .len = a->len};
		pid = spawn(owns_openly, o);
		await(&o->ready, 1);
		EXPECT_EQ(0, reap(spawn(looks, (void *[]){(void *)a, o})));
		raise_to(&o->stop, 1);
		EXPECT_EQ(0, reap(pid));
	}
}

static void owns_hidden(void *arg)
{
	struct owner *o = arg;

	need(prctl(PR_SET_DUMPABLE, 0) == 0);
	owns(o);
}

TEST(an_owner_that_is_not_dumpable)
{
	struct attempt a = {ROOT, ROOT, 100, false, -EXDEV};
	struct owner *o = shared(sizeof(*o));
	pid_t pid;

	*o = (struct owner){.cred = ROOT, .ep_key = "key", .mr_key = "key", .len = 100};
	pid = spawn(owns_hidden, o);
	await(&o->ready, 1);
	EXPECT_EQ(0, reap(spawn(looks, (void *[]){&a, o})));
	raise_to(&o->stop, 1);
	EXPECT_EQ(0, reap(pid));
}

static void looks_from_elsewhere(void *arg)
{
	need(unshare(CLONE_NEWNET) == 0);
	system("ip link set lo up");
	looks(arg);
}

TEST(another_network_namespace)
{
	struct attempt a = {ROOT, ROOT, PAGE, false, -ECONNREFUSED};
	struct owner *o = shared(sizeof(*o));
	pid_t pid;

	*o = (struct owner){.cred = ROOT, .len = PAGE};
	pid = spawn(owns, o);
	await(&o->ready, 1);
	EXPECT_EQ(0, reap(spawn(looks_from_elsewhere, (void *[]){&a, o})));
	raise_to(&o->stop, 1);
	EXPECT_EQ(0, reap(pid));
}

/* --- how pages leave ---------------------------------------------------------------------- */

static void unmaps(window *self)
{
	need(munmap(self->there, PAGE) == 0);
	need(mmap(self->there, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	     self->there);
}

static void moves(window *self)
{
	char *to = pages(PAGE);

	need(mremap(self->there, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	need(mmap(self->there, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	     self->there);
}

static void forgets(window *self)
{
	need(madvise(self->there, PAGE, MADV_DONTNEED) == 0);
}

static void protects(window *self)
{
	need(mprotect(self->there, PAGE, PROT_READ) == 0);
}

static void nothing(void *arg) {}

static void forks(window *self)
{
	need(reap(spawn(nothing, NULL)) == 0);
}

static void closes_region(window *self)
{
	need(destroy(self->b.fd, self->region) == 0);
}

static void closes_endpoint(window *self)
{
	need(destroy(self->b.fd, self->b.ep) == 0);
}

TEST_F(window, pages_leave)
{
	static const struct {
		const char *name;
		void (*fn)(window *self);
		bool ends;
	} ways[] = {
		{"munmap", unmaps, false},
		{"mremap", moves, false},
		{"MADV_DONTNEED", forgets, false},
		{"mprotect", protects, false},
		{"fork", forks, false},
		{"region", closes_region, true},
		{"endpoint", closes_endpoint, true},
	};

	for (int i = 0; i < ARRAY_SIZE(ways); i++) {
		__u64 before, *word = (__u64 *)(self->there + 64);
		struct treadle_window_status *s = (void *)self->w.status;

		about("%s", ways[i].name);
		if (i) {
			/* another owner, as this one may have been closed */
			close(self->b.fd);
			node_open(&self->b, (struct options){});
			self->to = peer(&self->a, self->b.addr);
			munmap(self->there, LEN);
			self->there = pages(LEN);
			word = (__u64 *)(self->there + 64);
			ASSERT_EQ(0, mr(self->b.fd, self->there, LEN, BOTH, 0, &self->key,
					&self->region));
			window_unmap(&self->w);
			ASSERT_EQ(0,
				  window_open(&self->w, &self->a, self->to, self->key, 0, 8, BOTH));
			window_map(&self->w);
			s = (void *)self->w.status;
		}
		memset(self->there, 0, LEN);
		ASSERT_EQ(0, window_fill(&self->w, 0, LEN));
		ASSERT_TRUE(window_store(&self->w, 64, 7));
		ASSERT_EQ(7, *word);
		before = generation(&self->w);
		ways[i].fn(self);
		EXPECT_LT(before, s->generation);
		EXPECT_FALSE(is_there(&self->w, 64));
		EXPECT_EQ(ways[i].ends, is_closed(&self->w));
		/* Other pages stay, unless all is over or all was asked for. */
		if (i < 4) {
			EXPECT_TRUE(is_there(&self->w, PAGE));
		}
		before = *word;
		*word_at(&self->w, 64) = 13;
		EXPECT_EQ(before, *word);
		if (ways[i].ends) {
			EXPECT_EQ(-EKEYREJECTED, window_fill(&self->w, 0, PAGE));
		} else if (ways[i].fn == forks || ways[i].fn == forgets) {
			*word = 0;
			EXPECT_EQ(0, window_fill(&self->w, 0, PAGE));
			EXPECT_TRUE(window_store(&self->w, 64, 17));
			EXPECT_EQ(17, *word);
		} else {
			/* read-only by now */
			EXPECT_EQ(-EAGAIN, window_fill(&self->w, 0, PAGE));
		}
	}
}

/* The endpoint of the initiator goes after its windows. */
TEST_F(window, the_initiators_endpoint)
{
	EXPECT_EQ(-EBUSY, destroy(self->a.fd, self->a.ep));
	ASSERT_EQ(0, destroy(self->a.fd, self->w.o.id));
	EXPECT_EQ(0, destroy(self->a.fd, self->a.ep));
}

/* --- maps that are not as they should be --------------------------------------------------- */

static int maps(int fd, __u64 offset, __u64 length, int prot, int flags)
{
	void *at = mmap(NULL, length, prot, flags, fd, offset);

	if (at == MAP_FAILED)
		return -errno;
	munmap(at, length);
	return 0;
}

static void touches(void *at)
{
	*(volatile char *)at;
}

TEST_F(window, maps_that_are_not_as_they_should_be)
{
	const __u64 off = self->w.o.data.offset, len = self->w.o.data.length;
	const int rw = PROT_READ | PROT_WRITE;
	int fd = self->a.fd;
	struct window w;
	char *at, *to;

	ASSERT_EQ(0, window_fill(&self->w, 0, LEN));
	EXPECT_EQ(0, maps(fd, off, len, rw, MAP_SHARED));
	EXPECT_EQ(-EINVAL, maps(fd, off, len, rw, MAP_PRIVATE));
	EXPECT_EQ(-EACCES, maps(fd, off, len, rw | PROT_EXEC, MAP_SHARED));
	EXPECT_EQ(-EINVAL, maps(fd, off, len - PAGE, rw, MAP_SHARED));
	EXPECT_EQ(-EINVAL, maps(fd, off, len + PAGE, rw, MAP_SHARED));
	EXPECT_EQ(-EINVAL, maps(fd, off + PAGE, len, rw, MAP_SHARED));
	EXPECT_EQ(-EINVAL, maps(fd, off + PAGE, len - PAGE, rw, MAP_SHARED));
	EXPECT_EQ(-ENOENT, maps(fd, off + (1ULL << 31), len, rw, MAP_SHARED));
	EXPECT_NE(0, maps(fd, 1ULL << 62, PAGE, rw, MAP_SHARED));
	EXPECT_NE(0, maps(fd, -(__u64)PAGE, PAGE, rw, MAP_SHARED));
	EXPECT_NE(0, maps(fd, off | 1ULL << 63, len, rw, MAP_SHARED));
	EXPECT_NE(0, maps(self->b.fd, off, len, rw, MAP_SHARED));
	EXPECT_EQ(-EACCES, maps(fd, self->w.o.ro.offset, self->w.o.ro.length, rw, MAP_SHARED));
	/* A window without write access. */
	ASSERT_EQ(0,
		  window_open(&w, &self->a, self->to, self->key, 0, 8, TREADLE_ACCESS_REMOTE_READ));
	EXPECT_EQ(-EACCES, maps(fd, w.o.data.offset, w.o.data.length, rw, MAP_SHARED));
	window_map(&w);
	ASSERT_EQ(0, window_fill(&w, 0, LEN));
	EXPECT_EQ(self->there[100], w.data[100]);
	EXPECT_EQ(-1, mprotect((void *)w.data, PAGE, rw));
	EXPECT_EQ(-1, mprotect((void *)w.data, PAGE, PROT_READ | PROT_EXEC));
	window_unmap(&w);
	/* In parts, moved, grown, inherited. */
	at = map(fd, self->w.o.data, rw);
	EXPECT_EQ(0, munmap(at + 4 * PAGE, 2 * PAGE));
	EXPECT_EQ(0, mprotect(at + PAGE, PAGE, PROT_READ));
	at[0] = 1;
	EXPECT_EQ(1, self->there[0]);
	to = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT_EQ(to, mremap(at + 8 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	to[0] = 3;
	EXPECT_EQ(3, self->there[8 * PAGE]);
	EXPECT_EQ(MAP_FAILED, mremap(to, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
	EXPECT_EQ(-SIGSEGV, reap(spawn(touches, at)));
	EXPECT_EQ(-1, madvise(at, PAGE, MADV_DOFORK));
	/* Where it was moved to, pages leave, too. */
	ASSERT_EQ(0, destroy(self->b.fd, self->region));
	to[0] = 4;
	at[0] = 4;
	EXPECT_EQ(3, self->there[8 * PAGE]);
	EXPECT_EQ(1, self->there[0]);
	/* No other way into it: the kernel does not follow it for others. */
	EXPECT_EQ(-EFAULT, mr(fd, at, PAGE, BOTH, 0, &(__u64){9}, &(__u32){0}));
}

static void other_process_maps(void *arg)
{
	window *self = arg;

	need(maps(self->a.fd, self->w.o.data.offset, self->w.o.data.length, PROT_READ,
		  MAP_SHARED) == -EPERM);
	need(window_fill(&self->w, 0, 8) == -EPERM);
}

TEST_F(window, another_process_does_not_map_it)
{
	EXPECT_EQ(0, reap(spawn(other_process_maps, self)));
}

/* --- pinned ------------------------------------------------------------------------------- */

TEST_F(window, pinned_regions_have_atomics)
{
	struct window w;
	__u64 key = 5, before;
	__u32 id;

	ASSERT_EQ(0, mr(self->b.fd, self->there, LEN, BOTH, TREADLE_MR_PINNED, &key, &id));
	ASSERT_EQ(0, window_open(&w, &self->a, self->to, key, 0, 8, TREADLE_ACCESS_REMOTE_READ));
	EXPECT_EQ(0, w.o.flags);
	ASSERT_EQ(0, window_open(&w, &self->a, self->to, key, 0, 8, BOTH));
	EXPECT_EQ(TREADLE_WINDOW_ATOMIC, w.o.flags);
	window_map(&w);
	ASSERT_EQ(0, window_fill(&w, 0, LEN));
	/* Pages stay mapped when their owner forks: what is under way has its effect. */
	before = generation(&w);
	forks(self);
	EXPECT_LT(before, generation(&w));
	EXPECT_FALSE(is_there(&w, 0));
	EXPECT_EQ(0, __atomic_fetch_add(word_at(&w, 8), 3, __ATOMIC_SEQ_CST));
	EXPECT_EQ(3, ((__u64 *)self->there)[1]);
	EXPECT_EQ(0, window_fill(&w, 0, LEN));
	/* A page that was replaced is not the one that is pinned. */
	forgets(self);
	EXPECT_FALSE(is_there(&w, 0));
	self->there[0] = 1;
	EXPECT_EQ(-EAGAIN, window_fill(&w, 0, PAGE));
	EXPECT_EQ(0, window_fill(&w, PAGE, LEN - PAGE));
	/* Unmapping a part ends all of it. */
	unmaps(self);
	EXPECT_TRUE(is_closed(&w));
	EXPECT_FALSE(is_there(&w, PAGE));
	before = ((__u64 *)self->there)[PAGE / 8];
	*word_at(&w, PAGE) = before + 1;
	EXPECT_EQ(before, ((__u64 *)self->there)[PAGE / 8]);
	window_unmap(&w);
}

/* --- limits ------------------------------------------------------------------------------- */

TEST_F(window, as_many_as_the_module_says)
{
	FILE *f = fopen("/sys/module/treadle/parameters/max_windows", "r");
	unsigned int most, n;
	struct window w;
	int ret = 0;

	ASSERT_NE(NULL, f);
	ASSERT_EQ(1, fscanf(f, "%u", &most));
	fclose(f);
	for (n = 1; n < most + 2; n++) { /* one is open */
		ret = window_open(&w, &self->a, self->to, self->key, 0, 8, BOTH);
		if (ret)
			break;
	}
	EXPECT_EQ(-ENOSPC, ret);
	EXPECT_EQ(most, n);
	ASSERT_EQ(0, destroy(self->a.fd, self->w.o.id));
	/* all of them end with the region */
	EXPECT_EQ(0, destroy(self->b.fd, self->region));
}

TEST_F(window, the_administrator_switches_them_off)
{
	EXPECT_TRUE(query(self->a.fd).features & TREADLE_FEATURE_WINDOW);
	write_to("/sys/module/treadle/parameters/direct", "0");
	EXPECT_FALSE(query(self->a.fd).features & TREADLE_FEATURE_WINDOW);
	EXPECT_EQ(-EOPNOTSUPP, opens(self, self->key, 0, 8, BOTH));
	write_to("/sys/module/treadle/parameters/direct", "1");
	EXPECT_EQ(0, opens(self, self->key, 0, 8, BOTH));
}

TEST_HARNESS_MAIN
