/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read and write of a peer's memory: what is moved, who may, what is said when it
 * can't be, in which order.
 */
#include "treadle.h"

#define PAGE  4096
#define LARGE (4UL << 20) /* more than is copied within a doorbell */
#define BOTH  (TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE)

/* a works on the memory of b, who does nothing. */
FIXTURE(rma)
{
	struct node a, b;
	__u64 to, key;
	__u32 region;
	char *here, *there;
	struct cntr reads, writes, remote_reads, remote_writes;
};

typedef FIXTURE_DATA(rma) rma;

FIXTURE_SETUP(rma)
{
	struct treadle_ep_enable e;

	node_create(&self->a, (struct options){});
	node_create(&self->b, (struct options){.rcq = 8, .flags = TREADLE_EP_SOURCE});
	cntr_open(&self->reads, self->a.fd);
	cntr_open(&self->writes, self->a.fd);
	cntr_open(&self->remote_reads, self->b.fd);
	cntr_open(&self->remote_writes, self->b.fd);
	e = node_bindings(&self->a);
	e.cntr_read = self->reads.id;
	e.cntr_write = self->writes.id;
	ASSERT_EQ(0, call(self->a.fd, TREADLE_IOC_EP_ENABLE, &e));
	e = node_bindings(&self->b);
	e.flags = TREADLE_EP_SOURCE;
	e.cntr_remote_read = self->remote_reads.id;
	e.cntr_remote_write = self->remote_writes.id;
	ASSERT_EQ(0, call(self->b.fd, TREADLE_IOC_EP_ENABLE, &e));
	self->to = peer(&self->a, self->b.addr);
	self->here = pages(LARGE);
	self->there = pages(LARGE);
	self->key = 77;
	ASSERT_EQ(0, mr(self->b.fd, self->there, LARGE, BOTH, 0, &self->key, &self->region));
}

FIXTURE_TEARDOWN(rma)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	EXPECT_TRUE(cq_empty(&self->b.cq));
	close(self->a.fd);
	close(self->b.fd);
}

/* The error with which a command that was taken completes. */
static int outcome(struct node *n, struct treadle_desc d)
{
	struct treadle_cqe c;

	need(post(n, d) == 1);
	c = cq_next(&n->cq);
	need(c.context == d.context);
	return c.error;
}

static int writes(rma *self, const void *buf, __u64 len, __u64 at)
{
	return outcome(&self->a, write_of(buf, len, self->to, at, self->key, at));
}

static int reads(rma *self, void *buf, __u64 len, __u64 at)
{
	return outcome(&self->a, read_of(buf, len, self->to, at, self->key, at));
}

/* The same command with remote ranges instead of one; buffers too if @iov. */
static int post_ranges(struct node *n, struct treadle_desc d, const struct treadle_iov *iov,
		       const struct treadle_rma_iov *range, int count)
{
	union treadle_slot slot = {0};

	d.flags |= TREADLE_F_EXT;
	d.rma_iov_count = count;
	d.remote_addr = d.remote_key = 0;
	ring_wait(&n->tx, 3);
	ring_put(&n->tx, &d);
	if (d.iov_count > 1) {
		memcpy(slot.iov, iov, d.iov_count * sizeof(*iov));
		ring_put(&n->tx, &slot);
	}
	memcpy(slot.rma, range, count * sizeof(*range));
	if (count > 1)
		ring_put(&n->tx, &slot);
	ring_publish(&n->tx);
	return ring_doorbell(&n->tx);
}

/* --- what is moved --------------------------------------------------------------------- */

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
	/* FI_RMA_EVENT: the target's counters, too. */
	EXPECT_TRUE(cntr_becomes(&self->remote_writes, ARRAY_SIZE(lengths), 0));
	EXPECT_TRUE(cntr_becomes(&self->remote_reads, ARRAY_SIZE(lengths), 0));
	EXPECT_EQ(0, cntr_value(&self->b.rcvd) + cntr_value(&self->a.sent));
}

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
	/* One range by itself, though it is not alone in its slot. */
	ASSERT_EQ(1, post_ranges(&self->a, vector(d, iov, 5), iov, range, 5));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
}

