// SPDX-License-Identifier: GPL-2.0
/* Lanes: what an end learns of the other one's end, and what the kernel makes of their contents. */
#include "lane.h"

/* Maps stay when an end was destroyed, but nothing new is mapped. */
TEST_F(lane, destroyed_while_it_is_mapped)
{
	ASSERT_EQ(0, destroy(self->a.fd, self->s.id));
	ASSERT_EQ(0, destroy(self->b.fd, self->r.id));
	EXPECT_EQ(-ENOENT, destroy(self->a.fd, self->s.id));
	EXPECT_EQ(-ENOENT, destroy(self->b.fd, self->r.id));
	fill((char *)self->s.lane + PAGE, BYTES - PAGE, 3);
	EXPECT_TRUE(same((char *)self->r.lane + PAGE, BYTES - PAGE, 3));
	EXPECT_EQ(1, self->s.ro->offers);
	EXPECT_EQ(-ENOENT, lane_maps(self->a.fd, self->s.rw_map, PROT_READ, MAP_SHARED));
	EXPECT_EQ(-ENOENT, lane_maps(self->b.fd, self->r.rw_map, PROT_READ, MAP_SHARED));
	EXPECT_TRUE(lane_is_closed(&self->s));
	EXPECT_TRUE(is_gone(&self->r));
}

/* --- ends --------------------------------------------------------------------------------- */

TEST_F(lane, the_senders_end)
{
	EXPECT_EQ(-EBUSY, destroy(self->a.fd, self->a.ep));
	EXPECT_FALSE(is_gone(&self->r));
	self->s.lane->tail = 5;
	ASSERT_EQ(0, destroy(self->a.fd, self->s.id));
	EXPECT_TRUE(is_gone(&self->r));
	EXPECT_EQ(5, self->r.lane->tail);
	EXPECT_FALSE(lane_is_closed(&self->s));
	EXPECT_EQ(0, destroy(self->a.fd, self->a.ep));
}

TEST_F(lane, the_receivers_end)
{
	struct end waits;

	/* Its endpoint does not wait for lanes. */
	ASSERT_EQ(0, lane_make(&waits, &self->a, self->to));
	EXPECT_FALSE(lane_is_closed(&self->s));
	ASSERT_EQ(0, destroy(self->b.fd, self->r.id));
	EXPECT_TRUE(lane_is_closed(&self->s));
	EXPECT_FALSE(lane_is_closed(&waits));
	ASSERT_EQ(0, destroy(self->b.fd, self->b.ep));
	EXPECT_TRUE(lane_is_closed(&waits));
	EXPECT_EQ(-EAGAIN, lane_take(&self->r, &self->b));
	EXPECT_EQ(-ECONNREFUSED, makes(self));
	EXPECT_EQ(0, destroy(self->b.fd, self->b.rx.id));
	EXPECT_FALSE(is_gone(&self->s));
	/* The page of the ring stays. */
	EXPECT_EQ(2, self->s.ro->offers);
	lane_unmap(&waits);
}

TEST_F(lane, the_receivers_endpoint)
{
	__u64 src = 0;

	ASSERT_EQ(0, destroy(self->b.fd, self->b.ep));
	EXPECT_TRUE(lane_is_closed(&self->s));
	EXPECT_EQ(0, destroy(self->b.fd, self->b.rx.id));
	EXPECT_EQ(0, lane_source(&self->r, &src));
	EXPECT_EQ(ANY, src);
	EXPECT_EQ(0, destroy(self->b.fd, self->r.id));
}

struct party {
	struct treadle_addr addr;
	int ready, stop;
	bool offers;
};

/* Takes what is offered, or offers to the address; then it waits for its end. */
static void takes_part(void *arg)
{
	struct party *p = arg;
	struct end end;
	struct node n;

	node_open(&n, laned);
	if (p->offers) {
		need(lane_make(&end, &n, peer(&n, p->addr)) == 0);
		end.lane->tail = 3;
	} else {
		p->addr = n.addr;
		raise_to(&p->ready, 1);
		while (!offers(&n))
			usleep(1000);
		need(lane_take(&end, &n) == 0);
		end.lane->head = 4;
	}
	raise_to(&p->ready, 2);
	await(&p->stop, 1);
}

static void end_of(pid_t pid, struct party *p, bool killed)
{
	if (killed)
		kill(pid, SIGKILL);
	else
		raise_to(&p->stop, 1);
	need(reap(pid) == (killed ? -SIGKILL : 0));
}

