/* SPDX-License-Identifier: GPL-2.0 */
/* Address vectors that several contexts open by name. */
// conformance: fi_domain(3): caps: FI_SHARED_AV

#include "slow.h"
#include "treadle.h"
#include "cred.h"

static int open_named(int fd, const char *name, __u32 flags, __u32 *id)
{
	struct treadle_av_create c = {.size = sizeof(c),
				      .flags = flags,
				      .name = (unsigned long)name,
				      .name_size = name ? strlen(name) : 0};
	int result = call(fd, TREADLE_IOC_AV_CREATE, &c);

	*id = c.id;
	return result;
}

static __u64 insert(int fd, __u32 av, __u16 port)
{
	struct treadle_addr addr = loopback(port);
	__u32 count = 1;
	__u64 index;

	need(av_insert(fd, av, &addr, &count, &index) == 0 && count == 1);
	return index;
}

static int port_at(int fd, __u32 av, __u64 index)
{
	struct treadle_av_lookup l = {.size = sizeof(l), .av = av, .index = index};
	int result = call(fd, TREADLE_IOC_AV_LOOKUP, &l);

	return result ?: ntohs(l.addr.port);
}

// conformance: fi_av(3): a named address vector is created if it does not exist, and shared by ...
TEST(one_vector_for_all_contexts)
{
	int a = device(), b = device();
	__u32 x, y, z, other;

	ASSERT_EQ(0, open_named(a, "one", 0, &x));
	ASSERT_EQ(0, open_named(b, "one", 0, &y));
	ASSERT_EQ(0, open_named(b, "one", TREADLE_AV_READ, &z));
	ASSERT_EQ(0, open_named(b, "another", 0, &other));
	EXPECT_EQ(0, insert(a, x, 1000));
	EXPECT_EQ(1, insert(b, y, 1001));
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(1000 + i, port_at(a, x, i));
		EXPECT_EQ(1000 + i, port_at(b, y, i));
		EXPECT_EQ(1000 + i, port_at(b, z, i));
		EXPECT_EQ(-ENOENT, port_at(b, other, i));
	}
}

/* Messages go where another context's insertion says. The vector may grow meanwhile. */
TEST(endpoints_use_it)
{
	struct treadle_ep_enable e;
	struct treadle_cqe c;
	struct node n, to;
	char in[4];
	__u32 own, av;
	int a = device();
	__u64 index;

	node_open(&to, (struct options){});
	node_create(&n, (struct options){});
	ASSERT_EQ(0, open_named(n.fd, "grows", TREADLE_AV_READ, &own) + ENOENT);
	ASSERT_EQ(0, open_named(a, "grows", 0, &av));
	ASSERT_EQ(0, open_named(n.fd, "grows", TREADLE_AV_READ, &own));
	e = node_bindings(&n);
	e.av = own;
	ASSERT_EQ(0, call(n.fd, TREADLE_IOC_EP_ENABLE, &e));
	for (int i = 0; i < 100; i++)
		insert(a, av, 2000 + i);
	index = insert(a, av, ntohs(to.addr.port));
	ASSERT_EQ(0, post_recv(&to, recv_of(in, 4, ANY, 1)));
	ASSERT_EQ(1, post(&n, send_of("abc", 4, index, 2)));
	c = cq_next(&to.rcq);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(0, memcmp(in, "abc", 4));
	EXPECT_EQ(-EBUSY, destroy(n.fd, own));
	/* the context that created the vector may go */
	close(a);
	ASSERT_EQ(0, post_recv(&to, recv_of(in, 4, ANY, 1)));
	ASSERT_EQ(1, post(&n, send_of("def", 4, index, 2)));
	EXPECT_EQ(0, cq_next(&to.rcq).error);
}

