/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Contexts and objects: limits, addresses, what may be bound to what, and which processes may use a
 * context.
 */
#include <linux/major.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "abi.h"

FIXTURE(objects)
{
	int fd;
	struct treadle_query q;
};

FIXTURE_SETUP(objects)
{
	self->fd = device();
	self->q = query(self->fd);
}

FIXTURE_TEARDOWN(objects)
{
	close(self->fd);
}

/*
 * Opens of a misc device wait for each other, in the whole system, and opening this device may take
 * long.
 */
TEST_F(objects, the_device_is_no_miscellaneous_one)
{
	struct stat s;

	ASSERT_EQ(0, fstat(self->fd, &s));
	EXPECT_NE(MISC_MAJOR, major(s.st_rdev));
}

static void just_interrupt(int sig) {}

/* Opening the device takes longer with more maps in the process. */
TEST(opening_outlasts_signals)
{
	const struct sigaction act = {.sa_handler = just_interrupt}; /* no SA_RESTART */
	const size_t pages = 8192;
	char *p = mmap(NULL, (size_t)pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, p);
	for (size_t i = 0; i < pages; i += 2)
		ASSERT_EQ(0, mprotect(p + ((size_t)i * PAGE), PAGE, PROT_READ));
	ASSERT_EQ(0, sigaction(SIGALRM, &act, NULL));
	for (int i = 0; i < 300; i++) {
		const struct itimerval soon = {.it_value.tv_usec = 1 + i * 10};
		int fd;

		setitimer(ITIMER_REAL, &soon, NULL);
		fd = open(TREADLE_DEVICE, O_RDWR | O_CLOEXEC);
		ASSERT_LE(0, fd) TH_LOG("attempt %d: %s", i, strerror(errno));
		close(fd);
	}
}

/* --- query ----------------------------------------------------------------- */

TEST_F(objects, query_reports_limits)
{
	const __u64 opcodes = 1 << TREADLE_OP_NOP | 1 << TREADLE_OP_SEND | 1 << TREADLE_OP_TSEND |
			      1 << TREADLE_OP_RECV | 1 << TREADLE_OP_TRECV |
			      1 << TREADLE_OP_CNTR_SET | 1 << TREADLE_OP_CNTR_ADD;
	const __u64 flags = TREADLE_F_EXT | TREADLE_F_COMPLETION | TREADLE_F_INJECT |
			    TREADLE_F_REMOTE_CQ_DATA | TREADLE_F_DELIVERY_COMPLETE |
			    TREADLE_F_MORE | TREADLE_F_COND_CNTR | TREADLE_F_NOTIFY |
			    TREADLE_F_WORK | TREADLE_F_CNTR_ERROR;
	struct treadle_query again = query(self->fd);
	int other = device();

	EXPECT_EQ(TREADLE_ABI_VERSION, self->q.abi_version);
	EXPECT_EQ(opcodes, self->q.opcodes & opcodes);
	EXPECT_EQ(0, self->q.opcodes >> TREADLE_OP_LAST);
	EXPECT_EQ(flags, self->q.desc_flags & flags);
	EXPECT_EQ(0, self->q.desc_flags & ~(__u64)TREADLE_F_ALL);
	EXPECT_TRUE(self->q.features & TREADLE_FEATURE_TRIGGER);
	EXPECT_TRUE(self->q.features & TREADLE_FEATURE_MR_PINNED);
	EXPECT_TRUE(self->q.features & TREADLE_FEATURE_AUTH_KEY);
	EXPECT_TRUE(self->q.features & TREADLE_FEATURE_CNTR_BYTES);
	EXPECT_LE(1ULL << 30, self->q.max_msg_size);
	EXPECT_LE(1000000, self->q.max_armed);
	EXPECT_LE(1000000, self->q.max_av);
	EXPECT_LT(0, self->q.inject_size);
	EXPECT_LT(0, self->q.max_auth_key);
	EXPECT_EQ(0, memcmp(&again, &self->q, sizeof(again)));
	again = query(other);
	EXPECT_EQ(0, memcmp(&again, &self->q, sizeof(again)));
}

