/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Access: a peer is reached by the same user in the same user namespace, or with its key, and never
 * from another network namespace.
 */
#include "slow.h"
#include "cred.h"

#include <treadle/atomic.h>

struct attempt {
	enum cred from, to;
	const char *key, *their_key;
	int error;
};

static void sends(void *arg)
{
	struct attempt *a = ((void **)arg)[0];
	struct receiver *r = ((void **)arg)[1];
	struct treadle_cqe c;
	struct node n;

	become(a->from);
	node_open(&n, (struct options){.auth_key = a->key});
	for (int i = 0; i < 2; i++) {
		/* A small message, and one that would wait at its sender. */
		size_t len = i ? 1 << 20 : 8;
		struct treadle_desc d = send_of(pages(len), len, 0, i);

		if (i && !a->error)
			break;
		if (i == 0)
			peer(&n, r->addr);
		need(post(&n, d) == 1);
		c = cq_next(&n.cq);
		if (c.error != a->error)
			note("error %u, expected %d", c.error, a->error);
		need(c.error == a->error);
	}
}

// conformance: fi_domain(3): auth_key, auth_key_size: the default of endpoints and regions; ignored
//   before API 1.5
// conformance: fi_mr(3): auth_key of a region; the domain's if there is none
// conformance: ioctl.h: EACCES: the owner of the peer does not admit this process
TEST(the_same_user_or_the_same_key)
{
	static const struct attempt attempts[] = {
		{ALICE, ALICE, NULL, NULL, 0},
		{ROOT, ROOT, NULL, NULL, 0},
		{ALICE, BOB, NULL, NULL, EACCES},
		{ALICE, BOB, "key", NULL, EACCES},
		{ALICE, BOB, NULL, "key", EACCES},
		{ALICE, BOB, "key", "kez", EACCES},
		{ALICE, BOB, "key", "keys", EACCES},
		{ALICE, BOB, "keys", "key", EACCES},
		{ALICE, BOB, "key", "key", 0},
		/* A key gives access, and never takes it away. */
		{ALICE, ALICE, "key", "other", 0},
		{ALICE, ALICE, NULL, "key", 0},
		/* Root has no other rights. */
		{ROOT, ALICE, NULL, NULL, EACCES},
		{ALICE, ROOT, NULL, NULL, EACCES},
		{ROOT, ALICE, "key", "key", 0},
		{ELSEWHERE, ROOT, NULL, NULL, EACCES},
		{ROOT, ELSEWHERE, NULL, NULL, EACCES},
		/* each process has a user namespace of its own */
		{ELSEWHERE, ELSEWHERE, NULL, NULL, EACCES},
		{ELSEWHERE, ROOT, "key", "key", 0},
	};

	for (int i = 0; i < ARRAY_SIZE(attempts); i++) {
		struct receiver *r = shared(sizeof(*r));
		const struct attempt *a = &attempts[i];
		pid_t pid;

		about("attempt %d", i);
		r->cred = a->to;
		r->key = a->their_key;
		pid = spawn(receives, r);
		await(&r->ready, 1);
		EXPECT_EQ(0, reap(spawn(sends, (void *[]){(void *)a, r})));
		/* A message that must not arrive has time to arrive. */
		if (a->error)
			usleep(5000);
		else
			while (__atomic_load_n(&r->got, __ATOMIC_ACQUIRE) == 0 &&
			       waitpid(pid, NULL, WNOHANG) == 0)
				usleep(1000);
		raise_to(&r->stop, 1);
		EXPECT_EQ(0, reap(pid));
		EXPECT_EQ(a->error ? 0 : 1, r->got);
	}
}

/* The credentials count with which the file was opened, not those of the caller. */
static void opens_then_becomes(void *arg)
{
	struct receiver *r = arg;
	struct node n;
	char buf[8];

	node_open(&n, (struct options){});
	peer(&n, r->addr);
	become(BOB);
	need(post(&n, send_of(buf, 8, 0, 1)) == 1);
	need(cq_next(&n.cq).error == EACCES);
	/* Root's rights have been given up. */
	need(setresuid(0, 0, 0) < 0);
}

