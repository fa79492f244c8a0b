/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Honest processes: two on machine 0 (serve()), and one on machine 1 that asks them (ask()). Each
 * question goes from machine to machine, then from process to process, and back.
 */
#ifndef TREADLE_HOSTILE_HONEST_H
#define TREADLE_HOSTILE_HONEST_H

#include "../kselftest/connection.h"

#define MEMORY (64UL << 10) /* the region, between two others of this size */
#define KEY    "a key that is not guessed"

/* ports on machine 0 */
enum { DOOR = 7000, INNER, TARGET, LISTENER, GUARDED, IDLE, NO_ONE };

/* ECHO: nothing else. START: send commands to the hostile node. RESULTS: of these. */
enum { ECHO, START, RESULTS, QUIT };
enum { INJECTED, LONG, WRITTEN, READ_LONG, READ_SHORT, COMMANDS };

struct question {
	__u32 what, port; /* of the asker */
};

struct reply {
	__u32 port;
	__u32 errors[COMMANDS]; /* RESULTS */
	__u32 received;		/* messages of the hostile node */
	__u64 key;		/* of the region */
	__u64 slab;		/* KiB of machine 0 */
};

static struct treadle_addr inet(int host, int port)
{
	return (struct treadle_addr){
		.family = AF_INET, .port = htons(port), .addr = {10, 77, 0, host}};
}

static void open_at(struct node *n, int host, int port, const char *key)
{
	node_open(n, (struct options){.addr = inet(host, port), .auth_key = key});
}

/* The inner process passes replies on to machine 1. */
static void inner(void *arg)
{
	struct reply reply;
	__u32 port = 0;
	struct node n;
	__u64 to = 0;

	open_at(&n, 1, INNER, NULL);
	need(post_recv(&n, recv_of(&reply, sizeof(reply), ANY, 0)) >= 0);
	raise_to(arg, 1);
	for (;;) {
		while (cq_wait(&n.rcq, PATIENCE_NS))
			;
		need(cq_next(&n.rcq).error == 0);
		if (port != reply.port)
			to = peer(&n, inet(2, reply.port));
		port = reply.port;
		need(post(&n, send_of(&reply, sizeof(reply), to, 0)) == 1);
		need(cq_next(&n.cq).error == 0);
		need(post_recv(&n, recv_of(&reply, sizeof(reply), ANY, 0)) >= 0);
	}
}

/* Sends one command of each kind to the hostile node. */
static void start(struct node *n, char *buf)
{
	__u64 to;

	open_at(n, 1, 0, NULL);
	to = peer(n, inet(3, 9));
	struct treadle_desc inject = send_of(buf, 8, to, INJECTED);

	inject.flags |= TREADLE_F_INJECT;
	need(post(n, inject) == 1);
	need(post(n, send_of(buf, 100000, to, LONG)) == 1);
	need(post(n, write_of(buf, 100000, to, 0, 1, WRITTEN)) == 1);
	need(post(n, read_of(buf, 100000, to, 0, 1, READ_LONG)) == 1);
	need(post(n, read_of(buf, 64, to, 0, 1, READ_SHORT)) == 1);
}

static void results(struct node *n, struct reply *reply)
{
	for (int i = 0; i < COMMANDS; i++) {
		struct treadle_cqe c = cq_next(&n->cq);

		reply->errors[c.context] = c.error;
	}
	close(n->fd);
}

static int serve(void)
{
	char *memory = pages(3 * MEMORY), *buf = pages(4 * MEMORY);
	struct node door, target, guarded, idle, out;
	int *ready = shared(sizeof(*ready));
	struct reply reply = {};
	struct listener l;
	struct question q = {};
	__u32 region;
	__u64 to_inner;

	fill(memory, MEMORY, 1);
	fill(memory + 2 * MEMORY, MEMORY, 2);
	spawn(inner, ready);
	await(ready, 1);
	open_at(&door, 1, DOOR, NULL);
	open_at(&target, 1, TARGET, NULL);
	open_at(&guarded, 1, GUARDED, KEY);
	open_at(&idle, 1, IDLE, NULL);
	l.fd = device();
	l.eq_id = eq_create(l.fd);
	l.addr = inet(1, LISTENER);
	need(ep_create_as(l.fd, TREADLE_EP_PASSIVE, 0, &l.addr, NULL, &l.ep) == 0);
	need(ep_eq(l.fd, l.ep, wait_fd(l.fd, l.eq_id), PEP) == 0);
	need(listen_to(l.fd, l.ep, 0) == 0);
	need(mr(target.fd, memory + MEMORY, MEMORY,
		TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE, TREADLE_MR_KERNEL_KEY,
		&reply.key, &region) == 0);
	to_inner = peer(&door, inet(1, INNER));
	for (int i = 0; i < 4; i++)
		need(post_recv(&target, recv_of(buf + i * MEMORY, MEMORY, ANY, i)) >= 0);
	need(post_recv(&door, recv_of(&q, sizeof(q), ANY, 0)) >= 0);
	for (int idle_for = 0; idle_for < 2;) {
		struct treadle_cqe c;

		if (!cq_poll(&door.rcq, &c)) {
			idle_for = cq_wait(&door.rcq, PATIENCE_NS) == -ETIMEDOUT ? idle_for + 1 : 0;
			continue;
		}
		need(c.error == 0);
		while (cq_poll(&target.rcq, &c)) {
			reply.received++;
			need(post_recv(&target, recv_of(buf + c.context * MEMORY, MEMORY, ANY,
							c.context)) >= 0);
		}
		need(same(memory, MEMORY, 1) && same(memory + 2 * MEMORY, MEMORY, 2));
		if (q.what == START)
			start(&out, pages(100000));
		if (q.what == RESULTS)
			results(&out, &reply);
		reply.port = q.port;
		reply.slab = number_in("/proc/meminfo", "Slab:");
		if (q.what != QUIT)
			need(post_recv(&door, recv_of(&q, sizeof(q), ANY, 0)) >= 0);
		need(post(&door, send_of(&reply, sizeof(reply), to_inner, 0)) == 1);
		need(cq_next(&door.cq).error == 0);
		if (q.what == QUIT) {
			usleep(500000); /* the reply goes on */
			return 0;
		}
	}
	note("machine 1 asks no more");
	return 1;
}

/* Asks machine 0; all but the answer of its two processes is a failure. */
static struct reply ask(__u32 what)
{
	static struct node n;
	static struct reply reply;
	static pid_t owner;
	static __u64 to;
	const __u64 end = now_ns() + PATIENCE_NS;
	struct question q = {.what = what};
	int error;

	if (owner != getpid()) { /* rings are not inherited */
		owner = getpid();
		open_at(&n, 2, 0, NULL);
		to = peer(&n, inet(1, DOOR));
	}
	q.port = ntohs(n.addr.port);
	need(post_recv(&n, recv_of(&reply, sizeof(reply), ANY, 0)) >= 0);
	/* they may start later */
	do {
		need(post(&n, send_of(&q, sizeof(q), to, 0)) == 1);
		error = cq_next(&n.cq).error;
	} while (error == ECONNREFUSED && now_ns() < end && usleep(100000) == 0);
	if (error)
		note("asking machine 0: errno %d", error);
	need(error == 0);
	need(cq_next(&n.rcq).error == 0);
	return reply;
}

#endif
