/* SPDX-License-Identifier: GPL-2.0 */
/* The credentials of a process, a process that receives, and one that owns a region. */
#ifndef TREADLE_KSELFTEST_CRED_H
#define TREADLE_KSELFTEST_CRED_H

#include "treadle.h"

enum cred { ROOT, ALICE, BOB, ELSEWHERE };

/* A process with @cred that receives all messages, at @addr if that has a family. */
struct receiver {
	enum cred cred;
	const char *key;
	struct treadle_addr addr;
	int ready, stop;
	int got;
};

/* Gives the calling process these credentials. All users may open /dev/treadle. */
static inline void become(enum cred cred)
{
	switch (cred) {
	case ROOT:
		return;
	case ALICE:
	case BOB:
		need(setresgid(1000 + cred, 1000 + cred, 1000 + cred) == 0);
		need(setresuid(1000 + cred, 1000 + cred, 1000 + cred) == 0);
		return;
	case ELSEWHERE:
		/* Another root: the same uid in a user namespace of its own. */
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

	become(r->cred);
	node_open(&n, (struct options){.auth_key = r->key, .addr = r->addr});
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
	/* No message that was denied waits. */
	need(!ring_needs_doorbell(&n.rx));
}

/* A process with @cred that owns a region, perhaps with keys, and publishes its address. */
struct owner {
	enum cred cred;
	const char *ep_key, *mr_key;
	struct treadle_addr addr;
	__u64 key;
	int ready, stop;
	size_t len;
};

static inline void owns(void *arg)
{
	struct owner *o = arg;
	char *buf = pages(o->len);
	struct treadle_iov iov = {(unsigned long)buf, o->len};
	struct treadle_mr_create c = {.size = sizeof(c),
				      .access = TREADLE_ACCESS_REMOTE_READ |
						TREADLE_ACCESS_REMOTE_WRITE,
				      .flags = TREADLE_MR_KERNEL_KEY,
				      .iov_count = 1,
				      .iov = (unsigned long)&iov,
				      .auth_key = (unsigned long)o->mr_key,
				      .auth_key_size = o->mr_key ? strlen(o->mr_key) : 0};
	struct node n;

	become(o->cred);
	node_open(&n, (struct options){.auth_key = o->ep_key});
	need(call(n.fd, TREADLE_IOC_MR_CREATE, &c) == 0);
	o->addr = n.addr;
	o->key = c.key;
	raise_to(&o->ready, 1);
	await(&o->stop, 1);
}

#endif
