/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Receives that got no message, as the memory of its sender went away during the copy. They match
 * again as if the message had never come, whatever has ended since.
 */
#include "connection.h"
#include "three.h"

/* A message that has met its receive. Its sender waits for a page of it. */
struct attempt {
	struct node *from;
	__u64 to;
	char *slow;
	__u64 len;
	int fd;
	pthread_t t;
};

static void *sends(void *arg)
{
	struct attempt *a = arg;

	need(post(a->from, send_of(a->slow, a->len, a->to, 9)) == 1);
	return NULL;
}

static void begin(struct attempt *a, struct node *from, __u64 to)
{
	*a = (struct attempt){.from = from, .to = to, .slow = pages(PAGE), .len = PAGE};
	a->fd = slow_pages(a->slow, PAGE);
	a->t = thread(sends, a);
	page_asked_for(a->fd);
}

static void fail(struct attempt *a)
{
	take_pages_away(a->fd, a->slow, PAGE);
	pthread_join(a->t, NULL);
	need(cq_next(&a->from->cq).error == EFAULT);
}

FIXTURE(put_back)
{
	struct three t;
};

FIXTURE_SETUP(put_back)
{
	three_open(&self->t);
}

FIXTURE_TEARDOWN(put_back) {}

TEST_F(put_back, the_receive_takes_the_next_message)
{
	struct treadle_cqe c;
	struct attempt a;

	ASSERT_EQ(0, post_recv(&self->t.first, recv_of(self->t.buf, PAGE, ANY, 5)));
	begin(&a, &self->t.from, self->t.to_first);
	fail(&a);
	ASSERT_EQ(1, post(&self->t.from, send_of("abc", 4, self->t.to_second, 1)));
	ASSERT_TRUE(comes(&self->t.second, &c));
	EXPECT_EQ(5, c.context);
	EXPECT_EQ(0, memcmp(self->t.buf, "abc", 4));
}

/* A receive of a ring stays there, whichever endpoint of the ring has gone. */
TEST_F(put_back, the_receive_outlives_the_messages_endpoint)
{
	struct treadle_cqe c;
	struct attempt a;

	ASSERT_EQ(0, post_recv(&self->t.first, recv_of(self->t.buf, PAGE, ANY, 5)));
	begin(&a, &self->t.from, self->t.to_first);
	ASSERT_EQ(0, destroy(self->t.first.fd, self->t.first.ep));
	fail(&a);
	ASSERT_EQ(1, post(&self->t.from, send_of("abc", 4, self->t.to_second, 1)));
	ASSERT_TRUE(comes(&self->t.second, &c));
	EXPECT_EQ(5, c.context);
	EXPECT_EQ(0, memcmp(self->t.buf, "abc", 4));
}

/* An endpoint that closes. That takes as long as one of its doorbells waits for a page. */
struct closing {
	struct attempt a;
	pthread_t t;
	int fd;
};

static void starts_to_close(struct closing *c, struct three *t, struct node *n)
{
	struct treadle_addr addr = n->addr;
	__u32 id;

	need(post_recv(&t->from, recv_of(pages(PAGE), PAGE, ANY, 7)) == 0);
	begin(&c->a, n, peer(n, t->from.addr));
	c->t = thread(destroys, n);
	c->fd = device();
	while (ep_create(c->fd, &addr, NULL, &id) == -EADDRINUSE)
		usleep(1000);
}

static void has_closed(struct closing *c)
{
	take_pages_away(c->a.fd, c->a.slow, PAGE);
	pthread_join(c->a.t, NULL);
	pthread_join(c->t, NULL);
	close(c->fd);
}

/* While an endpoint closes slowly, another one of the ring reports a bad receive. */
TEST_F(put_back, the_endpoint_that_stays_reports_a_bad_receive)
{
	struct three *t = &self->t;
	struct treadle_desc bad = recv_of(t->buf, PAGE, ANY, 6);
	struct closing closing;
	struct treadle_cqe c;

	bad.tag = 1;
	starts_to_close(&closing, t, &t->first);
	ASSERT_EQ(0, post_recv(&t->second, bad));
	ASSERT_EQ(0, post_recv(&t->second, recv_of(t->buf, PAGE, ANY, 8)));
	ASSERT_EQ(1, post(&t->from, send_of("abc", 4, t->to_second, 1)));
	ASSERT_TRUE(comes(&t->second, &c));
	EXPECT_EQ(6, c.context);
	EXPECT_EQ(EINVAL, c.error);
	ASSERT_TRUE(comes(&t->second, &c));
	EXPECT_EQ(8, c.context);
	has_closed(&closing);
}

