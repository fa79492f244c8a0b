/* SPDX-License-Identifier: GPL-2.0 */
/* The end of a connection: what is reported to which end, in which order, and what ends with it. */
#include "connection.h"
#include "slow.h"

// conformance: ioctl.h: EISCONN: the endpoint was connected once
// conformance: ioctl.h: ESHUTDOWN: its connection is closed
TEST(shutdown_ends_everything_in_order)
{
	char *big = pages(1 << 20), small[64], in[64];
	struct treadle_cqe c;
	struct pair p;

	pair_open(&p);
	/*
	 * Two large messages wait, one in each direction; a small one was copied; a receive waits.
	 */
	fill(small, 64, 1);
	ASSERT_EQ(1, post(&p.client, send_of(big, 1 << 20, 0, 11)));
	ASSERT_EQ(1, post(&p.server, send_of(big, 1 << 20, 0, 12)));
	ASSERT_EQ(1, post(&p.client, tsend_of(small, 64, 0, 5, 13)));
	EXPECT_EQ(13, cq_next(&p.client.cq).context);
	ASSERT_EQ(0, post_recv(&p.server, trecv_of(in, 64, ANY, 6, 0, 14)));
	ASSERT_EQ(0, post_recv(&p.client, trecv_of(in, 64, ANY, 6, 0, 15)));

	ASSERT_EQ(0, hang_up(p.client.fd, p.client.ep));
	/* The caller's own operations are canceled before it returns. */
	ASSERT_TRUE(cq_poll(&p.client.cq, &c));
	EXPECT_EQ(11, c.context);
	EXPECT_EQ(ECANCELED, c.error);
	ASSERT_TRUE(cq_poll(&p.client.rcq, &c));
	EXPECT_EQ(15, c.context);
	EXPECT_EQ(ECANCELED, c.error);
	event_is(p.ceq, TREADLE_EVENT_SHUTDOWN, CLIENT);
	/* The event comes last. */
	event_is(p.l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
	ASSERT_TRUE(cq_poll(&p.server.cq, &c));
	EXPECT_EQ(12, c.context);
	EXPECT_EQ(ECONNRESET, c.error);
	ASSERT_TRUE(cq_poll(&p.server.rcq, &c));
	EXPECT_EQ(14, c.context);
	EXPECT_EQ(ECANCELED, c.error);

	EXPECT_EQ(-ESHUTDOWN, post(&p.client, send_of(small, 64, 0, 21)));
	EXPECT_EQ(-ESHUTDOWN, post(&p.server, send_of(small, 64, 0, 22)));
	/* A message that was sent can be received. After that the connection has none. */
	ASSERT_EQ(0, post_recv(&p.server, trecv_of(in, 64, ANY, 5, 0, 23)));
	c = cq_next(&p.server.rcq);
	EXPECT_EQ(23, c.context);
	EXPECT_EQ(0, c.error);
	EXPECT_TRUE(same(in, 64, 1));
	for (int i = 0; i < 100; i++) {
		ASSERT_EQ(0, post_recv(&p.server, recv_of(in, 64, ANY, 24)));
		c = cq_next(&p.server.rcq);
		EXPECT_EQ(24, c.context);
		EXPECT_EQ(ECANCELED, c.error);
	}
	/* Another call, on either side, changes nothing. */
	EXPECT_EQ(0, hang_up(p.client.fd, p.client.ep));
	EXPECT_EQ(0, hang_up(p.server.fd, p.server.ep));
	EXPECT_TRUE(eq_empty(p.ceq));
	EXPECT_TRUE(eq_empty(p.l.eq));
	EXPECT_EQ(-EISCONN, connect_to(p.client.fd, p.client.ep, p.l.addr, NULL, 0));
}

// conformance: ioctl.h: ESHUTDOWN: its connection is closed
// conformance: ioctl.h: ECONNRESET: the peer closed its endpoint
TEST(closing_ends_it_too)
{
	char *big = pages(1 << 20), in[64];
	struct treadle_cqe c;
	struct pair p;

	for (int who = 0; who < 2; who++) {
		struct node *gone, *left;
		__u64 of;
		int eq;

		pair_open(&p);
		gone = who ? &p.server : &p.client;
		left = who ? &p.client : &p.server;
		of = who ? CLIENT : SERVER;
		eq = who ? p.ceq : p.l.eq;
		ASSERT_EQ(1, post(gone, send_of(big, 1 << 20, 0, 11)));
		ASSERT_EQ(1, post(left, send_of(big, 1 << 20, 0, 12)));
		ASSERT_EQ(0, post_recv(left, trecv_of(in, 64, ANY, 6, 0, 14)));
		ASSERT_EQ(0, destroy(gone->fd, gone->ep));
		event_is(eq, TREADLE_EVENT_SHUTDOWN, of);
		c = cq_next(&left->cq);
		EXPECT_EQ(12, c.context);
		EXPECT_EQ(ECONNRESET, c.error);
		c = cq_next(&left->rcq);
		EXPECT_EQ(14, c.context);
		EXPECT_EQ(ECANCELED, c.error);
		EXPECT_EQ(-ESHUTDOWN, post(left, send_of(in, 64, 0, 22)));
		/* The message that waited is not delivered: its sender took it back. */
		ASSERT_EQ(0, post_recv(left, recv_of(in, 64, ANY, 15)));
		EXPECT_EQ(ECANCELED, cq_next(&left->rcq).error);
		EXPECT_TRUE(cq_empty(&gone->cq));
		EXPECT_TRUE(eq_empty(p.ceq));
		EXPECT_TRUE(eq_empty(p.l.eq));
	}
}

/* An event is never about an endpoint that its reader has closed. */
TEST(events_go_with_their_endpoint)
{
	struct pair p;

	pair_open(&p);
	ASSERT_EQ(0, hang_up(p.client.fd, p.client.ep));
	ASSERT_EQ(0, destroy(p.client.fd, p.client.ep));
	EXPECT_TRUE(eq_empty(p.ceq));
	event_is(p.l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);

	pair_ask(&p);
	ASSERT_EQ(0, reject_with(p.l.fd, p.l.ep, p.request, NULL, 0));
	ASSERT_EQ(0, destroy(p.client.fd, p.client.ep));
	EXPECT_TRUE(eq_empty(p.ceq));
}

/*
 * Armed operations end at both ends. Deferred work is not the endpoint's, and fails when it fires.
 */
TEST(armed_commands_end_with_the_connection)
{
	char in[8], out[8] = {};

	for (int who = 0; who < 2; who++) {
		struct node *end[2];
		struct cntr go[2], after[2];
		struct treadle_desc work;
		struct treadle_cqe cqe;
		struct pair p;

		pair_open(&p);
		end[who] = &p.client;
		end[!who] = &p.server;
		for (int i = 0; i < 2; i++) {
			struct node *n = end[i];

			cntr_open(&go[i], n->fd);
			cntr_open(&after[i], n->fd);
			ASSERT_EQ(1, post(n, when(send_of(out, 8, 0, 1), &go[i], 1)));
			ASSERT_EQ(1, post(n, when(trecv_of(in, 8, ANY, 1, 0, 2), &go[i], 1)));
			ASSERT_EQ(1, post(n, when(count_of(TREADLE_OP_CNTR_ADD, &n->sent, 1, 3),
						  &go[i], 1)));
			work = when(then(send_of(out, 8, 0, 4), &after[i]), &after[i], 1);
			work.flags = (work.flags | TREADLE_F_WORK) & ~TREADLE_F_COMPLETION;
			ASSERT_EQ(1, post(n, work));
		}
		ASSERT_EQ(0, hang_up(end[0]->fd, end[0]->ep));
		for (int i = 0; i < 2; i++) {
			struct node *n = end[i];

			/*
			 * The caller's completions are written before it returns, the peer's before
			 * its event.
			 */
			if (i)
				event_is(who ? p.ceq : p.l.eq, TREADLE_EVENT_SHUTDOWN,
					 who ? CLIENT : SERVER);
			ASSERT_TRUE(cq_poll(&n->cq, &cqe));
			EXPECT_EQ(1, cqe.context);
			EXPECT_EQ(i ? ECONNRESET : ECANCELED, cqe.error);
			ASSERT_TRUE(cq_poll(&n->rcq, &cqe));
			EXPECT_EQ(2, cqe.context);
			EXPECT_EQ(ECANCELED, cqe.error);
			/* an armed command that is no message stays */
			EXPECT_EQ(-EBUSY, destroy(n->fd, go[i].id));
			EXPECT_EQ(0, cntr_value(&n->sent));
			ASSERT_EQ(1, post(n, count_of(TREADLE_OP_CNTR_ADD, &go[i], 1, 0)));
			EXPECT_EQ(0, destroy(n->fd, go[i].id));
			ASSERT_EQ(1, post(n, count_of(TREADLE_OP_CNTR_ADD, &after[i], 1, 0)));
			EXPECT_EQ(1, cntr_errors(&after[i]));
			EXPECT_TRUE(cq_empty(&n->cq));
		}
	}
}

/* Nor does it wait behind an operation for which a worker of the peer waits for a page. */
TEST(commands_fired_after_the_end_fail_at_once)
{
	char *at = pages(PAGE), in[8], out[8] = {};
	int slow = slow_pages(at, PAGE);
	struct treadle_desc work;
	struct treadle_cqe cqe;
	struct cntr after;
	struct pair p;
	__u64 key = 1;
	__u32 id;

	pair_open(&p);
	ASSERT_EQ(0, mr(p.server.fd, at, 4096, TREADLE_ACCESS_REMOTE_READ, 0, &key, &id));
	cntr_open(&after, p.client.fd);
	work = when(then(send_of(out, 8, 0, 2), &after), &after, 1);
	work.flags = (work.flags | TREADLE_F_WORK) & ~TREADLE_F_COMPLETION;
	ASSERT_EQ(1, post(&p.client, work));
	ASSERT_EQ(1, post(&p.client, read_of(in, 8, 0, 0, key, 1)));
	EXPECT_EQ((unsigned long)at, page_asked_for(slow));
	ASSERT_EQ(0, hang_up(p.client.fd, p.client.ep));
	ASSERT_EQ(1, post(&p.client, count_of(TREADLE_OP_CNTR_ADD, &after, 1, 0)));
	EXPECT_EQ(1, cntr_errors(&after));
	EXPECT_TRUE(cq_empty(&p.client.cq));
	put_page_at(slow, (unsigned long)at, 1);
	cqe = cq_next(&p.client.cq);
	EXPECT_EQ(1, cqe.context);
	EXPECT_EQ(ECONNRESET, cqe.error);
}

enum { ARMED = 60 };

struct end_of {
	struct node *n;
	int *go;
	int told;
};

static void *hangs_up(void *arg)
{
	struct end_of *e = arg;
	struct treadle_cqe cqe;

	await(e->go, 1);
	need(hang_up(e->n->fd, e->n->ep) == 0);
	while (cq_poll(&e->n->cq, &cqe))
		e->told += cqe.error == ECANCELED || cqe.error == ECONNRESET;
	return NULL;
}

/* Deferred receives that another process fires: their own process's worker cancels them. */
TEST(receives_that_others_fire_after_the_end_are_canceled)
{
	struct treadle_cqe c;
	struct node a, x;
	char in[8];
	struct pair p;

	pair_open(&p);
	node_open(&a, (struct options){0});
	node_open(&x, (struct options){.context = p.server.fd});
	for (int i = 1; i <= 3; i++) {
		struct treadle_desc d = when(recv_of(in, 8, ANY, 10 + i), &x.rcvd, i);

		d.flags |= TREADLE_F_WORK;
		ASSERT_EQ(1, post(&p.server, d));
		ASSERT_EQ(0, post_recv(&x, recv_of(in, 8, ANY, i)));
	}
	ASSERT_EQ(0, hang_up(p.client.fd, p.client.ep));
	event_is(p.l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
	EXPECT_TRUE(cq_empty(&p.server.rcq));
	for (int i = 1; i <= 3; i++) {
		ASSERT_EQ(1, post(&a, send_of("1234567", 8, peer(&a, x.addr), i)));
		EXPECT_EQ(i, cq_next(&x.rcq).context);
		c = cq_next(&p.server.rcq);
		EXPECT_EQ(10 + i, c.context);
		EXPECT_EQ(ECANCELED, c.error);
	}
}

/* All cancellations are reported when SHUTDOWN returns, whichever end has canceled. */
TEST(both_ends_hang_up_at_once)
{
	for (int round = 0; round < 50; round++) {
		struct end_of ends[2] = {};
		pthread_t threads[2];
		struct cntr go[2];
		struct pair p;
		char out[8] = {};
		int start = 0;

		pair_open(&p);
		ends[0].n = &p.client;
		ends[1].n = &p.server;
		for (int i = 0; i < 2; i++) {
			cntr_open(&go[i], ends[i].n->fd);
			for (int k = 0; k < ARMED; k++)
				ASSERT_EQ(1,
					  post(ends[i].n, when(send_of(out, 8, 0, k), &go[i], 1)));
			ends[i].go = &start;
			threads[i] = thread(hangs_up, &ends[i]);
		}
		raise_to(&start, 1);
		for (int i = 0; i < 2; i++) {
			pthread_join(threads[i], NULL);
			EXPECT_EQ(ARMED, ends[i].told);
			EXPECT_EQ(0, destroy(ends[i].n->fd, go[i].id));
		}
		event_is(p.ceq, TREADLE_EVENT_SHUTDOWN, CLIENT);
		event_is(p.l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
		node_close(&p.client);
		node_close(&p.server);
		close(p.ceq);
		close(p.ceq_fd);
		listener_close(&p.l);
	}
}

TEST_HARNESS_MAIN
