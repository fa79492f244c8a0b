/* SPDX-License-Identifier: GPL-2.0 */
/* Addresses of this node and of others: what they become, and which entries they are. */
#include "loop.h"
#include "../cred.h"

#include <treadle/atomic.h>

#define TRUSTED "insecure trust_uids peer_timeout=4"

static int lookup_all(int fd, __u32 av, __u64 index, struct treadle_av_lookup *l)
{
	*l = (struct treadle_av_lookup){.size = sizeof(*l), .av = av, .index = index};
	return call(fd, TREADLE_IOC_AV_LOOKUP, l);
}

static int create_at(int fd, struct treadle_addr addr, struct treadle_addr *got)
{
	struct treadle_ep_create c = {.size = sizeof(c), .type = TREADLE_EP_RDM, .addr = addr};
	int result = call(fd, TREADLE_IOC_EP_CREATE, &c);

	*got = c.addr;
	return result;
}

static bool is(const struct treadle_addr *a, struct treadle_addr b, __be16 port)
{
	b.port = port;
	return memcmp(a, &b, sizeof(b)) == 0;
}

static int sent(struct node *n, __u64 to)
{
	struct treadle_cqe c;
	static char buf[8];

	need(post(n, send_of(buf, 8, to, 1)) == 1);
	c = cq_next(&n->cq);
	return c.error;
}

TEST(query_and_endpoints_have_the_address_for_other_nodes)
{
	const struct treadle_addr none = {}, any = {.family = AF_INET}, any6 = {.family = AF_INET6};
	const struct treadle_addr loopback6 = {.family = AF_INET6, .addr = {[15] = 1}};
	struct treadle_query q;
	struct treadle_addr got;
	int fd;

	join(TRUSTED, TRUSTED);
	fd = device();
	q = query(fd);
	EXPECT_FALSE(q.features & TREADLE_FEATURE_REMOTE);
	EXPECT_TRUE(is(&q.node, none, 0));
	ASSERT_EQ(0, create_at(fd, any, &got));
	EXPECT_TRUE(is(&got, loopback(0), got.port));
	close(fd);

	fd = device_of(1);
	q = query(fd);
	EXPECT_TRUE(q.features & TREADLE_FEATURE_REMOTE);
	EXPECT_TRUE(is(&q.node, at(1), 0));
	ASSERT_EQ(0, create_at(fd, any, &got));
	EXPECT_TRUE(is(&got, at(1), got.port));
	EXPECT_NE(0, got.port);
	ASSERT_EQ(0, create_at(fd, any6, &got)); /* the node has no such address */
	EXPECT_TRUE(is(&got, loopback6, got.port));
	EXPECT_EQ(-EADDRNOTAVAIL, create_at(fd, at(2), &got));

	/* It goes, and comes again as one that no interface has. */
	enter(1);
	EXPECT_EQ(0, loop("close 10.0.0.1"));
	q = query(fd);
	EXPECT_FALSE(q.features & TREADLE_FEATURE_REMOTE);
	EXPECT_EQ(0, q.node.family);
	ASSERT_EQ(0, create_at(fd, any, &got));
	EXPECT_TRUE(is(&got, loopback(0), got.port));
	EXPECT_EQ(-EADDRNOTAVAIL, create_at(fd, at(9), &got));
	EXPECT_EQ(0, loop("listen 10.0.0.9 " TRUSTED));
	EXPECT_EQ(0, create_at(fd, at(9), &got));
	enter(0);
	close(fd);
	part();
}

