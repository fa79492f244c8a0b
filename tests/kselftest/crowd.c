/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Eight processes do everything with each other: messages, plain and tagged, at once or armed, reads, writes, atomics,
 * connections. Every 100 ms one of them is killed, and another takes its place. Whoever lives checks every byte that he
 * gets, and has errors only of peers that died; at the end nothing is left of anybody.
 *
 * DEATH_SECONDS=6
 *
 * test-timeout: 7200
 */
#include "connection.h"
#include "module.h"

#include <treadle/atomic.h>

#define CROWD 8
#define ROOM  200000UL /* of one message, and of one writer in the memory of each peer */
#define RECVS 16
#define CALLS 3 /* connections that one serves at a time */

/*
 * A place in the crowd. @lives: whose turn it is; it changes before a process goes, so who sees the same before and
 * after an operation has had to do with one that lives. @here: for which of them the rest is true.
 */
struct place {
	__u64 lives, here;
	struct treadle_addr addr, listens;
	__u64 key;
};

struct crowd {
	struct place place[CROWD];
	__u64 done[8], errors, calls;
	int stop;
};

/* What each message begins with; behind it are the bytes of fill(). */
struct head {
	__u64 seed, len;
};

/* What a process has of its own. Its region: for each writer a counter and ROOM bytes. */
struct member {
	struct crowd *c;
	int me;
	__u64 life, dice, seeds;
	struct node n;
	struct listener l;
	struct caller {
		bool used;
		struct node n;
		char *buf;
	} callers[CALLS];
	char *src, *dst, *region, *got;
	__u64 counts[CROWD], counted[CROWD]; /* what the counter at a peer was, and in which life */
};

#define STRIDE (ROOM + 4096)

static struct place *look(struct member *m, int who, struct place *seen)
{
	struct place *p = &m->c->place[who];

	seen->lives = __atomic_load_n(&p->lives, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&p->here, __ATOMIC_ACQUIRE) != seen->lives)
		return NULL;
	*seen = (struct place){seen->lives, seen->lives, p->addr, p->listens, p->key};
	return __atomic_load_n(&p->lives, __ATOMIC_ACQUIRE) == seen->lives ? p : NULL;
}

/* An error is of one that died. */
static void expect_dead(struct member *m, const struct place *p, const struct place *seen,
			__u32 error)
{
	if (!error)
		return;
	if (__atomic_load_n(&p->lives, __ATOMIC_ACQUIRE) == seen->lives)
		note("%d: error %u of a peer that lives", m->me, error);
	need(__atomic_load_n(&p->lives, __ATOMIC_ACQUIRE) != seen->lives);
	need(error == ECONNRESET || error == ECONNREFUSED || error == EKEYREJECTED ||
	     error == ESHUTDOWN || error == ECANCELED);
	__atomic_fetch_add(&m->c->errors, 1, __ATOMIC_RELAXED);
}

static size_t compose(struct member *m, char *buf, size_t len)
{
	struct head h = {.seed = (__u64)getpid() << 32 | ++m->seeds, .len = len};

	memcpy(buf, &h, sizeof(h));
	fill(buf + sizeof(h), len, h.seed);
	return len + sizeof(h);
}

static void verify(const char *buf, size_t bytes)
{
	struct head h;

	need(bytes >= sizeof(h));
	memcpy(&h, buf, sizeof(h));
	need(h.len + sizeof(h) == bytes && same(buf + sizeof(h), h.len, h.seed));
}

static size_t some_bytes(struct member *m)
{
	return lottery(&m->dice) % (lottery(&m->dice) % 4 ? 2000 : ROOM - sizeof(struct head));
}

/* --- what others want --------------------------------------------------------------- */

static void post_any(struct member *m, __u64 i)
{
	char *at = m->dst + i * ROOM;
	struct treadle_desc d =
		i & 1 ? trecv_of(at, ROOM, ANY, 1, 0, i) : recv_of(at, ROOM, ANY, i);

	need(post_recv(&m->n, d) == 0);
}

static void node_destroy(struct node *n)
{
	node_unmap(n);
	need(destroy(n->fd, n->ep) == 0);
	need(destroy(n->fd, n->tx.id) == 0 && destroy(n->fd, n->rx.id) == 0);
	need(destroy(n->fd, n->cq.id) == 0 && destroy(n->fd, n->rcq.id) == 0);
	need(destroy(n->fd, n->sent.id) == 0 && destroy(n->fd, n->rcvd.id) == 0);
}