// conformance: ioctl.h: EINVAL: value out of its documented range
TEST_F(objects, sizes_are_rounded_up_and_limited)
{
	static const __u32 asked[] = {1, 2, 3, 5, 8, 100, 128, 1000};
	struct treadle_cq_create cq = {.size = sizeof(cq), .entries = self->q.max_cq};
	struct treadle_ring_create ring = {.size = sizeof(ring), .entries = self->q.max_ring};

	EXPECT_EQ(0, call(self->fd, TREADLE_IOC_CQ_CREATE, &cq));
	EXPECT_EQ(self->q.max_cq, cq.entries);
	EXPECT_EQ(0, call(self->fd, TREADLE_IOC_TX_CREATE, &ring));
	EXPECT_EQ(self->q.max_ring, ring.entries);
	EXPECT_EQ(0, call(self->fd, TREADLE_IOC_RX_CREATE, &ring));
	for (int i = 0; i < ARRAY_SIZE(asked); i++) {
		cq.entries = ring.entries = asked[i];
		ring.buffered = 0;
		EXPECT_EQ(0, call(self->fd, TREADLE_IOC_CQ_CREATE, &cq));
		EXPECT_LE(asked[i], cq.entries);
		EXPECT_EQ(0, cq.entries & (cq.entries - 1));
		EXPECT_EQ(0, call(self->fd, TREADLE_IOC_TX_CREATE, &ring));
		EXPECT_LE(asked[i], ring.entries);
		EXPECT_EQ(0, ring.entries & (ring.entries - 1));
	}

	cq.entries = self->q.max_cq + 1;
	EXPECT_EQ(-EINVAL, call(self->fd, TREADLE_IOC_CQ_CREATE, &cq));
	cq.entries = ~0U;
	EXPECT_EQ(-EINVAL, call(self->fd, TREADLE_IOC_CQ_CREATE, &cq));
	ring.buffered = 0;
	ring.entries = self->q.max_ring + 1;
	EXPECT_EQ(-EINVAL, call(self->fd, TREADLE_IOC_TX_CREATE, &ring));
	ring.entries = ~0U;
	EXPECT_EQ(-EINVAL, call(self->fd, TREADLE_IOC_RX_CREATE, &ring));
	ring.entries = 8;
	ring.buffered = self->q.max_buffered;
	EXPECT_EQ(0, call(self->fd, TREADLE_IOC_RX_CREATE, &ring));
	ring.buffered = self->q.max_buffered + 1;
	EXPECT_EQ(-EINVAL, call(self->fd, TREADLE_IOC_RX_CREATE, &ring));
}

TEST_F(objects, ids_are_not_reused)
{
	struct cntr first;
	__u32 last, id;

	cntr_open(&first, self->fd);
	ASSERT_EQ(0, destroy(self->fd, first.id));
	last = first.id;
	for (int i = 0; i < 20000; i++) {
		id = av_open(self->fd);
		ASSERT_EQ(0, destroy(self->fd, id));
		ASSERT_GT(id, last);
		last = id;
	}
	EXPECT_EQ(-ENOENT, destroy(self->fd, first.id));
	EXPECT_EQ(-ENOENT, destroy(self->fd, last));
}

/* --- addresses ------------------------------------------------------------- */

static int create_ep(int fd, struct treadle_addr addr, __u32 type, struct treadle_ep_create *ep)
{
	*ep = (struct treadle_ep_create){.size = sizeof(*ep), .type = type, .addr = addr};
	return call(fd, TREADLE_IOC_EP_CREATE, ep);
}

