/* SPDX-License-Identifier: GPL-2.0 */
/* What NEXT_NODE says of other nodes, and to which processes. */
#include "remote.h"

static int node_after(int fd, __u32 number, struct treadle_next_node *n)
{
	*n = (struct treadle_next_node){.size = sizeof(*n), .number = number};
	return call(fd, TREADLE_IOC_NEXT_NODE, n);
}

/* The only node that a context knows. */
static struct treadle_next_node only(int fd)
{
	struct treadle_next_node n, next;

	need(node_after(fd, 0, &n) == 0);
	need(node_after(fd, n.number, &next) == -ENOENT);
	return n;
}

static bool is_at(const struct treadle_next_node *n, int side)
{
	struct treadle_addr addr = at(side);

	return memcmp(&n->addr, &addr, sizeof(addr)) == 0;
}

/* Waits until it is so. */
#define UNTIL(n, fd, condition)                           \
	do {                                              \
		const __u64 end = now_ns() + PATIENCE_NS; \
		while ((n) = only(fd), !(condition)) {    \
			need(now_ns() < end);             \
			usleep(1000);                     \
		}                                         \
	} while (0)

static void exchange(struct node *a, __u64 to, struct node *b, char *src, char *dst)
{
	need(post_recv(b, recv_of(dst, 8, ANY, 1)) >= 0);
	need(outcome(a, send_of(src, 8, to, 1)) == 0);
	need(cq_next(&b->rcq).error == 0);
}

TEST_F(remote, an_idle_node_is_known_by_its_address)
{
	struct treadle_next_node n = only(self->a.fd);

	EXPECT_TRUE(is_at(&n, 2));
	EXPECT_LT(0, n.number);
	EXPECT_EQ(TREADLE_NODE_IDLE, n.state);
	EXPECT_EQ(TREADLE_NODE_COUNTED, n.flags);
	EXPECT_EQ(~0ULL, n.silent_ms);
	EXPECT_EQ(0, n.error);
	EXPECT_EQ(0, n.state_ms | n.round_trip_ns | n.sent | n.resent | n.received | n.links);
	EXPECT_EQ(0, n.unacknowledged | n.credits | n.under_way | n.queued | n.executing);
	EXPECT_EQ(-ENOENT, node_after(self->a.fd, 65534, &n));
	EXPECT_EQ(-ENOENT, node_after(self->a.fd, ~0U, &n));
}

TEST_F(remote, nodes_come_in_the_order_of_their_numbers)
{
	struct treadle_next_node n = {};
	__u32 before = 0;

	for (int side = 3; side < 10; side++)
		peer(&self->a, at(side));
	for (int side = 2; side < 10; side++) {
		ASSERT_EQ(0, node_after(self->a.fd, n.number, &n));
		EXPECT_TRUE(is_at(&n, side));
		EXPECT_LT(before, n.number);
		before = n.number;
	}
	EXPECT_EQ(-ENOENT, node_after(self->a.fd, n.number, &n));
}

TEST_F(remote, frames_and_the_round_trip_are_counted)
{
	struct treadle_next_node n, other;

	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	/* a busy host may have reconnected meanwhile */
	UNTIL(n, self->a.fd,
	      n.state == TREADLE_NODE_UP && n.round_trip_ns && n.received && !n.unacknowledged);
	EXPECT_LT(0, n.sent);
	EXPECT_LE(1, n.links);
	EXPECT_EQ(1, n.sessions);
	EXPECT_LT(0, n.credits);
	EXPECT_EQ(0, n.under_way | n.queued | n.executing | n.error);
	EXPECT_GT(PATIENCE_NS / 1000000, n.silent_ms);
	EXPECT_GT(PATIENCE_NS, n.round_trip_ns);
	UNTIL(other, self->b.fd, other.state == TREADLE_NODE_UP);
	EXPECT_TRUE(is_at(&other, 1));
	note("a round trip takes %llu ns", n.round_trip_ns);
}

