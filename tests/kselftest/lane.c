// SPDX-License-Identifier: GPL-2.0
/* Lanes: rights, limits and maps. lane_ends.c has their ends. */
#include "cred.h"
#include "lane.h"

TEST_F(lane, both_ends_have_the_same_memory)
{
	EXPECT_EQ(BYTES, self->s.rw_map.length);
	EXPECT_EQ(BYTES, self->r.rw_map.length);
	EXPECT_TRUE(all_are((char *)self->r.lane, BYTES, 0));
	fill((char *)self->s.lane, BYTES, 1);
	EXPECT_TRUE(same((char *)self->r.lane, BYTES, 1));
	fill((char *)self->r.lane, BYTES, 2);
	EXPECT_TRUE(same((char *)self->s.lane, BYTES, 2));
}

TEST_F(lane, offers_are_counted_and_taken_in_order)
{
	struct end s[3], r;

	EXPECT_EQ(1, offers(&self->b));
	EXPECT_EQ(0, offers(&self->a));
	EXPECT_EQ(-EAGAIN, lane_take(&r, &self->b));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, lane_make(&s[i], &self->a, self->to));
		s[i].lane->tail = i + 1;
		EXPECT_EQ(2 + i, offers(&self->b));
		EXPECT_EQ(2 + i, self->s.ro->offers);
	}
	/* One that its sender has closed is taken, too: it may have messages. */
	ASSERT_EQ(0, destroy(self->a.fd, s[1].id));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, lane_take(&r, &self->b));
		EXPECT_EQ(i + 1, r.lane->tail);
		EXPECT_EQ(i == 1, is_gone(&r));
		lane_unmap(&r);
		lane_unmap(&s[i]);
	}
	EXPECT_EQ(-EAGAIN, lane_take(&r, &self->b));
	EXPECT_EQ(4, offers(&self->b));
}

TEST_F(lane, an_endpoint_and_itself)
{
	struct end s, r;

	ASSERT_EQ(0, lane_make(&s, &self->a, peer(&self->a, self->a.addr)));
	ASSERT_EQ(0, lane_take(&r, &self->a));
	s.lane->tail = 7;
	EXPECT_EQ(7, r.lane->tail);
	lane_unmap(&s);
	lane_unmap(&r);
}

/* The page of the peer's ring says that a message waits in the kernel. */
TEST_F(lane, a_message_that_waits)
{
	char buf[8] = "";

	EXPECT_EQ(0, self->s.ro->flags & TREADLE_RING_DOORBELL);
	ASSERT_EQ(1, post(&self->a, send_of(buf, 8, self->to, 1)));
	EXPECT_NE(0, self->s.ro->flags & TREADLE_RING_DOORBELL);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(buf, 8, ANY, 2)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_EQ(0, self->s.ro->flags & TREADLE_RING_DOORBELL);
}

/* --- errors ------------------------------------------------------------------------------- */

