/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A call that waits for a doorbell of its process can be killed. The process that is killed shares
 * the memory of another one (CLONE_VM). The doorbell of that one waits for a page, and goes on.
 */
#include "connection.h"
#include "slow.h"

struct caller {
	int fd;
	unsigned long cmd;
	const void *arg;
	char stack[64 << 10] __attribute__((aligned(16)));
};

/*
 * Repeats a call that failed: EP_ENABLE of the test binds the endpoint for a moment, and DESTROY is
 * EBUSY then.
 */
static int calls(void *arg)
{
	const struct caller *c = arg;

	while (syscall(SYS_ioctl, c->fd, c->cmd, c->arg))
		sched_yield();
	return 0;
}

static bool is_reaped(pid_t pid)
{
	__u64 end = now_ns() + PATIENCE_NS / 4;

	while (now_ns() < end) {
		if (waitpid(pid, NULL, WNOHANG) == pid)
			return true;
		usleep(1000);
	}
	return false;
}

static void *rings(void *arg)
{
	return (void *)(long)ring_doorbell(arg);
}

/* Rings the doorbell of @n in a thread, which waits for a page of @slow until it is provided. */
static pthread_t ring_slowly(struct node *n, __u64 to, char *slow, int faults, __u64 *page)
{
	struct treadle_desc d = send_of(slow, 64, to, 1);
	pthread_t t;

	d.flags |= TREADLE_F_INJECT;
	ring_put(&n->tx, &d);
	ring_publish(&n->tx);
	t = thread(rings, &n->tx);
	*page = page_asked_for(faults);
	return t;
}

TEST(DESTROY_that_waits_for_a_doorbell_can_be_killed)
{
	char *slow = pages(4096);
	int faults = slow_pages(slow, 4096), result;
	static struct caller c;
	struct treadle_destroy d = {.size = sizeof(d)};
	struct treadle_ep_enable e = {.size = sizeof(e)};
	__u64 page, end = now_ns() + PATIENCE_NS;
	struct node n;
	pthread_t t;
	bool reaped;
	pid_t pid;

	node_open(&n, (struct options){});
	d.id = e.ep = n.ep;
	t = ring_slowly(&n, peer(&n, n.addr), slow, faults, &page);
	c = (struct caller){.fd = n.fd, .cmd = TREADLE_IOC_DESTROY, .arg = &d};
	pid = clone(calls, c.stack + sizeof(c.stack), CLONE_VM | SIGCHLD, &c);
	ASSERT_LT(0, pid);
	while (call(n.fd, TREADLE_IOC_EP_ENABLE, &e) != -ENOENT)
		need(now_ns() < end);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	reaped = is_reaped(pid);
	EXPECT_TRUE(reaped);
	/* The ring stays bound until the doorbell has ended, and no longer. */
	EXPECT_EQ(-EBUSY, destroy(n.fd, n.tx.id));
	put_page_at(faults, page, 1);
	pthread_join(t, NULL);
	if (!reaped)
		reap(pid);
	while ((result = destroy(n.fd, n.tx.id)) == -EBUSY && now_ns() < end)
		usleep(1000);
	EXPECT_EQ(0, result);
	EXPECT_EQ(0, destroy(n.fd, n.cq.id));
	close(faults);
	close(n.fd);
}

TEST(SHUTDOWN_that_waits_for_a_doorbell_can_be_killed)
{
	char *slow = pages(4096);
	int faults = slow_pages(slow, 4096);
	static struct caller c;
	struct treadle_shutdown s = {.size = sizeof(s)};
	struct pair p;
	__u64 page;
	pthread_t t;
	bool reaped;
	pid_t pid;

	pair_open(&p);
	s.ep = p.client.ep;
	t = ring_slowly(&p.client, 0, slow, faults, &page);
	c = (struct caller){.fd = p.client.fd, .cmd = TREADLE_IOC_SHUTDOWN, .arg = &s};
	pid = clone(calls, c.stack + sizeof(c.stack), CLONE_VM | SIGCHLD, &c);
	ASSERT_LT(0, pid);
	/* The event shows that the call is under way. */
	event_is(p.l.eq, TREADLE_EVENT_SHUTDOWN, SERVER);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	reaped = is_reaped(pid);
	EXPECT_TRUE(reaped);
	put_page_at(faults, page, 1);
	pthread_join(t, NULL);
	if (!reaped)
		reap(pid);
	/* A worker has completed the call. */
	event_is(p.ceq, TREADLE_EVENT_SHUTDOWN, CLIENT);
	close(faults);
}

TEST_HARNESS_MAIN
