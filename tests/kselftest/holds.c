/* SPDX-License-Identifier: GPL-2.0 */
/*
 * However much waits at a receiver, no call keeps a processor, or the receiver's lock, for as long
 * as it takes to look at all of it. A processor is not given up under that lock. So the tests
 * measure how late a thread of high priority wakes up on the processor of the call.
 */
#include "treadle.h"

#define MANY   100000 /* messages */
#define MASKS  16     /* receives with a mask */
#define ROUNDS 4
#define NEVER  (1ULL << 40) /* a bit that no message has */

static void on_one_processor(void)
{
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	need(sched_setaffinity(0, sizeof(first), &first) == 0);
}

/* --- latency of a thread of high priority ------------------------------------------------- */

struct watch {
	pthread_t thread;
	int begun, over;
	__u64 late; /* ns */
};

static void *watches(void *arg)
{
	struct sched_param first = {.sched_priority = 1};
	struct watch *w = arg;

	on_one_processor();
	need(sched_setscheduler(0, SCHED_FIFO, &first) == 0);
	raise_to(&w->begun, 1);
	while (!__atomic_load_n(&w->over, __ATOMIC_ACQUIRE)) {
		const long nap = 200000;
		__u64 before = now_ns(), late;

		nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
		late = now_ns() - before - nap;
		if (late > w->late)
			w->late = late;
	}
	return NULL;
}

static void watch(struct watch *w)
{
	*w = (struct watch){0};
	w->thread = thread(watches, w);
	await(&w->begun, 1);
	usleep(2000);
	w->late = 0;
}

static __u64 unwatch(struct watch *w)
{
	raise_to(&w->over, 1);
	need(pthread_join(w->thread, NULL) == 0);
	return w->late;
}

/* --- what waits ------------------------------------------------------------------------------ */

static void send_many(struct node *a, __u64 to, __u64 tag, int count)
{
	struct treadle_desc d = tsend_of(NULL, 0, to, 0, 0);
	int sent = 0;

	d.flags = 0;
	while (sent < count) {
		while (sent < count && ring_room(&a->tx)) {
			d.tag = tag + sent++;
			ring_put(&a->tx, &d);
		}
		ring_publish(&a->tx);
		need(ring_doorbell(&a->tx) > 0);
	}
}

FIXTURE(holds)
{
	struct node a, b;
	__u64 to;
	char *dst;
};

FIXTURE_SETUP(holds)
{
	on_one_processor();
	node_open(&self->a, (struct options){.tx = 1024});
	node_open(&self->b, (struct options){.rx = 8192,
					     .rcq = 8192,
					     .buffered = query(device()).max_buffered});
	self->to = peer(&self->a, self->b.addr);
	self->dst = pages(8192);
}

FIXTURE_TEARDOWN(holds)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

/* Receives with masks are matched one by one, in order, and let other threads run in between. */
TEST_F(holds, receives_with_masks_search_piece_by_piece)
{
	struct treadle_desc d = trecv_of(NULL, 0, ANY, NEVER, 0xff, 0);
	__u64 began, took = ~0ULL, late = ~0ULL, t;
	struct watch w;

	d.addr = 0;
	send_many(&self->a, self->to, 0, MANY);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < MASKS; i++) {
			ring_put(&self->b.rx, &d);
			d.context++;
		}
		ring_publish(&self->b.rx);
		watch(&w);
		began = now_ns();
		ASSERT_EQ(0, ring_doorbell(&self->b.rx));
		t = now_ns() - began;
		took = t < took ? t : took;
		t = unwatch(&w);
		/* something else may be in the way, but not each time */
		late = t < late ? t : late;
	}
	note("%d receives, %d messages: %llu us, %llu us late", MASKS, MANY, took / 1000,
	     late / 1000);
	EXPECT_LT(late, took / 4);
	/* receives of messages far back: the older one gets the older message */
	for (int i = 0; i < 2; i++) {
		d.tag = (MANY - 1) & ~0xff;
		d.context = i;
		ASSERT_EQ(0, post_recv(&self->b, d));
	}
	for (int i = 0; i < 2; i++) {
		struct treadle_cqe c = cq_next(&self->b.rcq);

		EXPECT_EQ(0, c.error);
		EXPECT_EQ(((MANY - 1) & ~0xffULL) + c.context, c.tag);
	}
	/* more receives, which match in order */
	send_many(&self->a, self->to, NEVER, ROUNDS * MASKS);
	for (int i = 0; i < ROUNDS * MASKS; i++)
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
}

