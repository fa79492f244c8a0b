/* SPDX-License-Identifier: GPL-2.0 */
/* Processes that die at any moment: their peers get errors, nothing hangs, and nothing is left. */
#include "death.h"
#include "slow.h"

#define LARGE (64UL << 20)

FIXTURE(death)
{
	struct meeting *m;
	struct node n;
	char *buf;
};

FIXTURE_SETUP(death)
{
	self->m = shared(sizeof(*self->m));
	node_open(&self->n, (struct options){.tx = 256, .rx = 256, .cq = 1024, .rcq = 1024});
	self->m->addr[0] = self->n.addr;
	self->buf = pages(LARGE);
}

FIXTURE_TEARDOWN(death)
{
	EXPECT_TRUE(cq_empty(&self->n.cq));
	EXPECT_TRUE(cq_empty(&self->n.rcq));
	close(self->n.fd);
}

static void victim(void *arg)
{
	struct meeting *m = arg;
	char *buf = pages(LARGE);
	struct node n;
	__u64 to;

	node_open(&n, (struct options){.buffered = 8192});
	to = peer(&n, m->addr[0]);
	m->addr[1] = n.addr;
	for (int i = 0; i < m->posts; i++)
		need(post_recv(&n, recv_of(buf, LARGE, ANY, i)) == 0);
	for (int i = 0; i < m->sends; i++)
		need(post(&n, send_of(buf, m->len, to, i)) == 1);
	raise_to(&m->ready, 1);
	pause();
}

static pid_t meet(struct meeting *m)
{
	pid_t pid;

	m->ready = 0;
	pid = spawn(victim, m);
	await(&m->ready, 1);
	return pid;
}

/* The death may be noticed a little after the process is reaped. */
static void until_refused(struct node *n, __u64 to)
{
	char byte = 0;

	do {
		need(post(n, send_of(&byte, 1, to, 12345)) == 1);
	} while (cq_next(&n->cq).error != ECONNREFUSED);
}

/* --- peers that wait for a process that dies ---------------------------------------------- */

// conformance: ioctl.h: ECONNREFUSED: no endpoint has that address
// conformance: ioctl.h: ECONNRESET: the peer died
TEST_F(death, senders_that_wait_get_errors)
{
	struct node *n = &self->n;
	pid_t pid = meet(self->m);
	__u64 to = peer(n, self->m->addr[1]);
	int done = 0, failed = 0;

	/* Some messages are buffered and complete, some are too many, some too large. */
	for (int i = 0; i < 100; i++) {
		ASSERT_EQ(1, post(n, send_of(self->buf, i % 3 ? 500 : 100000, to, i)));
	}
	kill_and_reap(pid);
	for (int i = 0; i < 100; i++) {
		struct treadle_cqe c = cq_next(&n->cq);

		/* over a session, some may arrive too late */
		EXPECT_TRUE(c.error == 0 || c.error == ECONNRESET ||
			    (c.error == ECONNREFUSED && module_users()));
		EXPECT_TRUE(c.error || c.context % 3);
		done += !c.error;
		failed += !!c.error;
	}
	EXPECT_TRUE(cntr_becomes(&n->sent, done, failed));
	EXPECT_LE(34, failed);
	ring_wait(&n->tx, 256); /* slots are released after the completions are written */
	EXPECT_EQ(100, ring_released(&n->tx));
	until_refused(n, to);
}

TEST_F(death, waiting_messages_go_with_their_sender)
{
	struct node *n = &self->n, other;
	pid_t pid;

	self->m->sends = 3;
	self->m->len = 1 << 20;
	pid = meet(self->m);
	/* The rest wait here. */
	EXPECT_TRUE(ring_needs_doorbell(&n->rx));
	kill_and_reap(pid);
	until_refused(n, peer(n, self->m->addr[1]));
	node_open(&other, (struct options){});
	fill(self->buf, 8, 1);
	ASSERT_EQ(1, post(&other, send_of(self->buf, 8, peer(&other, n->addr), 1)));
	/* The first receive may meet the end of a message, but never the message. */
	for (;;) {
		struct treadle_cqe c;

		ASSERT_EQ(0, post_recv(n, recv_of(self->buf + 4096, LARGE / 2, ANY, 2)));
		c = cq_next(&n->rcq);
		if (c.error == 0) {
			EXPECT_EQ(8, c.len);
			break;
		}
		EXPECT_EQ(ECONNRESET, c.error);
	}
	EXPECT_TRUE(same(self->buf + 4096, 8, 1));
	EXPECT_EQ(0, cq_next(&other.cq).error);
}