/* Waits until `treadlectl peers` on the first node says so. */
static void until_tool_says(const char *words)
{
	const __u64 end = now_ns() + PATIENCE_NS;
	char text[4096];

	do {
		FILE *pipe;
		size_t n;

		enter(1);
		pipe = popen("treadlectl peers 2>&1", "r");
		need(pipe);
		n = fread(text, 1, sizeof(text) - 1, pipe);
		text[n] = 0;
		enter(0);
		need(pclose(pipe) == 0);
		if (now_ns() > end)
			note("treadlectl peers: %s", text);
		need(now_ns() < end);
	} while (!strstr(text, words));
}

TEST_F(remote, treadlectl_shows_them)
{
	until_tool_says("10.0.0.2: idle\n");
	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	until_tool_says("10.0.0.2: up for ");
	until_tool_says("; sessions: 1, reconnects: ");
	until_tool_says(" resent, ");
	until_tool_says("commands: 0 under way, 0 queued, ");
}

TEST_F(remote, commands_that_wait_are_counted)
{
	struct treadle_next_node n;

	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	for (int i = 0; i < 3; i++) /* too long to be kept without a receive */
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 1 << 20, self->to, i)));
	UNTIL(n, self->b.fd, n.executing == 3);
	n = only(self->a.fd);
	EXPECT_EQ(3, n.under_way);
	EXPECT_EQ(0, n.queued | n.executing);
	for (int i = 0; i < 3; i++)
		ASSERT_LE(0, post_recv(&self->b, recv_of(self->dst, LARGE, ANY, i)));
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	}
	UNTIL(n, self->a.fd, !n.under_way);
	UNTIL(n, self->b.fd, !n.executing);
}

TEST_F(remote, reconnections_are_counted)
{
	struct treadle_next_node n;

	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	ASSERT_EQ(0, loop("reset 1"));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, 1)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, 1)));
	while (!loop_count("resets"))
		usleep(1000);
	ASSERT_EQ(0, loop("off"));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	UNTIL(n, self->a.fd, n.state == TREADLE_NODE_UP);
	EXPECT_LE(2, n.links);
	EXPECT_EQ(1, n.sessions);
}

TEST_F(remote, a_node_that_is_not_reached_says_why)
{
	struct treadle_next_node n;
	int other;

	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	ASSERT_EQ(0, loop("close 10.0.0.2"));
	UNTIL(n, self->a.fd, n.state == TREADLE_NODE_LOST);
	EXPECT_NE(0, n.error);
	UNTIL(n, self->a.fd, n.state == TREADLE_NODE_IDLE);
	EXPECT_EQ(EHOSTUNREACH, n.error);
	EXPECT_EQ(1, n.sessions);

	ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, 1)));
	n = only(self->a.fd);
	if (cq_empty(&self->a.cq)) { /* else it has been given up on a busy host */
		EXPECT_EQ(TREADLE_NODE_CONNECTING, n.state);
		EXPECT_EQ(1, n.queued);
	}
	EXPECT_EQ(EHOSTUNREACH, cq_next(&self->a.cq).error);
	UNTIL(n, self->a.fd, !n.queued && n.state == TREADLE_NODE_IDLE);

	/* Another network namespace knows no such node. */
	enter(0);
	other = device();
	EXPECT_EQ(-ENOENT, node_after(other, 0, &n));
	close(other);
}

/* --- other users ------------------------------------------------------------------------------ */

static void sees(void *arg)
{
	const enum cred cred = *(enum cred *)arg;
	struct treadle_next_node n, zero = {.size = sizeof(n)};
	int fd;

	enter(1);
	become(cred);
	fd = device();
	UNTIL(n, fd, n.state == TREADLE_NODE_UP);
	need(is_at(&n, 2) && !n.flags);
	/* Nothing but address, state and error. */
	zero.number = n.number;
	zero.addr = n.addr;
	zero.state = n.state;
	zero.state_ms = n.state_ms;
	need(memcmp(&n, &zero, sizeof(n)) == 0);
}

TEST_F(remote, counts_need_a_capability)
{
	enum cred *cred = shared(sizeof(*cred));

	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	*cred = ALICE;
	EXPECT_EQ(0, reap(spawn(sees, cred)));
	/* A user namespace that does not own the network namespace gives none. */
	*cred = ELSEWHERE;
	EXPECT_EQ(0, reap(spawn(sees, cred)));
}

TEST_HARNESS_MAIN