/*
 * A sender matches some of the receives that its target has posted, and leaves the rest to the
 * target's worker.
 */
TEST_F(holds, a_sender_does_not_match_all_posted_receives)
{
	enum { POSTED = 512 };
	struct treadle_desc d = trecv_of(NULL, 0, ANY, NEVER, 0xff, 1);
	__u64 began, look, took;
	struct node c;

	node_open(&c, (struct options){});
	d.addr = 0;
	d.flags |= TREADLE_F_PEEK;
	send_many(&self->a, self->to, 0, MANY);
	began = now_ns();
	ASSERT_EQ(1, post(&self->b, d));
	look = now_ns() - began;
	EXPECT_EQ(ENOMSG, cq_next(&self->b.rcq).error);
	d.flags = TREADLE_F_COMPLETION;
	for (int i = 0; i < POSTED; i++)
		ring_put(&self->b.rx, &d);
	ring_publish(&self->b.rx); /* without a doorbell, as a malicious receiver would */
	began = now_ns();
	ASSERT_EQ(1, post(&c, tsend_of(NULL, 0, peer(&c, self->b.addr), 1, 1)));
	took = now_ns() - began;
	note("%d receives, each of which looks at all messages in %llu us: %llu us", POSTED,
	     look / 1000, took / 1000);
	EXPECT_LT(took, POSTED / 4 * look);
	EXPECT_EQ(0, cq_next(&c.cq).error);
	close(c.fd);
}

/* Opens @b with a counter @hit for writes to @dst, and returns the key of that region. */
static __u64 hit_open(struct node *b, struct cntr *hit, char *dst)
{
	struct treadle_ep_enable e;
	__u64 key = 7;
	__u32 id;

	node_create(b, (struct options){
			       .rx = 8192, .rcq = 8192, .buffered = query(device()).max_buffered});
	cntr_open(hit, b->fd);
	e = node_bindings(b);
	e.cntr_remote_write = hit->id;
	need(call(b->fd, TREADLE_IOC_EP_ENABLE, &e) == 0);
	need(mr(b->fd, dst, 4096, TREADLE_ACCESS_REMOTE_WRITE, 0, &key, &id) == 0);
	return key;
}

/* The time of a peek that finds nothing, in ns. */
static __u64 look_once(struct node *b, struct treadle_desc d)
{
	__u64 began = now_ns(), took;

	need(post(b, d) == 1);
	took = now_ns() - began;
	need(cq_next(&b->rcq).error == ENOMSG);
	return took;
}

/*
 * Nor does a peer's operation that fires an armed receive match all posted receives. The owner's
 * worker does, and the armed receive comes behind them.
 */
TEST_F(holds, firing_does_not_match_all_posted_receives)
{
	enum { POSTED = 128 }; /* the worker matches all of them */
	const __u64 LATER = NEVER << 1;
	struct treadle_desc d = trecv_of(NULL, 0, ANY, NEVER, 0xff, 1);
	__u64 began, look, took, key, word = 1;
	struct node b, c;
	struct cntr hit;

	key = hit_open(&b, &hit, self->dst);
	node_open(&c, (struct options){});
	d.addr = 0;
	d.flags |= TREADLE_F_PEEK;
	send_many(&self->a, peer(&self->a, b.addr), 0, MANY);
	look = look_once(&b, d);
	d.flags = TREADLE_F_COMPLETION;
	ASSERT_EQ(1, post(&b, when(trecv_of(NULL, 0, ANY, LATER, 0, 2), &hit, 1)));
	for (int i = 0; i < POSTED; i++) {
		d.tag = i == POSTED - 1 ? LATER : NEVER;
		ring_put(&b.rx, &d);
	}
	ring_publish(&b.rx);
	began = now_ns();
	ASSERT_EQ(1, post(&c, write_of(&word, 8, peer(&c, b.addr), 0, key, 1)));
	took = now_ns() - began;
	note("%d receives, each of which looks at all messages in %llu us: %llu us", POSTED,
	     look / 1000, took / 1000);
	EXPECT_LT(took, POSTED / 4 * look);
	EXPECT_EQ(0, cq_next(&c.cq).error);
	/* the last posted receive comes before the armed one */
	ASSERT_EQ(1, post(&c, tsend_of(NULL, 0, peer(&c, b.addr), LATER, 2)));
	EXPECT_EQ(1, cq_next(&b.rcq).context);
	ASSERT_EQ(1, post(&c, tsend_of(NULL, 0, peer(&c, b.addr), LATER, 3)));
	EXPECT_EQ(2, cq_next(&b.rcq).context);
	close(b.fd);
	close(c.fd);
}

