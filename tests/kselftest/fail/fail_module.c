/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The sweep of sweep.h on any kernel, with a module of the same sources in which each operation can
 * be made to fail (tests/fail), and which counts its allocations. It replaces the module while this
 * runs, so that loading and unloading are swept, too.
 *
 * test-timeout: 1500
 */
#include "fail.h"

#include <liburing.h>

#include "../sweep_calls.h"
#include "../sweep_commands.h"
#include "../sweep_endings.h"
#include "../sweep_receives.h"

/* --- loading ---------------------------------------------------------------------- */

TEST(loading_fails_cleanly_wherever_it_fails)
{
	char parameter[32];
	int n = 0, result;

	module_unload();
	do {
		snprintf(parameter, sizeof(parameter), "fail_nth=%d", ++n);
		result = module_load(true, parameter);
		EXPECT_TRUE(result == 0 || result == -ENOMEM);
		EXPECT_EQ(result == 0, access(TREADLE_DEVICE, F_OK) == 0);
	} while (result);
	EXPECT_TRUE(has_failed() == false);
	EXPECT_LT(4, n);
	EXPECT_EQ(0, live());
	close(device());
}

/* --- io_uring ------------------------------------------------------------------------ */

static int submit(int fd, unsigned long cmd, const void *arg, unsigned int flags)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int result;

	need(io_uring_queue_init(1, &ring, 0) == 0);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = cmd;
	sqe->addr3 = (unsigned long)arg;
	sqe->flags = flags;
	need(io_uring_submit(&ring) == 1);
	while ((result = io_uring_wait_cqe(&ring, &cqe)) == -EINTR)
		;
	need(result == 0);
	result = cqe->res;
	io_uring_queue_exit(&ring);
	return result;
}

/* The same calls, by a worker of io_uring. */
static int call_uring(int fd, unsigned long cmd, const void *arg)
{
	return submit(fd, cmd, arg, IOSQE_ASYNC);
}

TEST_F(abi, each_call_through_io_uring_fails_cleanly)
{
	EXPECT_LT(ARRAY_SIZE(rows), sweep_all(_metadata, self, call_uring));
}

/* At submission. */
static int doorbell_uring(const struct ring *r)
{
	return submit(r->fd, TREADLE_IOC_DOORBELL, (void *)(unsigned long)r->id, 0);
}

TEST_F(commands, each_by_a_doorbell_of_io_uring_fails_cleanly)
{
	rings = doorbell_uring;
	sweep_commands(_metadata, self, SHORT);
}

/* --- several in a row ----------------------------------------------------------------- */

TEST_F(commands, each_fails_cleanly_where_other_tries_fail_too)
{
	fail_times(3);
	sweep_commands(_metadata, self, SHORT);
	fail_times(1);
}

TEST_F(commands, receives_fail_cleanly_where_other_tries_fail_too)
{
	fail_times(3);
	sweep_receives(_metadata, self);
	fail_times(1);
}

/* --- all of it -------------------------------------------------------------------------- */

/* The harness runs this last. */
FIXTURE(end){};

FIXTURE_SETUP(end) {}

FIXTURE_TEARDOWN(end) {}

TEST_F(end, nothing_is_left)
{
	until_unused();
	EXPECT_TRUE(all_given_back(0));
	EXPECT_TRUE(all_pins_are_released());
}

FAIL_HARNESS_MAIN
