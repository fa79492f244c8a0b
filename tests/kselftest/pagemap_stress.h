/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages go into one range and out of another without a pause while a test changes both. What
 * arrives is checked, and so are pages that other processes got meanwhile. Or another process loads
 * and stores through windows, and takes its ring where these have not worked, as the library does.
 */
#ifndef TREADLE_KSELFTEST_PAGEMAP_STRESS_H
#define TREADLE_KSELFTEST_PAGEMAP_STRESS_H

#include "window.h"

#define RANGE	 (1UL << 20)
#define HUGE	 (2UL << 20)
#define ROUND_NS 1200000000ULL
#define ENOUGH	 20 /* messages of a round */
#define POISON	 0xdb

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

/*
 * The other end of each message, with memory that does not change: in this process, so one pagemap
 * is used, or in another one, so each copy needs two.
 */
struct partner {
	struct node n;
	__u64 to;
	char *buf;
	int socket; /* to the other process, or -1 */
	struct window in, out;
};

enum { IN_KEY = 1, OUT_KEY };

FIXTURE(stress)
{
	struct node n;
	__u64 to;
	struct partner partner;
	pid_t other;
	size_t len; /* of each range */
	char *in, *out;
	/*
	 * What may happen to a message: an error, or bytes that vanish although it is reported as
	 * received.
	 */
	bool may_fail, may_vanish;
	char *seen;
	int stop;
	int messages, failed;
	int direct; /* of them, through windows; -1: there are none */
	pthread_t traffic;
	/*
	 * In a process of its own: in this one it could take addresses that are free for a moment.
	 */
	pid_t watcher;
	int *watches;
};

typedef FIXTURE_DATA(stress) stress;

/* The outgoing range holds this, or zeroes, or can't be read. */
#define OUT_SEED 1

/* --- messages -------------------------------------------------------------------------- */

/* The right bytes, or zeroes where they may vanish. */
static inline bool plausible(bool may_vanish, const char *buf, size_t len, __u64 seed,
			     size_t offset)
{
	for (size_t i = 0; i < len; i++) {
		__u64 word = pattern(seed, (offset + i) & ~7UL);

		if (i + 8 <= len && !((offset + i) & 7) && memcmp(buf + i, &word, 8) == 0) {
			i += 7;
			continue;
		}
		if (buf[i] != ((char *)&word)[(offset + i) & 7] && !(may_vanish && !buf[i])) {
			note("byte %zu of %zu: %#x", i, len, (unsigned char)buf[i]);
			return false;
		}
	}
	return true;
}

/* Reads memory by a system call, which fails where nothing is mapped. */
static inline size_t look(char *to, char *at, size_t len)
{
	struct iovec local = {to, len}, remote = {at, len};
	ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

	return n < 0 ? 0 : n;
}

/* A command to the partner. */
struct errand {
	enum { MEET, SEND, RECEIVE, TAKE, WITHDRAW, OPEN, STORE, LOAD } what;
	struct treadle_addr addr;
	__u64 context, seed;
	size_t len, offset;
	bool may_vanish;
};

/* Accesses bytes as window.h says. False: it may have had no effect. */
static inline bool window_copy(const struct window *w, char *buf, size_t len, size_t offset,
			       bool store)
{
	char *at = (char *)w->data + offset;
	__u64 before = generation(w);

	for (size_t i = offset / PAGE * PAGE; i < offset + len; i += PAGE)
		if (!is_there(w, i))
			return false;
	memcpy(store ? at : buf, store ? buf : at, len);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return generation(w) == before;
}

/* Stores or loads. 0: through the window; -1: by the ring; or its error. */
static inline int access_by_window(struct partner *p, const struct errand *e)
{
	bool store = e->what == STORE;
	const struct window *w = store ? &p->in : &p->out;
	int error;

	if (store)
		fill(p->buf, e->len, e->seed);
	else
		memset(p->buf, POISON + 1, e->len);
	if (!window_copy(w, p->buf, e->len, e->offset, store)) {
		need(post(&p->n, store ? write_of(p->buf, e->len, p->to, e->offset, IN_KEY, 0) :
					 read_of(p->buf, e->len, p->to, e->offset, OUT_KEY, 0)) ==
		     1);
		error = cq_next(&p->n.cq).error;
		(void)!window_fill(w, 0, w->o.len); /* what is there, for the next ones */
		if (error)
			return error;
		error = -1;
	} else {
		error = 0;
	}
	need(store || plausible(e->may_vanish, p->buf, e->len, OUT_SEED, e->offset));
	return error;
}

static inline void windows_open(struct partner *p, size_t len)
{
	need(window_open(&p->in, &p->n, p->to, IN_KEY, 0, len, TREADLE_ACCESS_REMOTE_WRITE) == 0);
	need(window_open(&p->out, &p->n, p->to, OUT_KEY, 0, len, TREADLE_ACCESS_REMOTE_READ) == 0);
	window_map(&p->in);
	window_map(&p->out);
}