TEST_F(rma, what_is_injected_is_taken_at_once)
{
	/* Pages that have to be faulted in first, so that the write goes on elsewhere. */
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

TEST_F(rma, written_with_data)
{
	__u64 me = peer(&self->b, self->a.addr);
	struct treadle_cqe c;

	for (int i = 0; i < 2; i++) {
		/* By the caller, and by a worker: the bytes are there when it is told. */
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

/* The target does not read: its queue keeps as much again, then the writer is told to wait. */
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

/* --- who may, and where ------------------------------------------------------------------ */

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
	/* Over the end, by one and by all. */
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 2, LARGE - 1));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, LARGE, 1));
	EXPECT_EQ(EREMOTEIO, reads(self, self->here, 1, LARGE));
	EXPECT_EQ(EREMOTEIO, reads(self, self->here, 1, ~0ULL >> 1));
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
	/* A region of one's own is none of the peer's. */
	self->key = 999;
	ASSERT_EQ(0, mr(self->a.fd, self->here, PAGE, BOTH, 0, &self->key, &id));
	EXPECT_EQ(EKEYREJECTED, writes(self, self->here, 8, 0));
	EXPECT_TRUE(same(self->there, LARGE, 1));
	/* All of it failed in the completion and was counted so. */
	EXPECT_TRUE(cntr_becomes(&self->writes, 0, 7));
	EXPECT_EQ(0, cntr_value(&self->remote_writes));
	EXPECT_EQ(2, cntr_value(&self->remote_reads));
}

TEST_F(rma, malformed_commands_are_refused)
{
	const struct treadle_rma_iov range[TREADLE_MAX_RMA_IOV] = {{0, 4, 77}, {8, 4, 77}};
	struct treadle_desc good = write_of(self->here, 8, self->to, 0, self->key, 1), d = good;

	d.data = 1;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d = good;
	d.remote_addr = ~0ULL;
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
	/* Remote ranges mean nothing to a send. */
	d = send_of(self->here, 8, self->to, 1);
	EXPECT_EQ(-EINVAL, post_ranges(&self->a, d, NULL, range, 2));
}

/* A process that owns a region, and perhaps keys; who comes finds its address. */
struct owner {
	uid_t uid;
	const char *ep_key, *mr_key;
	struct treadle_addr addr;
	__u64 key;
	int ready, stop;
	size_t len;
};

static void owns(void *arg)
{
	struct owner *o = arg;
	char *buf = pages(o->len);
	struct treadle_iov iov = {(unsigned long)buf, o->len};
	struct treadle_mr_create c = {.size = sizeof(c),
				      .access = BOTH,
				      .flags = TREADLE_MR_KERNEL_KEY,
				      .iov_count = 1,
				      .iov = (unsigned long)&iov,
				      .auth_key = (unsigned long)o->mr_key,
				      .auth_key_size = o->mr_key ? strlen(o->mr_key) : 0};
	struct node n;

	if (o->uid)
		need(setresgid(o->uid, o->uid, o->uid) == 0 &&
		     setresuid(o->uid, o->uid, o->uid) == 0);
	node_open(&n, (struct options){.auth_key = o->ep_key});
	need(call(n.fd, TREADLE_IOC_MR_CREATE, &c) == 0);
	o->addr = n.addr;
	o->key = c.key;
	raise_to(&o->ready, 1);
	await(&o->stop, 1);
}

TEST(regions_of_another_user)
{
	static const struct {
		const char *mine, *ep_key, *mr_key;
		int error;
	} cases[] = {
		{NULL, NULL, NULL, EACCES},   {"key", "key", NULL, EACCES},
		{"key", NULL, "key", EACCES}, {"key", "key", "kex", EACCES},
		{"key", "key", "key", 0},
	};
	char buf[8] = "1234567";

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct owner *o = shared(sizeof(*o));
		struct node n;
		pid_t pid;
		__u64 to;

		about("case %d", i);
		*o = (struct owner){.uid = 1001,
				    .ep_key = cases[i].ep_key,
				    .mr_key = cases[i].mr_key,
				    .len = PAGE};
		pid = spawn(owns, o);
		await(&o->ready, 1);
		node_open(&n, (struct options){.auth_key = cases[i].mine});
		to = peer(&n, o->addr);
		EXPECT_EQ(cases[i].error, outcome(&n, write_of(buf, 8, to, 0, o->key, 1)));
		EXPECT_EQ(cases[i].error, outcome(&n, read_of(buf, 8, to, 0, o->key, 2)));
		raise_to(&o->stop, 1);
		EXPECT_EQ(0, reap(pid));
		close(n.fd);
	}
}

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

TEST_F(rma, a_region_counts_what_is_written_to_it)
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

/* --- memory that is not there ------------------------------------------------------------ */

