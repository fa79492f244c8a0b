/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Address vectors: an inserted address can be looked up and sent to, indices are reused, and a
 * million peers need little memory.
 */
// conformance: fi_av(3): FI_AV_TABLE: indices from 0 on, in the order of insertion (the lowest ...

#include "treadle.h"

#define MILLION 1000000

FIXTURE(av)
{
	int fd;
	__u32 av;
};

FIXTURE_SETUP(av)
{
	self->fd = device();
	self->av = av_open(self->fd);
}

FIXTURE_TEARDOWN(av)
{
	close(self->fd);
}

static int av_lookup(int fd, __u32 av, __u64 index, struct treadle_addr *addr)
{
	struct treadle_av_lookup l = {.size = sizeof(l), .av = av, .index = index};
	int result = call(fd, TREADLE_IOC_AV_LOOKUP, &l);

	*addr = l.addr;
	return result;
}

/* One of many, of both families, most of them on other machines. */
static struct treadle_addr nth(__u32 n)
{
	struct treadle_addr a = {.family = n % 3 ? AF_INET : AF_INET6,
				 .port = htons(n % 60000 + 1)};

	for (int i = 0; i < (n % 3 ? 4 : 16); i++)
		a.addr[i] = n >> 8 * (i % 4);
	if (n % 3 == 1)
		a.addr[0] = 127;
	return a;
}

static bool equal(const struct treadle_addr *a, const struct treadle_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

// conformance: ioctl.h: ENOENT: no entry with this index
TEST_F(av, lookup_returns_what_was_inserted)
{
	struct treadle_addr addr[100], got,
		link_local = {
			.family = AF_INET6, .port = 5, .scope = 7, .addr = {0xfe, 0x80, [15] = 1}};
	__u64 index[100];
	__u32 count = 100;

	for (int i = 0; i < 100; i++)
		addr[i] = nth(i);
	ASSERT_EQ(0, av_insert(self->fd, self->av, addr, &count, index));
	EXPECT_EQ(100, count);
	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(i, index[i]);
		EXPECT_EQ(0, av_lookup(self->fd, self->av, i, &got));
		EXPECT_TRUE(equal(&addr[i], &got));
	}
	EXPECT_EQ(-ENOENT, av_lookup(self->fd, self->av, 100, &got));
	EXPECT_EQ(-ENOENT, av_lookup(self->fd, self->av, ~0ULL, &got));
	EXPECT_EQ(-ENOENT, av_lookup(self->fd, self->av, 1ULL << 32, &got));
	/*
	 * The same address again makes another entry. Without an array for indices the indices
	 * still advance.
	 */
	count = 1;
	ASSERT_EQ(0, av_insert(self->fd, self->av, addr, &count, NULL));
	EXPECT_EQ(0, av_lookup(self->fd, self->av, 100, &got));
	EXPECT_TRUE(equal(&addr[0], &got));
	ASSERT_EQ(0, av_insert(self->fd, self->av, &link_local, &count, index));
	EXPECT_EQ(0, av_lookup(self->fd, self->av, index[0], &got));
	EXPECT_TRUE(equal(&link_local, &got));
	/* No peer has this address, but a lookup returns what was inserted. */
	link_local.addr[7] = 1;
	link_local.scope = 0;
	ASSERT_EQ(0, av_insert(self->fd, self->av, &link_local, &count, index));
	EXPECT_EQ(0, av_lookup(self->fd, self->av, index[0], &got));
	EXPECT_TRUE(equal(&link_local, &got));
}

TEST_F(av, unknown_families_are_skipped)
{
	struct treadle_addr addr[5], got;
	__u64 index[5];
	__u32 count = 5;

	for (int i = 0; i < 5; i++)
		addr[i] = nth(i);
	addr[1].family = AF_UNIX;
	addr[3].family = 0;
	EXPECT_EQ(0, av_insert(self->fd, self->av, addr, &count, index));
	EXPECT_EQ(3, count);
	for (int i = 0; i < 5; i++) {
		EXPECT_EQ(i & 1 ? ANY : i / 2, index[i]);
	}
	EXPECT_EQ(-ENOENT, av_lookup(self->fd, self->av, 3, &got));
	count = 1;
	EXPECT_EQ(0, av_insert(self->fd, self->av, &addr[1], &count, index));
	EXPECT_EQ(0, count);
	count = 0;
	EXPECT_EQ(0, av_insert(self->fd, self->av, NULL, &count, NULL));
}