TEST(the_opener_counts)
{
	struct receiver *r = shared(sizeof(*r));
	pid_t pid;

	r->cred = BOB;
	pid = spawn(receives, r);
	await(&r->ready, 1);
	/* Opened as root, used as Bob: for Bob's endpoint it still is root. */
	EXPECT_EQ(0, reap(spawn(opens_then_becomes, r)));
	raise_to(&r->stop, 1);
	EXPECT_EQ(0, reap(pid));
	EXPECT_EQ(0, r->got);
}

/* --- regions ----------------------------------------------------------------------------- */

static int outcome(struct node *n, struct treadle_desc d)
{
	need(post(n, d) == 1);
	return cq_next(&n->cq).error;
}

/* An atomic operation, with or without a result, on a word of the region. */
static struct treadle_desc atomic_there(__u8 opcode, void *buf, __u64 to, __u64 key)
{
	struct treadle_desc d = write_of(buf, 8, to, 0, key, 3);

	d.opcode = opcode;
	d.flags |= TREADLE_F_EXT;
	d.datatype = TREADLE_UINT64;
	d.atomic_op = opcode == TREADLE_OP_COMPARE ? TREADLE_ATOMIC_CSWAP : TREADLE_ATOMIC_SUM;
	if (opcode != TREADLE_OP_ATOMIC)
		d.result = (unsigned long)buf;
	if (opcode == TREADLE_OP_COMPARE)
		d.compare = (unsigned long)buf;
	return d;
}

/* The error of an armed command. */
static int fired(struct node *n, struct treadle_desc d)
{
	struct cntr go;
	int error;

	cntr_open(&go, n->fd);
	need(post(n, when(d, &go, 1)) == 1);
	need(post(n, count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0)) == 1);
	error = cq_next(&n->cq).error;
	need(destroy(n->fd, go.id) == 0);
	return error;
}

// conformance: ioctl.h: EACCES: the owner of the region does not admit this process
TEST(regions_of_another_user)
{
	static const struct {
		const char *mine, *ep_key, *mr_key;
		int error;
	} cases[] = {
		{NULL, NULL, NULL, EACCES},   {"key", "key", NULL, EACCES},
		{"key", NULL, "key", EACCES}, {"key", "key", "kex", EACCES},
		{"key", "key", "key", 0},
	};
	static const __u8 atomics[] = {TREADLE_OP_ATOMIC, TREADLE_OP_FETCH, TREADLE_OP_COMPARE};
	char buf[8] = "1234567";

	/* each case in both ways */
	for (int i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		int error = cases[i / 2].error;
		struct owner *o = shared(sizeof(*o));
		struct node n;
		pid_t pid;
		__u64 to;

		about("case %d", i);
		*o = (struct owner){.cred = i % 2 ? ALICE : ELSEWHERE,
				    .ep_key = cases[i / 2].ep_key,
				    .mr_key = cases[i / 2].mr_key,
				    .len = 4096};
		pid = spawn(owns, o);
		await(&o->ready, 1);
		node_open(&n, (struct options){.auth_key = cases[i / 2].mine});
		to = peer(&n, o->addr);
		EXPECT_EQ(error, outcome(&n, write_of(buf, 8, to, 0, o->key, 1)));
		EXPECT_EQ(error, outcome(&n, read_of(buf, 8, to, 0, o->key, 2)));
		EXPECT_EQ(error, fired(&n, write_of(buf, 8, to, 0, o->key, 4)));
		for (int j = 0; j < ARRAY_SIZE(atomics); j++) {
			EXPECT_EQ(error, outcome(&n, atomic_there(atomics[j], buf, to, o->key)));
			EXPECT_EQ(error, fired(&n, atomic_there(atomics[j], buf, to, o->key)));
		}
		raise_to(&o->stop, 1);
		EXPECT_EQ(0, reap(pid));
		close(n.fd);
	}
}

/* --- without privileges ----------------------------------------------------------------- */

