/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Polled transmit rings (TREADLE_TX_POLLED): no system call while a thread of the kernel looks at
 * the ring; the thread sleeps, and is woken; it ends with its process.
 */
#include "netlink.h"
#include "rma.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define IDLE 20000 /* us */

/* A node with a polled transmit ring. */
static void polled_open(struct node *n, int context, __u32 idle)
{
	struct treadle_ring_create c = {
		.size = sizeof(c), .flags = TREADLE_TX_POLLED, .entries = 64, .idle = idle};
	struct treadle_ep_enable e;

	node_create(n, (struct options){.context = context});
	need(call(n->fd, TREADLE_IOC_TX_CREATE, &c) == 0);
	need(destroy(n->fd, n->tx.id) == 0);
	n->tx.id = c.id;
	n->tx.entries = c.entries;
	n->tx.rw = map(n->fd, c.rw, PROT_READ | PROT_WRITE);
	n->tx.ro = map(n->fd, c.ro, PROT_READ);
	n->tx.slots = (void *)((char *)n->tx.rw + TREADLE_SLOTS_OFFSET);
	e = node_bindings(n);
	need(call(n->fd, TREADLE_IOC_EP_ENABLE, &e) == 0);
}

static void put(struct node *n, struct treadle_desc d)
{
	while (ring_room(&n->tx) < 1)
		;
	ring_put(&n->tx, &d);
	ring_publish(&n->tx);
}

/* Posts as a library does; returns the number of doorbells: 0 or 1. */
static int post_polled(struct node *n, struct treadle_desc d)
{
	put(n, d);
	if (!ring_needs_doorbell(&n->tx))
		return 0;
	ring_doorbell(&n->tx);
	return 1;
}

/* Waits without a system call. */
static struct treadle_cqe next(struct cq *q)
{
	struct treadle_cqe c;

	while (!cq_poll(q, &c))
		;
	return c;
}

/* Posts @n receives of no bytes, before messages come. */
static void receives(struct node *n, int count)
{
	while (count--)
		need(post_recv(n, recv_of(NULL, 0, ANY, 7)) >= 0);
}

static bool asleep(const struct node *n)
{
	return ring_needs_doorbell(&n->tx);
}

static void until_awake(struct node *n, __u64 self)
{
	while (asleep(n)) {
		receives(n, 1);
		post_polled(n, send_of(NULL, 0, self, 0));
		next(&n->cq);
		next(&n->rcq);
		usleep(100);
	}
}

static void until_asleep(const struct node *n)
{
	while (!asleep(n))
		usleep(1000);
}

/* From here on the process may only write to its standard output, and exit. */
static void forbid_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog prog = {.len = ARRAY_SIZE(filter), .filter = filter};

	need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	need(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0);
}

/* Sends, receives, RMA and triggers; the process dies if it makes a call. */
static void quiet(void *arg)
{
	static char from[8] = "polled", to[8], read[8];
	struct cntr c;
	struct node n;
	__u64 self, key = 0;
	__u32 id;

	polled_open(&n, 0, 1000000);
	cntr_open(&c, n.fd);
	need(mr(n.fd, to, sizeof(to), BOTH, TREADLE_MR_KERNEL_KEY, &key, &id) == 0);
	self = peer(&n, n.addr);
	receives(&n, 30);
	until_awake(&n, self);
	forbid_calls();
	for (int i = 0; i < 8; i++) {
		put(&n, send_of(NULL, 0, self, i));
		if (next(&n.cq).error || next(&n.rcq).error)
			syscall(SYS_getpid);
	}
	put(&n, write_of(from, 8, self, 0, key, 1));
	put(&n, read_of(read, 8, self, 0, key, 2));
	if (next(&n.cq).error || next(&n.cq).error || memcmp(from, read, 8))
		syscall(SYS_getpid);
	put(&n, when(send_of(NULL, 0, self, 3), &c, 1));
	put(&n, count_of(TREADLE_OP_CNTR_ADD, &c, 1, 4));
	if (next(&n.cq).error || next(&n.rcq).error || asleep(&n))
		syscall(SYS_getpid);
	syscall(SYS_exit_group, 0);
}

TEST(no_system_call_while_awake)
{
	EXPECT_EQ(0, reap(spawn(quiet, NULL)));
}