// conformance: ioctl.h: ENOENT: no address vector with this name
// conformance: ioctl.h: EACCES: an address vector for reading only
TEST(for_reading_only)
{
	int a = device();
	struct treadle_addr addr = loopback(1);
	struct treadle_av_remove r = {.size = sizeof(r)};
	__u32 av, ro, count = 1;
	__u64 index = 0;

	ASSERT_EQ(-ENOENT, open_named(a, "ro", TREADLE_AV_READ, &ro));
	ASSERT_EQ(0, open_named(a, "ro", 0, &av));
	ASSERT_EQ(0, open_named(a, "ro", TREADLE_AV_READ, &ro));
	EXPECT_EQ(-EACCES, av_insert(a, ro, &addr, &count, &index));
	insert(a, av, 1);
	r.av = ro;
	r.count = 1;
	r.indices = (unsigned long)&(__u64){0};
	EXPECT_EQ(-EACCES, call(a, TREADLE_IOC_AV_REMOVE, &r));
	EXPECT_EQ(1, port_at(a, ro, 0));
}

TEST(the_vector_goes_with_its_last_user)
{
	int a = device(), b = device();
	__u32 x, y, z;

	ASSERT_EQ(0, open_named(a, "brief", 0, &x));
	ASSERT_EQ(0, open_named(b, "brief", TREADLE_AV_READ, &y));
	insert(a, x, 1);
	ASSERT_EQ(0, destroy(a, x));
	EXPECT_EQ(1, port_at(b, y, 0));
	close(b);
	/* the context may still be closing */
	while (open_named(a, "brief", TREADLE_AV_READ, &z) == 0) {
		ASSERT_EQ(0, destroy(a, z));
		usleep(1000);
	}
	ASSERT_EQ(0, open_named(a, "brief", 0, &x));
	EXPECT_EQ(-ENOENT, port_at(a, x, 0));
}

static void as_other_user(void *result)
{
	__u32 id;
	int fd;

	need(setresuid(1000, 1000, 1000) == 0);
	fd = device();
	raise_to(result, 1 + -open_named(fd, "mine", TREADLE_AV_READ, &id));
}

static void in_other_net(void *result)
{
	__u32 id;

	need(unshare(CLONE_NEWNET) == 0);
	raise_to(result, 1 + -open_named(device(), "mine", TREADLE_AV_READ, &id));
}

/* The same uid, in another user namespace. */
static void in_other_user_ns(void *result)
{
	__u32 id;

	become(ELSEWHERE);
	raise_to(result, 1 + -open_named(device(), "mine", TREADLE_AV_READ, &id));
}

TEST(names_belong_to_a_user_and_a_namespace)
{
	int *result = shared(3 * sizeof(*result)), a = device();
	__u32 id;

	ASSERT_EQ(0, open_named(a, "mine", 0, &id));
	EXPECT_EQ(0, reap(spawn(as_other_user, &result[0])));
	EXPECT_EQ(1 + ENOENT, result[0]);
	EXPECT_EQ(0, reap(spawn(in_other_net, &result[1])));
	EXPECT_EQ(1 + ENOENT, result[1]);
	EXPECT_EQ(0, reap(spawn(in_other_user_ns, &result[2])));
	EXPECT_EQ(1 + ENOENT, result[2]);
}

TEST(names_are_validated)
{
	struct treadle_av_create c = {.size = sizeof(c)};
	char longest[TREADLE_AV_NAME + 2];
	int a = device();
	__u32 id;

	memset(longest, 'n', sizeof(longest));
	longest[TREADLE_AV_NAME + 1] = 0;
	EXPECT_EQ(-EINVAL, open_named(a, longest, 0, &id));
	longest[TREADLE_AV_NAME] = 0;
	EXPECT_EQ(0, open_named(a, longest, 0, &id));
	EXPECT_EQ(-EINVAL, open_named(a, NULL, TREADLE_AV_READ, &id));
	EXPECT_EQ(-EINVAL, open_named(a, "", 0, &id));
	EXPECT_EQ(-EFAULT, open_named(a, "x", 0, &id) ?: ({
		c.name = 8;
		c.name_size = 4;
		call(a, TREADLE_IOC_AV_CREATE, &c);
	}));
	c.name = 0;
	EXPECT_EQ(-EINVAL, call(a, TREADLE_IOC_AV_CREATE, &c));
	c.name_size = 0;
	c.flags = 4;
	EXPECT_EQ(-EINVAL, call(a, TREADLE_IOC_AV_CREATE, &c));
}