// conformance: ioctl.h: EADDRNOTAVAIL: not of this machine, of no known family
TEST_F(objects, addresses_are_validated)
{
	const struct treadle_addr bad_family[] = {
		{.family = 0}, {.family = AF_UNIX}, {.family = 0xffff}};
	const struct treadle_addr foreign[] = {{.family = AF_INET, .addr = {192, 0, 2, 1}},
					       {.family = AF_INET, .addr = {255, 255, 255, 255}},
					       {.family = AF_INET, .addr = {224, 0, 0, 1}},
					       {.family = AF_INET6,
						.addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}}};
	struct treadle_addr dirty = loopback(0);
	struct treadle_ep_create ep;

	for (int i = 0; i < ARRAY_SIZE(bad_family); i++) {
		about("%d", i);
		EXPECT_EQ(-EADDRNOTAVAIL, create_ep(self->fd, bad_family[i], TREADLE_EP_RDM, &ep));
	}
	for (int i = 0; i < ARRAY_SIZE(foreign); i++) {
		about("%d", i);
		EXPECT_EQ(-EADDRNOTAVAIL, create_ep(self->fd, foreign[i], TREADLE_EP_RDM, &ep));
	}
	dirty.addr[15] = 1;
	EXPECT_EQ(-EINVAL, create_ep(self->fd, dirty, TREADLE_EP_RDM, &ep));
	dirty = loopback(0);
	dirty.scope = 1;
	EXPECT_EQ(-EINVAL, create_ep(self->fd, dirty, TREADLE_EP_RDM, &ep));

	EXPECT_EQ(-EINVAL, create_ep(self->fd, loopback(0), 0, &ep));
	EXPECT_EQ(-EINVAL, create_ep(self->fd, loopback(0), 5, &ep));
}

TEST_F(objects, unspecified_addresses_become_loopback)
{
	const struct treadle_addr v4 = {.family = AF_INET}, v6 = {.family = AF_INET6};
	const __u8 v6_loopback[16] = {[15] = 1}, v4_loopback[16] = {127, 0, 0, 1};
	struct treadle_ep_create ep;

	ASSERT_EQ(0, create_ep(self->fd, v4, TREADLE_EP_RDM, &ep));
	EXPECT_EQ(AF_INET, ep.addr.family);
	EXPECT_EQ(0, memcmp(ep.addr.addr, v4_loopback, 16));
	EXPECT_NE(0, ep.addr.port);
	ASSERT_EQ(0, create_ep(self->fd, v6, TREADLE_EP_RDM, &ep));
	EXPECT_EQ(AF_INET6, ep.addr.family);
	EXPECT_EQ(0, memcmp(ep.addr.addr, v6_loopback, 16));
	EXPECT_NE(0, ep.addr.port);
}

TEST_F(objects, only_link_local_addresses_have_a_scope)
{
	const struct treadle_addr v6 = {.family = AF_INET6, .scope = 3, .addr = {[15] = 1}};
	struct treadle_ep_create ep;

	ASSERT_EQ(0, create_ep(self->fd, v6, TREADLE_EP_RDM, &ep));
	EXPECT_EQ(0, ep.addr.scope);
}

// conformance: ioctl.h: EADDRINUSE: port in use
TEST_F(objects, a_port_has_one_owner)
{
	struct treadle_addr v6 = {.family = AF_INET6, .addr = {[15] = 1}};
	struct treadle_ep_create first, ep;
	struct treadle_addr other;
	int fd = device();

	ASSERT_EQ(0, create_ep(self->fd, loopback(0), TREADLE_EP_RDM, &first));
	v6.port = first.addr.port;
	other = first.addr;
	other.addr[3] = 2;
	EXPECT_EQ(-EADDRINUSE, create_ep(self->fd, first.addr, TREADLE_EP_RDM, &ep));
	EXPECT_EQ(-EADDRINUSE, create_ep(fd, first.addr, TREADLE_EP_RDM, &ep));
	EXPECT_EQ(-EADDRINUSE, create_ep(fd, other, TREADLE_EP_RDM, &ep));
	EXPECT_EQ(-EADDRINUSE, create_ep(fd, v6, TREADLE_EP_RDM, &ep));
	ASSERT_EQ(0, destroy(self->fd, first.id));
	EXPECT_EQ(0, create_ep(fd, first.addr, TREADLE_EP_RDM, &ep));
	EXPECT_EQ(first.addr.port, ep.addr.port);
	EXPECT_EQ(-EADDRINUSE, create_ep(self->fd, first.addr, TREADLE_EP_RDM, &ep));
	close(fd);
	EXPECT_EQ(0, create_ep(self->fd, first.addr, TREADLE_EP_RDM, &ep));
}