/* The ports are the same, the hosts are not. */
TEST(peers_of_different_hosts_with_one_port_are_different)
{
	struct node a, b, c;
	__u64 from_a, from_c, to_b, to_c;
	struct treadle_addr addr = at(2);
	struct treadle_cqe e;
	char buf[8];

	join(TRUSTED, TRUSTED);
	addr.port = htons(7471);
	node_of(2, &c, (struct options){.addr = addr});
	memcpy(addr.addr, at(1).addr, sizeof(addr.addr));
	node_of(1, &a, (struct options){.addr = addr});
	node_of(2, &b, (struct options){.flags = TREADLE_EP_SOURCE});
	from_a = peer(&b, a.addr);
	from_c = peer(&b, c.addr);
	to_b = peer(&a, b.addr);
	to_c = peer(&c, b.addr);
	for (int i = 0; i < 4; i++) {
		bool far = i % 2;

		/* by the source that it names, and not by the other one */
		ASSERT_EQ(0, post_recv(&b, recv_of(buf, 8, far ? from_a : from_c, i)));
		EXPECT_EQ(0, sent(far ? &a : &c, far ? to_b : to_c));
		e = cq_next(&b.rcq);
		EXPECT_EQ(i, e.context);
		EXPECT_EQ(far ? from_a : from_c, e.src);
	}
	/* One that is removed is not known any more; the other one is. */
	EXPECT_EQ(0, av_remove(b.fd, b.av, &from_a, 1));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, post_recv(&b, recv_of(buf, 8, ANY, i)));
		EXPECT_EQ(0, sent(i ? &a : &c, i ? to_b : to_c));
		EXPECT_EQ(i ? ANY : from_c, cq_next(&b.rcq).src);
	}
	close(a.fd);
	close(b.fd);
	close(c.fd);
	part();
}

/* Without an entry, the completion has an address that can be inserted, and answered. */
TEST(an_unknown_source_has_the_address_of_its_node)
{
	struct treadle_addr addr;
	struct treadle_cqe e;
	struct node a, b;
	__u64 words[3];
	char buf[8];

	join(TRUSTED, TRUSTED);
	node_of(1, &a, (struct options){});
	node_of(2, &b, (struct options){.flags = TREADLE_EP_SOURCE | TREADLE_EP_SOURCE_ERR});
	ASSERT_EQ(0, post_recv(&b, recv_of(buf, 8, ANY, 1)));
	EXPECT_EQ(0, sent(&a, peer(&a, b.addr)));
	e = cq_next(&b.rcq);
	EXPECT_EQ(EADDRNOTAVAIL, e.error);
	words[0] = e.src;
	words[1] = e.olen;
	words[2] = e.tag;
	memcpy(&addr, words, sizeof(addr));
	EXPECT_TRUE(is(&addr, at(1), a.addr.port));
	ASSERT_EQ(0, post_recv(&a, recv_of(buf, 8, ANY, 2)));
	EXPECT_EQ(0, sent(&b, peer(&b, addr)));
	EXPECT_EQ(0, cq_next(&a.rcq).error);
	close(a.fd);
	close(b.fd);
	part();
}

TEST(lookup_says_where_a_peer_is)
{
	struct treadle_addr near[3], far, far6 = {.family = AF_INET6, .port = htons(7)};
	struct treadle_av_lookup l;
	struct node a;

	join(TRUSTED, TRUSTED);
	node_of(1, &a, (struct options){});
	near[0] = a.addr;
	near[1] = loopback(80);
	near[2] = (struct treadle_addr){.family = AF_INET6, .port = htons(90), .addr = {[15] = 1}};
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, lookup_all(a.fd, a.av, peer(&a, near[i]), &l));
		EXPECT_TRUE(is(&l.addr, near[i], near[i].port));
		EXPECT_EQ(TREADLE_PEER_HERE, l.flags);
		EXPECT_TRUE(is(&l.common, at(1), near[i].port));
	}
	far = at(2);
	far.port = htons(7);
	ASSERT_EQ(0, lookup_all(a.fd, a.av, peer(&a, far), &l));
	EXPECT_TRUE(is(&l.addr, far, far.port));
	EXPECT_EQ(0, l.flags);
	EXPECT_TRUE(is(&l.common, far, far.port));
	/* ::ffff:10.0.0.2 is the same host */
	memset(far6.addr + 10, 0xff, 2);
	memcpy(far6.addr + 12, far.addr, 4);
	ASSERT_EQ(0, lookup_all(a.fd, a.av, peer(&a, far6), &l));
	EXPECT_TRUE(is(&l.addr, far6, far6.port));
	EXPECT_TRUE(is(&l.common, far, far.port));
	l.reserved = 1;
	EXPECT_EQ(-EINVAL, call(a.fd, TREADLE_IOC_AV_LOOKUP, &l));
	close(a.fd);

	/* without a node */
	node_open(&a, (struct options){});
	ASSERT_EQ(0, lookup_all(a.fd, a.av, peer(&a, a.addr), &l));
	EXPECT_EQ(TREADLE_PEER_HERE, l.flags);
	EXPECT_TRUE(is(&l.common, loopback(0), a.addr.port));
	ASSERT_EQ(0, lookup_all(a.fd, a.av, peer(&a, far), &l));
	EXPECT_EQ(0, l.flags);
	EXPECT_TRUE(is(&l.common, far, far.port));
	close(a.fd);
	part();
}