static struct options own(struct member *m, __u32 request)
{
	return (struct options){
		.context = m->n.fd, .tx = 4, .rx = 4, .cq = 8, .rcq = 8, .request = request};
}

/* Somebody calls: he is served, unless there are too many. */
static void answer(struct member *m, __u32 request)
{
	int result;

	for (int i = 0; i < CALLS; i++) {
		struct caller *c = &m->callers[i];

		if (c->used)
			continue;
		c->used = true;
		msg_open(&c->n, own(m, request), m->l.eq, i);
		need(post_recv(&c->n, recv_of(c->buf, ROOM, ANY, 1)) == 0);
		result = accept_with(c->n.fd, c->n.ep, NULL, 0);
		if (result) {
			need(result == -ECONNRESET); /* he has gone already */
			node_destroy(&c->n);
			c->used = false;
		}
		return;
	}
	reject_with(m->l.fd, m->l.ep, request, "busy", 4);
}

/* Whoever has called says something, gets it back, and hangs up. */
static void serve(struct member *m)
{
	struct treadle_event ev;
	struct treadle_cqe e;

	while (event_take(m->l.eq, &ev) > 0) {
		if (ev.event == TREADLE_EVENT_CONNREQ) {
			answer(m, ev.request);
		} else if (ev.event == TREADLE_EVENT_SHUTDOWN) {
			node_destroy(&m->callers[ev.context].n);
			m->callers[ev.context].used = false;
		}
	}
	for (int i = 0; i < CALLS; i++) {
		struct caller *c = &m->callers[i];

		if (!c->used || !cq_poll(&c->n.rcq, &e) || e.error)
			continue;
		verify(c->buf, e.len);
		ring_put(&c->n.tx, &(struct treadle_desc){.opcode = TREADLE_OP_SEND,
							  .iov_count = 1,
							  .addr = (unsigned long)c->buf,
							  .len = e.len});
		ring_publish(&c->n.tx);
		ring_doorbell(&c->n.tx); /* he may have gone */
	}
}

/* What has come is checked, and there is room for more. */
static void attend(struct member *m)
{
	struct treadle_cqe e;

	while (cq_poll(&m->n.rcq, &e)) {
		if (e.error == 0)
			verify(m->dst + e.context * ROOM, e.len);
		else
			need(e.error == ECONNRESET);
		post_any(m, e.context);
	}
	if (cq_overflows(&m->n.rcq))
		doorbell(m->n.fd, m->n.rcq.id);
	serve(m);
}

/* --- what it wants of others ------------------------------------------------------------ */

/* The next completion of its own; meanwhile the others are not forgotten. */
static struct treadle_cqe await_own(struct member *m, struct cq *q)
{
	__u64 end = now_ns() + 4 * PATIENCE_NS;
	struct treadle_cqe e;

	while (!cq_poll(q, &e)) {
		attend(m);
		if (now_ns() > end) {
			what_is_stuck(q);
			need(!"a completion does not come");
		}
		cq_wait(q, 500000);
	}
	return e;
}

/* One command, alone; its error. */
static __u32 perform(struct member *m, struct treadle_desc d)
{
	struct treadle_cqe e;

	d.context = ++m->seeds;
	need(post(&m->n, d) == 1);
	e = await_own(m, &m->n.cq);
	need(e.context == d.context);
	return e.error;
}

/* Several, some of them armed on those before. */
static void messages(struct member *m, struct place *p, struct place *seen)
{
	__u64 to = peer(&m->n, seen->addr), first = m->seeds;
	int count = 1 + lottery(&m->dice) % 4;
	__u64 sent = cntr_value(&m->n.sent) + cntr_errors(&m->n.sent);

	for (int i = 0; i < count; i++) {
		char *at = m->src + i * ROOM;
		size_t bytes = compose(m, at, some_bytes(m));
		struct treadle_desc d = lottery(&m->dice) & 1 ?
						tsend_of(at, bytes, to, 1, m->seeds) :
						send_of(at, bytes, to, m->seeds);

		/* Each waits for those before it. */
		if (lottery(&m->dice) % 3 == 0)
			d = when(d, &m->n.sent, sent + i);
		need(post(&m->n, d) == 1);
	}
	for (int i = 0; i < count; i++) {
		struct treadle_cqe e = await_own(m, &m->n.cq);

		need(e.context > first && e.context <= first + count);
		expect_dead(m, p, seen, e.error);
	}
}