TEST_F(objects, every_local_address_reaches_the_port)
{
	static const struct treadle_addr ways[] = {{.family = AF_INET, .addr = {127, 0, 0, 1}},
						   {.family = AF_INET, .addr = {127, 1, 2, 3}},
						   {.family = AF_INET6, .addr = {[15] = 1}}};
	struct node a, b;
	char got[8];

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	for (int i = 0; i < ARRAY_SIZE(ways); i++) {
		struct treadle_addr way = ways[i];

		way.port = b.addr.port;
		ASSERT_EQ(0, post_recv(&b, recv_of(got, 8, ANY, i)));
		ASSERT_EQ(1, post(&a, send_of("abcdefg", 8, peer(&a, way), i)));
		EXPECT_EQ(i, cq_next(&b.rcq).context);
		EXPECT_STREQ("abcdefg", got);
	}
}

/* --- binding --------------------------------------------------------------- */

// conformance: ioctl.h: EISCONN: the endpoint is enabled already
TEST_F(objects, an_endpoint_is_enabled_once)
{
	struct treadle_ep_enable e;
	struct node a, b;

	node_open(&a, (struct options){.context = self->fd});
	node_create(&b, (struct options){.context = self->fd});
	e = node_bindings(&b);
	e.ep = a.ep;
	EXPECT_EQ(-EISCONN, call(self->fd, TREADLE_IOC_EP_ENABLE, &e));
	e = node_bindings(&b);
	EXPECT_EQ(0, call(self->fd, TREADLE_IOC_EP_ENABLE, &e));
	EXPECT_EQ(-EISCONN, call(self->fd, TREADLE_IOC_EP_ENABLE, &e));
}

// conformance: ioctl.h: EBUSY: the ring has an endpoint
TEST_F(objects, a_transmit_ring_has_one_endpoint)
{
	struct treadle_ep_enable e;
	struct node a, b;

	node_open(&a, (struct options){.context = self->fd});
	node_create(&b, (struct options){.context = self->fd});
	e = node_bindings(&b);
	e.tx = a.tx.id;
	EXPECT_EQ(-EBUSY, call(self->fd, TREADLE_IOC_EP_ENABLE, &e));
	EXPECT_EQ(0, destroy(self->fd, a.ep));
	EXPECT_EQ(0, call(self->fd, TREADLE_IOC_EP_ENABLE, &e));
}

// conformance: ioctl.h: EDESTADDRREQ: no such entry in the address vector
TEST_F(objects, a_transmit_ring_needs_an_address_vector)
{
	struct treadle_ep_enable e;
	struct treadle_cqe c;
	struct node n;
	char buf[8];

	node_create(&n, (struct options){.context = self->fd});
	e = node_bindings(&n);
	e.av = 0;
	e.flags = TREADLE_EP_SOURCE;
	ASSERT_EQ(0, call(self->fd, TREADLE_IOC_EP_ENABLE, &e));
	EXPECT_EQ(-EDESTADDRREQ, post(&n, send_of(buf, 8, 0, 1)));
	ASSERT_EQ(0, post_recv(&n, recv_of(buf, 8, 0, 2)));
	ASSERT_EQ(0, ring_doorbell(&n.rx));
	c = cq_next(&n.rcq);
	EXPECT_EQ(2, c.context);
	EXPECT_EQ(EDESTADDRREQ, c.error);
}

TEST_F(objects, a_failed_enable_binds_nothing)
{
	struct treadle_ep_enable e;
	struct node n;

	node_create(&n, (struct options){.context = self->fd});
	e = node_bindings(&n);
	/* The field that is validated last must be wrong. */
	e.cntr_remote_write = n.cq.id;
	EXPECT_EQ(-EBADF, call(self->fd, TREADLE_IOC_EP_ENABLE, &e));
	e = node_bindings(&n);
	e.tx = n.cq.id;
	EXPECT_EQ(-EBADF, call(self->fd, TREADLE_IOC_EP_ENABLE, &e));
	EXPECT_EQ(0, destroy(self->fd, n.tx.id));
	EXPECT_EQ(0, destroy(self->fd, n.rx.id));
	EXPECT_EQ(0, destroy(self->fd, n.cq.id));
	EXPECT_EQ(0, destroy(self->fd, n.rcq.id));
	EXPECT_EQ(0, destroy(self->fd, n.sent.id));
	EXPECT_EQ(0, destroy(self->fd, n.rcvd.id));
	EXPECT_EQ(0, destroy(self->fd, n.av));
	EXPECT_EQ(0, destroy(self->fd, n.ep));
}