TEST_F(rma, unmapped_memory)
{
	ASSERT_EQ(0, munmap(self->there + PAGE, PAGE));
	EXPECT_EQ(EIO, writes(self, self->here, 8, PAGE));
	EXPECT_EQ(EIO, reads(self, self->here, 2 * PAGE, 0));
	EXPECT_EQ(0, writes(self, self->here, PAGE, 0));
	ASSERT_EQ(0, mprotect(self->there, PAGE, PROT_READ));
	EXPECT_EQ(EIO, writes(self, self->here, 8, 0));
	EXPECT_EQ(0, reads(self, self->here, 8, 0));
	/* What is mapped there since then is the owner's, too: nothing was pinned. */
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
	/* And in the middle of something long. */
	EXPECT_EQ(EFAULT, writes(self, self->here, LARGE - 2 * PAGE, 2 * PAGE));
}

TEST_F(rma, what_was_pinned_and_unmapped_is_revoked)
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
	EXPECT_EQ(0, self->there[2 * PAGE]);
	EXPECT_EQ(0, destroy(self->b.fd, id));
}

/* Once DESTROY has returned nothing is written any more, though a write was under way. */
TEST_F(rma, a_closed_region_stays_as_it_is)
{
	struct treadle_cqe c;
	int rejected = 0;

	for (int round = 0; round < 30; round++) {
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
		EXPECT_EQ(ECONNREFUSED, outcome(&n, write_of(buf, 8, to, 0, o->key, 9)));
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

/* --- order --------------------------------------------------------------------------------------- */

TEST_F(rma, what_comes_later_is_done_later)
{
	for (int i = 0; i < 20; i++) {
		__u64 value = i;

		/* The first goes on in a worker; what follows must neither overtake nor miss it. */
		memset(self->here, i, LARGE);
		memset(self->there, 0xff, LARGE);
		ASSERT_EQ(1,
			  post(&self->a, write_of(self->here, LARGE, self->to, 0, self->key, 1)));
		ASSERT_EQ(1,
			  post(&self->a, write_of(&value, 8, self->to, LARGE - 8, self->key, 2)));
		ASSERT_EQ(1, post(&self->a,
				  read_of(self->here, 16, self->to, LARGE - 16, self->key, 3)));
		for (int k = 1; k <= 3; k++) {
			struct treadle_cqe c = cq_next(&self->a.cq);

			EXPECT_EQ(0, c.error);
			EXPECT_EQ(k, c.context);
		}
		EXPECT_EQ(0, memcmp(self->there + LARGE - 8, &value, 8));
		EXPECT_TRUE(all_are(self->here, 8, i));
		EXPECT_EQ(0, memcmp(self->here + 8, &value, 8));
	}
}

/* The message after a write says that it is there. */
TEST_F(rma, a_send_does_not_overtake_a_write)
{
	char *buf = pages(PAGE);

	for (int i = 0; i < 20; i++) {
		memset(self->here, i + 1, LARGE);
		ASSERT_EQ(0, post_recv(&self->b, recv_of(buf, 8, ANY, i)));
		ASSERT_EQ(1,
			  post(&self->a, write_of(self->here, LARGE, self->to, 0, self->key, 1)));
		ASSERT_EQ(1, post(&self->a, send_of("ready", 6, self->to, 2)));
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
		EXPECT_TRUE(all_are(self->there, LARGE, i + 1));
		EXPECT_EQ(1, cq_next(&self->a.cq).context);
		EXPECT_EQ(2, cq_next(&self->a.cq).context);
	}
}

/* A send that nobody receives is under way for as long as it takes. */
static int hold_up(rma *self)
{
	struct treadle_desc d = send_of(self->here, 8, self->to, 1);

	d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	return post(&self->a, d);
}

static struct treadle_desc fenced(struct treadle_desc d)
{
	d.flags |= TREADLE_F_FENCE;
	return d;
}

TEST_F(rma, a_fence_waits_for_all_before_and_holds_up_all_behind)
{
	struct node c;
	char buf[8], *beside = pages(PAGE);
	__u64 elsewhere, key = 1;
	__u32 id;

	ASSERT_EQ(1, hold_up(self));
	/* Without a fence nobody waits for a send that is not received. */
	EXPECT_EQ(0, writes(self, "before", 7, 0));
	ASSERT_EQ(1, post(&self->a, fenced(write_of("fenced", 7, self->to, 0, self->key, 2))));
	ASSERT_EQ(1, post(&self->a, write_of("behind", 7, self->to, 100, self->key, 3)));
	ASSERT_EQ(1, post(&self->a, read_of(self->here, 7, self->to, 0, self->key, 4)));
	/* To other peers nothing waits. */
	node_open(&c, (struct options){});
	ASSERT_EQ(0, mr(c.fd, beside, PAGE, BOTH, 0, &key, &id));
	elsewhere = peer(&self->a, c.addr);
	EXPECT_EQ(0, outcome(&self->a, write_of("there", 6, elsewhere, 0, key, 5)));
	EXPECT_STREQ("there", beside);
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_STREQ("before", self->there);
	EXPECT_STREQ("", self->there + 100);
	ASSERT_LE(0, post_recv(&self->b, recv_of(buf, 8, ANY, 1)));
	for (int i = 1; i <= 4; i++) {
		struct treadle_cqe done = cq_next(&self->a.cq);

		EXPECT_EQ(i, done.context);
		EXPECT_EQ(0, done.error);
	}
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_STREQ("fenced", self->there);
	EXPECT_STREQ("behind", self->there + 100);
	EXPECT_STREQ("fenced", self->here);
	close(c.fd);
}

TEST_F(rma, a_fenced_send_comes_after_a_large_write)
{
	char buf[8];

	memset(self->here, 7, LARGE);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(buf, 8, ANY, 1)));
	ASSERT_EQ(1, post(&self->a, write_of(self->here, LARGE, self->to, 0, self->key, 1)));
	ASSERT_EQ(1, post(&self->a, fenced(send_of("ready", 6, self->to, 2))));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_TRUE(all_are(self->there, LARGE, 7));
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	EXPECT_EQ(2, cq_next(&self->a.cq).context);
}