/* Entries are older than the node. */
TEST(peers_are_reached_once_there_is_a_node)
{
	struct node a, b;
	__u64 to, from, other;
	char buf[8];

	join(TRUSTED, TRUSTED);
	enter(1);
	ASSERT_EQ(0, loop("close 10.0.0.1"));
	enter(0);
	node_of(1, &a, (struct options){.flags = TREADLE_EP_SOURCE});
	node_of(2, &b, (struct options){});
	to = peer(&a, b.addr);
	from = peer(&b, a.addr);
	other = peer(&a, b.addr);
	EXPECT_EQ(EHOSTUNREACH, sent(&a, to));
	enter(1);
	ASSERT_EQ(0, loop("listen 10.0.0.1 " TRUSTED));
	enter(0);
	ASSERT_EQ(0, post_recv(&b, recv_of(buf, 8, ANY, 1)));
	EXPECT_EQ(0, sent(&a, to));
	EXPECT_EQ(0, cq_next(&b.rcq).error);
	ASSERT_EQ(0, post_recv(&a, recv_of(buf, 8, to, 2)));
	EXPECT_EQ(0, sent(&b, from));
	EXPECT_EQ(to, cq_next(&a.rcq).src);
	/* a receive that a command brings looks as well */
	EXPECT_EQ(0, av_remove(a.fd, a.av, &to, 1));
	ASSERT_EQ(1, post(&a, recv_of(buf, 8, other, 3)));
	EXPECT_EQ(0, sent(&b, from));
	EXPECT_EQ(other, cq_next(&a.rcq).src);
	close(a.fd);
	close(b.fd);
	part();
}

static struct treadle_addr of_host(int i)
{
	return (struct treadle_addr){
		.family = AF_INET, .port = htons(7471), .addr = {10, 1 + i / 65536, i / 256, i}};
}

/* There are 65534 numbers of hosts. An entry that goes gives its host back. */
TEST(hosts_are_given_back_with_their_entries)
{
	enum { HOSTS = 5000 };
	struct treadle_addr *addr = pages(HOSTS * sizeof(*addr));
	__u64 *index = pages(HOSTS * sizeof(*index));
	struct node a, b;
	__u32 av, count;
	char buf[8];

	join(TRUSTED, TRUSTED);
	node_of(1, &a, (struct options){});
	node_of(2, &b, (struct options){});
	for (int round = 0; round < 28; round++) {
		for (int i = 0; i < HOSTS; i++)
			addr[i] = of_host(round * HOSTS + i);
		av = av_open(a.fd);
		count = HOSTS;
		ASSERT_EQ(0, av_insert(a.fd, av, addr, &count, index));
		ASSERT_EQ(HOSTS, count);
		if (round % 2)
			ASSERT_EQ(0, av_remove(a.fd, av, index, HOSTS));
		ASSERT_EQ(0, destroy(a.fd, av));
	}
	ASSERT_EQ(0, post_recv(&b, recv_of(buf, 8, ANY, 1)));
	EXPECT_EQ(0, sent(&a, peer(&a, b.addr)));
	EXPECT_EQ(0, cq_next(&b.rcq).error);
	close(a.fd);
	close(b.fd);
	part();
}

/* Names so many nodes, which no other call does. As AV_INSERT; *count: how many there are. */
static int name_nodes(int fd, int first, __u32 *count)
{
	struct treadle_addr *addr = pages(*count * sizeof(*addr));
	__u32 asked = *count;
	int result;

	for (int i = 0; i < asked; i++)
		addr[i] = of_host(first + i);
	result = av_insert(fd, av_open(fd), addr, count, NULL);
	munmap(addr, asked * sizeof(*addr));
	return result;
}

/* What a user names, and how many it gets */
struct naming {
	enum cred cred;
	int first, stop, ready, result;
	__u32 count;
};

static void names_nodes(void *arg)
{
	struct naming *n = arg;
	int fd;

	enter(1);
	become(n->cred);
	fd = device();
	n->result = name_nodes(fd, n->first, &n->count);
	raise_to(&n->ready, 1);
	await(&n->stop, 1);
	close(fd);
}