TEST(a_ring_falls_asleep_and_a_doorbell_wakes_it)
{
	struct treadle_cqe c;
	struct node n;
	__u64 self;

	polled_open(&n, 0, IDLE);
	self = peer(&n, n.addr);
	EXPECT_TRUE(asleep(&n));
	receives(&n, 60);
	for (int i = 0; i < 3; i++) {
		until_awake(&n, self);
		until_asleep(&n);
		/* without a doorbell nothing happens */
		put(&n, send_of(NULL, 0, self, 5));
		usleep(2 * IDLE);
		EXPECT_FALSE(cq_poll(&n.cq, &c));
		/* the doorbell takes it before it returns */
		EXPECT_EQ(1, ring_doorbell(&n.tx));
		EXPECT_TRUE(cq_poll(&n.cq, &c));
		EXPECT_EQ(5, c.context);
		EXPECT_TRUE(cq_poll(&n.rcq, &c));
	}
	close(n.fd);
}

/* How often the thread has begun to look at the only polled ring. */
static int wakes(const struct node *n)
{
	char path[64], line[256];
	int wakes = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", n->fd);
	file = fopen(path, "re");
	need(file);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "treadle-polled:\t%*u %*s idle %*u wakes %d", &wakes);
	fclose(file);
	return wakes;
}

TEST(an_idle_ring_costs_nothing)
{
	struct node n;
	int before;
	__u64 self;

	polled_open(&n, 0, IDLE);
	self = peer(&n, n.addr);
	receives(&n, 8);
	until_awake(&n, self);
	until_asleep(&n);
	before = wakes(&n);
	EXPECT_LT(0, before);
	usleep(300000);
	EXPECT_EQ(before, wakes(&n));
	EXPECT_TRUE(asleep(&n));
	close(n.fd);
}

TEST(the_idle_time_is_limited)
{
	struct treadle_ring_create c = {.size = sizeof(c), .entries = 32, .idle = 1};
	int fd = device();

	EXPECT_TRUE(query(fd).features & TREADLE_FEATURE_TX_POLLED);
	EXPECT_EQ(-EINVAL, call(fd, TREADLE_IOC_TX_CREATE, &c)); /* not polled */
	EXPECT_EQ(-EINVAL, call(fd, TREADLE_IOC_RX_CREATE, &c));
	c.flags = TREADLE_TX_POLLED;
	c.idle = TREADLE_MAX_IDLE + 1;
	EXPECT_EQ(-EINVAL, call(fd, TREADLE_IOC_TX_CREATE, &c));
	c.idle = 0;
	EXPECT_EQ(0, call(fd, TREADLE_IOC_TX_CREATE, &c));
	EXPECT_LT(0, c.idle);
	close(fd);
}

/* Pauses around the idle time: the ring falls asleep while commands are posted. */
TEST(no_wake_up_is_lost)
{
	__u64 end = now_ns() + 1500000000ULL, late = 0, rang = 0, posted = 0, state = 1;
	struct counters seen;
	struct treadle_cqe c;
	struct node n;
	struct nl nl;
	__u64 self;

	polled_open(&n, 0, 30);
	self = peer(&n, n.addr);
	while (now_ns() < end) {
		__u64 begun;

		receives(&n, 1);
		rang += post_polled(&n, send_of(NULL, 0, self, posted++));
		begun = now_ns();
		while (!cq_poll(&n.cq, &c) && now_ns() < begun + 2000000000ULL)
			;
		late += now_ns() >= begun + 2000000000ULL;
		if (late)
			break;
		next(&n.rcq);
		for (__u32 i = lottery(&state) % 20000; i; i--)
			__asm__ volatile("");
	}
	EXPECT_EQ(0, late);
	EXPECT_LT(0, rang);
	/* the statistics have seen the same */
	nl_open(&nl);
	seen = nl_counters_of(&nl, TREADLE_CMD_CONTEXT_GET, nl_context_of(&nl, &n), 0);
	EXPECT_EQ(rang, seen.n[TREADLE_A_COUNTERS_DOORBELLS]);
	EXPECT_EQ(posted, seen.n[TREADLE_A_COUNTERS_COMMANDS]);
	EXPECT_LT(0, seen.n[TREADLE_A_COUNTERS_WORKER_NS]);
	note("%llu posts, %llu doorbells", posted, rang);
	close(n.fd);
}