/* A message that was buffered has been sent, and stays. */
TEST_F(death, small_messages_outlive_their_sender)
{
	struct node *n = &self->n;
	pid_t pid;

	self->m->sends = 5;
	self->m->len = 100;
	pid = meet(self->m);
	kill_and_reap(pid);
	until_refused(n, peer(n, self->m->addr[1]));
	for (int i = 0; i < 5; i++) {
		struct treadle_cqe c;

		ASSERT_EQ(0, post_recv(n, recv_of(self->buf, 200, ANY, i)));
		c = cq_next(&n->rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(100, c.len);
	}
}

/* --- in the midst of a copy --------------------------------------------------------------- */

// conformance: ioctl.h: ECONNRESET: the peer died
TEST_F(death, in_the_midst_of_a_large_message)
{
	struct node *n = &self->n;
	int whole[2] = {0}, cut[2] = {0};

	/* more rounds on a machine so busy that each copy was complete */
	for (int round = 0; round < 16 || (!(cut[0] && cut[1]) && round < 160); round++) {
		bool sends = round & 1;
		struct treadle_cqe c;
		pid_t pid;
		__u64 to;

		self->m->posts = !sends;
		self->m->sends = sends;
		self->m->len = LARGE;
		pid = meet(self->m);
		to = peer(n, self->m->addr[1]);
		if (sends) {
			ASSERT_EQ(0, post_recv(n, recv_of(self->buf, LARGE, ANY, round)));
		} else {
			ASSERT_EQ(1, post(n, send_of(self->buf, LARGE, to, round)));
		}
		usleep(round % 16 / 2 * 15000);
		kill_and_reap(pid);
		c = cq_next(sends ? &n->rcq : &n->cq);
		EXPECT_EQ(round, c.context);
		EXPECT_TRUE(c.error == 0 || c.error == ECONNRESET);
		whole[sends] += c.error == 0;
		cut[sends] += c.error != 0;
		until_refused(n, to);
	}
	EXPECT_LT(0, cut[0]);
	EXPECT_LT(0, cut[1]);
	note("to the dead: %d whole, %d cut; from them: %d and %d", whole[0], cut[0], whole[1],
	     cut[1]);
}

/* --- files that outlive their process --------------------------------------------------------- */

static void leaves_a_child(void *arg)
{
	struct meeting *m = arg;
	struct node n;
	struct cntr c;
	char buf[8];

	/* Not close-on-exec, and the child never closes it. */
	node_open(&n, (struct options){});
	cntr_open(&c, n.fd);
	m->addr[1] = n.addr;
	need(post_recv(&n, recv_of(buf, 8, ANY, 0)) == 0);
	need(post(&n, when(send_of(buf, 8, peer(&n, m->addr[0]), 1), &n.rcvd, 1)) == 1);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, 0);
		raise_to(&m->ready, 1);
		await(&m->go, 1);
		need(doorbell(n.fd, n.tx.id) == -EPERM);
		need(doorbell(n.fd, n.cq.id) == -EPERM);
		raise_to(&m->go, 2);
		await(&m->go, 3);
		_exit(0);
	}
	await(&m->ready, 1);
	pause();
}

/* The context ends with its memory, although a child has the file open. */
TEST_F(death, a_child_keeps_the_file)
{
	struct node *n = &self->n;
	pid_t pid = spawn(leaves_a_child, self->m);
	__u64 to;

	await(&self->m->ready, 1);
	to = peer(n, self->m->addr[1]);
	kill_and_reap(pid);
	until_refused(n, to);
	raise_to(&self->m->go, 1);
	while (__atomic_load_n(&self->m->go, __ATOMIC_ACQUIRE) != 2)
		usleep(1000);
	/* Its port is free. */
	n->addr = self->m->addr[1];
	EXPECT_EQ(0, ep_create(n->fd, &n->addr, NULL, &n->ep));
	raise_to(&self->m->go, 3);
}

static void becomes_another_program(void *arg)
{
	struct meeting *m = arg;
	struct node n;

	node_open(&n, (struct options){});
	fcntl(n.fd, F_SETFD, 0);
	m->addr[1] = n.addr;
	raise_to(&m->ready, 1);
	await(&m->go, 1);
	execlp("sleep", "sleep", "1000", NULL);
}

TEST_F(death, another_program_takes_over)
{
	pid_t pid = spawn(becomes_another_program, self->m);
	__u64 to;

	await(&self->m->ready, 1);
	to = peer(&self->n, self->m->addr[1]);
	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(1, post(&self->n, send_of(self->buf, 1 << 20, to, i)));
	}
	EXPECT_EQ(-ETIMEDOUT, cq_wait(&self->n.cq, 1000000));
	raise_to(&self->m->go, 1);
	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(ECONNRESET, cq_next(&self->n.cq).error);
	}
	until_refused(&self->n, to);
	kill_and_reap(pid);
}

/* The same program again, by exec(): its exit status says whether the port is free. */
static __attribute__((constructor)) void begins_anew(void)
{
	const char *port = getenv("DEATH_PORT");
	struct treadle_addr addr;
	__u32 id;

	if (!port)
		return;
	addr = loopback(atoi(port));
	_exit(-ep_create(device(), &addr, NULL, &id));
}