// conformance: lane.h: errors of LANE_MAKE, LANE_TAKE and LANE_SOURCE
TEST_F(lane, calls_that_are_refused)
{
	struct treadle_ring_create both = {
		.size = sizeof(both), .flags = TREADLE_RX_LANES | TREADLE_RX_SHARED, .entries = 8};
	struct node plain, dgram, raw;
	struct treadle_ep_enable e;
	struct end end;
	__u64 src;

	EXPECT_EQ(-EINVAL, call(self->a.fd, TREADLE_IOC_RX_CREATE, &both));
	EXPECT_EQ(-EDESTADDRREQ, lane_make(&end, &self->a, 99));
	/* A ring without lanes. */
	node_open(&plain, (struct options){});
	EXPECT_EQ(-EOPNOTSUPP, lane_make(&end, &self->a, peer(&self->a, plain.addr)));
	EXPECT_EQ(-EOPNOTSUPP, lane_take(&end, &plain));
	EXPECT_EQ(0, offers(&plain));
	/* It can send by one all the same. */
	EXPECT_EQ(0, lane_make(&end, &plain, peer(&plain, self->b.addr)));
	lane_unmap(&end);
	/* Other types, and an endpoint that is not enabled, or has no transmit ring. */
	node_open(&dgram, (struct options){.type = TREADLE_EP_DGRAM, .rx_flags = TREADLE_RX_LANES});
	EXPECT_EQ(-EOPNOTSUPP, lane_make(&end, &dgram, peer(&dgram, self->b.addr)));
	EXPECT_EQ(-ECONNREFUSED, lane_make(&end, &self->a, peer(&self->a, dgram.addr)));
	node_create(&raw, laned);
	EXPECT_EQ(-ENOTCONN, lane_make(&end, &raw, peer(&raw, self->b.addr)));
	EXPECT_EQ(-ECONNREFUSED, lane_make(&end, &self->a, peer(&self->a, raw.addr)));
	e = node_bindings(&raw);
	e.tx = 0;
	ASSERT_EQ(0, call(raw.fd, TREADLE_IOC_EP_ENABLE, &e));
	EXPECT_EQ(-EINVAL, lane_make(&end, &raw, peer(&raw, self->b.addr)));
	EXPECT_EQ(0, lane_make(&end, &self->a, peer(&self->a, raw.addr)));
	lane_unmap(&end);
	/* Nothing has come of all that. */
	ASSERT_EQ(0, lane_take(&end, &self->b)); /* of the plain one */
	lane_unmap(&end);
	EXPECT_EQ(-EAGAIN, lane_take(&end, &self->b));
	/* The sender's end has no source. */
	EXPECT_EQ(-EINVAL, lane_source(&self->s, &src));
	close(raw.fd);
	close(dgram.fd);
	close(plain.fd);
}

/* Lanes belong to an endpoint: a ring with lanes has one. */
TEST_F(lane, a_ring_has_one_endpoint)
{
	struct treadle_ep_enable e;
	struct node n;

	node_create(&n, (struct options){.context = self->b.fd, .shared_rx = &self->b.rx});
	e = node_bindings(&n);
	EXPECT_EQ(-EBUSY, call(n.fd, TREADLE_IOC_EP_ENABLE, &e));
	ASSERT_EQ(0, destroy(self->b.fd, self->b.ep));
	EXPECT_TRUE(lane_is_closed(&self->s));
	/* The next one has lanes of its own. */
	ASSERT_EQ(0, call(n.fd, TREADLE_IOC_EP_ENABLE, &e));
	self->to = peer(&self->a, n.addr);
	EXPECT_EQ(0, makes(self));
	EXPECT_EQ(2, offers(&self->b));
}

static int contexts(lane *self)
{
	struct treadle_ep_create whole = {.size = sizeof(whole),
					  .type = TREADLE_EP_RDM,
					  .flags = TREADLE_EP_SCALABLE,
					  .addr = loopback(0)};
	struct treadle_ep_create part = {.size = sizeof(part), .flags = TREADLE_EP_RX_CONTEXT};
	struct node n;
	struct treadle_ep_enable e;
	int ret;

	node_create(&n, laned);
	need(call(n.fd, TREADLE_IOC_EP_CREATE, &whole) == 0);
	part.parent = whole.id;
	need(call(n.fd, TREADLE_IOC_EP_CREATE, &part) == 0);
	e = node_bindings(&n);
	e.ep = part.id;
	e.tx = 0;
	need(call(n.fd, TREADLE_IOC_EP_ENABLE, &e) == 0);
	self->to = peer(&self->a, whole.addr);
	ret = makes(self);
	need(ret == -EOPNOTSUPP);
	/* and as a sender */
	part = (struct treadle_ep_create){
		.size = sizeof(part), .flags = TREADLE_EP_TX_CONTEXT, .parent = whole.id};
	need(call(n.fd, TREADLE_IOC_EP_CREATE, &part) == 0);
	e = (struct treadle_ep_enable){.size = sizeof(e), .ep = part.id, .tx = n.tx.id, .av = n.av};
	need(call(n.fd, TREADLE_IOC_EP_ENABLE, &e) == 0);
	self->a.fd = dup(n.fd);
	n.ep = part.id;
	ret = lane_make(&(struct end){}, &n, peer(&n, self->b.addr));
	close(n.fd);
	return ret;
}

