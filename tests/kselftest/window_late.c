// SPDX-License-Identifier: GPL-2.0
/*
 * Pages leave a window while threads store through it without a pause: no store is late, none is
 * lost, and no atomic is executed twice.
 */
#include "window.h"

#include <sys/mman.h>

#include <treadle/atomic.h>

#define LEN	  (4 * PAGE)
#define ROUNDS	  25
#define SCRATCHED 2000

enum way { MUNMAP, PROTECT, REGION, MOVE, FORK, KILL };

/* Shared by the owner, a process, and the initiator. */
struct scene {
	enum way way;
	struct treadle_addr addr;
	__u64 key;
	int ready, done, late, memory;
};

/* Stores arrive. */
static void await_stores(const volatile __u64 *word)
{
	__u64 was = *word, end = now_ns() + PATIENCE_NS;

	while (*word == was && now_ns() < end)
		sched_yield();
	need(*word != was);
}

/* No stores arrive. */
static bool is_still(const volatile __u64 *word)
{
	__u64 was = *word;

	usleep(3000);
	return *word == was;
}

static void looks_at_its_copy(void *arg)
{
	_exit(is_still(arg) ? 0 : 1);
}

/* Changes a mapping while stores arrive. Where they must not arrive any more, nothing changes. */
static void owns(void *arg)
{
	const int rw = PROT_READ | PROT_WRITE;
	struct scene *s = arg;
	bool anon = s->way == MOVE || s->way == FORK;
	char *watch = mmap(NULL, LEN, PROT_READ, MAP_SHARED, s->memory, 0);
	char *at = anon ? pages(LEN) : mmap(NULL, LEN, rw, MAP_SHARED, s->memory, 0);
	volatile __u64 *word = (void *)at, *seen = (void *)watch;
	char *to = pages(LEN);
	struct node n;
	__u32 id;

	need(at != MAP_FAILED && watch != MAP_FAILED);
	memset(at, 0, LEN);
	s->key = 77;
	node_open(&n, (struct options){});
	need(mr(n.fd, at, LEN, BOTH, 0, &s->key, &id) == 0);
	s->addr = n.addr;
	raise_to(&s->ready, 1);
	for (int i = 0; i < ROUNDS; i++) {
		await_stores(word);
		switch (s->way) {
		case MUNMAP:
			need(munmap(at, LEN) == 0);
			s->late += !is_still(seen);
			need(mmap(at, LEN, rw, MAP_SHARED | MAP_FIXED, s->memory, 0) == at);
			break;
		case PROTECT:
			need(mprotect(at, LEN, PROT_READ) == 0);
			s->late += !is_still(seen);
			need(mprotect(at, LEN, rw) == 0);
			break;
		case REGION:
			need(destroy(n.fd, id) == 0);
			s->late += !is_still(seen);
			need(mr(n.fd, at, LEN, BOTH, 0, &s->key, &id) == 0);
			break;
		case MOVE:
			need(mremap(at, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
			s->late += !is_still((void *)to);
			need(mremap(to, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
			break;
		case FORK:
			s->late += reap(spawn(looks_at_its_copy, at)) != 0;
			/* only the owner's page fault makes its pages writable again */
			for (int page = 0; page < LEN; page += PAGE)
				at[page + 64] = i;
			break;
		case KILL:
			pause();
		}
	}
	raise_to(&s->done, 1);
}

FIXTURE(late)
{
	struct node n;
	struct scene *s;
	pid_t owner;
	__u64 to;
	const volatile __u64 *seen;
	struct window *w, windows[ROUNDS + 2];
	pthread_t thread, mapper;
	int stop;
};

typedef FIXTURE_DATA(late) late;

/* @busy: another thread maps and unmaps the windows' file all the time. */
FIXTURE_VARIANT(late)
{
	enum way way;
	bool busy;
};

FIXTURE_VARIANT_ADD(late, munmap){
	.way = MUNMAP,
};

FIXTURE_VARIANT_ADD(late, munmap_busy){
	.way = MUNMAP,
	.busy = true,
};

FIXTURE_VARIANT_ADD(late, mprotect){
	.way = PROTECT,
};

FIXTURE_VARIANT_ADD(late, region){
	.way = REGION,
};

FIXTURE_VARIANT_ADD(late, region_busy){
	.way = REGION,
	.busy = true,
};

FIXTURE_VARIANT_ADD(late, mremap){
	.way = MOVE,
};

FIXTURE_VARIANT_ADD(late, fork){
	.way = FORK,
};

FIXTURE_VARIANT_ADD(late, fork_busy){
	.way = FORK,
	.busy = true,
};

FIXTURE_VARIANT_ADD(late, kill){
	.way = KILL,
};

/* Opens the next window. The maps of the last one stay: a thread stores there. */
static bool opens_next(late *self)
{
	struct window *next = self->w ? self->w + 1 : self->windows;
	int ret;

	need(next < self->windows + ARRAY_SIZE(self->windows));
	ret = window_open(next, &self->n, self->to, self->s->key, 0, 8, BOTH);
	need(ret == 0 || self->w); /* the owner has closed it, or has ended */
	if (ret)
		return false;
	window_map(next);
	__atomic_store_n(&self->w, next, __ATOMIC_RELEASE);
	return true;
}

/* Stores whether the pages are there or not. */
static void *stores(void *arg)
{
	late *self = arg;
	__u64 n = 0;

	while (!__atomic_load_n(&self->stop, __ATOMIC_ACQUIRE)) {
		struct window *w = __atomic_load_n(&self->w, __ATOMIC_ACQUIRE);

		for (int page = 0; page < LEN / PAGE; page++)
			*word_at(w, page * PAGE) = ++n;
	}
	return NULL;
}

/* Takes the lock of the windows' file for writing, as each map and unmap does. */
static void *maps(void *arg)
{
	late *self = arg;

	while (!__atomic_load_n(&self->stop, __ATOMIC_ACQUIRE)) {
		struct treadle_map status = __atomic_load_n(&self->w, __ATOMIC_ACQUIRE)->o.ro;

		need(munmap(map(self->n.fd, status, PROT_READ), status.length) == 0);
	}
	return NULL;
}

FIXTURE_SETUP(late)
{
	self->s = shared(sizeof(*self->s));
	self->s->way = variant->way;
	self->s->memory = memfd_create("window", 0);
	ASSERT_EQ(0, ftruncate(self->s->memory, LEN));
	self->seen = mmap(NULL, LEN, PROT_READ, MAP_SHARED, self->s->memory, 0);
	ASSERT_NE(MAP_FAILED, self->seen);
	self->owner = spawn(owns, self->s);
	await(&self->s->ready, 1);
	node_open(&self->n, (struct options){});
	self->to = peer(&self->n, self->s->addr);
	ASSERT_TRUE(opens_next(self));
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, stores, self));
	if (variant->busy)
		ASSERT_EQ(0, pthread_create(&self->mapper, NULL, maps, self));
}

FIXTURE_TEARDOWN(late)
{
	raise_to(&self->stop, 1);
	EXPECT_EQ(0, pthread_join(self->thread, NULL));
	if (variant->busy)
		EXPECT_EQ(0, pthread_join(self->mapper, NULL));
}

/* Brings pages into the window as soon as they can come. */
static void fills(late *self)
{
	int ret = window_fill(self->w, 0, LEN);

	need(ret == 0 || ret == -EAGAIN || ret == -EKEYREJECTED);
	if (ret == -EKEYREJECTED)
		opens_next(self);
}

TEST_F(late, no_store_is_late)
{
	if (variant->way == KILL) {
		for (__u64 was = *self->seen; *self->seen == was;)
			fills(self);
		ASSERT_EQ(0, kill(self->owner, SIGKILL));
		EXPECT_EQ(-SIGKILL, reap(self->owner));
		EXPECT_TRUE(is_still(self->seen));
		EXPECT_TRUE(is_closed(self->w));
		EXPECT_EQ(-EKEYREJECTED, window_fill(self->w, 0, LEN));
		return;
	}
	while (!__atomic_load_n(&self->s->done, __ATOMIC_ACQUIRE) &&
	       waitpid(self->owner, NULL, WNOHANG) == 0)
		fills(self);
	EXPECT_EQ(1, self->s->done);
	EXPECT_EQ(0, self->s->late);
	note("%d windows, generation %llu", (int)(self->w - self->windows) + 1,
	     generation(self->w));
}

/* --- by the rules ------------------------------------------------------------------------- */

/* In this process, so that its address space is busy, too. */
FIXTURE(rules)
{
	struct node a, b;
	__u64 to, key;
	__u32 region;
	char *there;
	struct window w;
	int stop;
	pthread_t thread;
};

typedef FIXTURE_DATA(rules) rules;

FIXTURE_VARIANT(rules)
{
	__u32 flags;
};

FIXTURE_VARIANT_ADD(rules, on_demand){
	.flags = 0,
};

FIXTURE_VARIANT_ADD(rules, pinned){
	.flags = TREADLE_MR_PINNED,
};

static void nothing(void *arg) {}

/* Takes pages away by what keeps their contents. */
static void *disturbs(void *arg)
{
	rules *self = arg;

	madvise(self->there, LEN, MADV_MERGEABLE);
	for (int i = 0; !__atomic_load_n(&self->stop, __ATOMIC_ACQUIRE); i++) {
		if (i % 2)
			need(reap(spawn(nothing, NULL)) == 0);
		need(mprotect(self->there, LEN, PROT_READ) == 0);
		usleep(100);
		need(mprotect(self->there, LEN, PROT_READ | PROT_WRITE) == 0);
		usleep(500);
		madvise(self->there, LEN, MADV_PAGEOUT);
	}
	return NULL;
}

FIXTURE_SETUP(rules)
{
	node_open(&self->a, (struct options){});
	node_open(&self->b, (struct options){});
	self->to = peer(&self->a, self->b.addr);
	self->there = pages(LEN);
	memset(self->there, 0, LEN);
	self->key = 77;
	ASSERT_EQ(0, mr(self->b.fd, self->there, LEN, BOTH, variant->flags, &self->key,
			&self->region));
	ASSERT_EQ(0, window_open(&self->w, &self->a, self->to, self->key, 0, 8, BOTH));
	window_map(&self->w);
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, disturbs, self));
}

