/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads and writes of a peer's memory: what is transferred, the rights that are needed, errors, and
 * the order.
 */
#include "rma.h"
#include "cred.h"

/* --- transfers -------------------------------------------------------------------------- */

TEST_F(rma, bytes_arrive_at_their_place_and_nowhere_else)
{
	static const __u64 lengths[] = {0, 1, 8, 4095, 4096, 70000, 1 << 20, (3 << 20) + 5};

	for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
		__u64 len = lengths[i], at = 4093;
		struct treadle_cqe c;

		about("%llu bytes", len);
		fill(self->here, len, i);
		memset(self->there, 0x55, LARGE);
		ASSERT_EQ(1, post(&self->a, write_of(self->here, len, self->to, at, self->key, i)));
		c = cq_next(&self->a.cq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(i, c.context);
		EXPECT_EQ(TREADLE_CQ_RMA | TREADLE_CQ_WRITE, c.flags);
		EXPECT_TRUE(same(self->there + at, len, i));
		EXPECT_TRUE(all_are(self->there, at, 0x55));
		EXPECT_TRUE(all_are(self->there + at + len, LARGE - at - len, 0x55));

		memset(self->here, 0xaa, LARGE);
		ASSERT_EQ(1, post(&self->a,
				  read_of(self->here + 9, len, self->to, at, self->key, 100 + i)));
		c = cq_next(&self->a.cq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(100 + i, c.context);
		EXPECT_EQ(TREADLE_CQ_RMA | TREADLE_CQ_READ, c.flags);
		EXPECT_TRUE(same(self->here + 9, len, i));
		EXPECT_TRUE(all_are(self->here, 9, 0xaa));
		EXPECT_TRUE(all_are(self->here + 9 + len, LARGE - 9 - len, 0xaa));
	}
	EXPECT_TRUE(cntr_becomes(&self->writes, ARRAY_SIZE(lengths), 0));
	EXPECT_TRUE(cntr_becomes(&self->reads, ARRAY_SIZE(lengths), 0));
	/* FI_RMA_EVENT: counted at the target, too. */
	EXPECT_TRUE(cntr_becomes(&self->remote_writes, ARRAY_SIZE(lengths), 0));
	EXPECT_TRUE(cntr_becomes(&self->remote_reads, ARRAY_SIZE(lengths), 0));
	EXPECT_EQ(0, cntr_value(&self->b.rcvd) + cntr_value(&self->a.sent));
}

// conformance: fi_rma(3): fi_writemsg, fi_readmsg: also of remote ranges
TEST_F(rma, vectors_on_both_sides)
{
	const struct treadle_iov iov[] = {{(unsigned long)self->here, 7},
					  {(unsigned long)self->here + 7, 0},
					  {(unsigned long)self->here + 7, 5000},
					  {(unsigned long)self->here + 5007, 1},
					  {(unsigned long)self->here + 5008, 92}};
	const struct treadle_rma_iov range[] = {
		{100, 50, 77}, {9000, 4950, 78}, {1, 0, 77}, {50, 50, 77}, {20000, 50, 78}};
	__u64 key = 78;
	char *more = pages(LARGE), *all = pages(PAGE * 2);
	struct treadle_desc d = vector(write_of(NULL, 0, self->to, 0, 0, 1), iov, 5);
	__u32 id;

	ASSERT_EQ(0, mr(self->b.fd, more, LARGE, BOTH, 0, &key, &id));
	fill(self->here, 5100, 9);
	ASSERT_EQ(5100, d.len);
	ASSERT_EQ(1, post_ranges(&self->a, d, iov, range, 5));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_EQ(0, memcmp(self->there + 100, self->here, 50));
	EXPECT_EQ(0, memcmp(more + 9000, self->here + 50, 4950));
	EXPECT_EQ(0, memcmp(self->there + 50, self->here + 5000, 50));
	EXPECT_EQ(0, memcmp(more + 20000, self->here + 5050, 50));

	d = read_of(all, 5100, self->to, 0, 0, 2);
	ASSERT_EQ(1, post_ranges(&self->a, d, NULL, range, 5));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_TRUE(same(all, 5100, 9));
	/* One remote range alone; it takes a slot as several would. */
	ASSERT_EQ(1, post_ranges(&self->a, vector(d, iov, 5), iov, range, 5));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
}

TEST_F(rma, injected_bytes_are_copied_at_once)
{
	/* The pages have to be faulted in first, so a worker writes. */
	for (int i = 0; i < 16; i++) {
		struct treadle_desc d =
			write_of(self->here, 4096, self->to, i * 3 * PAGE + 100, self->key, i);

		d.flags |= TREADLE_F_INJECT;
		fill(self->here, 4096, i);
		ASSERT_EQ(1, post(&self->a, d));
		memset(self->here, 0, 4096);
	}
	for (int i = 0; i < 16; i++) {
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	for (int i = 0; i < 16; i++) {
		EXPECT_TRUE(same(self->there + i * 3 * PAGE + 100, 4096, i));
	}
}

// conformance: fi_rma(3): fi_writedata, FI_REMOTE_CQ_DATA: a completion at the target
TEST_F(rma, written_with_data)
{
	__u64 me = peer(&self->b, self->a.addr);
	struct treadle_cqe c;

	for (int i = 0; i < 2; i++) {
		/* Written by the caller, and by a worker: the bytes are there on completion. */
		__u64 len = i ? LARGE - 100 : 100;
		struct treadle_desc d = write_of(self->here, len, self->to, 100, self->key, i);

		fill(self->here, len, i);
		d.flags |= TREADLE_F_REMOTE_CQ_DATA;
		d.data = 0x1122334455667788 + i;
		ASSERT_EQ(1, post(&self->a, d));
		c = cq_next(&self->b.rcq);
		EXPECT_TRUE(same(self->there + 100, len, i));
		EXPECT_EQ(TREADLE_CQ_RMA | TREADLE_CQ_REMOTE_WRITE | TREADLE_CQ_REMOTE_CQ_DATA,
			  c.flags);
		EXPECT_EQ(0x1122334455667788 + i, c.data);
		EXPECT_EQ(len, c.len);
		EXPECT_EQ(me, c.src);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	EXPECT_TRUE(cntr_becomes(&self->remote_writes, 2, 0));
}

/* The target reads no completions: its queue keeps as many more, then the writer gets EAGAIN. */
// conformance: ioctl.h: EAGAIN: the peer's completion queue overflows (a write with remote CQ data)
TEST_F(rma, data_waits_for_a_queue_that_is_full)
{
	struct treadle_desc d = write_of(self->here, 8, self->to, 0, self->key, 0);
	int taken = 0, result;

	d.flags |= TREADLE_F_REMOTE_CQ_DATA;
	for (; taken < 1000; taken++) {
		d.data = taken;
		result = post(&self->a, d);
		if (result != 1)
			break;
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	EXPECT_EQ(-EAGAIN, result);
	EXPECT_EQ(2 * self->b.rcq.entries, taken);
	for (int i = 0; i < taken; i++) {
		EXPECT_EQ(i, cq_next(&self->b.rcq).data);
	}
	ASSERT_EQ(1, post(&self->a, d));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_EQ(taken, cq_next(&self->b.rcq).data);
}

/* An armed write can't get EAGAIN: it fails when it fires, and writes nothing. */
// conformance: ioctl.h: EAGAIN: (completion) the peer's completion queue overflows (an armed write)
TEST_F(rma, armed_data_fails_at_a_queue_that_is_full)
{
	const int room = 2 * self->b.rcq.entries, more = 10;
	struct treadle_desc d = write_of(self->here, 8, self->to, 0, self->key, 0);
	struct cntr ended;

	cntr_open(&ended, self->a.fd);
	d.flags = TREADLE_F_REMOTE_CQ_DATA | TREADLE_F_WORK;
	for (int i = 0; i < room + more; i++) {
		d.data = i;
		ASSERT_EQ(1, post(&self->a, then(when(d, &ended, 0), &ended)));
	}
	EXPECT_TRUE(cntr_becomes(&ended, room, more));
	for (int i = 0; i < room; i++) {
		EXPECT_EQ(i, cq_next(&self->b.rcq).data);
	}
	ASSERT_EQ(1, post(&self->a, then(when(d, &ended, 0), &ended)));
	EXPECT_EQ(room + more - 1, cq_next(&self->b.rcq).data);
	EXPECT_TRUE(cntr_becomes(&ended, room + 1, more));
}

// conformance: fi_rma(3): addr: virtual with FI_MR_BASIC (FI_MR_VIRT_ADDR), else an offset
TEST_F(rma, regions_by_their_address)
{
	__u64 key = 5, base = (unsigned long)self->there;
	__u32 id;

	ASSERT_EQ(0, mr(self->b.fd, self->there + 8, 100, BOTH, TREADLE_MR_VIRT_ADDR, &key, &id));
	self->key = key;
	fill(self->here, 100, 3);
	EXPECT_EQ(0, writes(self, self->here, 100, base + 8));
	EXPECT_TRUE(same(self->there + 8, 100, 3));
	EXPECT_EQ(0, reads(self, self->here, 1, base + 107));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 1, base + 7));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 1, base + 108));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 101, base + 8));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 1, 0));
	EXPECT_EQ(0, self->there[7] | self->there[108]);
}