static void writes_and_reads(struct member *m, struct place *p, struct place *seen)
{
	__u64 to = peer(&m->n, seen->addr), at = m->me * STRIDE + 4096;
	size_t bytes = compose(m, m->src, some_bytes(m));
	__u32 error = perform(m, write_of(m->src, bytes, to, at, seen->key, 0));

	expect_dead(m, p, seen, error);
	if (error)
		return;
	error = perform(m, read_of(m->got, bytes, to, at, seen->key, 0));
	expect_dead(m, p, seen, error);
	if (!error)
		need(memcmp(m->src, m->got, bytes) == 0);
}

/* Nobody else counts there, so each sum is that of the last time and one. */
static void adds(struct member *m, struct place *p, struct place *seen)
{
	int who = p - m->c->place;
	__u64 to = peer(&m->n, seen->addr), one = 1, was = -1ULL;
	struct treadle_desc d = write_of(&one, 8, to, m->me * STRIDE, seen->key, 0);
	__u32 error;

	d.opcode = TREADLE_OP_FETCH;
	d.flags |= TREADLE_F_EXT;
	d.atomic_op = TREADLE_ATOMIC_SUM;
	d.datatype = TREADLE_UINT64;
	d.result = (unsigned long)&was;
	error = perform(m, d);
	expect_dead(m, p, seen, error);
	if (!error && m->counted[who] == seen->lives)
		need(was == m->counts[who] + 1);
	m->counts[who] = was;
	m->counted[who] = error ? 0 : seen->lives;
}

/* The kind of the next event of its call. */
static __u32 await_event(struct member *m, int eq, struct treadle_event *ev)
{
	__u64 end = now_ns() + 4 * PATIENCE_NS;

	while (event_take(eq, ev) < 0) {
		attend(m);
		usleep(200);
		need(now_ns() < end);
	}
	return ev->event;
}

static void calls(struct member *m, struct place *p, struct place *seen)
{
	int id = eq_create(m->n.fd), eq = wait_fd(m->n.fd, id);
	size_t bytes = compose(m, m->src, some_bytes(m));
	struct treadle_event ev;
	struct treadle_cqe e;
	struct node n;

	msg_open(&n, own(m, 0), eq, 1);
	need(post_recv(&n, recv_of(m->got, ROOM, ANY, 1)) == 0);
	need(connect_to(n.fd, n.ep, seen->listens, NULL, 0) == 0);
	if (await_event(m, eq, &ev) == TREADLE_EVENT_CONNECTED) {
		int result = post(&n, send_of(m->src, bytes, 0, 2));

		if (result == 1) {
			e = await_own(m, &n.cq);
			expect_dead(m, p, seen, e.error);
			e = await_own(m, &n.rcq);
			expect_dead(m, p, seen, e.error);
			if (!e.error)
				need(e.len == bytes && memcmp(m->src, m->got, bytes) == 0);
			__atomic_fetch_add(&m->c->calls, !e.error, __ATOMIC_RELAXED);
		} else {
			expect_dead(m, p, seen, -result);
		}
	} else {
		need(ev.event == TREADLE_EVENT_CONNREFUSED || ev.event == TREADLE_EVENT_SHUTDOWN);
		if (!ev.data_size) /* else: he is busy */
			expect_dead(m, p, seen, ev.error ?: ECONNRESET);
	}
	node_destroy(&n);
	close(eq);
	need(destroy(m->n.fd, id) == 0);
}

/* --- life ----------------------------------------------------------------------------- */

static void is_born(struct member *m)
{
	struct place *p = &m->c->place[m->me];
	__u32 id;

	m->life = __atomic_load_n(&p->lives, __ATOMIC_ACQUIRE);
	m->dice = (__u64)getpid() << 8 | m->me;
	node_open(&m->n, (struct options){.buffered = 20000});
	m->l.fd = m->n.fd;
	m->l.eq = wait_fd(m->n.fd, eq_create(m->n.fd));
	m->l.addr = loopback(0);
	need(ep_create_as(m->n.fd, TREADLE_EP_PASSIVE, 0, &m->l.addr, NULL, &m->l.ep) == 0);
	need(ep_eq(m->n.fd, m->l.ep, m->l.eq, PEP) == 0 && listen_to(m->n.fd, m->l.ep, 0) == 0);
	m->src = pages(4 * ROOM);
	m->dst = pages(RECVS * ROOM);
	m->got = pages(ROOM);
	m->region = pages(CROWD * STRIDE);
	for (int i = 0; i < CALLS; i++)
		m->callers[i].buf = pages(ROOM);
	for (int i = 0; i < RECVS; i++)
		post_any(m, i);
	p->key = 0;
	need(mr(m->n.fd, m->region, CROWD * STRIDE,
		TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
		TREADLE_MR_KERNEL_KEY | (lottery(&m->dice) & 1 ? TREADLE_MR_PINNED : 0), &p->key,
		&id) == 0);
	p->addr = m->n.addr;
	p->listens = m->l.addr;
	__atomic_store_n(&p->here, m->life, __ATOMIC_RELEASE);
}