static void does_all_of_it(void *arg)
{
	struct node a, b;
	char buf[100], got[100];
	__u32 id;

	become(ALICE);
	node_open(&a, (struct options){});
	/* Low ports need no privilege. */
	node_open(&b, (struct options){.addr = loopback(80)});
	need(post_recv(&b, recv_of(got, 100, ANY, 1)) == 0);
	fill(buf, 100, 1);
	need(post(&a, send_of(buf, 100, peer(&a, b.addr), 2)) == 1);
	need(cq_next(&b.rcq).context == 1 && same(got, 100, 1));
	need(post(&a, when(send_of(buf, 8, 0, 3), &a.sent, 5)) == 1);
	need(ep_create(a.fd, &(struct treadle_addr){.family = AF_INET6}, NULL, &id) == 0);
}

TEST(no_privilege_is_needed)
{
	EXPECT_EQ(0, reap(spawn(does_all_of_it, NULL)));
}

/* --- limits of workers ------------------------------------------------------------------------ */

#define WORKERS 256 /* of a user */

struct worker_test {
	int ready, mapped, filled, stop;
};

static const struct options small = {.cq = 16, .rcq = 16, .tx = 512, .rx = 16, .auth_key = "k"};

/*
 * Opens @n, and sends to it a message for @slow, so that a worker asks for the page. Returns
 * whether one did within the time.
 */
static bool worker_comes(struct node *n, char *slow, int fd, struct node *from, int within_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char byte = 1;

	node_open(n, small);
	need(post_recv(n, recv_of(slow, 1, ANY, 0)) == 0);
	need(post(from, send_of(&byte, 1, peer(from, n->addr), 0)) == 1);
	if (poll(&p, 1, within_ms) != 1)
		return false;
	need(page_asked_for(fd) == (unsigned long)slow);
	return true;
}

/* In a user namespace of Alice's, one user has as many missing pages as Alice has workers. */
static void fills_the_workers(void *arg)
{
	const size_t len = (WORKERS + 1) * PAGE;
	char *slow = pages(len);
	struct worker_test *c = arg;
	struct node n, from;
	int fd;

	become(ALICE);
	need(unshare(CLONE_NEWUSER) == 0);
	raise_to(&c->ready, 1);
	await(&c->mapped, 1);
	need(setresuid(0, 0, 0) == 0);
	fd = slow_pages(slow, len);
	node_open(&from, small);
	for (int i = 0; i < WORKERS; i++)
		need(worker_comes(&n, slow + i * PAGE, fd, &from, PATIENCE_NS / 1000000));
	/* Nor does another user of that namespace get a worker. */
	need(seteuid(1) == 0);
	need(!worker_comes(&n, slow + WORKERS * PAGE, fd, &from, 300));
	raise_to(&c->filled, 1);
	await(&c->stop, 1);
	take_pages_away(fd, slow, len);
	need(cq_next(&n.rcq).error == EFAULT);
}

static void needs_a_worker(void *arg)
{
	char *slow = pages(PAGE);
	struct node n, from;
	int fd;

	become(BOB);
	fd = slow_pages(slow, PAGE);
	node_open(&from, small);
	need(worker_comes(&n, slow, fd, &from, PATIENCE_NS / 1000000));
	take_pages_away(fd, slow, PAGE);
}

/* Workers are charged to the user that a namespace's users belong to. Others have their own. */
TEST(workers_are_charged_to_the_namespaces_owner)
{
	struct worker_test *c = shared(sizeof(*c));
	char path[64];
	pid_t pid;

	write_to("/proc/sys/vm/unprivileged_userfaultfd", "1");
	pid = spawn(fills_the_workers, c);
	await(&c->ready, 1);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	write_to(path, "0 1001 1\n1 2000 1\n");
	raise_to(&c->mapped, 1);
	await(&c->filled, 1);
	EXPECT_EQ(0, reap(spawn(needs_a_worker, NULL)));
	raise_to(&c->stop, 1);
	EXPECT_EQ(0, reap(pid));
	until_unused();
}

/* --- network namespaces --------------------------------------------------------------------- */

struct abroad {
	struct treadle_addr addr;
	int ready, stop;
};

