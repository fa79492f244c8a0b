/* SPDX-License-Identifier: GPL-2.0 */
/* The order of reads, writes and sends; fences; triggered reads and writes. */
#include "rma.h"

/* --- order ------------------------------------------------------------------------------------ */

TEST_F(rma, later_commands_are_done_later)
{
	for (int i = 0; i < 20; i++) {
		__u64 value = i;

		/*
		 * A worker does the first one. The next must neither overtake it nor miss its
		 * effect.
		 */
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

/* The message after a write comes after its bytes. */
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

/* A send without a receive stays under way. */
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

// conformance: fi_rma(3): FI_FENCE: the operation and all behind it wait for all before it, to ...
TEST_F(rma, a_fence_waits_for_all_before_and_holds_up_all_behind)
{
	struct node c;
	char buf[8], *beside = pages(PAGE);
	__u64 elsewhere, key = 1;
	__u32 id;

	ASSERT_EQ(1, hold_up(self));
	/* Without a fence no command waits for a send that is not received. */
	EXPECT_EQ(0, writes(self, "before", 7, 0));
	ASSERT_EQ(1, post(&self->a, fenced(write_of("fenced", 7, self->to, 0, self->key, 2))));
	ASSERT_EQ(1, post(&self->a, write_of("behind", 7, self->to, 100, self->key, 3)));
	ASSERT_EQ(1, post(&self->a, read_of(self->here, 7, self->to, 0, self->key, 4)));
	/* Commands for other peers don't wait. */
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

TEST_F(rma, a_command_that_waits_for_its_turn_can_be_canceled)
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

TEST_F(rma, an_endpoint_is_closed_with_waiting_commands)
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

/*
 * Armed commands take no slots: more of them wait, for more peers, than one pass looks at. All end
 * with the endpoint.
 */
TEST_F(rma, an_endpoint_is_closed_with_many_commands_for_many_peers)
{
	enum { PEERS = 100, EACH = 3 };
	struct treadle_desc d = send_of(self->here, 8, 0, 1);
	struct cntr ended;
	struct node c;

	node_open(&c, (struct options){});
	cntr_open(&ended, self->a.fd);
	d.flags = TREADLE_F_DELIVERY_COMPLETE | TREADLE_F_WORK;
	for (int i = 0; i < PEERS; i++) {
		struct treadle_ep_enable e = node_bindings(&c);
		struct treadle_addr addr = loopback(0);

		/* all of them receive from the same ring */
		e.tx = e.tx_cq = e.cntr_send = 0;
		ASSERT_EQ(0, ep_create(c.fd, &addr, NULL, &e.ep));
		ASSERT_EQ(0, call(c.fd, TREADLE_IOC_EP_ENABLE, &e));
		d.peer = peer(&self->a, addr);
		for (int k = 0; k <= EACH; k++)
			ASSERT_EQ(1,
				  post(&self->a, then(when(k ? fenced(d) : d, &ended, 0), &ended)));
	}
	EXPECT_EQ(-EBUSY, destroy(self->a.fd, ended.id));
	ASSERT_EQ(0, destroy(self->a.fd, self->a.ep));
	EXPECT_EQ(0, destroy(self->a.fd, ended.id));
	close(c.fd);
}

/* Out of order they would mix. Waiting commands keep their slots, and no more than those. */
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

/* --- triggered -------------------------------------------------------------------------------- */

TEST_F(rma, armed_commands)
{
	struct treadle_desc d;
	struct cntr go, done;
	char from[8] = "inject";

	cntr_open(&go, self->a.fd);
	cntr_open(&done, self->a.fd);
	/* A chain: the written bytes are read back, then written elsewhere. */
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
	/* The last one had a bad key, which is only counted. */
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

/*
 * The target's own operation fires the write: the initiator need not run, and its pages may be
 * missing.
 */
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
