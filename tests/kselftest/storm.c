/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Storms: shared memory that changes while the kernel reads it, files that are closed during use
 * (objects: storm_objects.c). No result is checked but these: no other process is affected,
 * everything can be torn down, the kernel log stays silent.
 */
#include "treadle.h"

#define SECONDS 4

static __u64 deadline;

static bool storming(void)
{
	return now_ns() < deadline;
}

static void set_sail(int seconds)
{
	deadline = now_ns() + seconds * 1000000000ULL;
}

/* --- rings that change while they are read ------------------------------------------- */

struct sea {
	struct node n; /* the victim's node */
	struct cntr c;
	char *buf;
};

/* A descriptor with mostly valid fields. */
static struct treadle_desc wild_desc(struct sea *s, __u64 *state)
{
	struct treadle_desc d = send_of(s->buf, lottery(state) % 70000, lottery(state) % 3, 1);
	unsigned char *bytes = (void *)&d;

	d.opcode = lottery(state) % (TREADLE_OP_LAST + 1);
	d.iov_count = lottery(state) % 4 ? 1 : lottery(state) % 10;
	d.flags = lottery(state) % 2 ? TREADLE_F_COMPLETION : lottery(state);
	d.cond = d.notify = lottery(state) % 2 ? s->c.id : lottery(state) % 16;
	d.threshold = cntr_value(&s->c) + lottery(state) % 5;
	if (d.opcode >= TREADLE_OP_CNTR_SET) {
		d.peer = s->c.id;
		d.iov_count = d.addr = d.len = 0;
	}
	if (lottery(state) % 3 == 0)
		bytes[lottery(state) % sizeof(d)] = lottery(state);
	return d;
}

static void *scribbles(void *arg)
{
	struct sea *s = arg;
	__u64 state = (unsigned long)&state;

	while (storming()) {
		struct treadle_desc d = wild_desc(s, &state);
		struct ring *r = lottery(&state) & 1 ? &s->n.tx : &s->n.rx;
		unsigned char *at = (void *)&r->slots[lottery(&state) % r->entries];

		for (int i = 0; i < sizeof(d); i++)
			((volatile unsigned char *)at)[i] = ((unsigned char *)&d)[i];
	}
	return NULL;
}

static void *scribbles_indices(void *arg)
{
	struct sea *s = arg;
	__u64 state = 7;

	while (storming()) {
		__u32 released = ring_released(&s->n.tx);

		/* Nearly always in range, as an index out of range breaks the ring. */
		s->n.tx.rw->prod = released + lottery(&state) % s->n.tx.entries;
		s->n.rx.rw->prod = ring_released(&s->n.rx) + lottery(&state) % 4;
		s->n.cq.rw->cons = s->n.cq.ro->prod - lottery(&state) % 8;
		s->n.rcq.rw->cons = s->n.rcq.ro->prod;
	}
	return NULL;
}

static void *rings_wildly(void *arg)
{
	struct sea *s = arg;
	__u64 state = 3;

	while (storming()) {
		ring_doorbell(&s->n.tx);
		ring_doorbell(&s->n.rx);
		doorbell(s->n.fd, s->n.cq.id);
		if (lottery(&state) % 64 == 0)
			cancel(s->n.fd, TREADLE_FLUSH_WORK, 0, 0, 0, NULL);
		if (lottery(&state) % 64 == 0)
			cancel(s->n.fd, TREADLE_CANCEL_OP, s->n.ep, 1, 0, NULL);
	}
	return NULL;
}

/*
 * Rings of one process get random contents. Two other processes exchange messages undisturbed, and
 * send to it.
 */
