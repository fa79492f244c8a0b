/* SPDX-License-Identifier: GPL-2.0 */
/* Connections with ends that die at every stage, and many connections that come and go. */
#include "connection.h"
#include "slow.h"

#include <treadle/atomic.h>

/*
 * fi_cm(3), fi_shutdown: outstanding operations end. No memory is touched after its operation is
 * reported as ended, and operations that waited for their turn are reported before the call
 * returns.
 */
// conformance: fi_cm(3): fi_shutdown: outstanding operations are canceled, and their ...
TEST(operations_under_way_end_with_the_connection)
{
	enum { BEFORE = 1, AFTER = 2 };
	const size_t len = 64 << 20;
	char *src = pages(len);
	int cut = 0;

	memset(src, BEFORE, len);
	/* more rounds on a machine so busy that each copy was complete */
	for (int round = 0; round < 4 || (!cut && round < 40); round++) {
		bool asker = round & 1; /* the client hangs up */
		char *dst = pages(len);
		struct treadle_cqe c;
		struct pair p;
		__u64 key = 5;
		__u32 region;

		pair_open(&p);
		ASSERT_EQ(0,
			  mr(p.server.fd, dst, len, TREADLE_ACCESS_REMOTE_WRITE, 0, &key, &region));
		ASSERT_EQ(1, post(&p.client, write_of(src, len, 0, 0, key, 1)));
		ASSERT_EQ(1, post(&p.client, send_of(src, 8, 0, 2))); /* waits for the write */
		while (*(volatile char *)&dst[(round % 4) << 20] != BEFORE)
			;
		if (asker) {
			ASSERT_EQ(0, hang_up(p.client.fd, p.client.ep));
			ASSERT_TRUE(cq_poll(&p.client.cq, &c));
			if (c.context == 1) { /* the write was complete */
				ASSERT_TRUE(cq_poll(&p.client.cq, &c));
			} else {
				EXPECT_EQ(ECANCELED, c.error);
			}
			EXPECT_EQ(2, c.context);
			event_is(p.l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
		} else {
			ASSERT_EQ(0, hang_up(p.server.fd, p.server.ep));
		}
		cut += dst[len - 1] != BEFORE;
		memset(dst, AFTER, len);
		if (!asker) {
			event_is(p.ceq, TREADLE_EVENT_SHUTDOWN, CLIENT);
			c = cq_next(&p.client.cq);
			c = c.context == 1 ? cq_next(&p.client.cq) : c;
			EXPECT_EQ(2, c.context);
		}
		usleep(20000);
		for (size_t i = 0; i < len; i++) {
			if (dst[i] != AFTER)
				ASSERT_EQ(AFTER, dst[i]);
		}
		node_close(&p.client);
		node_close(&p.server);
		listener_close(&p.l);
		close(p.ceq);
		close(p.ceq_fd);
		munmap(dst, len);
	}
	note("%d were cut short", cut);
	EXPECT_LT(0, cut);
	munmap(src, len);
}

/*
 * Nor does a worker touch it that has waited for a page since, with the data ready to be written.
 */
// conformance: fi_cm(3): fi_shutdown: outstanding operations are canceled, and their ...
// conformance: ioctl.h: ECONNRESET: the peer closed its endpoint
TEST(a_worker_that_waited_for_a_page_does_not_touch_it)
{
	static __u64 in[2] = {1, 2}, before[2];

	for (int kind = 0; kind < 4; kind++) {
		char *at = pages(PAGE);
		int slow = slow_pages(at, PAGE);
		struct treadle_desc d;
		struct treadle_cqe c;
		__u64 key = 5, page;
		__u32 region;
		struct pair p;

		about("%d", kind);
		pair_open(&p);
		ASSERT_EQ(0, mr(p.server.fd, at, 4096,
				TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE, 0, &key,
				&region));
		d = write_of(in, kind == 1 ? 8 : 16, 0, 64, key, 1);
		if (kind == 0) {
			d.flags |= TREADLE_F_INJECT;
		} else {
			d.opcode = kind == 3 ? TREADLE_OP_FETCH : TREADLE_OP_ATOMIC;
			d.flags |= TREADLE_F_EXT;
			d.atomic_op = TREADLE_ATOMIC_SUM;
			d.datatype = TREADLE_UINT64;
			d.result = kind == 3 ? (unsigned long)before : 0;
		}
		ASSERT_EQ(1, post(&p.client, d));
		page = page_asked_for(slow);
		ASSERT_EQ(0, hang_up(p.server.fd, p.server.ep));
		put_page_at(slow, page, 7);
		event_is(p.ceq, TREADLE_EVENT_SHUTDOWN, CLIENT);
		c = cq_next(&p.client.cq);
		EXPECT_EQ(1, c.context);
		EXPECT_EQ(ECONNRESET, c.error);
		EXPECT_TRUE(same(at, 4096, 7));
		node_close(&p.client);
		node_close(&p.server);
		listener_close(&p.l);
		close(p.ceq);
		close(p.ceq_fd);
		close(slow);
		munmap(at, PAGE);
	}
}

/* --- death ------------------------------------------------------------------------------------ */

enum stage { BOUND, ASKED, ANSWERED, CONNECTED, WAITING, STAGES };

struct life {
	struct treadle_addr addr;
	enum stage stage; /* the stage at which the client is killed */
	int there;
};

static void halt(struct life *life, enum stage stage)
{
	if (life->stage != stage)
		return;
	raise_to(&life->there, 1);
	for (;;)
		pause();
}

static void client_life(void *arg)
{
	struct life *life = arg;
	int fd = device(), eq = wait_fd(fd, eq_create(fd));
	struct node n;

	msg_open(&n, (struct options){0}, eq, CLIENT);
	halt(life, BOUND);
	need(connect_to(n.fd, n.ep, life->addr, NULL, 0) == 0);
	halt(life, ASKED);
	event_is(eq, TREADLE_EVENT_CONNECTED, CLIENT);
	halt(life, ANSWERED);
	halt(life, CONNECTED);
	need(post(&n, send_of(pages(8 << 20), 8 << 20, 0, 1)) == 1);
	halt(life, WAITING);
}

TEST(clients_die_at_every_stage)
{
	struct life *life = shared(sizeof(*life));
	struct listener l;
	struct node s;

	listener_open(&l);
	life->addr = l.addr;
	for (int stage = BOUND; stage < STAGES; stage++) {
		for (int seen = 0; seen < 3; seen++) {
			struct treadle_event ev;
			pid_t pid;

			about("stage %d, %d", stage, seen);
			life->stage = stage;
			life->there = 0;
			pid = spawn(client_life, life);
			if (stage > BOUND && (seen || stage > ASKED)) {
				ev = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP);
				if (seen == 2 || stage > ASKED)
					msg_open(&s, (struct options){.request = ev.request}, l.eq,
						 SERVER);
			}
			if (stage > ASKED) {
				ASSERT_EQ(0, accept_with(s.fd, s.ep, NULL, 0));
				event_is(l.eq, TREADLE_EVENT_CONNECTED, SERVER);
			}
			await(&life->there, 1);
			kill(pid, SIGKILL);
			EXPECT_EQ(-SIGKILL, reap(pid));
			if (stage > ASKED) {
				event_is(l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
				EXPECT_EQ(-ESHUTDOWN, post(&s, send_of(&s, 8, 0, 0)));
				node_close(&s);
			} else if (stage == ASKED && seen == 2) {
				/* A process's memory goes a moment after the process. */
				int result = accept_with(s.fd, s.ep, NULL, 0);

				EXPECT_TRUE(result == -ECONNRESET || result == 0);
				if (!result) {
					event_is(l.eq, TREADLE_EVENT_CONNECTED, SERVER);
					event_is(l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
				}
				node_close(&s);
			} else if (stage == ASKED && !seen) {
				while (event_take(l.eq, &ev) != -EAGAIN)
					;
			}
			EXPECT_TRUE(eq_empty(l.eq));
		}
	}
	listener_close(&l);
}

static void server_life(void *arg)
{
	struct life *life = arg;
	struct listener l;
	struct node s;
	__u32 request;

	listener_open(&l);
	life->addr = l.addr;
	raise_to(&life->there, -1 + 2);
	if (life->stage == BOUND)
		for (;;)
			pause();
	request = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request;
	life->there = 2;
	if (life->stage == ASKED)
		for (;;)
			pause();
	msg_open(&s, (struct options){.request = request}, l.eq, SERVER);
	life->there = 3;
	if (life->stage == ANSWERED)
		for (;;)
			pause();
	need(accept_with(s.fd, s.ep, NULL, 0) == 0);
	life->there = 4;
	if (life->stage == CONNECTED)
		for (;;)
			pause();
	need(post(&s, send_of(pages(8 << 20), 8 << 20, 0, 1)) == 1);
	life->there = 5;
	for (;;)
		pause();
}

TEST(servers_die_at_every_stage)
{
	struct life *life = shared(sizeof(*life));
	int fd = device(), eq = wait_fd(fd, eq_create(fd));

	for (int stage = BOUND; stage < STAGES; stage++) {
		struct node n;
		pid_t pid;
		char in[8];

		about("stage %d", stage);
		life->stage = stage;
		life->there = 0;
		pid = spawn(server_life, life);
		await(&life->there, 1);
		msg_open(&n, (struct options){0}, eq, stage);
		ASSERT_EQ(0, connect_to(n.fd, n.ep, life->addr, NULL, 0));
		ASSERT_EQ(0, post_recv(&n, trecv_of(in, 8, ANY, 6, 0, 1)));
		await(&life->there, stage + 1);
		if (stage >= CONNECTED) {
			event_is(eq, TREADLE_EVENT_CONNECTED, stage);
			ASSERT_EQ(1, post(&n, send_of(pages(8 << 20), 8 << 20, 0, 2)));
		}
		kill(pid, SIGKILL);
		EXPECT_EQ(-SIGKILL, reap(pid));
		if (stage >= CONNECTED) {
			event_is(eq, TREADLE_EVENT_SHUTDOWN, stage);
			EXPECT_EQ(ECONNRESET, cq_next(&n.cq).error);
			EXPECT_EQ(ECANCELED, cq_next(&n.rcq).error);
		} else {
			EXPECT_EQ(ECONNREFUSED,
				  event_is(eq, TREADLE_EVENT_CONNREFUSED, stage).error);
		}
		EXPECT_TRUE(eq_empty(eq));
		node_close(&n);
	}
	close(eq);
	close(fd);
}

/*
 * --- many connections
 * ---------------------------------------------------------------------------------
 */

/* Connects, sends, and hangs up or dies, until it is killed. */
static void customer(void *arg)
{
	struct life *life = arg;
	__u64 luck = getpid();

	for (;;) {
		int fd = device(), eq = wait_fd(fd, eq_create(fd));
		struct treadle_event ev;
		struct node n;
		char out[64];

		msg_open(&n, (struct options){0}, eq, CLIENT);
		need(connect_to(n.fd, n.ep, life->addr, NULL, 0) == 0);
		if (lottery(&luck) % 4) {
			ev = event_next(eq);
			if (ev.event == TREADLE_EVENT_CONNECTED)
				post(&n, send_of(out, 64, 0, 1));
			if (lottery(&luck) % 2)
				hang_up(n.fd, n.ep);
		}
		node_close(&n);
		close(eq);
		close(fd);
		__atomic_fetch_add(&life->there, 1, __ATOMIC_RELAXED);
	}
}

TEST(customers_come_and_go)
{
	struct life *life = shared(sizeof(*life));
	__u64 end = now_ns() + 5000000000ULL, luck = 1;
	struct node s[16] = {0};
	pid_t pids[3];
	struct listener l;
	int fd = device(), served = 0;

	listener_open(&l);
	life->addr = l.addr;
	for (int i = 0; i < 3; i++)
		pids[i] = spawn(customer, life);
	while (now_ns() < end) {
		struct pollfd p = {.fd = l.eq, .events = POLLIN};
		struct treadle_event ev;
		struct node *n;

		if (lottery(&luck) % 64 == 0) {
			int i = lottery(&luck) % 3;

			kill(pids[i], SIGKILL);
			EXPECT_EQ(-SIGKILL, reap(pids[i]));
			pids[i] = spawn(customer, life);
		}
		if (poll(&p, 1, 100) < 1 || event_take(l.eq, &ev) < 0)
			continue;
		if (ev.event != TREADLE_EVENT_CONNREQ)
			continue;
		served++;
		n = &s[lottery(&luck) % ARRAY_SIZE(s)];
		if (n->fd)
			node_close(n);
		n->fd = 0;
		if (lottery(&luck) % 8 == 0) {
			EXPECT_EQ(0, reject_with(l.fd, l.ep, ev.request, NULL, 0));
			continue;
		}
		msg_open(n, (struct options){.request = ev.request, .tx = 8, .rx = 8, .cq = 8},
			 l.eq, SERVER);
		if (accept_with(n->fd, n->ep, NULL, 0) == 0 && lottery(&luck) % 2)
			hang_up(n->fd, n->ep);
	}
	note("%d connections served, %d made", served, life->there);
	EXPECT_LT(0, served);
	for (int i = 0; i < 3; i++) {
		kill(pids[i], SIGKILL);
		EXPECT_EQ(-SIGKILL, reap(pids[i]));
	}
	for (int i = 0; i < ARRAY_SIZE(s); i++)
		if (s[i].fd)
			node_close(&s[i]);
	close(fd);
	listener_close(&l);
}

TEST_HARNESS_MAIN