TEST_F(lane, scalable_endpoints_have_none)
{
	int fd = self->a.fd;

	EXPECT_EQ(-EOPNOTSUPP, contexts(self));
	close(fd);
}

TEST_F(lane, as_many_as_the_module_says)
{
	long long most = number_in("/sys/module/treadle/parameters/max_lanes", NULL);
	struct treadle_lane_make m = {.size = sizeof(m), .ep = self->a.ep, .peer = self->to};
	struct end end, taken;
	struct node c, d;
	long long n;

	node_open(&c, laned);
	node_open(&d, laned);
	ASSERT_LT(1, most);
	/* one is there: a context */
	for (n = 1; n < most; n++) {
		ASSERT_EQ(0, call(self->a.fd, TREADLE_IOC_LANE_MAKE, &m));
	}
	EXPECT_EQ(-ENOSPC, call(self->a.fd, TREADLE_IOC_LANE_MAKE, &m));
	EXPECT_EQ(-ENOSPC, lane_make(&end, &self->a, peer(&self->a, d.addr)));
	/* a ring, for another context, too */
	EXPECT_EQ(-ENOSPC, lane_make(&end, &c, peer(&c, self->b.addr)));
	EXPECT_EQ(most, offers(&self->b));
	/* What the sender has closed counts for the ring until it was taken. */
	ASSERT_EQ(0, destroy(self->a.fd, m.id));
	EXPECT_EQ(0, lane_make(&end, &self->a, peer(&self->a, d.addr)));
	lane_unmap(&end);
	EXPECT_EQ(-ENOSPC, lane_make(&end, &c, peer(&c, self->b.addr)));
	ASSERT_EQ(0, lane_take(&taken, &self->b));
	lane_unmap(&taken);
	EXPECT_EQ(-ENOSPC, lane_make(&end, &c, peer(&c, self->b.addr)));
	ASSERT_EQ(0, destroy(self->b.fd, taken.id));
	EXPECT_EQ(0, lane_make(&end, &c, peer(&c, self->b.addr)));
	lane_unmap(&end);
	close(c.fd);
	close(d.fd);
}

TEST_F(lane, the_administrator_switches_them_off)
{
	EXPECT_TRUE(query(self->a.fd).features & TREADLE_FEATURE_LANE);
	write_to("/sys/module/treadle/parameters/direct", "0");
	EXPECT_FALSE(query(self->a.fd).features & TREADLE_FEATURE_LANE);
	EXPECT_EQ(-EOPNOTSUPP, makes(self));
	write_to("/sys/module/treadle/parameters/direct", "1");
	EXPECT_EQ(0, makes(self));
}

/* --- rights ------------------------------------------------------------------------------- */

struct attempt {
	enum cred from, to;
	bool hides_from, hides_to; /* not dumpable */
	bool key;
	int error;
	struct treadle_addr addr;
	int ready, stop;
};

/* After a change of its user a process is not dumpable until it says so. */
static void is_dumpable(bool hidden)
{
	need(prctl(PR_SET_DUMPABLE, !hidden) == 0);
}

static void has_ring(void *arg)
{
	struct attempt *a = arg;
	struct node n;

	become(a->to);
	is_dumpable(a->hides_to);
	node_open(&n, (struct options){.auth_key = a->key ? "key" : NULL,
				       .rx_flags = TREADLE_RX_LANES});
	a->addr = n.addr;
	raise_to(&a->ready, 1);
	await(&a->stop, 1);
	need((offers(&n) == 1) == (a->error == 0));
}

static void asks(void *arg)
{
	struct attempt *a = arg;
	struct end end;
	struct node n;
	int ret;

	become(a->from);
	is_dumpable(a->hides_from);
	node_open(&n, (struct options){.auth_key = a->key ? "key" : NULL});
	ret = lane_make(&end, &n, peer(&n, a->addr));
	if (ret != a->error)
		note("%d, expected %d", ret, a->error);
	need(ret == a->error);
}