TEST(a_refused_command_completes_with_its_error)
{
	struct treadle_cqe c;
	struct node n;
	__u64 self;

	polled_open(&n, 0, IDLE);
	self = peer(&n, n.addr);
	receives(&n, 40);
	for (int awake = 0; awake < 2; awake++) {
		struct treadle_desc bad = send_of(NULL, 0, self, 9);

		if (awake)
			until_awake(&n, self);
		bad.reserved0 = 1;
		post_polled(&n, bad);
		post_polled(&n, send_of(NULL, 0, self, 10));
		c = next(&n.cq);
		EXPECT_EQ(9, c.context);
		EXPECT_EQ(EINVAL, c.error);
		EXPECT_EQ(10, next(&n.cq).context);
		next(&n.rcq);
	}
	close(n.fd);
}

TEST(an_index_out_of_range_ends_the_ring)
{
	struct node n;
	__u64 self;

	polled_open(&n, 0, IDLE);
	self = peer(&n, n.addr);
	receives(&n, 8);
	until_awake(&n, self);
	n.tx.prod += 1000;
	ring_publish(&n.tx);
	while (!(__atomic_load_n(&n.tx.ro->flags, __ATOMIC_ACQUIRE) & TREADLE_RING_BROKEN))
		usleep(100);
	EXPECT_EQ(-ESHUTDOWN, ring_doorbell(&n.tx));
	close(n.fd);
}

/* Completions that are not read hold up the ring; reading them lets it go on without a doorbell. */
TEST(a_full_queue_stops_the_ring_until_it_is_read)
{
	struct treadle_cqe c;
	int read = 0, posted = 0;
	struct node n;
	__u64 self;

	polled_open(&n, 0, 1000);
	self = peer(&n, n.addr);
	/* nops complete in a queue of 256 entries, and 256 and 64 more are kept */
	for (; posted < 2000; posted++) {
		struct treadle_desc d = {.opcode = TREADLE_OP_NOP,
					 .flags = TREADLE_F_EXT | TREADLE_F_COMPLETION,
					 .ep = n.ep,
					 .context = posted};
		for (int i = 0; ring_room(&n.tx) < 1 && i < 100; i++)
			usleep(1000);
		if (ring_room(&n.tx) < 1)
			break;
		post_polled(&n, d);
	}
	EXPECT_LT(posted, 2000);
	EXPECT_LT(256, posted);
	for (__u64 end = now_ns() + 3000000000ULL; read < posted && now_ns() < end;) {
		if (cq_poll(&n.cq, &c)) {
			EXPECT_EQ(read, c.context);
			read++;
		} else {
			doorbell(n.fd, n.cq.id);
		}
	}
	EXPECT_EQ(posted, read);
	(void)self;
	close(n.fd);
}

/* The thread takes bytes that are not in memory yet, too. */
TEST(missing_pages)
{
	const int count = 6;
	char *missing = pages(count * 2 * 4096), in[64];
	struct node n;
	__u64 self;

	polled_open(&n, 0, 1000000);
	self = peer(&n, n.addr);
	until_awake(&n, self);
	for (int i = 0; i < count; i++) {
		struct treadle_desc d = send_of(missing + i * 4096, 8, self, i);

		if (i % 2)
			d.flags |= TREADLE_F_INJECT;
		put(&n, d);
		usleep(2000);
	}
	for (int i = 0; i < count; i++) {
		memset(in, 1, sizeof(in));
		need(post_recv(&n, recv_of(in, 8, ANY, i)) >= 0);
		EXPECT_EQ(i, next(&n.rcq).context);
		EXPECT_TRUE(all_are(in, 8, 0));
		EXPECT_EQ(0, next(&n.cq).error);
	}
	for (int i = 0; i < count; i++) {
		need(post_recv(&n, recv_of(in, 8, ANY, i)) >= 0);
		put(&n, send_of(missing + (count + i) * 4096, 8, self, i));
		EXPECT_EQ(i, next(&n.cq).context);
		EXPECT_EQ(i, next(&n.rcq).context);
	}
	close(n.fd);
}

struct dying {
	int ready;
};

static void floods_until_killed(void *arg)
{
	struct dying *d = arg;
	struct node n;
	__u64 self;

	polled_open(&n, 0, 1000000);
	self = peer(&n, n.addr);
	post_polled(&n, send_of(NULL, 0, self, 0));
	raise_to(&d->ready, 1);
	for (;;) {
		struct treadle_cqe c;

		receives(&n, 1);
		post_polled(&n, send_of(NULL, 0, self, 1));
		while (cq_poll(&n.cq, &c))
			;
		while (cq_poll(&n.rcq, &c))
			;
	}
}

