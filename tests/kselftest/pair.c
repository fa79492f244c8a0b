/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Several processes and threads at once: all messages arrive, in order, once, from any to any at
 * the same time.
 */
#include "treadle.h"

#define MOST 8

/* Shared by the processes of a test. */
struct team {
	struct treadle_addr addr[MOST];
	int ready[MOST];
	int members, rounds;
	struct options options;
};

static void join(struct team *t, int me, struct node *n, __u64 to[MOST])
{
	node_open(n, t->options);
	t->addr[me] = n->addr;
	raise_to(&t->ready[me], 1);
	for (int i = 0; i < t->members; i++) {
		await(&t->ready[i], 1);
		to[i] = peer(n, t->addr[i]);
		need(to[i] == i);
	}
}

/* The test itself is the first process. */
static void start(struct __test_metadata *_metadata, struct team *t, void (*fn)(struct team *, int))
{
	pid_t pids[MOST];

	for (int i = 1; i < t->members; i++) {
		pids[i] = fork();
		ASSERT_LE(0, pids[i]);
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			fn(t, i);
			_exit(0);
		}
	}
	fn(t, 0);
	for (int i = 1; i < t->members; i++) {
		EXPECT_EQ(0, reap(pids[i]));
	}
}

/* --- ping and pong --------------------------------------------------------------- */

static size_t length_of(int round)
{
	static const size_t lengths[] = {0,    1,    8,	    63,	   64,	  65,	 500,	 4095,
					 4096, 4097, 10000, 65535, 65536, 65537, 200000, 1 << 20};

	return lengths[round % ARRAY_SIZE(lengths)];
}

static void ping_pong(struct team *t, int me)
{
	char *src = pages(1 << 20), *dst = pages(1 << 20);
	__u64 to[MOST];
	struct node n;

	join(t, me, &n, to);
	for (int i = 0; i < t->rounds; i++) {
		size_t len = length_of(i);
		struct treadle_cqe c;

		if (me == i % 2) {
			fill(src, len, i);
			need(post(&n, tsend_of(src, len, to[!me], i, i)) == 1);
			c = cq_next(&n.cq);
			need(c.context == i && c.error == 0);
		} else {
			/* Sometimes it waits before the message comes, sometimes not. */
			if (i % 3 == 0)
				sched_yield();
			need(post_recv(&n, trecv_of(dst, len, to[!me], i, 0, i)) == 0);
			c = cq_next(&n.rcq);
			need(c.context == i && c.error == 0 && c.len == len);
			need(same(dst, len, i));
		}
	}
	need(cq_empty(&n.cq) && cq_empty(&n.rcq));
}

TEST(two_processes_in_turn)
{
	struct team *t = shared(sizeof(*t));

	t->members = 2;
	t->rounds = 800;
	start(_metadata, t, ping_pong);
}

/* --- crosswise -------------------------------------------------------------------- */

struct stamp {
	int from, number;
};

