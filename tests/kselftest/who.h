/* SPDX-License-Identifier: GPL-2.0 */
/* Who a process is, and one that receives what it gets. */
#ifndef TREADLE_KSELFTEST_WHO_H
#define TREADLE_KSELFTEST_WHO_H

#include "treadle.h"

enum who { ROOT, ALICE, BOB, ELSEWHERE };

/* A process that receives what it gets, as somebody. */
struct receiver {
	enum who who;
	const char *key;
	struct treadle_addr addr;
	int ready, stop;
	int got;
};

/* The calling process becomes somebody; /dev/treadle is there for all. */
static inline void become(enum who who)
{
	switch (who) {
	case ROOT:
		return;
	case ALICE:
	case BOB:
		need(setresgid(1000 + who, 1000 + who, 1000 + who) == 0);
		need(setresuid(1000 + who, 1000 + who, 1000 + who) == 0);
		return;
	case ELSEWHERE:
		/* Root, and yet another: of a user namespace of its own, by the same uid. */
		need(unshare(CLONE_NEWUSER) == 0);
		write_to("/proc/self/uid_map", "0 0 1");
		return;
	}
}

static inline void receives(void *arg)
{
	struct receiver *r = arg;
	struct node n;
	char buf[8];

	become(r->who);
	node_open(&n, (struct options){.auth_key = r->key});
	need(post_recv(&n, recv_of(buf, 8, ANY, 0)) == 0);
	r->addr = n.addr;
	raise_to(&r->ready, 1);
	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		if (cq_wait(&n.rcq, 1000000) == 0) {
			need(cq_next(&n.rcq).error == 0);
			r->got++;
			need(post_recv(&n, recv_of(buf, 8, ANY, 0)) == 0);
		}
	}
	/* Nothing is left behind that was not admitted. */
	need(!ring_needs_doorbell(&n.rx));
}

#endif