/* --- access ------------------------------------------------------------------------------ */

// conformance: fi_domain(3): resource management: unmatched RMA and RMA overrun are transmit ...
// conformance: fi_arch(7): registration: permissions and keys
// conformance: ioctl.h: EACCES: the region does not grant this access
// conformance: ioctl.h: EKEYREJECTED: no region with this key
// conformance: ioctl.h: EREMOTEIO: a range is not within its region
TEST_F(rma, keys_rights_and_ranges)
{
	__u64 ro = 1, wo = 2, closed = 3, local = 4;
	__u32 id, closed_id;

	ASSERT_EQ(0, mr(self->b.fd, self->there, PAGE, TREADLE_ACCESS_REMOTE_READ, 0, &ro, &id));
	ASSERT_EQ(0, mr(self->b.fd, self->there, PAGE, TREADLE_ACCESS_REMOTE_WRITE, 0, &wo, &id));
	ASSERT_EQ(0, mr(self->b.fd, self->there, PAGE, BOTH, 0, &closed, &closed_id));
	ASSERT_EQ(0, mr(self->b.fd, self->there, PAGE,
			TREADLE_ACCESS_SEND | TREADLE_ACCESS_RECV | TREADLE_ACCESS_READ |
				TREADLE_ACCESS_WRITE,
			0, &local, &id));
	fill(self->there, LARGE, 1);
	memset(self->here, 0, LARGE);
	/* Beyond the end: by one byte, and by all. */
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 2, LARGE - 1));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, LARGE, 1));
	EXPECT_EQ(EREMOTEIO, reads(self, self->here, 1, LARGE));
	EXPECT_EQ(EREMOTEIO, reads(self, self->here, 1, ~0ULL >> 1));
	/* Offsets that wrap to before the start: by 1, 8 and all bytes. */
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 1, ~0ULL));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 16, -8ULL));
	EXPECT_EQ(EREMOTEIO, reads(self, self->here, LARGE, -1ULL));
	EXPECT_EQ(EREMOTEIO, reads(self, self->here, 0, ~0ULL));
	EXPECT_EQ(0, reads(self, self->here, 0, LARGE));
	EXPECT_EQ(EREMOTEIO, reads(self, self->here, 0, LARGE + 1));
	self->key = ro;
	EXPECT_EQ(EACCES, writes(self, self->here, 8, 0));
	self->key = wo;
	EXPECT_EQ(EACCES, reads(self, self->here, 8, 0));
	self->key = local;
	EXPECT_EQ(EACCES, reads(self, self->here, 8, 0));
	EXPECT_EQ(EACCES, writes(self, self->here, 8, 0));
	self->key = closed;
	EXPECT_EQ(0, reads(self, self->here, 8, 0));
	ASSERT_EQ(0, destroy(self->b.fd, closed_id));
	EXPECT_EQ(EKEYREJECTED, reads(self, self->here, 8, 0));
	EXPECT_EQ(EKEYREJECTED, writes(self, self->here, 0, 0));
	self->key = 12345;
	EXPECT_EQ(EKEYREJECTED, writes(self, self->here, 8, 0));
	/* A region of the initiator's own is not one of the peer's. */
	self->key = 999;
	ASSERT_EQ(0, mr(self->a.fd, self->here, PAGE, BOTH, 0, &self->key, &id));
	EXPECT_EQ(EKEYREJECTED, writes(self, self->here, 8, 0));
	EXPECT_TRUE(same(self->there, LARGE, 1));
	/* All failed in their completions, and were counted as errors. */
	EXPECT_TRUE(cntr_becomes(&self->writes, 0, 9));
	EXPECT_EQ(0, cntr_value(&self->remote_writes));
	EXPECT_EQ(2, cntr_value(&self->remote_reads));
}