/*
 * Nor do armed commands of another context wait until receives are matched that the firing context
 * has posted.
 */
TEST_F(holds, armed_commands_do_not_wait_for_receives_of_the_firing_context)
{
	enum { POSTED = 512 };
	struct treadle_desc d = trecv_of(NULL, 0, ANY, NEVER, 0xff, 1);
	struct node *fires = &self->b, c;
	__u64 began, look, took;
	struct cntr later;

	node_open(&c, (struct options){});
	cntr_open(&later, c.fd);
	d.addr = 0;
	d.flags |= TREADLE_F_PEEK;
	send_many(&self->a, self->to, 0, MANY);
	look = look_once(fires, d);
	d.flags = TREADLE_F_COMPLETION;
	ASSERT_EQ(1, post(&c, when(tsend_of(NULL, 0, peer(&c, fires->addr), 1, 5), &c.rcvd, 1)));
	ASSERT_EQ(1, post(&c, when(count_of(TREADLE_OP_CNTR_ADD, &later, 1, 0), &c.rcvd, 1)));
	ASSERT_EQ(0, post_recv(&c, recv_of(self->dst, 8, ANY, 6)));
	for (int i = 0; i < POSTED; i++)
		ring_put(&fires->rx, &d);
	ring_publish(&fires->rx);
	began = now_ns();
	ASSERT_EQ(1, post(fires, send_of(self->dst + 8, 8, peer(fires, c.addr), 7)));
	EXPECT_TRUE(cntr_becomes(&later, 1, 0));
	took = now_ns() - began;
	note("%d receives, each of which looks at all messages in %llu us: %llu us", POSTED,
	     look / 1000, took / 1000);
	EXPECT_LT(took, POSTED / 4 * look);
	EXPECT_EQ(6, cq_next(&c.rcq).context);
	EXPECT_EQ(5, cq_next(&c.cq).context);
	EXPECT_EQ(7, cq_next(&fires->cq).context);
	close(c.fd);
}

/* Nor does an operation that fires armed receives look at all waiting messages. */
TEST_F(holds, firing_does_not_look_at_all_waiting_messages)
{
	enum { ARMED = 32 };
	struct treadle_desc d = trecv_of(NULL, 0, ANY, NEVER, 0xff, 1);
	__u64 began, look, took, key, word = 1;
	struct node b, c;
	struct cntr hit;

	key = hit_open(&b, &hit, self->dst);
	node_open(&c, (struct options){});
	d.addr = 0;
	d.flags |= TREADLE_F_PEEK;
	send_many(&self->a, peer(&self->a, b.addr), 0, MANY);
	look = look_once(&b, d);
	for (int i = 0; i < ARMED; i++) {
		d.context = i;
		ASSERT_EQ(1, post(&b, when(d, &hit, 1)));
	}
	began = now_ns();
	ASSERT_EQ(1, post(&c, write_of(&word, 8, peer(&c, b.addr), 0, key, 1)));
	took = now_ns() - began;
	note("%d looks at all messages, of %llu us each: %llu us", ARMED, look / 1000, took / 1000);
	EXPECT_LT(took, ARMED / 4 * look);
	EXPECT_EQ(0, cq_next(&c.cq).error);
	for (int i = 0; i < ARMED; i++) {
		struct treadle_cqe cqe = cq_next(&b.rcq);

		EXPECT_EQ(ENOMSG, cqe.error);
		EXPECT_EQ(i, cqe.context);
	}
	close(b.fd);
	close(c.fd);
}

