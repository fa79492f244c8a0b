/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A command that completes fires commands of another context: those that are armed on its target,
 * or on a shared counter. If its context has to wait after that, other contexts' commands do not.
 */
#include "slow.h"
#include "treadle.h"

/* One context has armed commands. The other one fires them, and has memory that does not come. */
FIXTURE(runner)
{
	struct node owner, runner;
	struct cntr later;
	__u64 to_runner, to_owner;
	char *slow, *buf;
	int fd;
};

FIXTURE_SETUP(runner)
{
	node_open(&self->owner, (struct options){});
	node_open(&self->runner, (struct options){});
	cntr_open(&self->later, self->owner.fd);
	self->to_runner = peer(&self->owner, self->runner.addr);
	self->to_owner = peer(&self->runner, self->owner.addr);
	self->buf = pages(PAGE);
	self->slow = pages(PAGE);
	self->fd = slow_pages(self->slow, PAGE);
}

FIXTURE_TEARDOWN(runner)
{
	close(self->fd);
}

struct send {
	struct node *from;
	struct treadle_desc d;
};

static void *sends(void *arg)
{
	struct send *s = arg;

	need(post(s->from, s->d) == 1);
	return NULL;
}

/* @first is armed, accesses the missing page, and does not hold up commands behind it. */
static void only_the_first_waits(struct __test_metadata *_metadata, FIXTURE_DATA(runner) * self,
				 struct treadle_desc first)
{
	struct send fires = {&self->runner, send_of(self->buf, 8, self->to_owner, 2)};
	struct node *owner = &self->owner;
	pthread_t t;

	ASSERT_EQ(1, post(owner, when(first, &owner->rcvd, 1)));
	ASSERT_EQ(1, post(owner, when(count_of(TREADLE_OP_CNTR_ADD, &self->later, 1, 0),
				      &owner->rcvd, 1)));
	ASSERT_EQ(0, post_recv(owner, recv_of(self->buf + 64, 8, ANY, 3)));
	t = thread(sends, &fires);
	EXPECT_TRUE(cntr_becomes(&self->later, 1, 0));
	EXPECT_TRUE(cq_empty(&owner->cq));
	give_page(self->fd, 0);
	pthread_join(t, NULL);
	EXPECT_EQ(0, cq_next(&owner->cq).error);
	EXPECT_EQ(0, memcmp(self->slow, "armed", 6));
}

TEST_F(runner, only_a_write_to_the_runners_page_waits)
{
	__u64 key = 5;
	__u32 id;

	memcpy(self->buf + 128, "armed", 6);
	ASSERT_EQ(0,
		  mr(self->runner.fd, self->slow, PAGE, TREADLE_ACCESS_REMOTE_WRITE, 0, &key, &id));
	only_the_first_waits(_metadata, self,
			     write_of(self->buf + 128, 6, self->to_runner, 0, key, 1));
}

TEST_F(runner, only_a_message_to_the_runners_page_waits)
{
	memcpy(self->buf + 128, "armed", 6);
	ASSERT_EQ(0, post_recv(&self->runner, recv_of(self->slow, PAGE, ANY, 4)));
	only_the_first_waits(_metadata, self, send_of(self->buf + 128, 6, self->to_runner, 1));
}

static void *closes(void *arg)
{
	const struct node *n = arg;

	need(destroy(n->fd, n->ep) == 0);
	return NULL;
}

/*
 * The runner's endpoint closes, which takes as long as its doorbell waits for a page. A waiting
 * send to it ends with an error at once.
 */
TEST_F(runner, a_slow_close_of_the_runner_is_not_awaited)
{
	struct send slow = {&self->runner, send_of(self->slow, PAGE, self->to_owner, 2)};
	struct treadle_desc parked = send_of(self->buf, 8, self->to_runner, 1);
	struct node *owner = &self->owner;
	pthread_t sender, closer;

	parked.flags |= TREADLE_F_DELIVERY_COMPLETE;
	ASSERT_EQ(1, post(owner, when(count_of(TREADLE_OP_CNTR_ADD, &self->later, 1, 0),
				      &owner->sent, 1)));
	ASSERT_EQ(1, post(owner, parked));
	ASSERT_EQ(0, post_recv(owner, recv_of(pages(PAGE), PAGE, ANY, 3)));
	sender = thread(sends, &slow);
	page_asked_for(self->fd);
	closer = thread(closes, &self->runner);
	EXPECT_TRUE(cntr_becomes(&self->later, 1, 0));
	EXPECT_EQ(ECONNRESET, cq_next(&owner->cq).error);
	take_pages_away(self->fd, self->slow, PAGE);
	pthread_join(sender, NULL);
	pthread_join(closer, NULL);
}

TEST_HARNESS_MAIN