/* The hash table of names grows and shrinks: each name is still found, and no other. */
TEST(many_names)
{
	enum { MANY = 2000 };
	int a = device(), b = device();
	__u32 av[MANY], same;
	char name[20];

	for (int i = 0; i < MANY; i++) {
		sprintf(name, "many %d", i);
		ASSERT_EQ(0, open_named(a, name, 0, &av[i]));
		insert(a, av[i], 1 + i);
	}
	for (int i = 0; i < MANY; i++) {
		sprintf(name, "many %d", i);
		ASSERT_EQ(0, open_named(b, name, TREADLE_AV_READ, &same));
		ASSERT_EQ(1 + i, port_at(b, same, 0));
		ASSERT_EQ(0, destroy(b, same));
		ASSERT_EQ(0, destroy(a, av[i]));
		ASSERT_EQ(-ENOENT, open_named(b, name, TREADLE_AV_READ, &same));
	}
}

static void *open_and_close(void *arg)
{
	int fd = device();
	__u32 id;

	for (int i = 0; i < 300; i++) {
		need(open_named(fd, "crowd", 0, &id) == 0);
		insert(fd, id, 1);
		need(destroy(fd, id) == 0);
	}
	return NULL;
}

TEST(opened_and_closed_by_many)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		t[i] = thread(open_and_close, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

/* --- an insertion that waits for a page --------------------------------------------------- */

enum { LOOKS, REMOVES, INSERTS };

struct shared_av {
	int ready, what;
};

/* Holds the lock of the vector until its page comes, which is never. */
static void inserts_slowly(void *arg)
{
	struct treadle_addr addr = loopback(1001);
	struct treadle_av_insert c = {.size = sizeof(c), .count = 1, .addrs = (unsigned long)&addr};
	struct shared_av *s = arg;
	char *slow = pages(PAGE);
	int fd = device();

	slow_pages(slow, PAGE);
	need(open_named(fd, "slow", 0, &c.av) == 0);
	insert(fd, c.av, 1000);
	c.out = (unsigned long)slow;
	raise_to(&s->ready, 1);
	call(fd, TREADLE_IOC_AV_INSERT, &c);
}

static void uses_it(void *arg)
{
	struct treadle_av_remove r = {.size = sizeof(r), .count = 1};
	struct shared_av *s = arg;
	__u64 index = 0;
	int fd = device();

	need(open_named(fd, "slow", 0, &r.av) == 0);
	r.indices = (unsigned long)&index;
	raise_to(&s->ready, 2);
	switch (s->what) {
	case LOOKS:
		port_at(fd, r.av, 0);
		break;
	case REMOVES:
		call(fd, TREADLE_IOC_AV_REMOVE, &r);
		break;
	case INSERTS:
		insert(fd, r.av, 1001);
		break;
	}
	need(!"it did not wait");
}

/* A context that waits for another's page can still be killed. */
TEST(a_process_that_waits_for_the_vector_can_be_killed)
{
	struct shared_av *s = shared(sizeof(*s));

	for (s->what = LOOKS; s->what <= INSERTS; s->what++) {
		pid_t slow, user;
		int status, i;

		about("what %d", s->what);
		s->ready = 0;
		slow = spawn(inserts_slowly, s);
		await(&s->ready, 1);
		usleep(100000);
		user = spawn(uses_it, s);
		await(&s->ready, 2);
		usleep(100000);
		kill(user, SIGKILL);
		for (i = 0; i < 500 && !waitpid(user, &status, WNOHANG); i++)
			usleep(10000);
		EXPECT_LT(i, 500);
		kill(slow, SIGKILL);
		EXPECT_EQ(-SIGKILL, reap(slow));
		if (i == 500)
			reap(user);
		if (i < 500)
			EXPECT_EQ(true, WIFSIGNALED(status));
	}
}

TEST_HARNESS_MAIN
