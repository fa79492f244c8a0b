/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints of what goes to another node: what names a command on both of them. */
#include "remote.h"
#include "../tracefs.h"

/* The command with this context, as both nodes name it: both events have the same name. */
static long long crossed(int *at, __u64 context)
{
	long long msg = value(find(at, "post", "context", context), "msg");
	const struct event *sent = find(at, "remote_send", "msg", msg), *came;

	came = find(at, "remote_arrive", "reference", value(sent, "reference"));
	need(value(sent, "reference") != 0 && value(sent, "session") == value(came, "session"));
	need(value(came, "msg") != msg && value(came, "ctx") == 0 && value(came, "host") != 0);
	return value(came, "msg");
}

TEST_F(remote, a_message_is_followed_from_node_to_node)
{
	long long there, here;
	int at = 0;

	if (!trace_begin())
		SKIP(return, "the kernel has no tracefs");
	for (int i = 0; i < 2; i++) { /* the second one is longer than a frame */
		__u64 len = i ? 100000 : 10;

		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, LARGE, ANY, 2 + i)));
		EXPECT_EQ(0, outcome(&self->a, send_of(self->src, len, self->to, 100 + i)));
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
		EXPECT_EQ(0, outcome(&self->a,
				     write_of(self->src, len, self->to, 0, self->key, 200 + i)));
	}
	trace_read();
	find(&at, "peer_up", "error", 0);
	for (int i = 0; i < 2; i++) {
		at = 0;
		here = value(find(&at, "post", "context", 100 + i), "msg");
		at = 0;
		there = crossed(&at, 100 + i);
		EXPECT_EQ(2 + i, value(find(&at, "match", "msg", there), "context"));
		EXPECT_TRUE(has("copy_begin", "msg", there));
		EXPECT_TRUE(has("complete", "msg", there));
		EXPECT_TRUE(has("complete", "msg", here));
	}
	at = 0;
	there = crossed(&at, 200);
	find(&at, "copy_begin", "msg", there);
	trace_end();
}

TEST_F(remote, a_link_that_is_lost_and_a_node_that_is)
{
	int at = 0;

	if (!trace_begin())
		SKIP(return, "the kernel has no tracefs");
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, 1)));
	ASSERT_EQ(0, outcome(&self->a, send_of(self->src, 8, self->to, 1)));
	ASSERT_EQ(0, cq_next(&self->b.rcq).error);
	ASSERT_EQ(0, loop("reset 1"));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, 1)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, 1)));
	while (!loop_count("resets"))
		usleep(1000);
	ASSERT_EQ(0, loop("off"));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	ASSERT_EQ(0, loop("close 10.0.0.2"));
	EXPECT_NE(0, outcome(&self->a, send_of(self->src, 8, self->to, 1)));
	trace_read();
	find(&at, "peer_up", "error", 0);
	find(&at, "link_down", "host", value(&traced[at - 1], "host"));
	find(&at, "reconnect", "session", value(&traced[at - 1], "session"));
	find(&at, "peer_down", "session", value(&traced[at - 1], "session"));
	EXPECT_GT(0, value(&traced[at - 1], "error"));
	trace_end();
}

TEST_HARNESS_MAIN