// conformance: lane.h: EXDEV, EACCES: lanes only between processes that are open to each other
TEST(rights_to_a_lane)
{
	static const struct attempt attempts[] = {
		{ALICE, ALICE, .error = 0},
		{ROOT, ROOT, .error = 0},
		{ALICE, ALICE, .hides_from = true, .error = -EXDEV},
		{ALICE, ALICE, .hides_to = true, .error = -EXDEV},
		{ALICE, BOB, .error = -EACCES},
		{ALICE, BOB, .key = true, .error = -EXDEV},
		{ROOT, ALICE, .key = true, .error = -EXDEV},
		{ALICE, ROOT, .key = true, .error = -EXDEV},
		{ELSEWHERE, ROOT, .key = true, .error = -EXDEV},
		{ROOT, ELSEWHERE, .key = true, .error = -EXDEV},
	};

	for (int i = 0; i < ARRAY_SIZE(attempts); i++) {
		struct attempt *a = shared(sizeof(*a));
		pid_t pid;

		about("attempt %d", i);
		*a = attempts[i];
		pid = spawn(has_ring, a);
		await(&a->ready, 1);
		EXPECT_EQ(0, reap(spawn(asks, a)));
		raise_to(&a->stop, 1);
		EXPECT_EQ(0, reap(pid));
	}
}

/* --- maps --------------------------------------------------------------------------------- */

static struct treadle_map grown(struct treadle_map m, long offset, long length)
{
	return (struct treadle_map){m.offset + offset, m.length + length};
}

static void touches(void *at)
{
	*(volatile char *)at;
}

static void maps_it(void *arg)
{
	lane *self = arg;

	need(lane_maps(self->a.fd, self->s.rw_map, PROT_READ, MAP_SHARED) == -EPERM);
	need(lane_maps(self->a.fd, self->s.ro_map, PROT_READ, MAP_SHARED) == -EPERM);
}

TEST_F(lane, maps_that_are_not_as_they_should_be)
{
	const struct treadle_map rw = self->s.rw_map, ro = self->s.ro_map;
	const int both = PROT_READ | PROT_WRITE;
	int fd = self->a.fd;

	EXPECT_EQ(0, lane_maps(fd, rw, both, MAP_SHARED));
	EXPECT_EQ(-EINVAL, lane_maps(fd, rw, both, MAP_PRIVATE));
	EXPECT_EQ(-EACCES, lane_maps(fd, rw, both | PROT_EXEC, MAP_SHARED));
	EXPECT_EQ(-EINVAL, lane_maps(fd, grown(rw, 0, -PAGE), both, MAP_SHARED));
	EXPECT_EQ(-EINVAL, lane_maps(fd, grown(rw, 0, PAGE), both, MAP_SHARED));
	EXPECT_NE(0, lane_maps(fd, grown(rw, PAGE, 0), both, MAP_SHARED));
	EXPECT_EQ(PAGE, ro.length);
	EXPECT_EQ(-EACCES, lane_maps(fd, ro, both, MAP_SHARED));
	EXPECT_EQ(-EACCES, lane_maps(fd, ro, PROT_READ | PROT_EXEC, MAP_SHARED));
	EXPECT_EQ(-EINVAL, lane_maps(fd, grown(ro, 0, PAGE), PROT_READ, MAP_SHARED));
	EXPECT_EQ(-1, mprotect((void *)self->s.ro, PAGE, both));
	EXPECT_EQ(-1, mprotect((void *)self->s.lane, PAGE, PROT_READ | PROT_EXEC));
	EXPECT_EQ(MAP_FAILED, mremap((void *)self->s.lane, BYTES, BYTES + PAGE, MREMAP_MAYMOVE));
	/* The receiver has no page of the sender's. */
	EXPECT_EQ(-EINVAL, lane_maps(self->b.fd,
				     (struct treadle_map){
					     ro.offset - rw.offset + self->r.rw_map.offset, PAGE},
				     PROT_READ, MAP_SHARED));
	/* Other processes have nothing of it. */
	EXPECT_EQ(0, reap(spawn(maps_it, self)));
	EXPECT_EQ(-SIGSEGV, reap(spawn(touches, (void *)self->s.lane)));
	EXPECT_EQ(-SIGSEGV, reap(spawn(touches, (void *)self->s.ro)));
	EXPECT_EQ(-SIGSEGV, reap(spawn(touches, (void *)self->r.lane)));
}

TEST_HARNESS_MAIN