// conformance: ioctl.h: EINVAL: a malformed descriptor
TEST_F(rma, malformed_commands_are_refused)
{
	const struct treadle_rma_iov range[TREADLE_MAX_RMA_IOV] = {{0, 4, 77}, {8, 4, 77}};
	const struct treadle_rma_iov wraps[] = {{0, 4, 77}, {-2ULL, 4, 77}};
	struct treadle_desc good = write_of(self->here, 8, self->to, 0, self->key, 1), d = good;

	d.data = 1;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d = good;
	d.opcode = TREADLE_OP_READ;
	d.flags |= TREADLE_F_INJECT;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d.flags ^= TREADLE_F_INJECT | TREADLE_F_REMOTE_CQ_DATA;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d = good;
	d.peer = 99;
	EXPECT_EQ(-EDESTADDRREQ, post(&self->a, d));
	d = good;
	d.len = query(self->a.fd).inject_size + 1;
	d.flags |= TREADLE_F_INJECT;
	EXPECT_EQ(-EMSGSIZE, post(&self->a, d));
	d = good;
	d.flags |= TREADLE_F_EXT;
	d.result = 1;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d.result = 0;
	d.datatype = 1;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	/* Ranges and buffers of different lengths. */
	d = good;
	d.len = 9;
	EXPECT_EQ(-EINVAL, post_ranges(&self->a, d, NULL, range, 2));
	EXPECT_EQ(-EINVAL, post_ranges(&self->a, d, NULL, range, TREADLE_MAX_RMA_IOV));
	d.len = 8;
	EXPECT_EQ(1, post_ranges(&self->a, d, NULL, range, 2));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	/* Ranges that wrap are well-formed, but in no region. */
	EXPECT_EQ(1, post_ranges(&self->a, d, NULL, wraps, 2));
	EXPECT_EQ(EREMOTEIO, cq_next(&self->a.cq).error);
	/* A send takes no remote ranges. */
	d = send_of(self->here, 8, self->to, 1);
	EXPECT_EQ(-EINVAL, post_ranges(&self->a, d, NULL, range, 2));
}