/* An insertion ends at the first bad pointer, and keeps the entries before it. */
// conformance: ioctl.h: EFAULT: a pointer in the structure
TEST_F(av, bad_pointers)
{
	const __u32 room = PAGE / sizeof(struct treadle_addr);
	struct treadle_addr *addr = pages(PAGE), got;
	__u64 *index = pages(PAGE);
	__u32 count;

	addr = (void *)((char *)addr + PAGE - room * sizeof(*addr));
	for (__u32 i = 0; i < room; i++)
		addr[i] = nth(i);
	count = room + 1;
	EXPECT_EQ(-EFAULT, av_insert(self->fd, self->av, addr, &count, NULL));
	EXPECT_GE(room, count);
	for (__u32 i = 0; i < count; i++) {
		EXPECT_EQ(0, av_lookup(self->fd, self->av, i, &got));
		EXPECT_TRUE(equal(&addr[i], &got));
	}
	EXPECT_EQ(-ENOENT, av_lookup(self->fd, self->av, count, &got));
	count = 8;
	EXPECT_EQ(-EFAULT, av_insert(self->fd, self->av, addr, &count, index + 510));
	count = 1;
	EXPECT_EQ(-EFAULT, av_insert(self->fd, self->av, (void *)8, &count, NULL));
	EXPECT_EQ(0, count);
	EXPECT_EQ(-EFAULT, av_remove(self->fd, self->av, (void *)8, 1));
	/* A count that exceeds memory or the address space is refused. */
	count = ~0U;
	EXPECT_GT(0, av_insert(self->fd, self->av, addr, &count, NULL));
}

TEST_F(av, indices_are_reused)
{
	struct treadle_addr addr[64], got;
	__u64 index[64], gone[3] = {63, 5, 40}, reused[] = {5, 40, 63, 64};
	__u32 count = 64;

	for (int i = 0; i < 64; i++)
		addr[i] = nth(i);
	ASSERT_EQ(0, av_insert(self->fd, self->av, addr, &count, index));
	ASSERT_EQ(0, av_remove(self->fd, self->av, gone, 3));
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(-ENOENT, av_lookup(self->fd, self->av, gone[i], &got));
	}
	EXPECT_EQ(-ENOENT, av_remove(self->fd, self->av, gone, 1));
	gone[1] = ~0ULL;
	EXPECT_EQ(-ENOENT, av_remove(self->fd, self->av, gone + 1, 1));
	for (int i = 0; i < 4; i++) {
		count = 1;
		ASSERT_EQ(0, av_insert(self->fd, self->av, &addr[10 + i], &count, index));
		EXPECT_EQ(0, av_lookup(self->fd, self->av, index[0], &got));
		EXPECT_TRUE(equal(&addr[10 + i], &got));
		EXPECT_EQ(reused[i], index[0]);
	}
}

/*
 * fi_av(3): an address is inserted at the lowest index that is not used. That also holds if many
 * share a port, and if the table grows.
 */
TEST_F(av, the_lowest_free_index_first)
{
	struct treadle_addr addr[4096], got;
	__u64 index[4096], gone[] = {0, 99, 50, 51, 1, 49, 98};
	const __u64 reused[] = {0, 1, 49, 50, 51, 98, 99};
	__u32 count = 100;

	for (int i = 0; i < 4096; i++)
		addr[i] = i % 2 ? loopback(5000) : nth(i);
	ASSERT_EQ(0, av_insert(self->fd, self->av, addr, &count, index));
	ASSERT_EQ(0, av_remove(self->fd, self->av, gone, ARRAY_SIZE(gone)));
	count = 4096; /* the array has no room for most of them */
	ASSERT_EQ(0, av_insert(self->fd, self->av, addr, &count, index));
	for (int i = 0; i < 4096; i++) {
		ASSERT_EQ(i < 7 ? reused[i] : 93 + i, index[i]);
		ASSERT_EQ(0, av_lookup(self->fd, self->av, index[i], &got));
		ASSERT_TRUE(equal(&addr[i], &got));
	}
	/*
	 * Any address at a shared port can be removed, the first and the last, and inserted again.
	 */
	count = 0;
	for (int i = 0; i < 4096; i += 1 + i % 5)
		index[count++] = i;
	ASSERT_EQ(0, av_remove(self->fd, self->av, index, count));
	ASSERT_EQ(0, av_insert(self->fd, self->av, addr, &count, &index[count]));
	EXPECT_EQ(0, memcmp(index, &index[count], count * sizeof(*index)));
}