FIXTURE_TEARDOWN(rules)
{
	raise_to(&self->stop, 1);
	EXPECT_EQ(0, pthread_join(self->thread, NULL));
}

/* By the ring. While the memory is read-only, that fails. */
static void by_ring(rules *self, struct treadle_desc d)
{
	int error;

	do {
		need(post(&self->a, d) == 1);
		error = cq_next(&self->a.cq).error;
		need(error == 0 || error == EIO);
	} while (error);
}

TEST_F(rules, no_store_is_lost)
{
	__u64 end = now_ns() + 3000000000, direct = 0, n = 0, word, value;
	char *buf = pages(PAGE);

	while (now_ns() < end && !(direct > 50000 && n > direct + 200)) {
		__u64 at = n % (LEN / 64) * 64;

		word = ++n;
		if (window_store(&self->w, at, word)) {
			direct++;
		} else {
			memcpy(buf, &word, 8);
			by_ring(self, write_of(buf, 8, self->to, at, self->key, n));
			window_fill(&self->w, at, 8);
		}
		if (!window_load(&self->w, at, &value)) {
			by_ring(self, read_of(buf + 64, 8, self->to, at, self->key, n));
			memcpy(&value, buf + 64, 8);
		}
		if (value != word) {
			note("store %llu: %llu", word, value);
			break;
		}
		/* also what the kernel sees */
		if (n % 64 == 0) {
			by_ring(self, read_of(buf + 64, 8, self->to, at, self->key, n));
			memcpy(&value, buf + 64, 8);
			if (value != word)
				break;
		}
	}
	EXPECT_EQ(word, value);
	EXPECT_LT(0, direct);
	note("%llu stores, %llu of them direct; generation %llu", n, direct, generation(&self->w));
}

