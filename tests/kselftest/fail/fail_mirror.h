/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module of tests/fail, and a session by which this network namespace reaches itself: a second
 * node of treadle_loop (tests/loop). What is sent to a local peer goes out and comes in as from
 * another node.
 */
#ifndef TREADLE_KSELFTEST_FAIL_MIRROR_H
#define TREADLE_KSELFTEST_FAIL_MIRROR_H

#include "fail.h"

#include "../connection.h"
#include "../loop/loop.h"

static inline int mirror_open(void)
{
	return loop("mirror 127.0.0.1 198.51.100.1 insecure trust_uids");
}

static inline void mirror_close(void)
{
	need(loop("close 127.0.0.1") == 0);
}

/*
 * Lets the session begin, which stays: so each test finds the same. Either node keeps a share for
 * each user that has sent from there (path/share.c). What an accepter sends goes out by the second
 * node.
 */
static inline void session_begin(void)
{
	struct node a, b;
	struct pair p;
	char buf[8];

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	need(post_recv(&b, recv_of(buf, 8, ANY, 1)) == 0);
	need(post(&a, send_of("8 bytes", 8, peer(&a, b.addr), 1)) == 1);
	need(cq_next(&b.rcq).error == 0 && cq_next(&a.cq).error == 0);
	/* the node of b knows its endpoints, too */
	need(post_recv(&a, recv_of(buf, 8, ANY, 1)) == 0);
	need(post(&b, send_of("8 bytes", 8, peer(&b, a.addr), 1)) == 1);
	need(cq_next(&a.rcq).error == 0 && cq_next(&b.cq).error == 0);
	node_close(&a);
	node_close(&b);
	pair_open(&p);
	expect_message(&p.client, &p.server, 8, 1);
	expect_message(&p.server, &p.client, 8, 2);
	node_close(&p.client);
	node_close(&p.server);
	close(p.ceq);
	close(p.ceq_fd);
	listener_close(&p.l);
}

/* Before back_to_the_real_one(): the transport uses the module. */
static inline void mirror_leave(void)
{
	if (getpid() == harness)
		need(loop_unload() == 0);
}

static inline void mirror_enter(void)
{
	loop_load_of("-fail");
	atexit(mirror_leave);
	need(mirror_open() == 0);
	session_begin();
}
#define FAIL_MIRROR_MAIN FAIL_MAIN(mirror_enter())

#endif