static void lives(struct crowd *c, int me)
{
	static void (*const ways[])(struct member *, struct place *, struct place *) = {
		messages, messages, messages, writes_and_reads, adds, calls};
	static struct member m;

	m.c = c;
	m.me = me;
	is_born(&m);
	while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
		int way = lottery(&m.dice) % ARRAY_SIZE(ways);
		struct place seen, *p = look(&m, lottery(&m.dice) % CROWD, &seen);

		attend(&m);
		/* One that calls itself would wait for itself. */
		if (!p || (ways[way] == calls && p == &c->place[me]))
			continue;
		ways[way](&m, p, &seen);
		__atomic_fetch_add(&c->done[way], 1, __ATOMIC_RELAXED);
	}
	__atomic_fetch_add(&c->place[me].lives, 1, __ATOMIC_RELEASE);
	_exit(0);
}

static pid_t joins(struct crowd *c, int me)
{
	pid_t pid = fork();

	need(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		lives(c, me);
	}
	return pid;
}

static void kills_and_replaces(void *arg)
{
	const char *text = getenv("DEATH_SECONDS");
	__u64 end = now_ns() + (text ? atoi(text) : 6) * 1000000000ULL, dice = 1, next = now_ns();
	struct crowd *c = arg;
	pid_t pids[CROWD];
	int killed = 0;

	/* Nobody has been here yet. */
	for (int i = 0; i < CROWD; i++)
		c->place[i].lives = 1;
	for (int i = 0; i < CROWD; i++)
		pids[i] = joins(c, i);
	while ((next += 100000000) < end) {
		int who = lottery(&dice) % CROWD;

		while (now_ns() < next)
			usleep(1000);
		/* Nobody ends but by this. */
		__atomic_fetch_add(&c->place[who].lives, 1, __ATOMIC_RELEASE);
		need(kill(pids[who], SIGKILL) == 0 && reap(pids[who]) == -SIGKILL);
		pids[who] = joins(c, who);
		killed++;
	}
	raise_to(&c->stop, 1);
	for (int i = 0; i < CROWD; i++)
		need(reap(pids[i]) == 0);
	note("%d killed; %llu batches of messages, %llu writes and reads, %llu sums, %llu calls of which %llu got an answer, %llu errors",
	     killed, c->done[0] + c->done[1] + c->done[2], c->done[3], c->done[4], c->done[5],
	     c->calls, c->errors);
	for (int i = 0; i < 6; i++)
		need(c->done[i]);
	need(c->calls && killed);
}

struct group {
	char dir[64];
	struct crowd c;
};

static void in_a_group(void *arg)
{
	struct group *g = arg;

	cgroup_enter(g->dir);
	kills_and_replaces(&g->c);
}

/* What is still told of memory is what the kernel's own books are behind by. */
#define SLACK (256 << 10)

FIXTURE(crowd)
{
	struct group *g;
};

FIXTURE_SETUP(crowd)
{
	self->g = shared(sizeof(*self->g));
}

FIXTURE_TEARDOWN(crowd) {}

TEST_F(crowd, killed_one_after_the_other)
{
	__u64 end = now_ns() + PATIENCE_NS;
	long long left;

	EXPECT_EQ(0, reap(spawn(in_a_group, self->g)));
	until_unused();
	while ((left = cgroup_kernel(self->g->dir)) > SLACK && now_ns() < end)
		usleep(10000);
	EXPECT_LE(0, left);
	EXPECT_GE(SLACK, left);
	note("%lld bytes of the kernel's are still charged", left);
	EXPECT_TRUE(all_pins_are_released());
	EXPECT_EQ(0, rmdir(self->g->dir));
	/* Its caches complain of what is left in them. */
	module_unload();
	EXPECT_EQ(0, module_load(false, ""));
}

TEST_HARNESS_MAIN