struct adder {
	rules *self;
	__u64 direct, ring;
	pthread_t thread;
};

static void *adds(void *arg)
{
	struct adder *a = arg;
	rules *self = a->self;

	while (!__atomic_load_n(&self->stop, __ATOMIC_ACQUIRE)) {
		generation(&self->w);
		if (is_there(&self->w, 8)) {
			__atomic_fetch_add(word_at(&self->w, 8), 1, __ATOMIC_SEQ_CST);
			a->direct++;
		} else {
			window_fill(&self->w, 8, 8);
		}
	}
	return NULL;
}

TEST_F(rules, no_atomic_is_lost)
{
	struct adder a[3] = {};
	__u64 all = 0;

	if (!(self->w.o.flags & TREADLE_WINDOW_ATOMIC))
		return;
	for (int i = 0; i < ARRAY_SIZE(a); i++) {
		a[i].self = self;
		ASSERT_EQ(0, pthread_create(&a[i].thread, NULL, adds, &a[i]));
	}
	sleep(3);
	raise_to(&self->stop, 1);
	for (int i = 0; i < ARRAY_SIZE(a); i++) {
		ASSERT_EQ(0, pthread_join(a[i].thread, NULL));
		all += a[i].direct;
		EXPECT_LT(0, a[i].direct);
	}
	EXPECT_EQ(all, ((__u64 *)self->there)[1]);
	note("%llu additions; generation %llu", all, generation(&self->w));
}