/* A receive armed by a closing endpoint takes no message of another endpoint. */
static void it_takes_none(struct __test_metadata *_metadata, struct three *t, __u32 flags)
{
	struct treadle_desc d = recv_of(pages(PAGE), PAGE, ANY, 5);
	struct closing closing;
	struct treadle_cqe c;

	d.flags |= flags;
	d.data = flags ? 2 : 0;
	ASSERT_EQ(1, post(&t->second, d));
	starts_to_close(&closing, t, &t->second);
	usleep(50000);
	ASSERT_EQ(0, post_recv(&t->first, recv_of(t->buf, PAGE, ANY, 6)));
	ASSERT_EQ(1, post(&t->from, send_of("abc", 4, t->to_first, 1)));
	ASSERT_TRUE(comes(&t->first, &c));
	EXPECT_EQ(6, c.context);
	EXPECT_EQ(0, memcmp(t->buf, "abc", 4));
	has_closed(&closing);
}

TEST_F(put_back, a_closing_endpoints_armed_receive_takes_none)
{
	it_takes_none(_metadata, &self->t, 0);
}

TEST_F(put_back, a_closing_endpoints_armed_buffer_takes_none)
{
	it_takes_none(_metadata, &self->t, TREADLE_F_MULTI_RECV);
}

/* A receive posted to an endpoint's transmit ring goes with that endpoint. */
static void closes_the_receivers_endpoint(void *arg)
{
	struct attempt a;
	struct three t;

	(void)arg;
	three_open(&t);
	need(post(&t.second, recv_of(t.buf, PAGE, ANY, 5)) == 1);
	begin(&a, &t.from, t.to_first);
	need(destroy(t.second.fd, t.second.ep) == 0);
	fail(&a);
}

/* After that nothing holds the context, nor the module. */
TEST(the_receive_goes_with_its_own_endpoint)
{
	EXPECT_EQ(0, reap(spawn(closes_the_receivers_endpoint, NULL)));
	until_unused();
}

/*
 * Nor is the buffer written any more, although the message is for another endpoint, which does not
 * report it.
 */
static void the_buffer_goes(struct __test_metadata *_metadata, FIXTURE_DATA(put_back) * self,
			    __u32 flags)
{
	char *from = pages(2 * PAGE), *buf = pages(2 * PAGE);
	struct three *t = &self->t;
	struct attempt a = {.from = &t->from, .to = t->to_first, .slow = from, .len = 2 * PAGE};
	struct treadle_desc d = recv_of(buf, 2 * PAGE, ANY, 5);
	struct treadle_cqe c;
	__u64 slow;

	d.flags |= flags;
	d.data = flags ? PAGE : 0; /* with less room than this the buffer ends */
	a.fd = slow_pages(from + PAGE, PAGE);
	ASSERT_EQ(1, post(&t->second, d));
	a.t = thread(sends, &a);
	slow = page_asked_for(a.fd);
	ASSERT_EQ(0, destroy(t->second.fd, t->second.ep));
	memset(buf, 0xee, 2 * PAGE);
	put_page_at(a.fd, slow, 1);
	pthread_join(a.t, NULL);
	EXPECT_EQ(ECONNRESET, cq_next(&t->from.cq).error);
	EXPECT_FALSE(comes(&t->first, &c));
	for (int i = 0; i < 2 * PAGE; i++)
		ASSERT_EQ((char)0xee, buf[i]);
}

TEST_F(put_back, the_buffer_goes_with_the_endpoint_that_armed_it)
{
	the_buffer_goes(_metadata, self, 0);
}

TEST_F(put_back, a_buffer_for_several_messages_goes_with_its_endpoint)
{
	the_buffer_goes(_metadata, self, TREADLE_F_MULTI_RECV);
}

/*
 * A message for an endpoint that closes is not received, whichever endpoint has armed the receive.
 * Its send fails.
 */