/* Closing an endpoint looks for receives that wait for it, not at all receives of all endpoints. */
TEST_F(holds, closing_does_not_look_at_all_posted_receives)
{
	enum { CROWD = 200, POSTED = 20000 };
	struct treadle_desc d = trecv_of(self->dst, 8, ANY, NEVER, 0, 1), wait = d;
	struct node n[CROWD], awaited;
	__u64 began, took[2];
	struct cntr always;
	struct ring rx;

	ring_open(&rx, self->b.fd, TREADLE_IOC_RX_CREATE, TREADLE_RX_SHARED, 8, 64 << 20);
	for (int i = 0; i < CROWD; i++)
		node_open(&n[i], (struct options){.context = self->b.fd, .shared_rx = &rx});
	cntr_open(&always, self->b.fd);
	wait.flags |= TREADLE_F_COLLECTIVE;
	for (int i = 0; i < 2; i++) {
		node_open(&awaited, (struct options){});
		wait.peer = peer(&n[0], awaited.addr);
		ASSERT_EQ(1, post(&n[0], wait));
		for (int j = 0; i && j < POSTED; j++)
			ASSERT_EQ(1, post(&n[0], when(d, &always, 0)));
		began = own_ns();
		ASSERT_EQ(0, destroy(awaited.fd, awaited.ep));
		took[i] = own_ns() - began;
		EXPECT_EQ(ECONNRESET, cq_next(&n[0].rcq).error);
		note("closing beside %d endpoints with %d receives: %llu us", CROWD, i * POSTED,
		     took[i] / 1000);
		close(awaited.fd);
	}
	/* a look at each receive would take some thousand times as long */
	EXPECT_LT(took[1], 64 * took[0]);
}

/* A peek with a mask lets other threads run in between, too. */
TEST_F(holds, peeks_with_masks_search_piece_by_piece)
{
	struct treadle_desc d = trecv_of(NULL, 0, ANY, NEVER, 0xff, 1);
	__u64 began, took = ~0ULL, late = ~0ULL, t;
	struct watch w;

	d.flags |= TREADLE_F_PEEK;
	d.addr = 0;
	send_many(&self->a, self->to, 0, MANY);
	for (int i = 0; i < ROUNDS; i++) {
		watch(&w);
		began = now_ns();
		ASSERT_EQ(1, post(&self->b, d));
		t = now_ns() - began;
		took = t < took ? t : took;
		t = unwatch(&w);
		/* something else may be in the way, but not each time */
		late = t < late ? t : late;
		EXPECT_EQ(ENOMSG, cq_next(&self->b.rcq).error);
	}
	note("a look at %d messages: %llu us, %llu us late", MANY, took / 1000, late / 1000);
	EXPECT_LT(late, took / 2);
	d.tag = (MANY - 1) & ~0xff;
	ASSERT_EQ(1, post(&self->b, d));
	EXPECT_EQ((MANY - 1) & ~0xff, cq_next(&self->b.rcq).tag);
}

/* Closing one of several endpoints of a ring looks at each waiting message once. */
TEST_F(holds, closing_looks_once)
{
	__u64 to, began, took[2], late;
	struct node b, other;
	struct ring rx;
	struct watch w;

	ring_open(&rx, self->b.fd, TREADLE_IOC_RX_CREATE, TREADLE_RX_SHARED, 8, 64 << 20);
	node_open(&b, (struct options){.context = self->b.fd, .shared_rx = &rx});
	to = peer(&self->a, b.addr);
	send_many(&self->a, to, 0, MANY);
	for (int i = 0; i < 2; i++) {
		node_open(&other, (struct options){.context = self->b.fd, .shared_rx = &rx});
		if (i)
			send_many(&self->a, peer(&self->a, other.addr), 0, 4096);
		watch(&w);
		began = own_ns();
		ASSERT_EQ(0, destroy(self->b.fd, other.ep));
		took[i] = own_ns() - began;
		late = unwatch(&w);
		note("closing with %d messages: %llu us, %llu us late", i * 4096, took[i] / 1000,
		     late / 1000);
	}
	/*
	 * each of the 4096 costs something, but not a look at all others: that would be 4096 times
	 * as long
	 */
	EXPECT_LT(took[1], 256 * took[0]);
}