TEST(rings_that_change_while_they_are_read)
{
	int *flag = shared(sizeof(*flag)), rounds = 0;
	struct node a, b;
	char src[64], dst[64];
	pid_t pid;
	__u64 to;

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	to = peer(&a, b.addr);
	pid = fork();
	if (pid == 0) {
		pthread_t t[3];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int round = 0; round < SECONDS * 2; round++) {
			static struct sea s;

			node_open(&s.n, (struct options){.cq = 32, .rcq = 32});
			cntr_open(&s.c, s.n.fd);
			s.buf = pages(1 << 17);
			peer(&s.n, s.n.addr);
			peer(&s.n, loopback(1));
			deadline = now_ns() + 500000000;
			t[0] = thread(scribbles, &s);
			t[1] = thread(scribbles_indices, &s);
			t[2] = thread(rings_wildly, &s);
			for (int i = 0; i < 3; i++)
				pthread_join(t[i], NULL);
			/* It can be closed, whatever its rings contain. */
			if (round & 1)
				need(destroy(s.n.fd, s.n.ep) == 0);
			close(s.n.fd);
		}
		raise_to(flag, 1);
		_exit(0);
	}
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE)) {
		fill(src, 64, rounds);
		ASSERT_EQ(0, post_recv(&b, recv_of(dst, 64, ANY, rounds)));
		ASSERT_EQ(1, post(&a, send_of(src, 64, to, rounds)));
		ASSERT_EQ(rounds, cq_next(&b.rcq).context);
		ASSERT_EQ(rounds, cq_next(&a.cq).context);
		ASSERT_TRUE(same(dst, 64, rounds));
		rounds++;
	}
	EXPECT_EQ(0, reap(pid));
	EXPECT_TRUE(cq_empty(&b.rcq));
	EXPECT_LT(0, rounds);
	note("%d messages beside it", rounds);
}

/* --- files that are closed ------------------------------------------------------------------ */

static void *keeps_calling(void *arg)
{
	struct node *n = arg;

	while (storming()) {
		struct treadle_query q = {.size = sizeof(q)};
		char *buf = (char *)n->tx.slots;
		struct treadle_desc d = send_of(buf, 64, 0, 0);

		if (ring_room(&n->tx)) {
			ring_put(&n->tx, &d);
			ring_publish(&n->tx);
		}
		ring_doorbell(&n->tx);
		call(n->fd, TREADLE_IOC_QUERY, &q);
		cq_wait(&n->cq, 10000);
		doorbell(n->fd, n->cq.id);
		n->cq.rw->cons = n->cq.ro->prod;
	}
	return NULL;
}

/* A file descriptor is closed, and soon used for another file, while threads make calls with it. */
TEST(files_that_are_closed_while_they_are_used)
{
	static struct node n;
	pthread_t t[2];

	for (int round = 0; round < 40; round++) {
		int fd;

		node_open(&n, (struct options){});
		peer(&n, n.addr);
		deadline = now_ns() + 50000000;
		for (int i = 0; i < 2; i++)
			t[i] = thread(keeps_calling, &n);
		usleep(20000);
		close(n.fd);
		fd = device();
		usleep(10000);
		for (int i = 0; i < 2; i++)
			pthread_join(t[i], NULL);
		close(fd);
	}
}

/* Mapping an object while it goes. */
static __u64 offset_of;

static void *keeps_mapping(void *arg)
{
	int fd = *(int *)arg;

	while (storming()) {
		char *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd,
				__atomic_load_n(&offset_of, __ATOMIC_RELAXED));

		if (at != MAP_FAILED) {
			need(*(volatile __u64 *)at == 0);
			munmap(at, PAGE);
		}
	}
	return NULL;
}

TEST(counters_that_are_mapped_while_they_go)
{
	int fd = device();
	pthread_t t;

	set_sail(2);
	t = thread(keeps_mapping, &fd);
	while (storming()) {
		struct treadle_cntr_create c = {.size = sizeof(c)};

		ASSERT_EQ(0, call(fd, TREADLE_IOC_CNTR_CREATE, &c));
		__atomic_store_n(&offset_of, c.ro.offset, __ATOMIC_RELAXED);
		ASSERT_EQ(0, destroy(fd, c.id));
	}
	pthread_join(t, NULL);
}

/* --- matchers that grow while others look at them ------------------------------------------ */

#define LETTERS 500 /* few enough to be kept */

struct writer {
	struct node n;
	__u64 to, tag;
};

static void *writes_letters(void *arg)
{
	struct writer *w = arg;

	for (int i = 0; i < LETTERS; i++) {
		struct treadle_desc d = tsend_of("letter", 6, w->to, w->tag + i, 0);

		d.flags = 0;
		need(post(&w->n, d) == 1);
	}
	return NULL;
}

TEST(matchers_that_grow_while_others_look)
{
	struct writer w[2] = {{.tag = 0}, {.tag = LETTERS}};
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		node_open(&w[i].n, (struct options){});
	set_sail(2);
	while (storming()) {
		struct node all;

		node_open(&all, (struct options){});
		for (int i = 0; i < 2; i++) {
			w[i].to = peer(&w[i].n, all.addr);
			t[i] = thread(writes_letters, &w[i]);
		}
		for (int i = 0; i < 2; i++)
			pthread_join(t[i], NULL);
		close(all.fd);
	}
}

TEST(nothing_is_left)
{
	until_unused();
}

TEST_HARNESS_MAIN
