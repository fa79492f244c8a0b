/* SPDX-License-Identifier: GPL-2.0 */
/* The calls through io_uring: the same results as by ioctl, without blocking the caller. */
#include "slow.h"
#include "treadle.h"

#include <liburing.h>

#define MIB (1UL << 20)

FIXTURE(uring)
{
	struct node n; /* sends to itself */
	__u64 to;
	char *buf;
	struct io_uring ring;
};

FIXTURE_SETUP(uring)
{
	node_open(&self->n, (struct options){});
	self->to = peer(&self->n, self->n.addr);
	self->buf = pages(MIB);
	ASSERT_EQ(0, io_uring_queue_init(8, &self->ring, 0));
}

FIXTURE_TEARDOWN(uring)
{
	io_uring_queue_exit(&self->ring);
	close(self->n.fd);
}

/* Queues a call; its completion is identified by @cmd. */
static struct io_uring_sqe *queue(struct io_uring *ring, int fd, unsigned int cmd, __u64 arg)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	need(sqe);
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = cmd;
	sqe->addr3 = arg; /* where cmd begins */
	sqe->user_data = cmd;
	return sqe;
}

static struct io_uring_cqe *finished(struct io_uring *ring)
{
	struct __kernel_timespec patience = {.tv_sec = PATIENCE_NS / 1000000000};
	struct io_uring_cqe *cqe;

	need(io_uring_wait_cqe_timeout(ring, &cqe, &patience) == 0);
	return cqe;
}

/* The result of the next completion, which must be that of @cmd. */
static int result(struct io_uring *ring, unsigned int cmd)
{
	struct io_uring_cqe *cqe = finished(ring);
	int res = cqe->res;

	need(cqe->user_data == cmd);
	io_uring_cqe_seen(ring, cqe);
	return res;
}

static int submit(struct io_uring *ring, int fd, unsigned int cmd, const void *arg)
{
	queue(ring, fd, cmd, (unsigned long)arg);
	need(io_uring_submit(ring) == 1);
	return result(ring, cmd);
}

/* --- what they do ------------------------------------------------------------------ */

TEST_F(uring, registration_pins_in_the_background)
{
	struct treadle_iov iov = {(unsigned long)self->buf, MIB};
	struct treadle_mr_create c = {
		.size = sizeof(c),
		.flags = TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY,
		.access = TREADLE_ACCESS_SEND | TREADLE_ACCESS_RECV,
		.iov_count = 1,
		.iov = (unsigned long)&iov,
	};
	struct treadle_destroy d = {.size = sizeof(d)};
	long long before = number_in("/proc/self/status", "VmLck:");
	long long pinned = number_in("/proc/self/status", "VmPin:");

	EXPECT_EQ(0, submit(&self->ring, self->n.fd, TREADLE_IOC_MR_CREATE, &c));
	EXPECT_NE(0, c.id);
	EXPECT_NE(0, c.key);
	/* The pins are charged to this process. */
	EXPECT_EQ(before + pinned + MIB / 1024, number_in("/proc/self/status", "VmLck:") +
							number_in("/proc/self/status", "VmPin:"));
	d.id = c.id;
	EXPECT_EQ(0, submit(&self->ring, self->n.fd, TREADLE_IOC_DESTROY, &d));
	EXPECT_EQ(-ENOENT, submit(&self->ring, self->n.fd, TREADLE_IOC_DESTROY, &d));
	EXPECT_EQ(before + pinned, number_in("/proc/self/status", "VmLck:") +
					   number_in("/proc/self/status", "VmPin:"));
}

TEST_F(uring, doorbell_says_how_many_commands_it_took)
{
	struct treadle_desc d = send_of("three", 5, self->to, 1);

	ASSERT_EQ(0, post_recv(&self->n, recv_of(self->buf, 8, TREADLE_ADDR_ANY, 2)));
	for (int i = 0; i < 3; i++) {
		d.context = i;
		ring_put(&self->n.tx, &d);
	}
	ring_publish(&self->n.tx);
	EXPECT_EQ(3, submit(&self->ring, self->n.fd, TREADLE_IOC_DOORBELL,
			    (void *)(unsigned long)self->n.tx.id));
	EXPECT_EQ(2, cq_next(&self->n.rcq).context);
	EXPECT_EQ(0, memcmp(self->buf, "three", 5));
	EXPECT_EQ(0, submit(&self->ring, self->n.fd, TREADLE_IOC_DOORBELL,
			    (void *)(unsigned long)self->n.tx.id));
}