/* A sender is named by one of the entries that lead to it, as long as there is one. */
TEST(sources_have_the_index_of_their_address)
{
	struct node a, b;
	__u64 mine[3], named, gone;
	char buf[8];

	node_open(&a, (struct options){});
	node_open(&b, (struct options){.flags = TREADLE_EP_SOURCE});
	for (int i = 0; i < 3; i++) {
		struct treadle_addr addr = a.addr;

		addr.addr[3] += i;
		mine[i] = peer(&b, addr);
	}
	for (int i = 0; i <= 3; i++) {
		ASSERT_EQ(0, post_recv(&b, recv_of(buf, 8, ANY, i)));
		ASSERT_EQ(1, post(&a, send_of(buf, 8, peer(&a, b.addr), i)));
		named = cq_next(&b.rcq).src;
		if (i == 3) {
			EXPECT_EQ(ANY, named);
			break;
		}
		EXPECT_TRUE(named == mine[0] || named == mine[1] || named == mine[2]);
		for (int j = 0; j < 3; j++)
			mine[j] = mine[j] == named ? ANY - 1 : mine[j];
		gone = named;
		EXPECT_EQ(0, av_remove(b.fd, b.av, &gone, 1));
	}
	/* A sender that was removed is unknown, but its messages are still received. */
	EXPECT_EQ(4, cntr_value(&b.rcvd));
}

/* --- identifiers ------------------------------------------------------------------------ */

static int insert_as(int fd, __u32 av, const struct treadle_addr *addrs, __u32 count, __u64 *out,
		     const __u64 *ids)
{
	struct treadle_av_insert i = {
		.size = sizeof(i),
		.av = av,
		.count = count,
		.addrs = (unsigned long)addrs,
		.out = (unsigned long)out,
		.ids = (unsigned long)ids,
	};

	return call(fd, TREADLE_IOC_AV_INSERT, &i);
}

static int create_as(int fd, __u32 flags, const char *name, __u32 *av)
{
	struct treadle_av_create c = {
		.size = sizeof(c),
		.flags = flags,
		.name = (unsigned long)name,
		.name_size = name ? strlen(name) : 0,
	};
	int result = call(fd, TREADLE_IOC_AV_CREATE, &c);

	*av = c.id;
	return result;
}

/*
 * The source that completions of @n report for messages of @from. @to: @n, in the vector of @from.
 */
static __u64 called(struct node *n, struct node *from, __u64 to)
{
	char buf[8];

	need(post_recv(n, recv_of(buf, 8, TREADLE_ADDR_ANY, 1)) == 0);
	need(post(from, send_of("hello", 6, to, 1)) == 1);
	need(cq_next(&from->cq).error == 0);
	return cq_next(&n->rcq).src;
}