/* Runs a command; returns 0, or an error. */
static inline int run_errand(struct partner *p, const struct errand *e)
{
	int error;

	switch (e->what) {
	case MEET:
		p->to = peer(&p->n, e->addr);
		return 0;
	case SEND:
		fill(p->buf, e->len, e->seed);
		need(post(&p->n, send_of(p->buf, e->len, p->to, e->context)) == 1);
		return cq_next(&p->n.cq).error;
	case RECEIVE:
		memset(p->buf, POISON + 1, e->len);
		return -post_recv(&p->n, recv_of(p->buf, e->len, ANY, e->context));
	case OPEN:
		windows_open(p, e->len);
		return 0;
	case STORE:
	case LOAD:
		return access_by_window(p, e);
	case TAKE:
		error = cq_next(&p->n.rcq).error;
		need(error || plausible(e->may_vanish, p->buf, e->len, e->seed, e->offset));
		return error;
	default:
		need(cancel(p->n.fd, TREADLE_CANCEL_OP, p->n.ep, e->context, 0, NULL) == 0);
		return cq_next(&p->n.rcq).error;
	}
}

static inline void partner_open(struct partner *p)
{
	node_open(&p->n, (struct options){});
	p->buf = pages(HUGE);
}

static inline void is_partner(void *arg)
{
	int result, socket = *(int *)arg;
	struct partner p;
	struct errand e;

	partner_open(&p);
	need(write(socket, &p.n.addr, sizeof(p.n.addr)) == sizeof(p.n.addr));
	while (read(socket, &e, sizeof(e)) == sizeof(e)) {
		result = run_errand(&p, &e);
		need(write(socket, &result, sizeof(result)) == sizeof(result));
	}
}

static inline int partner(stress *s, struct errand e)
{
	int result;

	if (s->partner.socket < 0)
		return run_errand(&s->partner, &e);
	need(send(s->partner.socket, &e, sizeof(e), MSG_NOSIGNAL) == sizeof(e));
	need(read(s->partner.socket, &result, sizeof(result)) == sizeof(result));
	return result;
}

/* A message comes into a range; true if both sides report success. */
static inline bool comes_in(stress *s, __u64 context, size_t len, size_t offset)
{
	struct errand e = {SEND, .context = context, .seed = 1000 + context, .len = len};
	struct treadle_cqe r;
	int error;

	need(post_recv(&s->n, recv_of(s->in + offset, len, ANY, context)) == 0);
	error = partner(s, e);
	need(error == 0 || error == EIO);
	r = cq_next(&s->n.rcq);
	need(r.context == context && r.error == (error ? EFAULT : 0));
	if (error)
		return false;
	len = look(s->seen, s->in + offset, len);
	need(plausible(s->may_vanish, s->seen, len, e.seed, 0));
	return true;
}

/* A message leaves a range. */
static inline bool goes_out(stress *s, __u64 context, size_t len, size_t offset)
{
	struct errand e = {RECEIVE,    .context = context, .seed = OUT_SEED,
			   .len = len, .offset = offset,   .may_vanish = s->may_vanish};
	int result, error;

	need(partner(s, e) == 0);
	result = post(&s->n, send_of(s->out + offset, len, s->to, context));
	error = result == 1 ? cq_next(&s->n.cq).error : -result;
	/* A message that could not be read has not used the receive. */
	need(error == 0 || error == EIO || error == EFAULT);
	e.what = error == EFAULT ? WITHDRAW : TAKE;
	need(partner(s, e) == (error == EFAULT ? ECANCELED : error ? EFAULT : 0));
	return !error;
}

/* The partner stores to one range, or loads from the other one. */
static inline bool is_accessed(stress *s, __u64 context, size_t len, size_t offset, bool store)
{
	struct errand e = {store ? STORE : LOAD, .seed = 1000 + context, .len = len,
			   .offset = offset, .may_vanish = s->may_vanish};
	int error = partner(s, e);

	need(error <= 0 || error == EIO || error == EFAULT);
	if (error > 0)
		return false;
	s->direct += error == 0;
	if (store) {
		len = look(s->seen, s->in + offset, len);
		need(plausible(s->may_vanish, s->seen, len, e.seed, 0));
	}
	return true;
}

static inline void *traffic(void *arg)
{
	stress *s = arg;
	__u64 state = 1;

	for (int i = 0; !__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE); i++) {
		/* Most of them are small, some large enough for a worker. */
		size_t most = i % 8 ? 4 * PAGE : s->len;
		size_t len = 1 + lottery(&state) % most;
		size_t offset = lottery(&state) % (s->len - len + 1);
		bool arrived = s->direct >= 0 ? is_accessed(s, i, len, offset, i & 1) :
			       i & 1	      ? comes_in(s, i, len, offset) :
						goes_out(s, i, len, offset);

		need(arrived || s->may_fail);
		s->failed += !arrived;
		s->messages++;
	}
	return NULL;
}

/* Another process, which gets pages that were freed. */
static inline void watches(void *arg)
{
	const size_t len = 64 * PAGE;
	int *watched = arg;

	for (;; ++*watched) {
		char *at = pages(len);

		fill(at, len, *watched);
		sched_yield();
		need(same(at, len, *watched));
		munmap(at, len + PAGE);
	}
}

/* --- the ranges --------------------------------------------------------------------------- */