TEST_F(put_back, a_message_for_a_closed_endpoint_is_not_sent)
{
	struct three *t = &self->t;
	struct treadle_cqe c;
	struct attempt a;

	ASSERT_EQ(1, post(&t->second, recv_of(t->buf, PAGE, ANY, 5)));
	begin(&a, &t->from, t->to_first);
	ASSERT_EQ(0, destroy(t->first.fd, t->first.ep));
	put_page_at(a.fd, (unsigned long)a.slow, 1);
	pthread_join(a.t, NULL);
	EXPECT_EQ(ECONNRESET, cq_next(&t->from.cq).error);
	ASSERT_EQ(1, post(&t->from, send_of("abc", 4, t->to_second, 1)));
	ASSERT_TRUE(comes(&t->second, &c));
	EXPECT_EQ(5, c.context);
	EXPECT_EQ(0, memcmp(t->buf, "abc", 4));
}

struct flood {
	struct node from;
	__u64 to;
	bool stop;
};

static void *floods(void *arg)
{
	struct flood *f = arg;

	while (!__atomic_load_n(&f->stop, __ATOMIC_RELAXED)) {
		need(post(&f->from, send_of("abc", 4, f->to, 1)) == 1);
		cq_next(&f->from.cq);
	}
	return NULL;
}

/*
 * While an endpoint comes and goes, each receive of the ring is reported once: by it, or by the one
 * that stays.
 */
TEST_F(put_back, no_receive_is_lost_when_an_endpoint_closes)
{
	enum { ROUNDS = 300, POSTED = 32 };
	static char seen[ROUNDS * POSTED];
	struct three *t = &self->t;
	struct flood f = {};
	struct treadle_cqe c;
	__u64 posted = 0, told = 0;
	pthread_t flooding;

	node_open(&f.from, (struct options){});
	f.to = peer(&f.from, t->first.addr);
	flooding = thread(floods, &f);
	for (int round = 0; round < ROUNDS; round++) {
		struct treadle_ep_enable e;

		for (; posted - told < POSTED; posted++)
			ASSERT_EQ(0, post_recv(&t->second, recv_of(t->buf, 8, ANY, posted)));
		usleep(round % 50 * 10);
		ASSERT_EQ(0, destroy(t->first.fd, t->first.ep));
		for (; cq_poll(&t->first.rcq, &c); told++)
			ASSERT_EQ(1, ++seen[c.context]);
		ASSERT_EQ(0, ep_create(t->first.fd, &t->first.addr, NULL, &t->first.ep));
		e = node_bindings(&t->first);
		ASSERT_EQ(0, call(t->first.fd, TREADLE_IOC_EP_ENABLE, &e));
	}
	ASSERT_EQ(0, destroy(t->first.fd, t->first.ep));
	for (; cq_poll(&t->first.rcq, &c); told++)
		ASSERT_EQ(1, ++seen[c.context]);
	f.stop = true;
	pthread_join(flooding, NULL);
	for (; told < posted; told++) {
		ASSERT_EQ(1, post(&t->from, send_of("abc", 4, t->to_second, 1)));
		cq_next(&t->from.cq);
		ASSERT_EQ(1, ++seen[cq_next(&t->second.rcq).context]);
	}
}

/*
 * A receive with a mask keeps its place before those posted after it, although messages for other
 * tags wait.
 */
static void mask_keeps_its_place(struct three *t, int waiting)
{
	struct treadle_desc bad = tsend_of(pages(PAGE) + PAGE, 8, t->to_first, 7, 1),
			    good = tsend_of("abc", 4, t->to_first, 7, 2);

	bad.flags |= TREADLE_F_MORE;
	need(post_recv(&t->first, trecv_of(t->buf, PAGE, ANY, 0, 0xff, 5)) == 0);
	need(post_recv(&t->first, trecv_of(t->buf + 8, 8, ANY, 7, 0, 6)) == 0);
	/* both receives are posted, and no longer in the ring */
	need(ring_doorbell(&t->first.rx) == 0);
	for (int i = 0; i < waiting; i++) {
		need(post(&t->from, tsend_of("unrelated", 4, t->to_first, 0x900, 3)) == 1);
		need(cq_next(&t->from.cq).context == 3);
	}
	ring_put(&t->from.tx, &bad);
	ring_put(&t->from.tx, &good);
	ring_publish(&t->from.tx);
	need(ring_doorbell(&t->from.tx) == 2);
	need(cq_next(&t->from.cq).error == EFAULT);
	need(cq_next(&t->from.cq).context == 2);
}