static void begins_again(void *arg)
{
	struct treadle_addr addr;
	int fd = device();
	char port[16];
	__u32 id;

	for (int i = 0; i < 8000; i++) { /* the last counter is closed last */
		addr = loopback(0);
		need(ep_create(fd, &addr, NULL, &id) == 0);
	}
	snprintf(port, sizeof(port), "%u", ntohs(addr.port));
	setenv("DEATH_PORT", port, 1);
	execl("/proc/self/exe", "again", NULL);
}

/*
 * The file is closed on exec. Its ports are free afterwards, as after an exit, however much there
 * is to tear down. A teardown in a worker would seldom fail this test, as it is fast.
 */
TEST_F(death, another_program_finds_its_port_free)
{
	EXPECT_EQ(0, reap(spawn(begins_again, NULL)));
}

/* --- closing in order ------------------------------------------------------------------------- */

// conformance: ioctl.h: ECONNRESET: the peer closed its endpoint
TEST_F(death, an_endpoint_closes_in_the_midst)
{
	struct node *n = &self->n;
	char *dst = pages(LARGE);

	for (int round = 0; round < 8; round++) {
		bool sender = round & 1;
		struct treadle_cqe c;
		struct node m;
		__u64 to;

		node_open(&m, (struct options){});
		to = peer(n, m.addr);
		peer(&m, n->addr);
		if (sender) {
			ASSERT_EQ(0, post_recv(n, recv_of(dst, LARGE, ANY, round)));
			ASSERT_EQ(1, post(&m, send_of(self->buf, LARGE, 0, round)));
		} else {
			ASSERT_EQ(0, post_recv(&m, recv_of(dst, LARGE, ANY, round)));
			ASSERT_EQ(1, post(n, send_of(self->buf, LARGE, to, round)));
		}
		usleep(round * 2000);
		EXPECT_EQ(0, destroy(m.fd, m.ep));
		c = cq_next(sender ? &n->rcq : &n->cq);
		EXPECT_EQ(round, c.context);
		EXPECT_TRUE(c.error == 0 || c.error == ECONNRESET);
		close(m.fd);
	}
}

/* How many bytes are @byte. */
static size_t count_of_byte(const char *buf, size_t len, char byte)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += buf[i] == byte;
	return n;
}

/*
 * fi_endpoint(3), fi_close: the buffers are the process's again, and operations under way are not
 * reported.
 */
// conformance: fi_endpoint(3): fi_close: outstanding operations are dropped without a completion;
//   the program may use their buffers again
TEST_F(death, nothing_is_touched_once_it_is_closed)
{
	enum { BEFORE = 1, AFTER = 2 };
	struct node *n = &self->n;
	int cut = 0;

	/* more rounds on a machine so busy that each copy was complete */
	for (int round = 0; round < 8 || (!cut && round < 80); round++) {
		bool sender = round & 1;
		char *dst = pages(LARGE); /* new pages: a worker has to find them */
		struct treadle_cqe c;
		struct node m;
		__u64 to;

		memset(self->buf, BEFORE, LARGE);
		node_open(&m, (struct options){});
		to = peer(n, m.addr);
		peer(&m, n->addr);
		ASSERT_EQ(0, post_recv(sender ? n : &m, recv_of(dst, LARGE, ANY, round)));
		ASSERT_EQ(1,
			  post(sender ? &m : n, send_of(self->buf, LARGE, sender ? 0 : to, round)));
		while (*(volatile char *)&dst[(round % 8) << 20] != BEFORE)
			;
		EXPECT_EQ(0, destroy(m.fd, m.ep));
		cut += dst[LARGE - 1] != BEFORE;
		memset(sender ? self->buf : dst, AFTER, LARGE);
		c = cq_next(sender ? &n->rcq : &n->cq);
		EXPECT_EQ(round, c.context);
		EXPECT_TRUE(c.error == 0 || c.error == ECONNRESET);
		usleep(20000);
		EXPECT_EQ(sender ? 0 : LARGE, count_of_byte(dst, LARGE, AFTER));
		EXPECT_TRUE(cq_empty(&m.cq));
		EXPECT_TRUE(cq_empty(&m.rcq));
		close(m.fd);
		munmap(dst, LARGE);
	}
	note("%d were cut short", cut);
	EXPECT_LT(0, cut);
}

static void *waits_for_ever(void *arg)
{
	struct node *n = arg;

	cq_wait(&n->cq, -1);
	return NULL;
}

static void waits_in_threads(void *arg)
{
	struct node n;

	node_open(&n, (struct options){});
	for (int i = 0; i < 4; i++)
		thread(waits_for_ever, &n);
	raise_to(arg, 1);
	cntr_wait(&n.sent, 1, 0, -1);
}

TEST_F(death, a_waiting_process_can_be_killed)
{
	int *ready = shared(sizeof(*ready));
	pid_t pid = spawn(waits_in_threads, ready);

	await(ready, 1);
	usleep(10000);
	kill_and_reap(pid);
}

/* The harness runs this test last. */
FIXTURE(end){};

FIXTURE_SETUP(end) {}

FIXTURE_TEARDOWN(end) {}

TEST_F(end, nothing_is_left)
{
	until_unused();
}

TEST_HARNESS_MAIN