// conformance: fi_av(3): FI_AV_USER_ID: a completion reports the identifier in place of the address
TEST(sources_are_reported_by_identifier)
{
	struct treadle_addr crowd[100], a;
	struct node n, senders[3];
	const __u64 ids[] = {0xfedcba9876543210, 7};
	struct treadle_ep_enable e;
	__u64 to[3], indices[2];

	node_create(&n, (struct options){});
	ASSERT_EQ(0, create_as(n.fd, TREADLE_AV_IDS, NULL, &n.av));
	e = node_bindings(&n);
	e.flags = TREADLE_EP_SOURCE;
	ASSERT_EQ(0, call(n.fd, TREADLE_IOC_EP_ENABLE, &e));
	for (int i = 0; i < 3; i++) {
		node_open(&senders[i], (struct options){});
		to[i] = peer(&senders[i], n.addr);
	}
	a = senders[0].addr;
	ASSERT_EQ(0, insert_as(n.fd, n.av, &a, 1, indices, ids));
	ASSERT_EQ(0, insert_as(n.fd, n.av, &senders[1].addr, 1, indices + 1, ids + 1));
	/* An entry without an identifier is reported by its index, which commands always use. */
	EXPECT_EQ(2, peer(&n, senders[2].addr));
	EXPECT_EQ(0, indices[0]);
	EXPECT_EQ(1, indices[1]);
	for (int grown = 0; grown < 2; grown++) {
		EXPECT_EQ(ids[0], called(&n, &senders[0], to[0]));
		EXPECT_EQ(ids[1], called(&n, &senders[1], to[1]));
		EXPECT_EQ(2, called(&n, &senders[2], to[2]));
		for (int i = 0; i < ARRAY_SIZE(crowd); i++)
			crowd[i] = nth(1000 + i);
		ASSERT_EQ(0, insert_as(n.fd, n.av, crowd, ARRAY_SIZE(crowd), NULL, NULL));
	}
	/* A reused index does not keep the identifier of the removed entry. */
	ASSERT_EQ(0, av_remove(n.fd, n.av, indices, 2));
	EXPECT_EQ(TREADLE_ADDR_ANY, called(&n, &senders[0], to[0]));
	EXPECT_EQ(0, peer(&n, senders[0].addr));
	EXPECT_EQ(0, called(&n, &senders[0], to[0]));
	for (int i = 0; i < 3; i++)
		close(senders[i].fd);
	close(n.fd);
}

static int set_id(int fd, __u32 av, __u64 index, __u64 id)
{
	struct treadle_av_set_id s = {.size = sizeof(s), .av = av, .index = index, .id = id};

	return call(fd, TREADLE_IOC_AV_SET_ID, &s);
}

// conformance: fi_av(3): FI_AV_USER_ID of fi_av_open (2.x): FI_ADDR_NOTAVAIL until ...
// conformance: ioctl.h: ENOENT: no entry with this index
TEST(an_identifier_is_set_later)
{
	struct treadle_addr crowd[100];
	struct treadle_cqe cqe;
	struct treadle_ep_enable e;
	struct node n, senders[2];
	__u64 to[2], index, none = TREADLE_ADDR_ANY;
	char buf[8];

	node_create(&n, (struct options){});
	ASSERT_EQ(0, create_as(n.fd, TREADLE_AV_IDS, NULL, &n.av));
	e = node_bindings(&n);
	e.flags = TREADLE_EP_SOURCE | TREADLE_EP_SOURCE_ERR;
	ASSERT_EQ(0, call(n.fd, TREADLE_IOC_EP_ENABLE, &e));
	for (int i = 0; i < 2; i++) {
		node_open(&senders[i], (struct options){});
		to[i] = peer(&senders[i], n.addr);
	}
	ASSERT_EQ(0, insert_as(n.fd, n.av, &senders[0].addr, 1, &index, &none));

	/* The vector has the first sender, which has no identifier: no error of EP_SOURCE_ERR. */
	for (int i = 0; i < 2; i++) {
		need(post_recv(&n, recv_of(buf, 8, TREADLE_ADDR_ANY, 1)) == 0);
		need(post(&senders[i], send_of("hello", 6, to[i], 1)) == 1);
		cqe = cq_next(&n.rcq);
		EXPECT_EQ(i ? EADDRNOTAVAIL : 0, cqe.error);
		if (!i) {
			EXPECT_EQ(TREADLE_ADDR_ANY, cqe.src);
		}
	}
	ASSERT_EQ(0, set_id(n.fd, n.av, index, 0xfedcba9876543210));
	EXPECT_EQ(0xfedcba9876543210, called(&n, &senders[0], to[0]));
	for (int i = 0; i < ARRAY_SIZE(crowd); i++)
		crowd[i] = nth(1000 + i);
	ASSERT_EQ(0, insert_as(n.fd, n.av, crowd, ARRAY_SIZE(crowd), NULL, NULL));
	EXPECT_EQ(0xfedcba9876543210, called(&n, &senders[0], to[0]));
	ASSERT_EQ(0, set_id(n.fd, n.av, index, 7));
	EXPECT_EQ(7, called(&n, &senders[0], to[0]));
	ASSERT_EQ(0, set_id(n.fd, n.av, index, none));
	EXPECT_EQ(none, called(&n, &senders[0], to[0]));

	ASSERT_EQ(0, av_remove(n.fd, n.av, &index, 1));
	EXPECT_EQ(-ENOENT, set_id(n.fd, n.av, index, 7));
	EXPECT_EQ(-ENOENT, set_id(n.fd, n.av, 101, 7));
	EXPECT_EQ(-ENOENT, set_id(n.fd, n.av, none, 7));
	for (int i = 0; i < 2; i++)
		close(senders[i].fd);
	close(n.fd);
}

