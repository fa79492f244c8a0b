/* SPDX-License-Identifier: GPL-2.0 */
/* What netlink says of other nodes, and to which processes. */
#include "nodes.h"
#include "remote.h"

static bool is_at(const struct other_node *n, int side)
{
	struct treadle_addr addr = at(side);

	return memcmp(&n->addr, &addr, sizeof(addr)) == 0;
}

/* Waits until it is so. */
#define UNTIL(n, side, condition)                                \
	do {                                                     \
		const __u64 end = now_ns() + PATIENCE_NS;        \
		while ((n) = node_of_side(side), !(condition)) { \
			need(now_ns() < end);                    \
			usleep(1000);                            \
		}                                                \
	} while (0)

static void exchange(struct node *a, __u64 to, struct node *b, char *src, char *dst)
{
	need(post_recv(b, recv_of(dst, 8, ANY, 1)) >= 0);
	need(outcome(a, send_of(src, 8, to, 1)) == 0);
	need(cq_next(&b->rcq).error == 0);
}

TEST_F(remote, an_idle_node_is_known_by_its_address)
{
	struct other_node n = node_of_side(1);

	EXPECT_TRUE(is_at(&n, 2));
	EXPECT_LT(0, n.number);
	EXPECT_EQ(TREADLE_PEER_STATE_IDLE, n.state);
	EXPECT_TRUE(n.counted);
	EXPECT_FALSE(n.heard);
	EXPECT_EQ(0, n.error);
	EXPECT_EQ(0, n.state_ms | n.round_trip_ns | n.sent | n.resent | n.received | n.links);
	EXPECT_EQ(0, n.unacknowledged | n.credits | n.under_way | n.queued | n.executing);
}

TEST_F(remote, nodes_come_in_the_order_of_their_numbers)
{
	struct other_node nodes[9];
	__u64 before = 0;

	for (int side = 3; side < 10; side++)
		peer(&self->a, at(side));
	ASSERT_EQ(8, nodes_of(1, nodes, 9));
	for (int side = 2; side < 10; side++) {
		const struct other_node *n = &nodes[side - 2];

		EXPECT_TRUE(is_at(n, side));
		EXPECT_LT(before, n->number);
		before = n->number;
	}
}

TEST_F(remote, frames_and_the_round_trip_are_counted)
{
	struct other_node n, other;

	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	/* a busy host may have reconnected meanwhile */
	UNTIL(n, 1,
	      n.state == TREADLE_PEER_STATE_UP && n.round_trip_ns && n.received &&
		      !n.unacknowledged);
	EXPECT_LT(0, n.sent);
	EXPECT_LE(1, n.links);
	EXPECT_EQ(1, n.sessions);
	EXPECT_LT(0, n.credits);
	EXPECT_EQ(0, n.under_way | n.queued | n.executing | n.error);
	EXPECT_GT(PATIENCE_NS / 1000000, n.silent_ms);
	EXPECT_GT(PATIENCE_NS, n.round_trip_ns);
	UNTIL(other, 2, other.state == TREADLE_PEER_STATE_UP);
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

/* What has gone to another node counts there: a message, and what RMA does. */
TEST_F(remote, the_path_is_counted)
{
	struct counters c;
	__u32 context;
	struct nl nl;

	enter(1);
	nl_open(&nl);
	enter(0);
	context = nl_context_of(&nl, &self->a);
	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	c = nl_counters_of(&nl, TREADLE_CMD_ENDPOINT_GET, context, self->a.ep);
	EXPECT_EQ(1, c.n[TREADLE_A_COUNTERS_REMOTE]);
	EXPECT_EQ(0, c.n[TREADLE_A_COUNTERS_LOCAL]);
	ASSERT_EQ(0, outcome(&self->a, write_of(self->src, 8, self->to, 0, self->key, 0)));
	c = nl_counters_of(&nl, TREADLE_CMD_ENDPOINT_GET, context, self->a.ep);
	EXPECT_EQ(2, c.n[TREADLE_A_COUNTERS_REMOTE]);
	EXPECT_EQ(0, c.n[TREADLE_A_COUNTERS_LOCAL]);
	/* these bytes were not copied here */
	EXPECT_EQ(0, c.n[TREADLE_A_COUNTERS_COPIES_CALLER] + c.n[TREADLE_A_COUNTERS_COPIES_WORKER]);
	close(nl.fd);
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
	struct other_node n;

	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	for (int i = 0; i < 3; i++) /* too long to be kept without a receive */
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 1 << 20, self->to, i)));
	UNTIL(n, 2, n.executing == 3);
	n = node_of_side(1);
	EXPECT_EQ(3, n.under_way);
	EXPECT_EQ(0, n.queued | n.executing);
	for (int i = 0; i < 3; i++)
		ASSERT_LE(0, post_recv(&self->b, recv_of(self->dst, LARGE, ANY, i)));
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	}
	UNTIL(n, 1, !n.under_way);
	UNTIL(n, 2, !n.executing);
}

TEST_F(remote, reconnections_are_counted)
{
	struct other_node n;

	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	ASSERT_EQ(0, loop("reset 1"));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, 1)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, 1)));
	while (!loop_count("resets"))
		usleep(1000);
	ASSERT_EQ(0, loop("off"));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	UNTIL(n, 1, n.state == TREADLE_PEER_STATE_UP);
	EXPECT_LE(2, n.links);
	EXPECT_EQ(1, n.sessions);
}

TEST_F(remote, a_node_that_is_not_reached_says_why)
{
	struct other_node n;

	exchange(&self->a, self->to, &self->b, self->src, self->dst);
	ASSERT_EQ(0, loop("close 10.0.0.2"));
	UNTIL(n, 1, n.state == TREADLE_PEER_STATE_LOST);
	EXPECT_NE(0, n.error);
	UNTIL(n, 1, n.state == TREADLE_PEER_STATE_IDLE);
	EXPECT_EQ(EHOSTUNREACH, n.error);
	EXPECT_EQ(1, n.sessions);

	ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, 1)));
	n = node_of_side(1);
	if (cq_empty(&self->a.cq)) { /* else it has been given up on a busy host */
		EXPECT_EQ(TREADLE_PEER_STATE_CONNECTING, n.state);
		EXPECT_EQ(1, n.queued);
	}
	EXPECT_EQ(EHOSTUNREACH, cq_next(&self->a.cq).error);
	UNTIL(n, 1, !n.queued && n.state == TREADLE_PEER_STATE_IDLE);

	/* Another network namespace knows no such node. */
	EXPECT_EQ(0, nodes_of(0, &n, 1));
}

/* --- other users ------------------------------------------------------------------------------ */

static void sees(void *arg)
{
	const enum cred cred = *(enum cred *)arg;
	const __u64 end = now_ns() + PATIENCE_NS;
	struct other_node n, zero = {};
	struct nl nl;

	enter(1);
	become(cred);
	nl_open(&nl);
	do {
		need(now_ns() < end && nodes_dump(&nl, &n, 1) == 1);
		usleep(1000);
	} while (n.state != TREADLE_PEER_STATE_UP);
	need(is_at(&n, 2) && !n.counted);
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