TEST_F(put_back, a_receive_with_a_mask_keeps_its_place)
{
	mask_keeps_its_place(&self->t, 0);
	EXPECT_EQ(5, cq_next(&self->t.first.rcq).context);
	EXPECT_TRUE(cq_empty(&self->t.first.rcq));
}

TEST_F(put_back, a_receive_with_a_mask_keeps_its_place_among_waiting_messages)
{
	mask_keeps_its_place(&self->t, 100);
	EXPECT_EQ(5, cq_next(&self->t.first.rcq).context);
	EXPECT_TRUE(cq_empty(&self->t.first.rcq));
}

struct idle_closer {
	const struct node *n;
	pid_t tid;
	int result;
};

static void *closes(void *arg)
{
	struct idle_closer *c = arg;

	raise_to(&c->tid, gettid());
	c->result = destroy(c->n->fd, c->n->ep);
	return NULL;
}

/* The state of a thread: R, S, D, as in ps(1). */
static char state_of(pid_t tid)
{
	char path[64], line[512] = {}, *name_end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	need(f && fgets(line, sizeof(line), f));
	fclose(f);
	name_end = strrchr(line, ')');
	need(name_end);
	return name_end[2];
}

/*
 * While a page does not come, EP_ENABLE of its ring is refused, and DESTROY of its endpoint sleeps.
 * The sleep can be killed (killed.c), so the kernel does not report a hung task.
 */
TEST_F(put_back, a_doorbell_that_waits_for_a_page_hangs_no_task)
{
	struct three *t = &self->t;
	struct idle_closer c = {.n = &t->from};
	struct treadle_ep_enable e;
	struct node another;
	struct attempt a;
	pthread_t closer;

	node_create(&another, (struct options){.context = t->from.fd});
	ASSERT_EQ(0, post_recv(&t->first, recv_of(t->buf, PAGE, ANY, 5)));
	begin(&a, &t->from, t->to_first);
	e = node_bindings(&another);
	e.tx = t->from.tx.id;
	EXPECT_EQ(-EBUSY, call(t->from.fd, TREADLE_IOC_EP_ENABLE, &e));
	closer = thread(closes, &c);
	await(&c.tid, 1);
	while (state_of(c.tid) == 'R')
		usleep(1000);
	take_pages_away(a.fd, a.slow, PAGE);
	pthread_join(a.t, NULL);
	pthread_join(closer, NULL);
	EXPECT_EQ(0, c.result);
}