static void receiver_ends(lane *self, bool killed)
{
	struct party *p = shared(sizeof(*p));
	pid_t pid = spawn(takes_part, p);
	struct end s, waits;

	await(&p->ready, 1);
	self->to = peer(&self->a, p->addr);
	need(lane_make(&s, &self->a, self->to) == 0);
	await(&p->ready, 2);
	need(lane_make(&waits, &self->a, self->to) == 0);
	need(s.lane->head == 4 && !lane_is_closed(&s) && !lane_is_closed(&waits));
	end_of(pid, p, killed);
	need(lane_is_closed(&s) && lane_is_closed(&waits));
	lane_unmap(&s);
	lane_unmap(&waits);
}

/* Its messages can still be taken. */
static void sender_ends(lane *self, bool killed)
{
	struct party *p = shared(sizeof(*p));
	struct end r;
	pid_t pid;

	*p = (struct party){.addr = self->b.addr, .offers = true};
	pid = spawn(takes_part, p);
	await(&p->ready, 2);
	end_of(pid, p, killed);
	need(lane_take(&r, &self->b) == 0);
	need(is_gone(&r) && r.lane->tail == 3);
	lane_unmap(&r);
}

/* Processes that exit, or are killed, end their lanes as if they had closed them. */
TEST_F(lane, a_process_that_ends)
{
	for (int killed = 0; killed < 2; killed++) {
		receiver_ends(self, killed);
		sender_ends(self, killed);
	}
}

/* --- the name of the sender ----------------------------------------------------------------- */

TEST_F(lane, the_source_is_looked_up)
{
	__u64 src = 0, index;

	EXPECT_EQ(0, lane_source(&self->r, &src));
	EXPECT_EQ(ANY, src);
	index = peer(&self->b, self->a.addr);
	EXPECT_EQ(0, lane_source(&self->r, &src));
	EXPECT_EQ(index, src);
	ASSERT_EQ(0, av_remove(self->b.fd, self->b.av, &index, 1));
	EXPECT_EQ(0, lane_source(&self->r, &src));
	EXPECT_EQ(ANY, src);
	/* The sender may be gone. */
	ASSERT_EQ(0, destroy(self->a.fd, self->s.id));
	index = peer(&self->b, self->a.addr);
	EXPECT_EQ(0, lane_source(&self->r, &src));
	EXPECT_EQ(index, src);
}

/* --- what processes write --------------------------------------------------------------------- */

TEST_F(lane, the_kernel_reads_nothing)
{
	char buf[8] = "";

	memset((void *)self->s.lane, 0xff, BYTES);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(buf, 8, ANY, 2)));
	ASSERT_EQ(1, post(&self->a, send_of(buf, 8, self->to, 1)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_EQ(0, makes(self));
	ASSERT_EQ(0, destroy(self->b.fd, self->b.ep));
	EXPECT_TRUE(lane_is_closed(&self->s));
	memset((void *)self->r.lane, 0xff, BYTES);
	ASSERT_EQ(0, destroy(self->b.fd, self->r.id));
	ASSERT_EQ(0, destroy(self->a.fd, self->s.id));
	EXPECT_TRUE(is_gone(&self->r));
	EXPECT_EQ(~0ULL, self->r.lane->head);
}

/* --- memory --------------------------------------------------------------------------------- */

TEST_F(lane, the_sender_pays)
{
	struct party *p = shared(sizeof(*p));
	pid_t pid = spawn(takes_part, p);
	struct treadle_lane_make m = {.size = sizeof(m), .ep = self->a.ep};
	long long before, bytes;
	char group[64];

	await(&p->ready, 1);
	cgroup_enter(group);
	m.peer = peer(&self->a, p->addr);
	before = cgroup_kernel(group);
	for (int i = 0; i < 64; i++) {
		ASSERT_EQ(0, call(self->a.fd, TREADLE_IOC_LANE_MAKE, &m));
	}
	bytes = cgroup_kernel(group) - before;
	note("%lld bytes for a lane", bytes / 64);
	EXPECT_LE(64 * BYTES - 16 * PAGE, bytes);
	EXPECT_GT(64 * (BYTES + 2 * PAGE), bytes);
	await(&p->ready, 2);
	raise_to(&p->stop, 1);
	EXPECT_EQ(0, reap(pid));
}

TEST_HARNESS_MAIN