/* The runner checks besides that the module is unused afterwards. */
TEST(the_thread_ends_with_its_process)
{
	struct dying *d = shared(sizeof(*d));

	for (int i = 0; i < 5; i++) {
		pid_t pid = spawn(floods_until_killed, d);

		await(&d->ready, 1);
		usleep(20000);
		kill(pid, SIGKILL);
		reap(pid);
		d->ready = 0;
	}
	until_unused();
}

TEST(closing_while_awake)
{
	for (int i = 0; i < 10; i++) {
		struct node n;
		__u64 self;

		polled_open(&n, 0, IDLE);
		self = peer(&n, n.addr);
		receives(&n, 16);
		until_awake(&n, self);
		for (int k = 0; k < 16; k++)
			put(&n, send_of(NULL, 0, self, k));
		if (i % 2) {
			EXPECT_EQ(-EBUSY, destroy(n.fd, n.tx.id));
			EXPECT_EQ(0, destroy(n.fd, n.ep));
			EXPECT_EQ(0, destroy(n.fd, n.tx.id));
			EXPECT_EQ(-ENOENT, ring_doorbell(&n.tx));
		}
		close(n.fd);
		munmap(n.tx.rw, n.tx.rw_map.length);
	}
}

TEST(a_child_has_no_part_in_it)
{
	struct node n;
	__u64 self;
	pid_t pid;

	polled_open(&n, 0, 1000000);
	self = peer(&n, n.addr);
	receives(&n, 16);
	until_awake(&n, self);
	pid = fork();
	if (!pid)
		_exit(ring_doorbell(&n.tx) == -EPERM ? 0 : 1);
	EXPECT_EQ(0, reap(pid));
	put(&n, send_of(NULL, 0, self, 6));
	EXPECT_EQ(6, next(&n.cq).context);
	close(n.fd);
}

static void posts_and_stops(void *arg)
{
	struct dying *d = arg;
	struct node n;
	__u64 self;

	polled_open(&n, 0, 1000000);
	self = peer(&n, n.addr);
	receives(&n, 16);
	until_awake(&n, self);
	raise_to(&d->ready, 1);
	raise(SIGSTOP);
	put(&n, send_of(NULL, 0, self, 6));
	_exit(next(&n.cq).context == 6 ? 0 : 1);
}

/* The thread goes on, finds nothing, and sleeps; what is posted later is executed. */
TEST(a_stopped_process)
{
	struct dying *d = shared(sizeof(*d));
	pid_t pid = spawn(posts_and_stops, d);
	int status;

	await(&d->ready, 1);
	need(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	usleep(50000);
	kill(pid, SIGCONT);
	EXPECT_EQ(0, reap(pid));
}

/* Rings of one context share a thread, and each gets its turn. */
TEST(several_rings_of_one_context)
{
	static struct node n[4];
	__u64 self[4];

	polled_open(&n[0], 0, 1000000);
	for (int i = 1; i < 4; i++)
		polled_open(&n[i], n[0].fd, 1000000);
	for (int i = 0; i < 4; i++) {
		self[i] = peer(&n[i], n[i].addr);
		receives(&n[i], 60);
	}
	for (int i = 0; i < 4; i++)
		until_awake(&n[i], self[i]);
	for (int k = 0; k < 8; k++) {
		for (int i = 0; i < 4; i++)
			put(&n[i], send_of(NULL, 0, self[i], k));
		for (int i = 0; i < 4; i++) {
			EXPECT_EQ(k, next(&n[i].cq).context);
			next(&n[i].rcq);
		}
	}
	close(n[0].fd);
}

/* A process that floods a polled ring does not starve another context. */
TEST(a_flood_beside_another_context)
{
	struct dying *d = shared(sizeof(*d));
	__u64 end, done = 0;
	struct node n;
	__u64 self;
	pid_t pids[3];

	for (int i = 0; i < 3; i++) {
		pids[i] = spawn(floods_until_killed, d);
		await(&d->ready, 1);
		d->ready = 0;
	}
	polled_open(&n, 0, 1000);
	self = peer(&n, n.addr);
	for (end = now_ns() + 700000000ULL; now_ns() < end; done++) {
		receives(&n, 1);
		post_polled(&n, send_of(NULL, 0, self, done));
		next(&n.cq);
		next(&n.rcq);
	}
	note("%llu messages beside three that flood", done);
	EXPECT_LT(20, done);
	for (int i = 0; i < 3; i++) {
		kill(pids[i], SIGKILL);
		reap(pids[i]);
	}
	close(n.fd);
}

TEST_HARNESS_MAIN
