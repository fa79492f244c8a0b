/* SPDX-License-Identifier: GPL-2.0 */
/* Several contexts of one process: they share its pagemaps, and nothing else. */
#include "connection.h"

#include <sys/resource.h>

#define MANY   300
#define LARGE  (64UL << 20)
#define PINNED (8UL << 20)

/* Two that send to a third, all in this process. */
FIXTURE(contexts)
{
	struct node n[2], to;
	__u64 at[2];
	char *out, *in;
	int sent;
};

typedef FIXTURE_DATA(contexts) contexts;

FIXTURE_SETUP(contexts)
{
	node_open(&self->to, (struct options){});
	for (int i = 0; i < 2; i++) {
		node_open(&self->n[i], (struct options){});
		self->at[i] = peer(&self->n[i], self->to.addr);
	}
	self->out = pages(PAGE);
	self->in = pages(PAGE);
}

FIXTURE_TEARDOWN(contexts)
{
	node_close(&self->n[0]);
	node_close(&self->n[1]);
	node_close(&self->to);
	until_unused();
}

/* The sender's error, or 0: then the contents of @out have arrived. */
static int sends(contexts *s, int from)
{
	struct node *n = &s->n[from];
	int result, error;

	need(post_recv(&s->to, recv_of(s->in, PAGE, ANY, s->sent)) == 0);
	result = post(n, send_of(s->out, PAGE, s->at[from], s->sent));
	error = result == 1 ? cq_next(&n->cq).error : -result;
	if (error)
		need(cancel(s->to.fd, TREADLE_CANCEL_OP, s->to.ep, s->sent, 0, NULL) == 0);
	need(cq_next(&s->to.rcq).error == (error ? ECANCELED : 0));
	s->sent++;
	return error;
}

static void remap(contexts *s, __u64 seed)
{
	need(munmap(s->out, PAGE) == 0);
	need(mmap(s->out, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		  0) == s->out);
	fill(s->out, PAGE, seed);
}

TEST_F(contexts, a_range_is_unmapped_for_all)
{
	for (int round = 0; round < 20; round++) {
		remap(self, round);
		for (int i = 0; i < 2; i++) {
			EXPECT_EQ(0, sends(self, i));
			EXPECT_TRUE(same(self->in, PAGE, round));
		}
	}
	ASSERT_EQ(0, munmap(self->out, PAGE));
	EXPECT_EQ(EFAULT, sends(self, 0));
	EXPECT_EQ(EFAULT, sends(self, 1));
}

TEST_F(contexts, one_ends_and_the_others_see_unmaps)
{
	for (int round = 0; round < 20; round++) {
		remap(self, round);
		EXPECT_EQ(0, sends(self, 0));
		EXPECT_TRUE(same(self->in, PAGE, round));
		/* Closes a long-lived context, and one that was just opened. */
		node_close(&self->n[1]);
		remap(self, 100 + round);
		EXPECT_EQ(0, sends(self, 0));
		EXPECT_TRUE(same(self->in, PAGE, 100 + round));
		node_open(&self->n[1], (struct options){});
		self->at[1] = peer(&self->n[1], self->to.addr);
		EXPECT_EQ(0, sends(self, 1));
		EXPECT_TRUE(same(self->in, PAGE, 100 + round));
	}
}

/* All contexts are closed, and some opened again: nothing of the former pagemaps is used. */
TEST_F(contexts, the_last_one_ends_and_others_begin)
{
	for (int round = 0; round < 20; round++) {
		remap(self, round);
		EXPECT_EQ(0, sends(self, round & 1));
		EXPECT_TRUE(same(self->in, PAGE, round));
		node_close(&self->n[0]);
		node_close(&self->n[1]);
		node_close(&self->to);
		remap(self, 100 + round);
		node_open(&self->to, (struct options){});
		for (int i = 0; i < 2; i++) {
			node_open(&self->n[i], (struct options){});
			self->at[i] = peer(&self->n[i], self->to.addr);
		}
	}
}

/*
 * A peer writes to, and reads from, a context that ends. The pagemap stays, as other contexts use
 * it.
 */