/* Each process sends to all, itself included, while receiving. Sizes vary. */
static void exchange_all(struct team *t, int me)
{
	const int window = 64, room = 8192, total = t->rounds * t->members;
	char *src = pages(window * room), *dst = pages(window * room);
	int sent = 0, done = 0, got = 0, next[MOST] = {0};
	bool busy[64] = {false};
	/*
	 * By order of posting: the sender of each receive's message, plus one, and the message's
	 * number.
	 */
	struct stamp *seen = calloc(total + window, sizeof(*seen));
	int posted = 0;
	struct treadle_cqe c;
	__u64 to[MOST], state = me;
	struct node n;

	join(t, me, &n, to);
	for (; posted < window; posted++)
		need(post_recv(&n, recv_of(dst + posted * room, room, ANY, posted)) == 0);
	while (got < total || done < total) {
		while (sent < total && !busy[sent % window] && ring_room(&n.tx)) {
			size_t len = sizeof(struct stamp) + lottery(&state) % (room - 64);
			struct stamp *s = (void *)(src + sent % window * room);

			*s = (struct stamp){me, sent / t->members};
			fill(s + 1, len - sizeof(*s), me * 100003 + s->number);
			busy[sent % window] = true;
			need(post(&n, send_of(s, len, to[sent % t->members], sent)) == 1);
			sent++;
		}
		while (cq_poll(&n.cq, &c)) {
			need(c.error == 0);
			busy[c.context % window] = false;
			done++;
		}
		while (cq_poll(&n.rcq, &c)) {
			struct stamp *s = (void *)c.buf;

			need(c.error == 0 && s->from < t->members && c.src == to[s->from]);
			need(same(s + 1, c.len - sizeof(*s), s->from * 100003 + s->number));
			seen[c.context] = (struct stamp){s->from + 1, s->number};
			got++;
			need(post_recv(&n, recv_of(s, room, ANY, posted++)) == 0);
		}
		if (cq_overflows(&n.rcq))
			need(doorbell(n.fd, n.rcq.id) == 0);
		if (cq_overflows(&n.cq))
			need(doorbell(n.fd, n.cq.id) == 0);
		sched_yield();
	}
	/* They complete in any order, but match in the order of sending, from each. */
	for (int i = 0; i < total + window; i++)
		if (seen[i].from)
			need(seen[i].number == next[seen[i].from - 1]++);
	for (int i = 0; i < t->members; i++)
		need(next[i] == t->rounds);
	/* A process only ends when all are done, as its peers still send to it. */
	raise_to(&t->ready[me], 2);
	for (int i = 0; i < t->members; i++)
		await(&t->ready[i], 2);
	need(cq_empty(&n.cq) && cq_empty(&n.rcq));
}

TEST(all_to_all)
{
	struct team *t = shared(sizeof(*t));

	t->members = 5;
	t->rounds = 600;
	t->options = (struct options){.flags = TREADLE_EP_SOURCE, .buffered = 20000};
	start(_metadata, t, exchange_all);
}

/*
 * Two processes send large messages to each other at the same time: each copy needs the other's
 * memory.
 */
static void crossing(struct team *t, int me)
{
	const size_t len = 3 << 20;
	char *src = pages(len), *dst = pages(len);
	__u64 to[MOST];
	struct node n;

	join(t, me, &n, to);
	for (int i = 0; i < t->rounds; i++) {
		struct treadle_cqe c;

		fill(src, len, 2 * i + me);
		if (i & 1)
			need(post_recv(&n, recv_of(dst, len, ANY, i)) == 0);
		need(post(&n, send_of(src, len, to[!me], i)) == 1);
		if (!(i & 1))
			need(post_recv(&n, recv_of(dst, len, ANY, i)) == 0);
		c = cq_next(&n.rcq);
		need(c.error == 0 && c.len == len && c.context == i);
		need(same(dst, len, 2 * i + !me));
		need(cq_next(&n.cq).context == i);
	}
	raise_to(&t->ready[me], 2);
	await(&t->ready[!me], 2);
}

TEST(large_ones_crosswise)
{
	struct team *t = shared(sizeof(*t));

	t->members = 2;
	t->rounds = 30;
	start(_metadata, t, crossing);
}

/* --- threads ----------------------------------------------------------------------- */

struct worker {
	struct node n;
	__u64 to;
	int rounds, me;
	struct worker *peer;
	int *ready;
};

/* Each thread has an endpoint of its own, in one context. */
static void *chats(void *arg)
{
	struct worker *w = arg;
	char src[256], dst[256];

	for (int i = 0; i < w->rounds; i++) {
		struct treadle_cqe c;

		fill(src, sizeof(src), i * 2 + w->me);
		need(post_recv(&w->n, recv_of(dst, sizeof(dst), ANY, i)) == 0);
		need(post(&w->n, send_of(src, sizeof(src), w->to, i)) == 1);
		c = cq_next(&w->n.rcq);
		need(c.context == i && c.error == 0);
		need(same(dst, sizeof(dst), i * 2 + !w->me));
		need(cq_next(&w->n.cq).context == i);
	}
	return NULL;
}