/* The number of receives that each message has to be compared with is limited. */
// conformance: ioctl.h: ENOSPC: (completion) too many receives with different masks
TEST_F(holds, receives_with_many_masks_are_bounded)
{
	enum { CLASSES = 8, LISTED = 4096, MORE = 8 };
	struct treadle_desc d = trecv_of(NULL, 0, ANY, 0, 0, 0);
	__u64 count;

	d.addr = 0;
	for (int i = 0; i < CLASSES + LISTED + MORE; i++) {
		d.tag = NEVER;
		d.ignore = 1ULL << (i < CLASSES ? i : 8);
		d.context = i;
		ASSERT_EQ(0, post_recv(&self->b, d));
	}
	/* they are taken off the ring now, and those beyond the limit refused */
	send_many(&self->a, self->to, 0, 1);
	for (int i = 0; i < MORE; i++) {
		struct treadle_cqe c = cq_next(&self->b.rcq);

		EXPECT_EQ(ENOSPC, c.error);
		EXPECT_EQ(CLASSES + LISTED + i, c.context);
	}
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	/* masks that have a class are not limited */
	d.ignore = 1;
	d.context = 1000000;
	ASSERT_EQ(0, post_recv(&self->b, d));
	send_many(&self->a, self->to, NEVER, 1);
	EXPECT_EQ(0, cq_next(&self->b.rcq).context);
	/* nor is a receive that takes the place of another one */
	ASSERT_EQ(0, cancel(self->b.fd, TREADLE_CANCEL_OP, self->b.ep, 100, 0, &count));
	EXPECT_EQ(ECANCELED, cq_next(&self->b.rcq).error);
	d.ignore = 1 << 8;
	ASSERT_EQ(0, post_recv(&self->b, d));
	ASSERT_EQ(0, ring_doorbell(&self->b.rx));
}

/* A waiting command, at its peer or for its turn, is found by its context, however many wait. */
static void cancel_among_many(struct __test_metadata *_metadata, FIXTURE_DATA(holds) * self,
			      __u32 fence)
{
	enum { WAITING = 30000, TRIES = 8, ALONE = 1 << 20 };
	struct treadle_desc d = send_of(self->dst, 8192, self->to, ALONE);
	__u64 count, began, t, took[2] = {~0ULL, ~0ULL};
	struct treadle_cqe c;
	struct cntr go, gone;
	struct node b;

	/*
	 * a message that is not copied waits with its command, which left the ring if it was armed
	 */
	node_open(&b, (struct options){.rx = 8});
	d.peer = peer(&self->a, b.addr);
	ASSERT_EQ(1, post(&self->a, d));
	d.flags |= fence; /* behind the first one */
	cntr_open(&go, self->a.fd);
	for (int i = 0; i < WAITING; i++) {
		d.context = i;
		ASSERT_EQ(1, post(&self->a, when(d, &go, 1)));
	}
	/* the last command to start: all have started */
	cntr_open(&gone, self->a.fd);
	ASSERT_EQ(1, post(&self->a, when(count_of(TREADLE_OP_CNTR_ADD, &gone, 1, 0), &go, 1)));
	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0)));
	ASSERT_EQ(0, cntr_wait(&gone, 1, 0, -1));
	for (int i = 0; i < 2 * TRIES; i++) {
		/* the first, the last, the second, the last but one, and so on */
		int context = i % 2 ? WAITING - 1 - i / 2 : i / 2;

		began = now_ns();
		ASSERT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, context, 0, &count));
		t = now_ns() - began;
		took[i % 2] = t < took[i % 2] ? t : took[i % 2];
		ASSERT_EQ(1, count);
		c = cq_next(&self->a.cq);
		EXPECT_EQ(context, c.context);
		EXPECT_EQ(ECANCELED, c.error);
	}
	note("the first of %d: %llu us, the last: %llu us", WAITING, took[0] / 1000,
	     took[1] / 1000);
	EXPECT_LT(took[1], 20 * took[0]);
	/* of two commands with one context, one cancel ends one */
	d.context = WAITING / 2;
	ASSERT_EQ(1, post(&self->a, d));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(i < 2 ? 0 : -ENOENT,
			  cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, d.context, 0, &count));
		if (i < 2)
			EXPECT_EQ(ECANCELED, cq_next(&self->a.cq).error);
	}
	ASSERT_EQ(0, destroy(self->a.fd, self->a.ep));
}

TEST_F(holds, a_cancel_finds_what_waits_at_a_peer)
{
	cancel_among_many(_metadata, self, 0);
}

TEST_F(holds, a_cancel_finds_what_waits_for_its_turn)
{
	cancel_among_many(_metadata, self, TREADLE_F_FENCE);
}

TEST_HARNESS_MAIN