TEST_F(contexts, no_memory_is_touched_after_its_context_ended)
{
	enum { BEFORE = 1, AFTER = 2 };
	char *src = pages(LARGE);
	int cut = 0;

	memset(src, BEFORE, LARGE);
	/* more rounds on a machine so busy that each copy was complete */
	for (int round = 0; round < 8 || (!cut && round < 80); round++) {
		struct node *n = &self->n[0], m;
		char *dst = pages(LARGE);
		struct treadle_cqe c;
		__u64 key = 0, to;
		__u32 id;

		node_open(&m, (struct options){});
		to = peer(n, m.addr);
		ASSERT_EQ(0, mr(m.fd, dst, LARGE, TREADLE_ACCESS_REMOTE_WRITE,
				TREADLE_MR_KERNEL_KEY, &key, &id));
		ASSERT_EQ(0, post_recv(&m, recv_of(dst, LARGE, ANY, round)));
		ASSERT_EQ(1, post(n, round & 1 ? send_of(src, LARGE, to, round) :
						 write_of(src, LARGE, to, 0, key, round)));
		while (*(volatile char *)&dst[(round % 8) << 20] != BEFORE)
			;
		node_close(&m);
		cut += dst[LARGE - 1] != BEFORE;
		memset(dst, AFTER, LARGE);
		c = cq_next(&n->cq);
		EXPECT_EQ(round, c.context);
		EXPECT_TRUE(c.error == 0 || c.error == ECONNRESET);
		usleep(20000);
		EXPECT_TRUE(all_are(dst, LARGE, AFTER));
		munmap(dst, LARGE);
	}
	note("%d were cut short", cut);
	EXPECT_LT(0, cut);
}

/* --- the end of a process --------------------------------------------------------------------- */

struct victim {
	struct treadle_addr addr[MANY];
	int ready;
};

/* A child keeps the files open. */
static void has_many(void *arg)
{
	struct victim *v = arg;

	for (int i = 0; i < MANY; i++) {
		struct node n;

		node_open(&n, (struct options){.cq = 16, .rcq = 16, .tx = 16, .rx = 16});
		v->addr[i] = n.addr;
		node_unmap(&n);
	}
	if (fork() == 0) {
		while (__atomic_load_n(&v->ready, __ATOMIC_ACQUIRE) < 2)
			usleep(1000);
		_exit(0);
	}
	raise_to(&v->ready, 1);
	pause();
}

TEST(all_end_with_their_process)
{
	struct rlimit files = {4 * MANY, 4 * MANY};
	struct victim *v = shared(sizeof(*v));
	char *buf = pages(1 << 20);
	struct node n;
	pid_t pid;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	node_open(&n, (struct options){.tx = 512, .cq = 512});
	pid = spawn(has_many, v);
	await(&v->ready, 1);
	for (int i = 0; i < MANY; i++) {
		ASSERT_EQ(1, post(&n, send_of(buf, 1 << 20, peer(&n, v->addr[i]), i)));
	}
	EXPECT_EQ(-ETIMEDOUT, cq_wait(&n.cq, 10000000));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(-SIGKILL, reap(pid));
	for (int i = 0; i < MANY; i++) {
		EXPECT_EQ(ECONNRESET, cq_next(&n.cq).error);
	}
	raise_to(&v->ready, 2);
	node_close(&n);
	until_unused();
}

/*
 * --- files of another process
 * -----------------------------------------------------------------------------
 */

struct closer {
	int fd, go;
};

static void closes_last(void *arg)
{
	struct closer *h = arg;

	await(&h->go, 1);
	close(h->fd);
}

/* The last close of a file, in another process, leaves the teardown to a worker. */
TEST(pins_are_released_if_another_process_closes_last)
{
	struct closer *h = shared(sizeof(*h));
	char *buf = pages(PINNED);
	long long locked;
	pid_t pid;
	__u32 id;

	h->fd = device();
	locked = number_in("/proc/self/status", "VmLck:");
	ASSERT_EQ(0, mr(h->fd, buf, PINNED, TREADLE_ACCESS_REMOTE_READ,
			TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY, NULL, &id));
	EXPECT_EQ(locked + (long long)(PINNED >> 10), number_in("/proc/self/status", "VmLck:"));
	pid = spawn(closes_last, h);
	close(h->fd);
	raise_to(&h->go, 1);
	EXPECT_EQ(0, reap(pid));
	for (__u64 end = now_ns() + PATIENCE_NS; now_ns() < end; usleep(1000))
		if (number_in("/proc/self/status", "VmLck:") == locked)
			break;
	EXPECT_EQ(locked, number_in("/proc/self/status", "VmLck:"));
	EXPECT_TRUE(all_pins_are_released());
	until_unused();
}

TEST_HARNESS_MAIN