TEST_F(av, identifiers_need_a_vector_for_them)
{
	struct treadle_addr a = nth(1);
	__u64 id = 5, index;
	__u32 av;

	EXPECT_EQ(-EINVAL, insert_as(self->fd, self->av, &a, 1, &index, &id));
	EXPECT_EQ(-EINVAL, set_id(self->fd, self->av, 0, id));
	EXPECT_EQ(-EINVAL, create_as(self->fd, TREADLE_AV_IDS, "shared", &av));
	ASSERT_EQ(0, create_as(self->fd, TREADLE_AV_IDS, NULL, &av));
	EXPECT_EQ(-EFAULT, insert_as(self->fd, av, &a, 1, &index, (void *)8));
	EXPECT_EQ(0, insert_as(self->fd, av, &a, 1, &index, &id));
	EXPECT_EQ(0, index);
}

/* The last page is missing. */
TEST_F(av, no_room_is_made_for_what_cannot_be_read)
{
	size_t size = MILLION * sizeof(struct treadle_addr), page = sysconf(_SC_PAGESIZE);
	char *addr = pages(size);
	__u32 count = MILLION;
	long long before;
	char group[64];

	ASSERT_EQ(0, munmap(addr + (size - 1) / page * page, page));
	cgroup_enter(group);
	before = cgroup_kernel(group);
	EXPECT_EQ(-EFAULT, av_insert(self->fd, self->av, (void *)addr, &count, NULL));
	EXPECT_EQ(0, count);
	EXPECT_GT(MILLION, cgroup_kernel(group) - before);
}

TEST_F(av, a_million_peers)
{
	struct treadle_addr *addr = pages(MILLION * sizeof(*addr)), got;
	__u64 *index = pages(MILLION * sizeof(*index)), start;
	long long before, bytes;
	__u32 count = MILLION;
	char group[64];

	for (int i = 0; i < MILLION; i++) {
		addr[i] = nth(i);
		index[i] = 0;
	}
	cgroup_enter(group);
	before = cgroup_kernel(group);
	start = now_ns();
	ASSERT_EQ(0, av_insert(self->fd, self->av, addr, &count, index));
	ASSERT_EQ(MILLION, count);
	bytes = cgroup_kernel(group) - before;
	note("a peer: %lld bytes, inserted in %llu ns", bytes / MILLION,
	     (now_ns() - start) / MILLION);
	EXPECT_GE(32LL * MILLION, bytes);
	EXPECT_LT(MILLION, bytes);
	for (int i = 0; i < MILLION; i++) {
		ASSERT_EQ(i, index[i]);
	}
	for (int i = 0; i < MILLION; i += 9973) {
		ASSERT_EQ(0, av_lookup(self->fd, self->av, i, &got));
		ASSERT_TRUE(equal(&addr[i], &got));
	}

	/* Holes at the end are cheap, although a search from the start would visit all entries. */
	start = now_ns();
	ASSERT_EQ(0, av_remove(self->fd, self->av, index + MILLION - 100000, 100000));
	count = 100000;
	ASSERT_EQ(0, av_insert(self->fd, self->av, addr, &count, index));
	EXPECT_EQ(100000, count);
	note("a hole: %llu ns", (now_ns() - start) / 100000);
	ASSERT_EQ(0, destroy(self->fd, self->av));
	self->av = av_open(self->fd);
}

