/* SPDX-License-Identifier: GPL-2.0 */
/* Attacks of denial.c: each is in effect from in_effect() on, until its process is killed. */
#ifndef TREADLE_KSELFTEST_DENIAL_H
#define TREADLE_KSELFTEST_DENIAL_H

#include "treadle.h"

#include <linux/userfaultfd.h>
#include <sys/syscall.h>

#define LARGE	 (2UL << 20) /* more than a doorbell copies */
#define CONTEXTS 300	     /* more than a workqueue runs at a time */
#define ROUNDS	 256	     /* as many as a user has workers */

enum { STRANGER = 1001, ATTACKER = 1002 };

struct attack {
	const char *name;
	void (*fn)(struct attack *a);
	char dir[64], frozen[80];
	struct treadle_addr target; /* where a victim can send to it */
	int ready;
};

/* A kernel with debugging checks: each allocation takes a hundred times as long. */
static inline bool is_slow(void)
{
	return access("/sys/kernel/debug/kmemleak", F_OK) == 0;
}

static inline void become(int uid)
{
	need(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
}

/* The attack is in effect from here on, until the process is killed. */
static inline void in_effect(struct attack *a)
{
	raise_to(&a->ready, 1);
}

static inline void nothing(struct attack *a)
{
	in_effect(a);
	pause();
}

/* Leaves as many messages as the target keeps, and goes on trying. */
static inline void sends_in_vain(struct attack *a, struct treadle_addr to)
{
	static struct node n[64];
	char *buf = pages(LARGE);
	bool enough = false;
	struct treadle_cqe c;

	for (int i = 0; i < ARRAY_SIZE(n) && !enough; i++) {
		__u64 there;

		node_open(&n[i], (struct options){.tx = 512, .cq = 8});
		there = peer(&n[i], to);
		while (ring_room(&n[i].tx) && !enough) {
			struct treadle_desc d = send_of(buf, 4000, there, 0);

			d.flags = i & 1 ? TREADLE_F_INJECT : 0;
			ring_put(&n[i].tx, &d);
			ring_publish(&n[i].tx);
			enough = ring_doorbell(&n[i].tx) < 0;
			while (cq_poll(&n[i].cq, &c))
				enough = enough || c.error == ENOMEM;
		}
	}
	in_effect(a);
	for (int i = 0;; i = (i + 1) % ARRAY_SIZE(n))
		if (n[i].fd)
			ring_doorbell(&n[i].tx);
}

static inline void never_posts(struct attack *a)
{
	static struct node n;

	become(ATTACKER);
	node_open(&n, (struct options){.buffered = 16 << 20});
	a->target = n.addr;
	sends_in_vain(a, n.addr);
}

static inline void never_reads(struct attack *a)
{
	char byte = 0, in[4096];
	struct node n;
	__u64 self;

	become(ATTACKER);
	node_open(&n, (struct options){.cq = 8, .rcq = 8});
	self = peer(&n, n.addr);
	a->target = n.addr;
	in_effect(a);
	for (;;) {
		struct treadle_desc r = recv_of(in, sizeof(in), ANY, 0);
		struct treadle_desc d = send_of(&byte, 1, self, 0);

		if (ring_room(&n.rx)) {
			ring_put(&n.rx, &r);
			ring_publish(&n.rx);
			ring_doorbell(&n.rx);
		}
		if (ring_room(&n.tx)) {
			ring_put(&n.tx, &d);
			ring_publish(&n.tx);
		}
		ring_doorbell(&n.tx);
	}
}

/* Memory with page faults that are never answered. */
static inline void *unanswered(size_t len)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	void *at = pages(len);

	need(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
	reg.range.start = (unsigned long)at;
	reg.range.len = len;
	need(ioctl(fd, UFFDIO_REGISTER, &reg) == 0);
	return at;
}

static inline void stops_in_the_midst(struct attack *a)
{
	static struct node n, b[CONTEXTS];
	char *from, *to = unanswered(LARGE);

	become(ATTACKER);
	from = pages(LARGE);
	node_open(&n, (struct options){.tx = 512, .cq = 512});
	for (int i = 0; i < CONTEXTS; i++) {
		node_open(&b[i], (struct options){.tx = 1, .rx = 4, .cq = 8, .rcq = 8});
		need(post_recv(&b[i], recv_of(to, LARGE, ANY, 0)) == 0);
		need(post(&n, send_of(from, LARGE, peer(&n, b[i].addr), i)) == 1);
	}
	/* One more copy to stop midway. */
	need(post_recv(&b[0], recv_of(to, LARGE, ANY, 0)) == 0);
	a->target = b[0].addr;
	need(cq_empty(&n.cq));
	in_effect(a);
	pause();
}

static inline void receives_and_freezes(void *arg)
{
	struct attack *a = arg;
	char path[128], *buf;
	struct node n;

	snprintf(path, sizeof(path), "%s/cgroup.procs", a->frozen);
	write_to(path, "0");
	become(ATTACKER);
	buf = pages(LARGE);
	node_open(&n, (struct options){.buffered = 1 << 20});
	for (int i = 0; i < 8; i++)
		need(post_recv(&n, recv_of(buf, LARGE, ANY, i)) == 0);
	a->target = n.addr;
	raise_to(&a->ready, -1);
	for (;;)
		cq_wait(&n.rcq, -1);
}

static inline void is_frozen(struct attack *a)
{
	char path[128];

	snprintf(a->frozen, sizeof(a->frozen), "%s/frozen", a->dir);
	need(mkdir(a->frozen, 0755) == 0);
	spawn(receives_and_freezes, a);
	while (__atomic_load_n(&a->ready, __ATOMIC_ACQUIRE) != -1)
		usleep(1000);
	snprintf(path, sizeof(path), "%s/cgroup.freeze", a->frozen);
	write_to(path, "1");
	become(ATTACKER);
	sends_in_vain(a, a->target);
}

static inline void *floods_itself(void *arg)
{
	struct attack *a = arg;
	char byte = 0, in[64];
	struct treadle_cqe c;
	struct node n;
	__u64 self;

	node_open(&n, (struct options){});
	self = peer(&n, n.addr);
	a->target = n.addr;
	in_effect(a);
	for (;;) {
		for (int i = 0; i < 16; i++) {
			need(post_recv(&n, recv_of(in, sizeof(in), ANY, 0)) == 0);
			ring_put(&n.tx, &(struct treadle_desc){.opcode = TREADLE_OP_SEND,
							       .iov_count = 1,
							       .addr = (unsigned long)&byte,
							       .len = 1,
							       .peer = self});
		}
		ring_publish(&n.tx);
		ring_doorbell(&n.tx);
		while (cq_poll(&n.rcq, &c))
			;
	}
}

static inline void *only_computes(void *arg)
{
	volatile __u64 n = 0;

	in_effect(arg);
	do
		n++;
	while (n);
	return NULL;
}

/* Threads that only compute: the load that other attacks are compared with. */
static inline void computes(struct attack *a)
{
	become(ATTACKER);
	thread(only_computes, a);
	only_computes(a);
}

static inline void floods(struct attack *a)
{
	become(ATTACKER);
	thread(floods_itself, a);
	floods_itself(a);
}

static inline void creates(struct attack *a)
{
	struct treadle_cq_create cq = {.size = sizeof(cq)};
	struct treadle_cntr_create cntr = {.size = sizeof(cntr)};
	int result;
	struct node n;

	become(ATTACKER);
	node_open(&n, (struct options){});
	a->target = n.addr;
	/*
	 * Contexts first: at the limit of the group the kernel's own open() kills. Then queues, the
	 * largest first.
	 */
	for (int i = 0; i < CONTEXTS; i++)
		device();
	for (__u32 entries = 1 << 20; entries; entries >>= 4)
		do {
			cq.entries = entries;
			result = call(n.fd, TREADLE_IOC_CQ_CREATE, &cq);
		} while (result == 0);
	need(result == -ENOMEM || result == -ENOSPC);
	do
		result = call(n.fd, TREADLE_IOC_CNTR_CREATE, &cntr);
	while (result == 0);
	need(result == -ENOMEM || result == -ENOSPC);
	in_effect(a);
	for (;;)
		call(n.fd, TREADLE_IOC_CQ_CREATE, &cq);
}

/*
 * Commands that start themselves again, one in each of many contexts: workers of the kernel run for
 * ever.
 */
static inline void goes_round(struct attack *a)
{
	become(ATTACKER);
	for (int i = 0; i < ROUNDS; i++) {
		struct node n = {.fd = device()};
		struct treadle_desc d = {.opcode = TREADLE_OP_NOP,
					 .flags = TREADLE_F_REPEAT | TREADLE_F_WORK,
					 .value = 1};
		struct cntr c;

		tx_open(&n.tx, n.fd, 8);
		cntr_open(&c, n.fd);
		need(post(&n, then(when(d, &c, 1), &c)) == 1);
		need(post(&n, count_of(TREADLE_OP_CNTR_ADD, &c, 1, 0)) == 1);
	}
	in_effect(a);
	pause();
}

#define COPIERS 100
#define SHORT	(12UL << 20) /* a worker's turn is 16 MiB */

/*
 * Copies, each a bit shorter than a worker's turn, in many contexts: one thread keeps all their
 * workers busy.
 */
static inline void copies_shortly(struct attack *a)
{
	static struct node n[COPIERS];
	char *from = pages(SHORT), *to = pages(SHORT);
	struct treadle_desc d[COPIERS];
	struct treadle_cqe c;

	become(ATTACKER);
	memset(from, 1, SHORT);
	memset(to, 1, SHORT);
	for (int i = 0; i < COPIERS; i++) {
		__u64 key = 1;
		__u32 id;

		node_open(&n[i], (struct options){.tx = 8, .rx = 8, .cq = 8});
		need(mr(n[i].fd, to, SHORT, TREADLE_ACCESS_REMOTE_WRITE, 0, &key, &id) == 0);
		d[i] = write_of(from, SHORT, peer(&n[i], n[i].addr), 0, key, i);
		need(post(&n[i], d[i]) == 1);
	}
	in_effect(a);
	for (int i = 0;; i = (i + 1) % COPIERS)
		if (cq_poll(&n[i].cq, &c))
			need(c.error == 0 && post(&n[i], d[i]) == 1);
}

/* One buffer takes many messages of no bytes, and their completions are not read. */
static inline void leaves_small_messages(struct attack *a)
{
	/*
	 * as a ring, half of the group's memory; on a slow kernel a million messages would take 15
	 * minutes
	 */
	const __u32 unread = is_slow() ? 1U << 15 : 1U << 19;
	struct treadle_desc d = {.opcode = TREADLE_OP_SEND}, r;
	char byte = 0;
	struct node n;
	__u32 room;

	become(ATTACKER);
	node_open(&n, (struct options){.tx = 512, .rcq = unread});
	a->target = n.addr;
	r = recv_of(&byte, 1, ANY, 0);
	r.flags |= TREADLE_F_MULTI_RECV;
	need(post_recv(&n, r) == 0);
	d.peer = peer(&n, n.addr);
	/* Enough to fill the ring, and as many kept ones. */
	for (__u32 sent = 0; sent < 2 * unread && (room = ring_room(&n.tx)); sent += room) {
		for (__u32 i = 0; i < room; i++)
			ring_put(&n.tx, &d);
		ring_publish(&n.tx);
		if (ring_doorbell(&n.tx) < 0)
			break;
	}
	in_effect(a);
	for (;;) {
		if (ring_room(&n.tx))
			ring_put(&n.tx, &d);
		ring_publish(&n.tx);
		ring_doorbell(&n.tx);
	}
}

#endif