TEST_F(uring, a_wait_does_not_block_its_submitter)
{
	struct treadle_wait w = {
		.size = sizeof(w), .id = self->n.rcq.id, .timeout_ns = PATIENCE_NS};

	queue(&self->ring, self->n.fd, TREADLE_IOC_WAIT, (unsigned long)&w);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	ASSERT_EQ(0, post_recv(&self->n, recv_of(self->buf, 8, TREADLE_ADDR_ANY, 2)));
	ASSERT_EQ(1, post(&self->n, send_of("x", 1, self->to, 1)));
	EXPECT_EQ(0, result(&self->ring, TREADLE_IOC_WAIT));
	EXPECT_EQ(2, cq_next(&self->n.rcq).context);
}

static void *sends_later(void *arg)
{
	FIXTURE_DATA(uring) *self = arg;

	usleep(300000);
	need(post(&self->n, send_of(self->buf, 8, self->to, 1)) == 1);
	return NULL;
}

/* An io_uring completion interrupts the thread, but does not end its wait. */
TEST_F(uring, a_wait_is_not_cut_short_by_other_completions)
{
	struct __kernel_timespec soon = {.tv_nsec = 50000000};
	const __s64 timeouts[] = {-1, PATIENCE_NS};
	struct io_uring_cqe *cqe;

	for (int i = 0; i < 2; i++) {
		pthread_t t;

		io_uring_prep_timeout(io_uring_get_sqe(&self->ring), &soon, 0, 0);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		t = thread(sends_later, self);
		EXPECT_EQ(0, cq_wait(&self->n.cq, timeouts[i]));
		pthread_join(t, NULL);
		cqe = finished(&self->ring);
		EXPECT_EQ(-ETIME, cqe->res);
		io_uring_cqe_seen(&self->ring, cqe);
		EXPECT_EQ(0, cq_next(&self->n.cq).error);
	}
	/* Nor does it lengthen the wait. */
	io_uring_prep_timeout(io_uring_get_sqe(&self->ring), &soon, 0, 0);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(-ETIMEDOUT, cq_wait(&self->n.cq, 100000000));
}

/* With a timeout of 0 a wait returns EAGAIN, and io_uring must not try it again. */
// conformance: ioctl.h: EAGAIN: nothing to report
TEST_F(uring, eagain_is_an_answer)
{
	struct treadle_wait w = {.size = sizeof(w), .id = self->n.rcq.id};

	EXPECT_EQ(-EAGAIN, submit(&self->ring, self->n.fd, TREADLE_IOC_WAIT, &w));
}

/* First the message, then the doorbell of the next command, without a system call in between. */
TEST_F(uring, calls_can_be_linked)
{
	struct treadle_wait w = {
		.size = sizeof(w), .id = self->n.rcq.id, .timeout_ns = PATIENCE_NS};

	queue(&self->ring, self->n.fd, TREADLE_IOC_WAIT, (unsigned long)&w)->flags |= IOSQE_IO_LINK;
	queue(&self->ring, self->n.fd, TREADLE_IOC_DOORBELL, self->n.tx.id);
	ASSERT_EQ(2, io_uring_submit(&self->ring));
	ASSERT_EQ(0, post_recv(&self->n, recv_of(self->buf, 8, TREADLE_ADDR_ANY, 2)));
	ASSERT_EQ(1, post(&self->n, send_of("x", 1, self->to, 1)));
	EXPECT_EQ(0, result(&self->ring, TREADLE_IOC_WAIT));
	EXPECT_EQ(0, result(&self->ring, TREADLE_IOC_DOORBELL));
}

/* --- what blocks ------------------------------------------------------------------- */

#define BLOCKED 4096 /* bytes, on a page that userfaultfd withholds */

struct blocked {
	struct io_uring *ring;
	int faults;
	bool other_is_done;
};

/* Is there a completion with @user_data in @ring? It is not taken. */
static bool has_completed(struct io_uring *ring, __u64 user_data)
{
	unsigned int tail = io_uring_smp_load_acquire(ring->cq.ktail);

	for (unsigned int i = *ring->cq.khead; i != tail; i++)
		if (ring->cq.cqes[i & *ring->cq.kring_mask].user_data == user_data)
			return true;
	return false;
}

/* Waits until the doorbell waits for the page and the NOP has completed, then provides the page. */
static void *gives_the_page_last(void *arg)
{
	struct blocked *b = arg;
	__u64 page = page_asked_for(b->faults), end = now_ns() + PATIENCE_NS / 4;

	while (!has_completed(b->ring, 1) && now_ns() < end)
		usleep(1000);
	b->other_is_done = has_completed(b->ring, 1);
	put_page_at(b->faults, page, 7);
	return NULL;
}