FIXTURE_VARIANT(stress)
{
	bool pinned, within, windows;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(stress, on_demand) { };
FIXTURE_VARIANT_ADD(stress, pinned) { .pinned = true };
FIXTURE_VARIANT_ADD(stress, within_a_process) { .within = true };
FIXTURE_VARIANT_ADD(stress, by_windows) { .windows = true };
/* clang-format on */

static inline void pin(int fd, char *at, size_t len)
{
	struct treadle_iov iov = {(unsigned long)at, len};
	struct treadle_mr_create c = {
		.size = sizeof(c),
		.flags = TREADLE_MR_KERNEL_KEY | TREADLE_MR_PINNED,
		.access = TREADLE_ACCESS_SEND | TREADLE_ACCESS_RECV,
		.iov_count = 1,
		.iov = (unsigned long)&iov,
	};

	need(call(fd, TREADLE_IOC_MR_CREATE, &c) == 0);
}

/* A range at a multiple of the size of a huge page. */
static inline char *range(size_t len)
{
	char *at =
		mmap(NULL, len + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *aligned = (char *)(((unsigned long)at + HUGE - 1) & ~(HUGE - 1));

	need(at != MAP_FAILED);
	munmap(at, aligned - at);
	munmap(aligned + len, HUGE - (aligned - at));
	return aligned;
}

FIXTURE_SETUP(stress)
{
	struct treadle_addr addr;
	int sockets[2];

	self->partner.socket = -1;
	if (variant->within) {
		partner_open(&self->partner);
		addr = self->partner.n.addr;
	} else {
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets));
		self->other = spawn(is_partner, &sockets[1]);
		/* so that a reader here gets an end of file if the partner dies */
		close(sockets[1]);
		self->partner.socket = sockets[0];
		ASSERT_EQ(sizeof(addr), read(sockets[0], &addr, sizeof(addr)));
	}
	node_open(&self->n, (struct options){});
	self->to = peer(&self->n, addr);
	partner(self, (struct errand){MEET, .addr = self->n.addr});
	self->watches = shared(sizeof(int));
	self->watcher = spawn(watches, self->watches);
	self->len = RANGE;
	self->in = range(HUGE);
	self->out = range(HUGE);
	self->seen = pages(HUGE);
	fill(self->out, RANGE, OUT_SEED);
	self->direct = -1;
}

static inline __u64 begin(stress *s, const FIXTURE_VARIANT(stress) * variant)
{
	__u64 in = IN_KEY, out = OUT_KEY;
	__u32 id;

	if (variant->pinned) {
		pin(s->n.fd, s->in, s->len);
		pin(s->n.fd, s->out, s->len);
	}
	if (variant->windows) {
		need(mr(s->n.fd, s->in, s->len, TREADLE_ACCESS_REMOTE_WRITE, 0, &in, &id) == 0);
		need(mr(s->n.fd, s->out, s->len, TREADLE_ACCESS_REMOTE_READ, 0, &out, &id) == 0);
		partner(s, (struct errand){OPEN, .len = s->len});
		s->direct = 0;
	}
	s->traffic = thread(traffic, s);
	return now_ns() + ROUND_NS;
}

/* A round's time, or more on a machine so slow that few messages have come. */
static inline bool stressing(const stress *s, __u64 end)
{
	__u64 now = now_ns();

	return now < end || (__atomic_load_n(&s->messages, __ATOMIC_RELAXED) <= ENOUGH &&
			     now < end + PATIENCE_NS);
}

FIXTURE_TEARDOWN(stress)
{
	raise_to(&self->stop, 1);
	if (self->traffic)
		pthread_join(self->traffic, NULL);
	kill(self->watcher, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(self->watcher));
	if (self->other) {
		kill(self->other, SIGKILL);
		EXPECT_EQ(-SIGKILL, reap(self->other));
	}
	if (!self->traffic) /* the test was skipped */
		return;
	note("%d messages, %d of them failed; %d watched", self->messages, self->failed,
	     *self->watches);
	EXPECT_LT(ENOUGH, self->messages);
	EXPECT_LT(self->failed, self->messages);
	if (self->direct >= 0) {
		note("%d through windows", self->direct);
		EXPECT_LT(0, self->direct);
	}
	EXPECT_TRUE(cq_empty(&self->n.rcq));
}

/* Some pages of a range: any number, or all. */
struct part {
	size_t at, len;
};

static inline struct part some_pages(__u64 *state, size_t len)
{
	size_t n = len / PAGE, from, count;

	if (lottery(state) % 4 == 0)
		return (struct part){0, len};
	from = lottery(state) % n;
	count = 1 + lottery(state) % (n - from);
	return (struct part){from * PAGE, count * PAGE};
}

static inline void fresh(char *at, size_t len)
{
	need(mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		  0) == at);
}

static inline void refill(char *out, struct part p)
{
	for (size_t i = p.at; i < p.at + p.len; i += 8)
		*(__u64 *)(out + i) = pattern(OUT_SEED, i);
}

static inline void wait_a_little(__u64 *state)
{
	usleep(lottery(state) % 1500);
}

#endif