/*
 * A million entries at one address: a sender is reported by one of the indices, and each can be
 * removed.
 */
TEST_F(av, many_entries_of_one_address)
{
	const __u32 crowd = 200000;
	struct treadle_addr *addr = pages(crowd * sizeof(*addr));
	__u64 *index = pages(crowd * sizeof(*index)), start = now_ns();
	__u32 count = crowd;

	for (__u32 i = 0; i < crowd; i++)
		addr[i] = loopback(5000);
	ASSERT_EQ(0, av_insert(self->fd, self->av, addr, &count, index));
	ASSERT_EQ(0, av_remove(self->fd, self->av, index, crowd));
	note("each: %llu ns", (now_ns() - start) / crowd);
	count = 1;
	ASSERT_EQ(0, av_insert(self->fd, self->av, addr, &count, index));
	EXPECT_GT(crowd, index[0]);
}

/*
 * The table grows in steps up to its limit. Beyond it insertion fails and the entries stay. 16
 * million insertions take long on an instrumented kernel.
 */
// conformance: ioctl.h: ENOSPC: a limit of the context
TEST_F(av, the_limit)
{
	struct treadle_addr *addr = pages(MILLION * sizeof(*addr)), got;
	__u32 max = query(self->fd).max_av, count, total = 0;
	int result = 0;

	for (int i = 0; i < MILLION; i++)
		addr[i] = nth(3 * i + 2);
	while (result == 0) {
		count = MILLION;
		if (total <= max && max - total < MILLION)
			count = max - total;
		if (count == 0)
			count = 1;
		result = av_insert(self->fd, self->av, addr, &count, NULL);
		total += count;
		ASSERT_GE(max, total);
	}
	EXPECT_EQ(-ENOSPC, result);
	EXPECT_EQ(max, total);
	EXPECT_EQ(0, av_lookup(self->fd, self->av, max - 1, &got));
	EXPECT_EQ(-ENOENT, av_lookup(self->fd, self->av, max, &got));
}

/* --- concurrent changes ------------------------------------------------------------------ */

#define NEIGHBOURS 8

struct restless {
	const struct node *n;
	struct treadle_addr near;
	bool stop;
};

/* Addresses in the same hash bucket as @near. */
static void *come_and_go(void *arg)
{
	struct restless *r = arg;
	struct treadle_addr addrs[NEIGHBOURS];
	__u64 index[NEIGHBOURS];

	for (int i = 0; i < NEIGHBOURS; i++)
		addrs[i] = loopback(ntohs(r->near.port) ^ (i + 1) << 8);
	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		__u32 count = NEIGHBOURS;

		need(av_insert(r->n->fd, r->n->av, addrs, &count, index) == 0 &&
		     count == NEIGHBOURS);
		need(av_remove(r->n->fd, r->n->av, index, count) == 0);
	}
	return NULL;
}

TEST(a_source_is_known_while_others_come_and_go)
{
	struct node a, b;
	struct restless r = {.n = &b};
	__u64 to, known, lost = 0;
	pthread_t t;

	node_open(&a, (struct options){});
	node_open(&b, (struct options){.flags = TREADLE_EP_SOURCE});
	to = peer(&a, b.addr);
	known = peer(&b, a.addr);
	r.near = a.addr;
	t = thread(come_and_go, &r);
	for (int i = 0; i < 20000; i++) {
		ASSERT_EQ(0, post_recv(&b, recv_of(NULL, 0, ANY, i)));
		ASSERT_EQ(1, post(&a, send_of(NULL, 0, to, i)));
		lost += cq_next(&b.rcq).src != known;
		cq_next(&a.cq);
	}
	__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	EXPECT_EQ(0, lost);
}

TEST_HARNESS_MAIN