// conformance: ioctl.h: EBUSY: in use by another object
TEST_F(objects, a_bound_object_cannot_be_destroyed)
{
	struct node n;
	__u32 *bound[] = {&n.tx.id, &n.rx.id, &n.cq.id, &n.rcq.id, &n.sent.id, &n.rcvd.id, &n.av};

	node_open(&n, (struct options){.context = self->fd});
	for (int i = 0; i < ARRAY_SIZE(bound); i++) {
		about("%d", i);
		EXPECT_EQ(-EBUSY, destroy(self->fd, *bound[i]));
	}
	EXPECT_EQ(0, destroy(self->fd, n.ep));
	for (int i = 0; i < ARRAY_SIZE(bound); i++) {
		about("%d", i);
		EXPECT_EQ(0, destroy(self->fd, *bound[i]));
		EXPECT_EQ(-ENOENT, destroy(self->fd, *bound[i]));
	}
}

// conformance: ioctl.h: EINVAL: value out of its documented range
TEST_F(objects, keys_for_authorization_have_a_limit)
{
	struct treadle_ep_create ep = {
		.size = sizeof(ep), .type = TREADLE_EP_RDM, .addr = loopback(0)};
	char *key = pages(PAGE);

	ep.auth_key = (unsigned long)key;
	ep.auth_key_size = self->q.max_auth_key;
	EXPECT_EQ(0, call(self->fd, TREADLE_IOC_EP_CREATE, &ep));
	ep.addr = loopback(0);
	ep.auth_key_size = self->q.max_auth_key + 1;
	EXPECT_EQ(-EINVAL, call(self->fd, TREADLE_IOC_EP_CREATE, &ep));
	ep.auth_key_size = 2;
	ep.auth_key = (unsigned long)key + PAGE - 1;
	EXPECT_EQ(-EFAULT, call(self->fd, TREADLE_IOC_EP_CREATE, &ep));
	ep.auth_key = 0;
	EXPECT_EQ(-EFAULT, call(self->fd, TREADLE_IOC_EP_CREATE, &ep));
}

// conformance: ioctl.h: EINVAL: value out of its documented range
TEST_F(objects, unknown_kinds_of_cancel_are_refused)
{
	struct cntr c;

	cntr_open(&c, self->fd);
	EXPECT_EQ(-EINVAL, cancel(self->fd, 3, c.id, 0, 0, NULL));
	EXPECT_EQ(-EINVAL, cancel(self->fd, ~0U, c.id, 0, 0, NULL));
}

/* --- use by other processes ------------------------------------------------ */

static int intrude_by(int fd, unsigned long cmd, __u32 size)
{
	struct arg arg = {.size = size};

	if (call(fd, cmd, &arg) == -EPERM)
		return 0;
	note("ioctl %d was not refused", (int)_IOC_NR(cmd));
	return 1;
}

/* Makes each call that a process without access can make; returns how many were not refused. */
static int intrude(int fd, struct treadle_map m)
{
	int allowed =
		intrude_by(fd, TREADLE_IOC_DOORBELL, 0) + intrude_by(fd, TREADLE_IOC_SIGNAL, 0);

	for (int i = 0; i < ARRAY_SIZE(rows); i++)
		allowed += intrude_by(fd, rows[i].cmd, size_now(&rows[i]));
	if (doorbell_seek(fd, 1) != -EPERM) {
		note("lseek was not refused");
		allowed++;
	}
	if (mmap(NULL, m.length, PROT_READ, MAP_SHARED, fd, m.offset) != MAP_FAILED ||
	    errno != EPERM) {
		note("mmap: %s", strerror(errno));
		allowed++;
	}
	return allowed;
}