/*
 * io_uring submits with its ring's lock held: a request that blocks there would block the whole
 * ring.
 */
TEST_F(uring, a_doorbell_that_waits_for_a_page_does_not_stop_its_ring)
{
	char *slow = pages(BLOCKED);
	struct blocked b = {.ring = &self->ring, .faults = slow_pages(slow, BLOCKED)};
	const __u32 kinds[] = {0, TREADLE_F_INJECT};

	for (int i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct treadle_desc d = send_of(slow, 64, self->to, 1);
		struct io_uring_sqe *sqe;
		pthread_t t = thread(gives_the_page_last, &b);
		int results[2] = {-1, -1};

		d.flags |= kinds[i];
		ASSERT_EQ(0, post_recv(&self->n, recv_of(self->buf, 64, TREADLE_ADDR_ANY, 2)));
		ring_put(&self->n.tx, &d);
		ring_publish(&self->n.tx);
		queue(&self->ring, self->n.fd, TREADLE_IOC_DOORBELL, self->n.tx.id);
		sqe = io_uring_get_sqe(&self->ring);
		io_uring_prep_nop(sqe);
		sqe->user_data = 1;
		ASSERT_EQ(2, io_uring_submit(&self->ring));
		pthread_join(t, NULL);
		EXPECT_TRUE(b.other_is_done);
		for (int n = 0; n < 2; n++) {
			struct io_uring_cqe *cqe = finished(&self->ring);

			results[cqe->user_data == 1] = cqe->res;
			io_uring_cqe_seen(&self->ring, cqe);
		}
		EXPECT_EQ(1, results[0]);
		EXPECT_EQ(0, results[1]);
		EXPECT_EQ(2, cq_next(&self->n.rcq).context);
		EXPECT_TRUE(same(self->buf, 64, 7));
		EXPECT_EQ(0, cq_next(&self->n.cq).error);
		ASSERT_EQ(0, madvise(slow, BLOCKED, MADV_DONTNEED));
	}
	close(b.faults);
}

/* A WAIT occupies a worker of io_uring. If all workers are occupied, SIGNAL must still work. */
TEST_F(uring, a_signal_needs_no_worker)
{
	struct treadle_wait w = {.size = sizeof(w), .id = self->n.rcq.id, .timeout_ns = -1};
	const int waits = 7;
	unsigned int most[2] = {2, 2};
	int ended = 0;

	ASSERT_EQ(0, io_uring_register_iowq_max_workers(&self->ring, most));
	for (int i = 0; i < waits; i++)
		queue(&self->ring, self->n.fd, TREADLE_IOC_WAIT, (unsigned long)&w);
	ASSERT_EQ(waits, io_uring_submit(&self->ring));
	/* A SIGNAL ends the WAITs that have begun, and the next one to begin. */
	for (int signals = 0; ended < waits; signals++) {
		struct io_uring_cqe *cqe;
		bool signaled = false;

		queue(&self->ring, self->n.fd, TREADLE_IOC_SIGNAL, self->n.rcq.id);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		/* SIGNAL was done at submission. */
		ASSERT_TRUE(has_completed(&self->ring, TREADLE_IOC_SIGNAL));
		while (!signaled) {
			cqe = finished(&self->ring);
			signaled = cqe->user_data == TREADLE_IOC_SIGNAL;
			EXPECT_EQ(signaled ? 0 : -ECANCELED, cqe->res);
			ended += !signaled;
			io_uring_cqe_seen(&self->ring, cqe);
		}
		usleep(1000);
	}
}

#define RINGS 1000

/* The cost, for uapi.rst: instructions with VM_ACCEL=icount. */
TEST_F(uring, a_doorbell_costs_more_than_by_lseek)
{
	__u64 begin = now_ns(), seek, call;

	for (int i = 0; i < RINGS; i++)
		ASSERT_EQ(0, doorbell_seek(self->n.fd, self->n.tx.id));
	seek = now_ns() - begin;
	for (int i = 0; i < RINGS; i++)
		ASSERT_EQ(0, ring_doorbell(&self->n.tx));
	call = now_ns() - begin - seek;
	for (int i = 0; i < RINGS; i++)
		ASSERT_EQ(0, submit(&self->ring, self->n.fd, TREADLE_IOC_DOORBELL,
				    (void *)(unsigned long)self->n.tx.id));
	note("a doorbell with nothing to do: by lseek %llu ns, by ioctl %llu, by io_uring %llu",
	     seek / RINGS, call / RINGS, (now_ns() - begin - seek - call) / RINGS);
}