/* The receive is canceled with its connection. */
TEST(the_receive_is_canceled_with_its_connection)
{
	char *buf = pages(PAGE);
	struct treadle_cqe c;
	struct attempt a;
	struct pair p;

	pair_open(&p);
	ASSERT_EQ(0, post_recv(&p.server, recv_of(buf, PAGE, ANY, 5)));
	begin(&a, &p.client, 0);
	ASSERT_EQ(0, hang_up(p.server.fd, p.server.ep));
	event_is(p.l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
	fail(&a);
	ASSERT_TRUE(comes(&p.server, &c));
	EXPECT_EQ(5, c.context);
	EXPECT_EQ(ECANCELED, c.error);
}

/*
 * Whether a receive of a shared ring is reported depends on its own flag, and on the endpoint that
 * the message is for.
 */
TEST(completions_of_a_shared_ring_depend_on_the_endpoint)
{
	struct node from, selective, all;
	struct treadle_desc d;
	struct treadle_cqe c;
	char in[8];

	node_open(&from, (struct options){});
	node_open(&selective, (struct options){});
	node_open(&all, (struct options){.context = selective.fd,
					 .shared_rx = &selective.rx,
					 .flags = TREADLE_EP_RECV_COMPLETION});
	for (int i = 0; i < 4; i++) {
		struct node *to = i % 2 ? &all : &selective;

		about("%s, %s", i % 2 ? "all" : "selective", i / 2 ? "F_COMPLETION" : "silent");
		d = recv_of(in, sizeof(in), ANY, i);
		if (i < 2)
			d.flags &= ~TREADLE_F_COMPLETION;
		ASSERT_EQ(0, post_recv(&selective, d));
		ASSERT_EQ(1, post(&from, send_of("text", 5, peer(&from, to->addr), i)));
		ASSERT_EQ(0, cq_next(&from.cq).error);
		EXPECT_TRUE(cntr_becomes(&to->rcvd, i / 2 + 1, 0));
		EXPECT_EQ(i > 0, cq_poll(&to->rcq, &c));
		if (i)
			EXPECT_EQ(i, c.context);
	}
	close(selective.fd);
	close(from.fd);
}

/* Enables an endpoint that receives from the ring of @n and has no queue; returns its address. */
static struct treadle_addr queueless(const struct node *n, __u32 *id)
{
	struct treadle_ep_enable e = {.size = sizeof(e), .rx = n->rx.id};
	struct treadle_addr addr = loopback(0);

	need(ep_create_as(n->fd, TREADLE_EP_RDM, 0, &addr, NULL, &e.ep) == 0);
	need(call(n->fd, TREADLE_IOC_EP_ENABLE, &e) == 0);
	*id = e.ep;
	return addr;
}

static void expect_error(struct __test_metadata *_metadata, struct node *ring, struct node *by,
			 __u64 context)
{
	struct treadle_cqe c;
	char in[8];

	post_recv(ring, recv_of(in, -1UL, ANY, context));
	doorbell(ring->fd, ring->rx.id);
	c = cq_next(&by->rcq);
	EXPECT_EQ(EINVAL, c.error);
	EXPECT_EQ(context, c.context);
}

/* A bad descriptor is reported by the first endpoint of the ring that has a queue. */
TEST(a_bad_receive_is_reported_by_an_endpoint_with_a_queue)
{
	struct treadle_ep_enable e;
	struct node n, next, last;
	__u32 id;

	node_create(&n, (struct options){});
	queueless(&n, &id);
	e = node_bindings(&n);
	ASSERT_EQ(0, call(n.fd, TREADLE_IOC_EP_ENABLE, &e));
	queueless(&n, &id);
	node_open(&next, (struct options){.context = n.fd, .shared_rx = &n.rx});
	expect_error(_metadata, &n, &n, 5);
	ASSERT_EQ(0, destroy(n.fd, n.ep));
	node_open(&last, (struct options){.context = n.fd, .shared_rx = &n.rx});
	expect_error(_metadata, &n, &next, 6);
	ASSERT_EQ(0, destroy(n.fd, last.ep));
	ASSERT_EQ(0, destroy(n.fd, next.ep));
	node_open(&last, (struct options){.context = n.fd, .shared_rx = &n.rx});
	expect_error(_metadata, &n, &last, 7);
	close(n.fd);
}

/*
 * So is the end of a buffer for several messages, even if the endpoint of the last message, or of
 * the cancel, has no queue.
 */
TEST(the_end_of_a_buffer_is_reported_by_an_endpoint_with_a_queue)
{
	struct treadle_desc d;
	struct node from, n;
	char *buf = pages(PAGE);
	struct treadle_cqe c;
	__u64 to, count;
	__u32 id;

	node_open(&from, (struct options){});
	node_open(&n, (struct options){});
	to = peer(&from, queueless(&n, &id));
	d = recv_of(buf, PAGE, ANY, 5);
	d.flags |= TREADLE_F_MULTI_RECV;
	d.data = 1;
	ASSERT_EQ(0, post_recv(&n, d));
	ASSERT_EQ(1, post(&from, send_of(buf, PAGE, to, 1)));
	ASSERT_TRUE(comes(&n, &c));
	EXPECT_EQ(5, c.context);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(TREADLE_CQ_MULTI_RECV, c.flags);
	for (int i = 0; i < 2; i++) {
		about("canceled by %s", i ? "one with a queue" : "one without");
		d.context = 6 + i;
		ASSERT_EQ(0, post_recv(&n, d));
		ASSERT_EQ(0, cancel(n.fd, TREADLE_CANCEL_OP, i ? n.ep : id, 6 + i, 0, &count));
		ASSERT_TRUE(comes(&n, &c));
		EXPECT_EQ(6 + i, c.context);
		EXPECT_EQ(ECANCELED, c.error);
		EXPECT_TRUE(c.flags & TREADLE_CQ_MULTI_RECV);
	}
	EXPECT_EQ(n.rx.entries, ring_room(&n.rx));
	close(n.fd);
	close(from.fd);
}

TEST_HARNESS_MAIN