// conformance: ioctl.h: EBUSY: in use by another object
// conformance: ioctl.h: EKEYREJECTED: the region is for another endpoint
TEST_F(rma, a_region_of_one_endpoint)
{
	struct treadle_mr_bind bind = {.size = sizeof(bind), .mr = self->region};
	struct node other;

	node_open(&other, (struct options){.context = self->b.fd});
	EXPECT_EQ(0, writes(self, self->here, 8, 0));
	bind.ep = other.ep;
	ASSERT_EQ(0, call(self->b.fd, TREADLE_IOC_MR_BIND, &bind));
	EXPECT_EQ(EKEYREJECTED, writes(self, self->here, 8, 0));
	self->to = peer(&self->a, other.addr);
	EXPECT_EQ(0, writes(self, self->here, 8, 0));
	bind.ep = self->b.ep;
	EXPECT_EQ(-EBUSY, call(self->b.fd, TREADLE_IOC_MR_BIND, &bind));
}

TEST_F(rma, a_region_counts_writes_to_it)
{
	struct treadle_mr_bind bind = {.size = sizeof(bind), .mr = self->region};
	struct cntr c;

	cntr_open(&c, self->b.fd);
	bind.cntr = c.id;
	ASSERT_EQ(0, call(self->b.fd, TREADLE_IOC_MR_BIND, &bind));
	EXPECT_EQ(-EBUSY, call(self->b.fd, TREADLE_IOC_MR_BIND, &bind));
	EXPECT_EQ(-EBUSY, destroy(self->b.fd, c.id));
	EXPECT_EQ(0, writes(self, self->here, 8, 0));
	EXPECT_EQ(0, reads(self, self->here, 8, 0));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 8, LARGE));
	EXPECT_EQ(0, writes(self, self->here, LARGE, 0));
	EXPECT_TRUE(cntr_becomes(&c, 2, 0));
	EXPECT_TRUE(cntr_becomes(&self->remote_reads, 1, 0));
	ASSERT_EQ(0, destroy(self->b.fd, self->region));
	EXPECT_EQ(0, destroy(self->b.fd, c.id));
}

/* --- memory that is not mapped ------------------------------------------------------------- */