struct storer {
	struct window *w;
	const volatile __u64 *there;
	int round, done, lost, direct;
};

/* Stores as soon as the page is there. */
static void *stores_early(void *arg)
{
	struct storer *s = arg;

	for (int i = 1; i <= SCRATCHED; i++) {
		await(&s->round, i);
		while (!is_there(s->w, 0))
			;
		if (window_store(s->w, 0, i)) {
			s->direct++;
			s->lost += *s->there != i;
		}
		raise_to(&s->done, i);
	}
	return NULL;
}

/* Where the page was missing, an access has left the scratch page in the map. */
TEST(a_page_is_there_only_when_the_scratch_page_is_not)
{
	__u64 key = 77, to;
	struct window w;
	struct storer s = {.w = &w};
	struct node a, b;
	pthread_t storer;
	char *there, buf[8] = {};
	__u32 id;

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	to = peer(&a, b.addr);
	there = pages(PAGE);
	s.there = (void *)there;
	ASSERT_EQ(0, mr(b.fd, there, PAGE, BOTH, 0, &key, &id));
	ASSERT_EQ(0, window_open(&w, &a, to, key, 0, 8, BOTH));
	window_map(&w);
	storer = thread(stores_early, &s);
	for (int i = 1; i <= SCRATCHED; i++) {
		ASSERT_EQ(0, madvise(there, PAGE, MADV_DONTNEED));
		ASSERT_EQ(1, post(&a, write_of(buf, 8, to, 64, key, i))); /* it is known */
		ASSERT_EQ(0, cq_next(&a.cq).error);
		*word_at(&w, 8) = 1;
		raise_to(&s.round, i);
		while (__atomic_load_n(&s.done, __ATOMIC_ACQUIRE) < i) {
			int ret = window_fill(&w, 0, 8);

			ASSERT_TRUE(ret == 0 || ret == -EAGAIN);
		}
	}
	pthread_join(storer, NULL);
	EXPECT_EQ(0, s.lost);
	EXPECT_LT(0, s.direct);
	note("%d of %d stores were direct", s.direct, SCRATCHED);
	window_unmap(&w);
	close(a.fd);
	close(b.fd);
}

TEST_HARNESS_MAIN