/* --- what is refused ------------------------------------------------------------------ */

// conformance: ioctl.h: ENOTTY: no such ioctl
TEST_F(uring, the_same_errors)
{
	struct treadle_query q = {.size = sizeof(q)};
	struct io_uring_sqe *sqe;

	EXPECT_EQ(0, submit(&self->ring, self->n.fd, TREADLE_IOC_QUERY, &q));
	EXPECT_EQ(-EFAULT, submit(&self->ring, self->n.fd, TREADLE_IOC_QUERY, (void *)8));
	EXPECT_EQ(-ENOTTY, submit(&self->ring, self->n.fd, _IO(TREADLE_IOC_MAGIC, 255), &q));
	EXPECT_EQ(-ENOENT, submit(&self->ring, self->n.fd, TREADLE_IOC_DOORBELL, (void *)12345));
	EXPECT_EQ(-EINVAL, submit(&self->ring, self->n.fd, TREADLE_IOC_DOORBELL, (void *)-1L));
	q.size = 4;
	EXPECT_EQ(-EINVAL, submit(&self->ring, self->n.fd, TREADLE_IOC_QUERY, &q));
	/* Reserved fields must be 0. */
	sqe = queue(&self->ring, self->n.fd, TREADLE_IOC_SIGNAL, self->n.cq.id);
	sqe->__pad2[0] = 1;
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(-EINVAL, result(&self->ring, TREADLE_IOC_SIGNAL));
}

static void of_a_child(void *arg)
{
	FIXTURE_DATA(uring) *self = arg;
	struct treadle_query q = {.size = sizeof(q)};
	struct io_uring ring;

	need(io_uring_queue_init(8, &ring, 0) == 0);
	need(submit(&ring, self->n.fd, TREADLE_IOC_QUERY, &q) == -EPERM);
	need(submit(&ring, self->n.fd, TREADLE_IOC_DOORBELL, NULL) == -EPERM);
}

TEST_F(uring, a_child_has_no_part_in_it)
{
	EXPECT_EQ(0, reap(spawn(of_a_child, self)));
}

/* --- ends ------------------------------------------------------------------------------ */

TEST_F(uring, a_wait_can_be_canceled)
{
	struct treadle_wait w = {.size = sizeof(w), .id = self->n.rcq.id, .timeout_ns = -1};
	struct io_uring_sqe *sqe;

	queue(&self->ring, self->n.fd, TREADLE_IOC_WAIT, (unsigned long)&w);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	sqe = io_uring_get_sqe(&self->ring);
	io_uring_prep_cancel64(sqe, TREADLE_IOC_WAIT, 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	sqe->user_data = 1;
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	for (int i = 0; i < 2; i++) {
		struct io_uring_cqe *cqe = finished(&self->ring);
		bool wait = cqe->user_data == TREADLE_IOC_WAIT;

		/*
		 * A cancel that finds a running wait reports EALREADY, and the wait completes, too.
		 */
		EXPECT_TRUE(wait ? cqe->res == -EINTR || cqe->res == -ECANCELED :
				   cqe->res == -EALREADY);
		io_uring_cqe_seen(&self->ring, cqe);
		if (wait)
			break;
	}
}

/* A process that ends takes its calls along. */
static void ends(void *arg)
{
	struct io_uring ring;
	struct treadle_wait w;
	struct node n;

	node_open(&n, (struct options){});
	w = (struct treadle_wait){.size = sizeof(w), .id = n.cq.id, .timeout_ns = -1};
	need(io_uring_queue_init(8, &ring, 0) == 0);
	for (int i = 0; i < 4; i++)
		queue(&ring, n.fd, TREADLE_IOC_WAIT, (unsigned long)&w);
	need(io_uring_submit(&ring) == 4);
	if (arg)
		raise(SIGKILL);
	close(n.fd);
	io_uring_queue_exit(&ring);
}

/*
 * Without a context of this process: an idle worker ends with the last context, and holds the
 * module until then.
 */
TEST(nothing_is_left_of_calls_under_way)
{
	EXPECT_EQ(0, reap(spawn(ends, NULL)));
	EXPECT_EQ(-SIGKILL, reap(spawn(ends, "killed")));
	until_unused();
}

TEST_HARNESS_MAIN
