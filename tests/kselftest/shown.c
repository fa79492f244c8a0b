// SPDX-License-Identifier: GPL-2.0
/* Windows and lanes, as netlink shows them. What they have is told without stopping either end. */
#include "lane.h"
#include "netlink.h"
#include "window.h"

/* Finds the object with this id in the context of @n: exactly one. */
static const struct nlmsghdr *shown(struct nl *nl, __u8 cmd, const struct node *n, __u32 id)
{
	static char copy[4096];
	const struct nlmsghdr *h;
	__u32 context = nl_context_of(nl, n);
	int found = 0;

	nl_dump(nl, cmd, TREADLE_A_LANE_CONTEXT, context);
	while ((h = nl_next(nl))) {
		need(nl_u(h, TREADLE_A_LANE_CONTEXT) == context); /* the same in both sets */
		need(nl_u(h, TREADLE_A_LANE_PID) == (__u64)getpid());
		if (nl_u(h, TREADLE_A_LANE_ID) != id)
			continue;
		need(h->nlmsg_len <= sizeof(copy));
		memcpy(copy, h, h->nlmsg_len);
		found++;
	}
	need(nl->error == 0 && found <= 1);
	return found ? (const void *)copy : NULL;
}

TEST_F(lane, both_ends_are_shown)
{
	const struct nlmsghdr *h;
	struct nl nl;

	nl_open(&nl);
	self->s.lane->state = TREADLE_LANE_OPEN;
	self->s.lane->tail = 7;
	self->s.lane->head = 4;
	ASSERT_NE(NULL, h = shown(&nl, TREADLE_CMD_LANE_GET, &self->a, self->s.id));
	EXPECT_EQ(TREADLE_DIRECTION_OUT, nl_u(h, TREADLE_A_LANE_DIRECTION));
	EXPECT_EQ(self->a.ep, nl_u(h, TREADLE_A_LANE_ENDPOINT));
	EXPECT_EQ(NULL, nl_attr(h, TREADLE_A_LANE_RX));
	EXPECT_EQ(ntohs(self->a.addr.port), nl_u(h, TREADLE_A_LANE_PORT));
	EXPECT_EQ(3, nl_u(h, TREADLE_A_LANE_WAITING));
	EXPECT_NE(NULL, nl_attr(h, TREADLE_A_LANE_OPEN));
	EXPECT_EQ(NULL, nl_attr(h, TREADLE_A_LANE_CLOSED));
	ASSERT_NE(NULL, h = shown(&nl, TREADLE_CMD_LANE_GET, &self->b, self->r.id));
	EXPECT_EQ(TREADLE_DIRECTION_IN, nl_u(h, TREADLE_A_LANE_DIRECTION));
	EXPECT_EQ(self->b.rx.id, nl_u(h, TREADLE_A_LANE_RX));
	EXPECT_EQ(NULL, nl_attr(h, TREADLE_A_LANE_ENDPOINT));
	EXPECT_EQ(ntohs(self->a.addr.port), nl_u(h, TREADLE_A_LANE_PORT));
	/* Whatever the two processes write there. */
	self->s.lane->head = 9;
	self->s.lane->state = ~TREADLE_LANE_OPEN & ~TREADLE_LANE_CLOSED;
	ASSERT_NE(NULL, h = shown(&nl, TREADLE_CMD_LANE_GET, &self->b, self->r.id));
	EXPECT_EQ(TREADLE_LANE_UNITS, nl_u(h, TREADLE_A_LANE_WAITING));
	EXPECT_EQ(NULL, nl_attr(h, TREADLE_A_LANE_OPEN));
	/* An end that is gone is not shown, and the other one says so. */
	ASSERT_EQ(0, destroy(self->a.fd, self->s.id));
	EXPECT_EQ(NULL, shown(&nl, TREADLE_CMD_LANE_GET, &self->a, self->s.id));
	ASSERT_NE(NULL, h = shown(&nl, TREADLE_CMD_LANE_GET, &self->b, self->r.id));
	EXPECT_NE(NULL, nl_attr(h, TREADLE_A_LANE_CLOSED));
}

#define LEN (70 * PAGE) /* more than a word of bits */

TEST_F(lane, windows_are_shown)
{
	const struct nlmsghdr *h;
	struct window w;
	__u64 key = 77;
	__u32 region;
	struct nl nl;
	char *there = pages(LEN);

	nl_open(&nl);
	memset(there, 0, LEN);
	ASSERT_EQ(0, mr(self->b.fd, there + 8, LEN - 8, BOTH, 0, &key, &region));
	ASSERT_EQ(0, window_open(&w, &self->a, self->to, key, 0, 8, TREADLE_ACCESS_REMOTE_READ));
	window_map(&w);
	ASSERT_NE(NULL, h = shown(&nl, TREADLE_CMD_WINDOW_GET, &self->a, w.o.id));
	EXPECT_EQ(self->a.ep, nl_u(h, TREADLE_A_WINDOW_ENDPOINT));
	EXPECT_EQ(w.o.addr, nl_u(h, TREADLE_A_WINDOW_ADDR));
	EXPECT_EQ(LEN - 8, nl_u(h, TREADLE_A_WINDOW_LENGTH));
	EXPECT_EQ(TREADLE_ACCESS_REMOTE_READ, nl_u(h, TREADLE_A_WINDOW_ACCESS));
	EXPECT_EQ(70, nl_u(h, TREADLE_A_WINDOW_PAGES));
	EXPECT_EQ(0, nl_u(h, TREADLE_A_WINDOW_PRESENT));
	EXPECT_EQ(0, nl_u(h, TREADLE_A_WINDOW_TAKEN));
	ASSERT_EQ(0, window_fill(&w, 0, LEN - 8));
	ASSERT_NE(NULL, h = shown(&nl, TREADLE_CMD_WINDOW_GET, &self->a, w.o.id));
	EXPECT_EQ(70, nl_u(h, TREADLE_A_WINDOW_PRESENT));
	ASSERT_EQ(0, madvise(there, PAGE, MADV_DONTNEED));
	ASSERT_NE(NULL, h = shown(&nl, TREADLE_CMD_WINDOW_GET, &self->a, w.o.id));
	EXPECT_EQ(69, nl_u(h, TREADLE_A_WINDOW_PRESENT));
	EXPECT_LT(0, nl_u(h, TREADLE_A_WINDOW_TAKEN));
	EXPECT_EQ(NULL, nl_attr(h, TREADLE_A_WINDOW_CLOSED));
	ASSERT_EQ(0, destroy(self->b.fd, region));
	ASSERT_NE(NULL, h = shown(&nl, TREADLE_CMD_WINDOW_GET, &self->a, w.o.id));
	EXPECT_NE(NULL, nl_attr(h, TREADLE_A_WINDOW_CLOSED));
	EXPECT_EQ(0, nl_u(h, TREADLE_A_WINDOW_PRESENT));
	ASSERT_EQ(0, destroy(self->a.fd, w.o.id));
	EXPECT_EQ(NULL, shown(&nl, TREADLE_CMD_WINDOW_GET, &self->a, w.o.id));
	window_unmap(&w);
}

TEST_HARNESS_MAIN