// conformance: ioctl.h: EIO: the peer's memory cannot be read or written
TEST_F(rma, unmapped_memory)
{
	ASSERT_EQ(0, munmap(self->there + PAGE, PAGE));
	EXPECT_EQ(EIO, writes(self, self->here, 8, PAGE));
	EXPECT_EQ(EIO, reads(self, self->here, 2 * PAGE, 0));
	EXPECT_EQ(0, writes(self, self->here, PAGE, 0));
	ASSERT_EQ(0, mprotect(self->there, PAGE, PROT_READ));
	EXPECT_EQ(EIO, writes(self, self->here, 8, 0));
	EXPECT_EQ(0, reads(self, self->here, 8, 0));
	/* A new map at the address is accessed, as nothing was pinned. */
	ASSERT_EQ(self->there + PAGE, mmap(self->there + PAGE, PAGE, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	EXPECT_EQ(0, writes(self, "new", 4, PAGE));
	EXPECT_STREQ("new", self->there + PAGE);

	ASSERT_EQ(0, munmap(self->here + PAGE, PAGE));
	EXPECT_EQ(EFAULT, writes(self, self->here + PAGE, 8, PAGE));
	EXPECT_EQ(EFAULT, reads(self, self->here + PAGE - 1, 2, PAGE));
	ASSERT_EQ(0, mprotect(self->here, PAGE, PROT_READ));
	EXPECT_EQ(EFAULT, reads(self, self->here, 8, PAGE));
	EXPECT_EQ(0, writes(self, self->here, 8, PAGE));
	/* A hole in the middle of a long transfer. */
	EXPECT_EQ(EFAULT, writes(self, self->here, LARGE - 2 * PAGE, 2 * PAGE));
}

// conformance: ioctl.h: EKEYREJECTED: the region was pinned, and unmapped
TEST_F(rma, a_pinned_region_is_revoked_by_unmap)
{
	__u64 key = 6;
	__u32 id;

	ASSERT_EQ(0, mr(self->b.fd, self->there, 4 * PAGE, BOTH, TREADLE_MR_PINNED, &key, &id));
	self->key = key;
	EXPECT_EQ(0, writes(self, "old", 4, 2 * PAGE));
	EXPECT_STREQ("old", self->there + 2 * PAGE);
	ASSERT_EQ(self->there + 2 * PAGE, mmap(self->there + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	EXPECT_EQ(EKEYREJECTED, writes(self, "new", 4, 2 * PAGE));
	EXPECT_EQ(EKEYREJECTED, writes(self, "new", 4, 0));
	EXPECT_EQ(EKEYREJECTED, writes(self, "new", 0, 0));
	EXPECT_EQ(0, self->there[2 * PAGE]);
	EXPECT_EQ(0, destroy(self->b.fd, id));
}

/* After DESTROY has returned nothing is written, even if a write was under way. */
// conformance: ioctl.h: EKEYREJECTED: the region was closed
TEST_F(rma, a_closed_region_stays_as_it_is)
{
	struct treadle_cqe c;
	int rejected = 0;

	/* more rounds on a machine so busy that each write was complete */
	for (int round = 0; round < 30 || (!rejected && round < 300); round++) {
		char *copy = pages(LARGE);

		memset(self->here, round + 1, LARGE);
		for (int i = 0; i < 4; i++)
			ASSERT_EQ(1, post(&self->a, write_of(self->here, LARGE, self->to, 0,
							     self->key, round)));
		if (round & 1)
			sched_yield();
		ASSERT_EQ(0, destroy(self->b.fd, self->region));
		memcpy(copy, self->there, LARGE);
		for (int i = 0; i < 4; i++) {
			c = cq_next(&self->a.cq);
			EXPECT_TRUE(c.error == 0 || c.error == EKEYREJECTED);
			rejected += c.error != 0;
		}
		EXPECT_EQ(0, memcmp(copy, self->there, LARGE));
		munmap(copy, LARGE);
		ASSERT_EQ(0,
			  mr(self->b.fd, self->there, LARGE, BOTH, 0, &self->key, &self->region));
	}
	EXPECT_LT(0, rejected);
}

/* --- death ------------------------------------------------------------------------------------ */

TEST(a_peer_that_is_killed)
{
	const size_t len = 64 << 20;
	char *buf = pages(len);

	for (int round = 0; round < 4; round++) {
		struct owner *o = shared(sizeof(*o));
		struct treadle_cqe c;
		struct node n;
		pid_t pid;
		__u64 to;

		*o = (struct owner){.len = len};
		pid = spawn(owns, o);
		await(&o->ready, 1);
		node_open(&n, (struct options){});
		to = peer(&n, o->addr);
		for (int i = 0; i < 4; i++)
			ASSERT_EQ(1, post(&n, i & 1 ? read_of(buf, len, to, 0, o->key, i) :
						      write_of(buf, len, to, 0, o->key, i)));
		usleep(round * 5000);
		kill(pid, SIGKILL);
		EXPECT_EQ(-SIGKILL, reap(pid));
		for (int i = 0; i < 4; i++) {
			c = cq_next(&n.cq);
			EXPECT_EQ(i, c.context);
			about("error %u", c.error);
			EXPECT_TRUE(c.error == 0 || c.error == ECONNRESET ||
				    c.error == ECONNREFUSED);
		}
		/* The process's memory goes before its endpoint. */
		c.error = outcome(&n, write_of(buf, 8, to, 0, o->key, 9));
		EXPECT_TRUE(c.error == ECONNREFUSED || c.error == ECONNRESET);
		close(n.fd);
	}
}

struct writer {
	struct owner *o;
	int posted;
};

static void writes_until_killed(void *arg)
{
	struct writer *w = arg;
	char *buf = pages(w->o->len);
	struct node n;
	__u64 to;

	node_open(&n, (struct options){.tx = 8});
	to = peer(&n, w->o->addr);
	for (;;) {
		need(post(&n, write_of(buf, w->o->len, to, 0, w->o->key, 0)) == 1);
		raise_to(&w->posted, 1);
	}
}

TEST(an_initiator_that_is_killed)
{
	struct owner *o = shared(sizeof(*o));
	struct writer *w = shared(sizeof(*w));
	pid_t owner, pid;

	*o = (struct owner){.len = 32 << 20};
	w->o = o;
	owner = spawn(owns, o);
	await(&o->ready, 1);
	for (int i = 0; i < 4; i++) {
		w->posted = 0;
		pid = spawn(writes_until_killed, w);
		await(&w->posted, 1);
		usleep(i * 3000);
		kill(pid, SIGKILL);
		EXPECT_EQ(-SIGKILL, reap(pid));
	}
	raise_to(&o->stop, 1);
	EXPECT_EQ(0, reap(owner));
	until_unused();
}

/*
 * The process's own bytes are read before the peer's page is locked and written, and the other way
 * round. So a transfer works even if both are the same page, at two addresses, and overlap.
 */
TEST(own_bytes_are_not_touched_while_the_peers_are)
{
	enum { LEN = 300, APART = 8, ALL = LEN + APART };
	int fd = memfd_create("page", MFD_CLOEXEC);
	char *here, *there, before[ALL];
	__u64 to, key = 0;
	struct node n;
	__u32 id;

	need(fd >= 0 && ftruncate(fd, 4096) == 0);
	here = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	there = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	need(here != MAP_FAILED && there != MAP_FAILED);
	node_open(&n, (struct options){});
	to = peer(&n, n.addr);
	ASSERT_EQ(0, mr(n.fd, there, 4096, TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
			TREADLE_MR_KERNEL_KEY, &key, &id));
	/* The first time the pagemap does not know the page. */
	for (int i = 0; i < 3; i++) {
		fill(before, ALL, i);
		memcpy(here, before, ALL);
		ASSERT_EQ(1, post(&n, write_of(here, LEN, to, APART, key, 1)));
		EXPECT_EQ(0, cq_next(&n.cq).error);
		EXPECT_EQ(0, memcmp(here + APART, before, LEN));
		memcpy(here, before, ALL);
		ASSERT_EQ(1, post(&n, read_of(here + APART, LEN, to, 0, key, 1)));
		EXPECT_EQ(0, cq_next(&n.cq).error);
		EXPECT_EQ(0, memcmp(here + APART, before, LEN));
		memcpy(here, before, ALL);
		ASSERT_EQ(0, post_recv(&n, recv_of(there + APART, LEN, ANY, 2)));
		ASSERT_EQ(1, post(&n, send_of(here, LEN, to, 1)));
		EXPECT_EQ(0, cq_next(&n.cq).error);
		EXPECT_EQ(2, cq_next(&n.rcq).context);
		EXPECT_EQ(0, memcmp(here + APART, before, LEN));
	}
	close(fd);
	close(n.fd);
}

TEST_HARNESS_MAIN