static void goes_abroad(void *arg)
{
	struct abroad *a = arg;
	struct treadle_addr here = a->addr, other = loopback(0);
	struct treadle_cqe c;
	struct node n, m;
	char buf[8];
	__u32 id;

	need(unshare(CLONE_NEWNET) == 0);
	/* The port is free here, although it is taken in the other namespace. */
	node_open(&n, (struct options){.addr = here});
	need(n.addr.port == here.port);
	need(post_recv(&n, recv_of(buf, 8, ANY, 1)) == 0);
	raise_to(&a->ready, 1);
	await(&a->stop, 1);
	need(cq_empty(&n.rcq));
	/* The endpoint is reached within this namespace. */
	node_open(&m, (struct options){.addr = other});
	need(post(&m, send_of(buf, 8, peer(&m, here), 1)) == 1);
	c = cq_next(&m.cq);
	need(c.error == 0);
	need(cq_next(&n.rcq).error == 0);
	/* The port is taken in this namespace. */
	need(ep_create(m.fd, &here, NULL, &id) == -EADDRINUSE);
}

TEST(namespaces_have_ports_of_their_own)
{
	struct abroad *a = shared(sizeof(*a));
	struct node n, m;
	char buf[8];
	pid_t pid;

	node_open(&n, (struct options){});
	a->addr = n.addr;
	pid = spawn(goes_abroad, a);
	await(&a->ready, 1);
	/* A message to this address goes to the endpoint in this namespace. */
	node_open(&m, (struct options){});
	ASSERT_EQ(0, post_recv(&n, recv_of(buf, 8, ANY, 1)));
	ASSERT_EQ(1, post(&m, send_of(buf, 8, peer(&m, n.addr), 2)));
	EXPECT_EQ(1, cq_next(&n.rcq).context);
	/* Without that endpoint it goes nowhere. */
	ASSERT_EQ(0, destroy(n.fd, n.ep));
	ASSERT_EQ(1, post(&m, send_of(buf, 8, 0, 3)));
	EXPECT_EQ(2, cq_next(&m.cq).context);
	EXPECT_EQ(ECONNREFUSED, cq_next(&m.cq).error);
	raise_to(&a->stop, 1);
	EXPECT_EQ(0, reap(pid));
}

/* A context stays in the namespace in which it was opened. */
static void moves_later(void *arg)
{
	struct abroad *a = arg;
	struct node n;
	char buf[8];

	node_open(&n, (struct options){});
	need(unshare(CLONE_NEWNET) == 0);
	need(post(&n, send_of(buf, 8, peer(&n, a->addr), 1)) == 1);
	need(cq_next(&n.cq).error == 0);
}

TEST(a_context_stays_where_it_was_opened)
{
	struct abroad *a = shared(sizeof(*a));
	struct node n;
	char buf[8];

	node_open(&n, (struct options){});
	a->addr = n.addr;
	ASSERT_EQ(0, post_recv(&n, recv_of(buf, 8, ANY, 1)));
	EXPECT_EQ(0, reap(spawn(moves_later, a)));
	EXPECT_EQ(1, cq_next(&n.rcq).context);
}

/* Takes all ports, in a network namespace of its own, so that no other process runs out of them. */
static void takes_all_ports(void *arg)
{
	struct treadle_addr addr;
	int fd = -1, result = 0;
	__u32 id, count = 0;

	need(unshare(CLONE_NEWNET) == 0);
	while (result == 0) {
		need(count < 65536);
		if (count++ % 30000 == 0)
			fd = device();
		addr = loopback(0);
		result = ep_create(fd, &addr, NULL, &id);
	}
	note("%u ports", count - 1);
	need(result == -EAGAIN);
	/* A port that is not given by default is still free. */
	addr = loopback(80);
	need(ep_create(fd, &addr, NULL, &id) == 0);
	addr = loopback(0);
	need(destroy(fd, id) == 0);
}

// conformance: ioctl.h: EAGAIN: no free port
TEST(ports_run_out)
{
	EXPECT_EQ(0, reap(spawn(takes_all_ports, NULL)));
	until_unused();
}

TEST_HARNESS_MAIN