// conformance: ioctl.h: EPERM: not the process that opened the context
TEST_F(objects, a_child_cannot_use_its_parents_context)
{
	struct cq q;
	pid_t pid;

	cq_open(&q, self->fd, 8);
	pid = fork();
	if (pid == 0)
		_exit(intrude(self->fd, q.ro_map));
	EXPECT_EQ(0, reap(pid));
	/* Not even the last process that has the file, if it never used the context before. */
	EXPECT_EQ(0, doorbell(self->fd, q.id));
}

// conformance: ioctl.h: EPERM: not the process that opened the context
TEST_F(objects, a_process_that_was_sent_the_file_cannot_use_it)
{
	struct cq q;
	int pair[2];
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	if (pid == 0)
		_exit(intrude(receive_file(pair[1]), (struct treadle_map){0, PAGE}));
	/* Opened after the fork: the other process did not inherit it. */
	self->fd = device();
	cq_open(&q, self->fd, 8);
	pass_file(pair[0], self->fd);
	EXPECT_EQ(0, reap(pid));
}

/* Runs in the program that the test below executes. */
static void __attribute__((constructor)) after_exec(void)
{
	const char *fd = getenv("TREADLE_TEST_FD");

	if (fd)
		_exit(intrude(atoi(fd), (struct treadle_map){0, PAGE}));
}

// conformance: ioctl.h: EPERM: not the process that opened the context
TEST_F(objects, another_program_cannot_use_it)
{
	int fd = open(TREADLE_DEVICE, O_RDWR);
	char number[16];
	pid_t pid;

	snprintf(number, sizeof(number), "%d", fd);
	setenv("TREADLE_TEST_FD", number, 1);
	pid = fork();
	if (pid == 0) {
		/*
		 * The new program has a context of its own memory, and leaves it behind with that
		 * memory.
		 */
		need(dup2(device(), fd) == fd && fcntl(fd, F_SETFD, 0) == 0);
		execl("/proc/self/exe", "again", NULL);
		_exit(99);
	}
	EXPECT_EQ(0, reap(pid));
}

#ifdef __x86_64__
/* The system calls of a 32-bit program. */
static int call32(int fd, unsigned long cmd, void *arg)
{
	long result = 54;

	asm volatile("int $0x80"
		     : "+a"(result)
		     : "b"(fd), "c"(cmd), "d"(arg)
		     : "memory", "r8", "r9", "r10", "r11");
	return result;
}

TEST_F(objects, the_layout_is_the_same_for_32_bits)
{
	char *low = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct treadle_query *q = (void *)low;
	struct treadle_cq_create *cq = (void *)low;

	ASSERT_NE(MAP_FAILED, (void *)low);
	q->size = sizeof(*q);
	ASSERT_EQ(0, call32(self->fd, TREADLE_IOC_QUERY, q));
	EXPECT_EQ(0, memcmp(q, &self->q, sizeof(*q)));
	*cq = (struct treadle_cq_create){.size = sizeof(*cq), .entries = 8};
	ASSERT_EQ(0, call32(self->fd, TREADLE_IOC_CQ_CREATE, cq));
	map(self->fd, cq->ro, PROT_READ);
	EXPECT_EQ(0, call32(self->fd, TREADLE_IOC_DOORBELL, (void *)(unsigned long)cq->id));
	EXPECT_EQ(-EFAULT, call32(self->fd, TREADLE_IOC_QUERY, NULL));
	/*
	 * mmap2 takes the offset in pages, of 32 bits: it must fit after many objects were created
	 * and destroyed, too.
	 */
	for (int i = 0; i < 5000; i++) {
		ASSERT_EQ(0, destroy(self->fd, cq->id));
		*cq = (struct treadle_cq_create){.size = sizeof(*cq), .entries = 8};
		ASSERT_EQ(0, call(self->fd, TREADLE_IOC_CQ_CREATE, cq));
	}
	EXPECT_EQ(0, cq->ro.offset >> 44);
	EXPECT_EQ(0, cq->rw.offset >> 44);
	map(self->fd, cq->ro, PROT_READ);
	map(self->fd, cq->rw, PROT_READ | PROT_WRITE);
}
#endif

TEST_HARNESS_MAIN