TEST(threads_of_one_context)
{
	static struct worker w[4];
	pthread_t t[4];
	int fd = device();

	for (int i = 0; i < 4; i++) {
		node_open(&w[i].n, (struct options){.context = fd});
		w[i].rounds = 3000;
		w[i].me = i & 1;
	}
	for (int i = 0; i < 4; i++) {
		w[i].to = peer(&w[i].n, w[i ^ 1].n.addr);
		t[i] = thread(chats, &w[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

/* Many threads ring one ring's doorbell: each command is taken once. */
struct ringers {
	struct node *n;
	int *stop;
	long taken;
};

static void *rings(void *arg)
{
	struct ringers *r = arg;

	while (!__atomic_load_n(r->stop, __ATOMIC_ACQUIRE)) {
		int result = ring_doorbell(&r->n->tx);

		need(result >= 0);
		r->taken += result;
	}
	return NULL;
}

TEST(many_ring_the_same_bell)
{
	struct ringers r[2] = {};
	const int count = 20000;
	int stop = 0;
	pthread_t t[2];
	struct node n;
	char buf[16];
	__u64 to;

	node_open(&n, (struct options){.tx = 128});
	to = peer(&n, n.addr);
	for (int i = 0; i < 2; i++) {
		r[i] = (struct ringers){&n, &stop};
		t[i] = thread(rings, &r[i]);
	}
	for (int i = 0; i < count; i++) {
		struct treadle_desc d = send_of(buf, 8, to, i);

		ASSERT_EQ(0, post_recv(&n, recv_of(buf + 8, 8, ANY, i)));
		*(int *)buf = i;
		ring_wait(&n.tx, 1);
		ring_put(&n.tx, &d);
		ring_publish(&n.tx);
		ASSERT_EQ(i, cq_next(&n.rcq).context);
		ASSERT_EQ(i, *(int *)(buf + 8));
		ASSERT_EQ(i, cq_next(&n.cq).context);
	}
	raise_to(&stop, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	EXPECT_EQ(count, r[0].taken + r[1].taken);
	EXPECT_TRUE(cntr_becomes(&n.sent, count, 0));
	EXPECT_TRUE(cq_empty(&n.rcq));
}

/* --- a ring of processes ------------------------------------------------------------ */

/* Each process forwards what it receives, by armed commands. The first one starts a round. */
static void crank(struct team *t, int me)
{
	char *buf = pages(PAGE);
	__u64 to[MOST];
	struct node n;

	join(t, me, &n, to);
	*(__u64 *)buf = me ? 0 : 0xdecade;
	for (int i = 0; i < t->rounds; i++) {
		struct treadle_desc d = send_of(buf, 8, to[(me + 1) % t->members], i);

		d.flags = TREADLE_F_WORK;
		need(post_recv(&n, recv_of(buf, 8, to[(me + t->members - 1) % t->members], i)) ==
		     0);
		/* The first process sends the next round when the last one has come back. */
		if (me || i < t->rounds - 1)
			need(post(&n, when(d, &n.rcvd, i + 1)) == 1);
	}
	raise_to(&t->ready[me], 2);
	for (int i = 0; i < t->members; i++)
		await(&t->ready[i], 2);
	if (me == 0)
		need(post(&n, send_of(buf, 8, to[1], 0)) == 1);
	for (int i = 0; i < t->rounds; i++) {
		struct treadle_cqe c = cq_next(&n.rcq);

		need(c.context == i && c.error == 0 && c.len == 8);
	}
	need(*(__u64 *)buf == 0xdecade);
	need(cntr_becomes(&n.rcvd, t->rounds, 0));
	raise_to(&t->ready[me], 3);
	for (int i = 0; i < t->members; i++)
		await(&t->ready[i], 3);
}

TEST(a_ring_of_triggers)
{
	struct team *t = shared(sizeof(*t));

	t->members = 8;
	t->rounds = 500;
	t->options = (struct options){.rx = 1024, .rcq = 1024, .tx = 1024, .cq = 1024};
	start(_metadata, t, crank);
}

TEST_HARNESS_MAIN