TEST_F(rma, what_waits_for_its_turn_can_be_canceled)
{
	struct treadle_cqe c;
	char buf[8];

	ASSERT_EQ(1, hold_up(self));
	ASSERT_EQ(1, post(&self->a, fenced(write_of("2", 2, self->to, 0, self->key, 2))));
	ASSERT_EQ(1, post(&self->a, write_of("3", 2, self->to, 10, self->key, 3)));
	ASSERT_EQ(1, post(&self->a, write_of("4", 2, self->to, 20, self->key, 4)));
	ASSERT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 3, 0, NULL));
	c = cq_next(&self->a.cq);
	EXPECT_EQ(3, c.context);
	EXPECT_EQ(ECANCELED, c.error);
	EXPECT_EQ(-ENOENT, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 3, 0, NULL));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	/* Without the fence there is nothing left to wait for. */
	ASSERT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 2, 0, NULL));
	c = cq_next(&self->a.cq);
	EXPECT_EQ(2, c.context);
	EXPECT_EQ(ECANCELED, c.error);
	c = cq_next(&self->a.cq);
	EXPECT_EQ(4, c.context);
	EXPECT_EQ(0, c.error);
	EXPECT_STREQ("", self->there);
	EXPECT_STREQ("", self->there + 10);
	EXPECT_STREQ("4", self->there + 20);
	EXPECT_TRUE(cntr_becomes(&self->writes, 1, 2));
	ASSERT_LE(0, post_recv(&self->b, recv_of(buf, 8, ANY, 1)));
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
}

TEST_F(rma, an_endpoint_is_closed_with_what_waits_in_it)
{
	char buf[8];

	ASSERT_EQ(1, hold_up(self));
	for (int i = 0; i < 20; i++)
		ASSERT_EQ(1, post(&self->a, fenced(write_of("x", 2, self->to, 0, self->key, i))));
	ASSERT_EQ(0, destroy(self->a.fd, self->a.ep));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_EQ(self->a.tx.entries, ring_room(&self->a.tx));
	ASSERT_LE(0, post_recv(&self->b, recv_of(buf, 8, ANY, 1)));
	EXPECT_STREQ("", self->there);
}

/* Unordered they would mix; what is waiting holds the ring, never more than that. */
TEST_F(rma, many_commands_behind_a_slow_one)
{
	for (int round = 0; round < 10; round++) {
		int n = 0;

		ASSERT_EQ(1,
			  post(&self->a, write_of(self->here, LARGE, self->to, 0, self->key, n++)));
		for (; n < 40; n++)
			ASSERT_EQ(1,
				  post(&self->a,
				       n % 3 ? write_of(&n, 4, self->to, 0, self->key, n) :
					       read_of(self->here, 4, self->to, 0, self->key, n)));
		for (int i = 0; i < n; i++) {
			struct treadle_cqe c = cq_next(&self->a.cq);

			ASSERT_EQ(0, c.error);
			ASSERT_EQ(i, c.context);
		}
	}
	EXPECT_EQ(self->a.tx.entries, ring_room(&self->a.tx));
}