// conformance: ioctl.h: EDQUOT: the user has named too many other nodes
/*
 * A user may name as many nodes as there are numbers left. Those of another user are reached, and
 * more when the first one is gone.
 */
TEST(each_user_has_a_share_of_the_numbers)
{
	enum { MANY = 40000, FEW = 1000 };
	struct naming *n = shared(3 * sizeof(*n));
	struct node a, b;
	__u32 count = MANY;
	pid_t pid[2];
	char buf[8];
	__u64 start;

	join(TRUSTED, TRUSTED);
	node_of(1, &a, (struct options){});
	node_of(2, &b, (struct options){});
	start = now_ns();
	for (int i = 0; i < 2; i++) {
		n[i] = (struct naming){.cred = ALICE + i, .first = i * MANY, .count = MANY};
		pid[i] = spawn(names_nodes, &n[i]);
		await(&n[i].ready, 1);
		EXPECT_EQ(-EDQUOT, n[i].result);
		note("user %d has %u nodes, after %llu ms", i, n[i].count,
		     (now_ns() - start) / 1000000);
	}
	EXPECT_EQ(32767, n[0].count);
	EXPECT_EQ(16384, n[1].count);
	/* root has no exception, and a place */
	EXPECT_EQ(-EDQUOT, name_nodes(a.fd, 2 * MANY, &count));
	EXPECT_EQ(8192, count);
	ASSERT_EQ(0, post_recv(&b, recv_of(buf, 8, ANY, 1)));
	EXPECT_EQ(-EDQUOT, name_nodes(a.fd, 3 * MANY, &(__u32){FEW}));
	/* those that a user has named already are there for all */
	EXPECT_EQ(0, name_nodes(a.fd, 0, &(__u32){FEW}));
	for (int i = 0; i < 2; i++) {
		raise_to(&n[i].stop, 1);
		EXPECT_EQ(0, reap(pid[i]));
	}
	start = now_ns();
	while (name_nodes(a.fd, 3 * MANY, &(__u32){FEW})) {
		ASSERT_GT(start + PATIENCE_NS, now_ns());
		usleep(10000);
	}
	EXPECT_EQ(0, sent(&a, peer(&a, b.addr)));
	EXPECT_EQ(0, cq_next(&b.rcq).error);
	close(a.fd);
	close(b.fd);
	part();
}

TEST(a_million_peers_on_a_thousand_hosts)
{
	enum { MILLION = 1000000, HOSTS = 1000 };
	struct treadle_addr *addr = pages(MILLION * sizeof(*addr));
	/* what a kernel with debugging checks adds to the locks of a host */
	const long long checks = access("/proc/lockdep", F_OK) == 0 ? 4096 : 0;
	__u64 *index = pages(MILLION * sizeof(*index)), start;
	struct treadle_av_lookup l;
	__u32 count = MILLION, av;
	long long before, bytes;
	char group[64];
	int fd;

	join(TRUSTED, TRUSTED);
	fd = device_of(1);
	av = av_open(fd);
	for (int i = 0; i < MILLION; i++) {
		addr[i] = of_host(i % HOSTS);
		addr[i].port = htons(1 + i / HOSTS);
		index[i] = 0;
	}
	cgroup_enter(group);
	before = cgroup_kernel(group);
	start = now_ns();
	ASSERT_EQ(0, av_insert(fd, av, addr, &count, index));
	ASSERT_EQ(MILLION, count);
	bytes = cgroup_kernel(group) - before;
	note("a peer: %lld.%02lld bytes, with its host; inserted in %llu ns", bytes / MILLION,
	     bytes % MILLION / (MILLION / 100), (now_ns() - start) / MILLION);
	EXPECT_GE(32LL * MILLION, bytes - checks * HOSTS);
	EXPECT_LT(MILLION, bytes);
	for (int i = 0; i < MILLION; i += 9973) {
		ASSERT_EQ(0, lookup_all(fd, av, index[i], &l));
		ASSERT_TRUE(is(&l.addr, addr[i], addr[i].port));
		ASSERT_TRUE(is(&l.common, addr[i], addr[i].port));
	}
	start = now_ns();
	ASSERT_EQ(0, destroy(fd, av));
	note("each is gone in %llu ns", (now_ns() - start) / MILLION);
	close(fd);
	part();
}

TEST_HARNESS_MAIN
