/* SPDX-License-Identifier: GPL-2.0 */
/* Messages, RMA, atomics and triggers between two nodes, and the rights of processes. */
#include "remote.h"

static const size_t sizes[] = {0,     1,     8,	    512,   513,	    4096,    4097, 16000,
			       16384, 16385, 65536, 99999, 1 << 20, 1234567, LARGE};

/* --- messages ------------------------------------------------------------------------------ */

TEST_F(remote, messages_of_each_size_meet_receives)
{
	for (int i = 0; i < 2 * ARRAY_SIZE(sizes); i++) {
		size_t len = sizes[i / 2];
		struct treadle_desc r = recv_of(self->dst, LARGE, ANY, i);
		struct treadle_cqe c;

		about("%zu bytes, %s", len, i % 2 ? "receive first" : "message first");
		memset(self->dst, 0x55, LARGE);
		fill(self->src, len, i);
		if (i % 2)
			ASSERT_LE(0, post_recv(&self->b, r));
		ASSERT_EQ(1, post(&self->a, send_of(self->src, len, self->to, i)));
		if (!(i % 2)) {
			usleep(3000);
			ASSERT_LE(0, post_recv(&self->b, r));
		}
		c = cq_next(&self->b.rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(i, c.context);
		EXPECT_EQ(len, c.len);
		EXPECT_EQ(self->back, c.src);
		EXPECT_TRUE(same(self->dst, len, i));
		EXPECT_TRUE(all_are(self->dst + len, LARGE - len, 0x55));
		c = cq_next(&self->a.cq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(i, c.context);
	}
}

TEST_F(remote, tags_and_data_arrive)
{
	struct treadle_desc d = tsend_of(self->src, 8, self->to, 77, 1);
	struct treadle_cqe c;

	fill(self->src, 16, 1);
	d.flags |= TREADLE_F_REMOTE_CQ_DATA;
	d.data = 0x123456789abcdef0;
	ASSERT_EQ(1, post(&self->a, d));
	ASSERT_EQ(1, post(&self->a, tsend_of(self->src + 8, 8, self->to, 78, 2)));
	ASSERT_LE(0, post_recv(&self->b, trecv_of(self->dst + 8, 8, self->back, 78, 0, 78)));
	ASSERT_LE(0, post_recv(&self->b, trecv_of(self->dst, 8, ANY, 76, 1, 77)));
	for (int i = 0; i < 2; i++) {
		c = cq_next(&self->b.rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(c.context, c.tag);
		EXPECT_EQ(c.tag == 77 ? 0x123456789abcdef0 : 0, c.data);
		EXPECT_EQ(self->back, c.src);
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	EXPECT_TRUE(same(self->dst, 16, 1));
}

/* The buffer is used again at once. */
TEST_F(remote, injected_messages_keep_their_bytes_and_their_order)
{
	for (__u64 i = 0; i < 1000; i++) {
		struct treadle_desc d = send_of(self->src, i % 100, self->to, i);

		d.flags |= TREADLE_F_INJECT | TREADLE_F_REMOTE_CQ_DATA;
		d.data = i;
		fill(self->src, 100, i);
		ASSERT_EQ(1, post(&self->a, d));
		memset(self->src, 0, 100);
		if (i % 7 == 0)
			EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	for (int i = 0; i < 1000 - 143; i++)
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	for (__u64 i = 0; i < 1000; i++) {
		struct treadle_cqe c;

		ASSERT_LE(0, post_recv(&self->b, recv_of(self->dst, 100, ANY, i)));
		c = cq_next(&self->b.rcq);
		ASSERT_EQ(0, c.error);
		ASSERT_EQ(i, c.data);
		ASSERT_EQ(i % 100, c.len);
		ASSERT_TRUE(same(self->dst, c.len, i));
	}
}

TEST_F(remote, a_message_that_is_too_long_is_cut)
{
	for (int i = 0; i < 2; i++) {
		size_t len = i ? 1 << 20 : 100;
		struct treadle_cqe c;

		fill(self->src, len, i);
		ASSERT_EQ(1, post(&self->a, send_of(self->src, len, self->to, i)));
		ASSERT_LE(0, post_recv(&self->b, recv_of(self->dst, len - 10, ANY, i)));
		c = cq_next(&self->b.rcq);
		EXPECT_EQ(TREADLE_ETRUNC, c.error);
		EXPECT_EQ(len - 10, c.len);
		EXPECT_EQ(10, c.olen);
		EXPECT_TRUE(same(self->dst, len - 10, i));
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
}

/* Those that do not fit a frame are fetched if a receive waits. The first one may be dropped. */
TEST_F(remote, datagrams_of_each_size_meet_receives)
{
	static const size_t lengths[] = {0, 1, 15872, 15873, 40000, TREADLE_MAX_DGRAM};
	struct node a, b;
	struct treadle_cqe c;
	__u64 to;

	node_of(1, &a, (struct options){.type = TREADLE_EP_DGRAM});
	node_of(2, &b, (struct options){.type = TREADLE_EP_DGRAM});
	to = peer(&a, b.addr);
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 0, self->to, 1))); /* connects */
	ASSERT_LE(0, post_recv(&self->b, recv_of(self->dst, 0, ANY, 1)));
	ASSERT_EQ(0, cq_next(&self->a.cq).error);
	ASSERT_EQ(0, cq_next(&self->b.rcq).error);
	for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
		about("%zu bytes", lengths[i]);
		fill(self->src, lengths[i], i);
		ASSERT_LE(0, post_recv(&b, recv_of(self->dst, TREADLE_MAX_DGRAM, ANY, i)));
		ASSERT_EQ(1, post(&a, send_of(self->src, lengths[i], to, i)));
		EXPECT_EQ(0, cq_next(&a.cq).error);
		c = cq_next(&b.rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(i, c.context);
		EXPECT_EQ(lengths[i], c.len);
		EXPECT_TRUE(same(self->dst, lengths[i], i));
	}
	/* without a receive it is dropped; a later one is not held up */
	ASSERT_EQ(1, post(&a, send_of(self->src, 40000, to, 1)));
	EXPECT_EQ(0, cq_next(&a.cq).error);
	ASSERT_LE(0, post_recv(&b, recv_of(self->dst, TREADLE_MAX_DGRAM, ANY, 2)));
	ASSERT_EQ(1, post(&a, send_of(self->src, 30000, to, 2)));
	EXPECT_EQ(0, cq_next(&a.cq).error);
	c = cq_next(&b.rcq);
	EXPECT_EQ(2, c.context);
	EXPECT_EQ(30000, c.len);
	/* bytes that cannot be read are the sender's error, and the receive is put back */
	ASSERT_LE(0, post_recv(&b, recv_of(self->dst, TREADLE_MAX_DGRAM, ANY, 3)));
	ASSERT_EQ(1, post(&a, send_of((char *)4096, 20000, to, 3)));
	EXPECT_EQ(EFAULT, cq_next(&a.cq).error);
	for (int i = 0; i < 100 && cq_empty(&b.rcq); i++) { /* dropped until it is back */
		ASSERT_EQ(1, post(&a, send_of(self->src, 20000, to, 4)));
		EXPECT_EQ(0, cq_next(&a.cq).error);
		usleep(10000);
	}
	EXPECT_EQ(3, cq_next(&b.rcq).context);
	close(a.fd);
	close(b.fd);
}

TEST_F(remote, no_endpoint_has_the_address)
{
	struct treadle_addr addr = self->b.addr;

	addr.port = htons(1);
	EXPECT_EQ(ECONNREFUSED, outcome(&self->a, send_of(self->src, 8, peer(&self->a, addr), 1)));
	EXPECT_EQ(ECONNREFUSED,
		  outcome(&self->a, send_of(self->src, LARGE, peer(&self->a, addr), 2)));
}

/* --- RMA and atomics ----------------------------------------------------------------------- */

TEST_F(remote, writes_and_reads_of_each_size)
{
	for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t len = sizes[i] < LARGE ? sizes[i] : LARGE - 3;

		about("%zu bytes", len);
		memset(self->dst, 0x55, LARGE);
		fill(self->src, len, i);
		EXPECT_EQ(0,
			  outcome(&self->a, write_of(self->src, len, self->to, 3, self->key, i)));
		EXPECT_TRUE(same(self->dst + 3, len, i));
		EXPECT_TRUE(all_are(self->dst + 3 + len, LARGE - 3 - len, 0x55));
		EXPECT_TRUE(cntr_becomes(&self->written, i + 1, 0));
		memset(self->src, 0, len);
		EXPECT_EQ(0, outcome(&self->a, read_of(self->src, len, self->to, 3, self->key, i)));
		EXPECT_TRUE(same(self->src, len, i));
	}
}

TEST_F(remote, the_target_judges_keys_ranges_and_rights)
{
	__u64 readable = 0;
	__u32 id;

	ASSERT_EQ(0, mr(self->b.fd, self->dst, 4096, TREADLE_ACCESS_REMOTE_READ,
			TREADLE_MR_KERNEL_KEY, &readable, &id));
	for (int i = 0; i < 2; i++) {
		size_t len = i ? 1 << 20 : 8;

		about("%zu bytes", len);
		EXPECT_EQ(EKEYREJECTED,
			  outcome(&self->a, write_of(self->src, len, self->to, 0, 12345, 1)));
		EXPECT_EQ(EKEYREJECTED,
			  outcome(&self->a, read_of(self->src, len, self->to, 0, 12345, 2)));
		EXPECT_EQ(EREMOTEIO, outcome(&self->a, write_of(self->src, len, self->to, LARGE - 4,
								self->key, 3)));
		EXPECT_EQ(EREMOTEIO, outcome(&self->a, read_of(self->src, len, self->to, LARGE - 4,
							       self->key, 4)));
		EXPECT_EQ(EACCES,
			  outcome(&self->a, write_of(self->src, len, self->to, 0, readable, 5)));
	}
}

TEST_F(remote, atomics_change_and_fetch)
{
	__u64 *word = (__u64 *)self->dst, *operand = (__u64 *)self->src;
	struct treadle_desc d = write_of(operand, 8, self->to, 0, self->key, 1);

	*word = 100;
	*operand = 5;
	d.flags |= TREADLE_F_EXT;
	d.datatype = TREADLE_UINT64;
	d.atomic_op = TREADLE_ATOMIC_SUM;
	d.opcode = TREADLE_OP_ATOMIC;
	EXPECT_EQ(0, outcome(&self->a, d));
	EXPECT_EQ(105, *word);
	d.opcode = TREADLE_OP_FETCH;
	d.result = (unsigned long)&operand[1];
	EXPECT_EQ(0, outcome(&self->a, d));
	EXPECT_EQ(110, *word);
	EXPECT_EQ(105, operand[1]);
	d.opcode = TREADLE_OP_COMPARE;
	d.atomic_op = TREADLE_ATOMIC_CSWAP;
	d.compare = (unsigned long)&operand[2];
	for (int i = 0; i < 2; i++) {
		operand[2] = 109 + i;
		EXPECT_EQ(0, outcome(&self->a, d));
		EXPECT_EQ(i ? 5 : 110, *word);
		EXPECT_EQ(110, operand[1]);
	}
	d.remote_key = 12345;
	EXPECT_EQ(EKEYREJECTED, outcome(&self->a, d));
}

/* --- triggers ------------------------------------------------------------------------------ */

struct target {
	struct treadle_addr addr, back;
	__u64 key;
	int ready;
};

/* Answers each write with a message, although it does nothing itself. */
static void answers(void *arg)
{
	struct target *t = arg;
	char *buf = pages(4096);
	struct treadle_ep_enable e;
	struct cntr written;
	struct node n;
	__u32 region;
	__u64 to;

	enter(2);
	node_create(&n, (struct options){.addr = at(2)});
	cntr_open(&written, n.fd);
	e = node_bindings(&n);
	e.cntr_remote_write = written.id;
	need(call(n.fd, TREADLE_IOC_EP_ENABLE, &e) == 0);
	to = peer(&n, t->back);
	need(mr(n.fd, buf, 4096, TREADLE_ACCESS_REMOTE_WRITE, TREADLE_MR_KERNEL_KEY, &t->key,
		&region) == 0);
	for (int i = 1; i <= 100; i++)
		need(post(&n, when(send_of(buf, 8, to, i), &written, i)) == 1);
	t->addr = n.addr;
	raise_to(&t->ready, 1);
	for (;;)
		pause();
}

TEST_F(remote, a_stopped_target_answers_by_its_trigger)
{
	struct target *t = shared(sizeof(*t));
	struct node *a = &self->a;
	pid_t pid;
	__u64 to;

	t->back = a->addr;
	pid = spawn(answers, t);
	await(&t->ready, 1);
	to = peer(a, t->addr);
	ASSERT_EQ(0, kill(pid, SIGSTOP));
	for (__u64 i = 1; i <= 100; i++) {
		struct treadle_cqe c;

		ASSERT_LE(0, post_recv(a, recv_of(self->dst, 8, ANY, i)));
		*(__u64 *)self->src = i;
		EXPECT_EQ(0, outcome(a, write_of(self->src, 8, to, 0, t->key, i)));
		c = cq_next(&a->rcq);
		ASSERT_EQ(0, c.error);
		EXPECT_EQ(i, c.context);
		EXPECT_EQ(i, *(__u64 *)self->dst);
	}
	ASSERT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(-SIGKILL, reap(pid));
}

/* --- rights -------------------------------------------------------------------------------- */

struct attempt {
	enum cred from, to;
	const char *key, *their_key;
	int error, trusted;
};

static void receives_there(void *arg)
{
	enter(2);
	receives(arg);
}

static void sends(void *arg)
{
	const struct attempt *a = ((void **)arg)[0];
	struct receiver *r = ((void **)arg)[1];
	struct node n;
	int error;

	enter(1);
	become(a->from);
	node_open(&n, (struct options){.auth_key = a->key, .addr = at(1)});
	peer(&n, r->addr);
	error = outcome(&n, send_of(pages(8), 8, 0, 1));
	if (error != a->error)
		note("error %d, expected %d", error, a->error);
	need(error == a->error);
}

static void attempts(bool trusted)
{
	static const struct attempt table[] = {
		{ROOT, ROOT, NULL, NULL, EACCES, 0},
		{ALICE, ALICE, NULL, NULL, EACCES, 0},
		{ALICE, BOB, NULL, NULL, EACCES, EACCES},
		{ALICE, BOB, "key", NULL, EACCES, EACCES},
		{ALICE, BOB, NULL, "key", EACCES, EACCES},
		{ALICE, BOB, "key", "kez", EACCES, EACCES},
		{ALICE, BOB, "key", "key", 0, 0},
		{ROOT, ALICE, "key", "key", 0, 0},
		{ROOT, ALICE, NULL, NULL, EACCES, EACCES},
	};

	for (int i = 0; i < ARRAY_SIZE(table); i++) {
		struct receiver *r = shared(sizeof(*r));
		struct attempt a = table[i];
		pid_t pid;

		about("attempt %d", i);
		if (trusted)
			a.error = a.trusted;
		r->cred = a.to;
		r->key = a.their_key;
		r->addr = at(2);
		pid = spawn(receives_there, r);
		await(&r->ready, 1);
		need(reap(spawn(sends, (void *[]){&a, r})) == 0);
		while (!a.error && __atomic_load_n(&r->got, __ATOMIC_ACQUIRE) == 0)
			usleep(1000);
		if (a.error)
			usleep(5000);
		raise_to(&r->stop, 1);
		need(reap(pid) == 0);
		need(r->got == !a.error);
	}
}

TEST(a_user_is_believed_only_if_root_says_so)
{
	join("secret=s", "secret=s");
	attempts(false);
	part();
	join("secret=s trust_uids", "secret=s trust_uids");
	attempts(true);
	part();
}

TEST_HARNESS_MAIN