/* --- triggered --------------------------------------------------------------------------------- */

TEST_F(rma, armed_commands)
{
	struct treadle_desc d;
	struct cntr go, done;
	char from[8] = "inject";

	cntr_open(&go, self->a.fd);
	cntr_open(&done, self->a.fd);
	/* A chain: what is written is read back, then written elsewhere. */
	strcpy(self->here, "chain");
	d = write_of(self->here, 6, self->to, 0, self->key, 1);
	ASSERT_EQ(1, post(&self->a, then(when(d, &go, 1), &done)));
	d = read_of(self->here + 100, 6, self->to, 0, self->key, 2);
	ASSERT_EQ(1, post(&self->a, then(when(d, &done, 1), &done)));
	d = write_of(self->here + 100, 6, self->to, 50, self->key, 3);
	d.flags |= TREADLE_F_REMOTE_CQ_DATA;
	d.data = 33;
	ASSERT_EQ(1, post(&self->a, then(when(d, &done, 2), &done)));
	d = write_of(from, 7, self->to, 80, self->key, 4);
	d.flags |= TREADLE_F_INJECT;
	ASSERT_EQ(1, post(&self->a, then(when(d, &done, 3), &done)));
	d = write_of(self->here, 6, self->to, 0, 4711, 5);
	d.flags |= TREADLE_F_WORK;
	d.flags &= ~TREADLE_F_COMPLETION;
	ASSERT_EQ(1, post(&self->a, then(when(d, &done, 4), &done)));
	memset(from, 0, 8);
	EXPECT_STREQ("", self->there);
	d = count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0);
	ASSERT_EQ(1, post(&self->a, d));
	for (int i = 1; i <= 4; i++) {
		struct treadle_cqe c = cq_next(&self->a.cq);

		EXPECT_EQ(0, c.error);
		EXPECT_EQ(i, c.context);
	}
	EXPECT_EQ(33, cq_next(&self->b.rcq).data);
	EXPECT_STREQ("chain", self->there + 50);
	EXPECT_STREQ("inject", self->there + 80);
	/* The last had a bad key: only its counter hears of it. */
	EXPECT_TRUE(cntr_becomes(&done, 4, 1));
	EXPECT_EQ(0, cntr_errors(&self->writes));
}

TEST_F(rma, armed_commands_are_canceled)
{
	struct cntr go;

	cntr_open(&go, self->a.fd);
	ASSERT_EQ(1, post(&self->a, when(write_of("x", 2, self->to, 0, self->key, 9), &go, 1)));
	ASSERT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 9, 0, NULL));
	EXPECT_EQ(ECANCELED, cq_next(&self->a.cq).error);
	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0)));
	EXPECT_STREQ("", self->there);
}

/* Fired by the target's own doing: the initiator is not asked, and its pages may be missing. */
TEST_F(rma, a_peer_fires_a_write)
{
	struct treadle_ep_enable e;
	struct cntr done;
	struct node n;
	char buf[8];
	__u64 to;

	node_create(&n, (struct options){});
	e = node_bindings(&n);
	ASSERT_EQ(0, call(n.fd, TREADLE_IOC_EP_ENABLE, &e));
	cntr_open(&done, n.fd);
	to = peer(&n, self->b.addr);
	fill(self->here, LARGE, 5);
	for (int i = 0; i < 10; i++) {
		char *cold = pages(LARGE);

		fill(cold, PAGE, i);
		ASSERT_EQ(0, madvise(self->there, LARGE, MADV_DONTNEED));
		ASSERT_EQ(0, post_recv(&n, recv_of(buf, 8, ANY, i)));
		ASSERT_EQ(1, post(&n, then(when(write_of(cold, LARGE, to, 0, self->key, i), &n.rcvd,
						i + 1),
					   &done)));
		EXPECT_EQ(0, outcome(&self->a, send_of("go", 3, peer(&self->a, n.addr), 1)));
		EXPECT_EQ(0, cq_next(&n.rcq).error);
		EXPECT_EQ(0, cq_next(&n.cq).error);
		EXPECT_TRUE(cntr_becomes(&done, i + 1, 0));
		EXPECT_TRUE(same(self->there, PAGE, i));
		EXPECT_TRUE(all_are(self->there + PAGE, LARGE - PAGE, 0));
		munmap(cold, LARGE);
	}
	close(n.fd);
}

TEST_HARNESS_MAIN
