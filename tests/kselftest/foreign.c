/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Isolation of contents: memory of other users, their diagnostics, and their keys stay invisible; a
 * container is separate. (Ids: numbers.c)
 */
#include "cred.h"

#include <sys/mount.h>
#include <sys/syscall.h>

/* --- recycled pages ------------------------------------------------------------------------- */

static bool is_empty(int fd, struct treadle_map m, bool dirty)
{
	char *at = map(fd, m, dirty ? PROT_READ | PROT_WRITE : PROT_READ);
	bool empty = all_are(at, m.length, 0);

	if (dirty)
		memset(at, 0xdb, m.length);
	munmap(at, m.length);
	return empty;
}

/* A new map has no contents of the pages' former owner. */
TEST(fresh_maps_are_empty)
{
	for (int round = 0; round < 20; round++) {
		struct treadle_ring_create tx = {.size = sizeof(tx), .entries = 256}, rx = tx;
		struct treadle_cq_create cq = {.size = sizeof(cq), .entries = 256};
		struct treadle_cell_create cell = {.size = sizeof(cell), .count = 4096};
		struct treadle_cntr_create cntr = {.size = sizeof(cntr)};
		char *dirt = pages(4 << 20);
		int fd = device();

		/* These pages are free for the next round. */
		memset(dirt, 0xdb, 4 << 20);
		munmap(dirt, 4 << 20);
		ASSERT_EQ(0, call(fd, TREADLE_IOC_TX_CREATE, &tx));
		ASSERT_EQ(0, call(fd, TREADLE_IOC_RX_CREATE, &rx));
		ASSERT_EQ(0, call(fd, TREADLE_IOC_CQ_CREATE, &cq));
		ASSERT_EQ(0, call(fd, TREADLE_IOC_CELL_CREATE, &cell));
		ASSERT_EQ(0, call(fd, TREADLE_IOC_CNTR_CREATE, &cntr));
		EXPECT_TRUE(is_empty(fd, tx.rw, true) && is_empty(fd, tx.ro, false));
		EXPECT_TRUE(is_empty(fd, rx.rw, true) && is_empty(fd, rx.ro, false));
		EXPECT_TRUE(is_empty(fd, cq.rw, true) && is_empty(fd, cq.ro, false));
		EXPECT_TRUE(is_empty(fd, cell.rw, true) && is_empty(fd, cell.ro, false));
		EXPECT_TRUE(is_empty(fd, cntr.ro, false));
		close(fd);
	}
}

/* --- /proc and debugfs ---------------------------------------------------------------------- */

struct shown {
	enum cred cred;
	char path[64];
	int ready, stop;
};

static void shows(void *arg)
{
	struct shown *s = arg;
	struct node n;
	char buf[8];

	become(s->cred);
	prctl(PR_SET_DUMPABLE, 1); /* dumpable again, as after exec */
	node_open(&n, (struct options){});
	need(post(&n, when(send_of(buf, 8, peer(&n, n.addr), 7), &n.sent, 5)) == 1);
	snprintf(s->path, sizeof(s->path), "/proc/%d/fdinfo/%d", getpid(), n.fd);
	raise_to(&s->ready, 1);
	await(&s->stop, 1);
}

struct look {
	enum cred cred;
	const char *path;
};

/* Exits with 0 if the file can be read: it lists what is armed, but no kernel address. */
static void looks(void *arg)
{
	struct look *l = arg;
	char text[8192] = "";
	int fd;

	become(l->cred);
	fd = open(l->path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		_exit(errno == EACCES ? 2 : 1);
	need(strstr(text, "treadle-armed:") && !strstr(text, "ffff8") && !strstr(text, "ffffff"));
}

/* The file was opened by another user than that of this process, which may read its own /proc. */
static void has_anothers_file(void *arg)
{
	char path[64], text[8192] = "", buf[8];
	struct node n;
	int fd;

	need(seteuid(1000 + ALICE) == 0);
	node_open(&n, (struct options){});
	need(post(&n, when(send_of(buf, 8, peer(&n, n.addr), 7), &n.sent, 5)) == 1);
	need(seteuid(0) == 0);
	become(*(enum cred *)arg);
	prctl(PR_SET_DUMPABLE, 1); /* dumpable again, as after exec */
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", n.fd);
	fd = open(path, O_RDONLY);
	need(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	need(strstr(text, "treadle-context:"));
	_exit(strstr(text, "treadle-armed:") ? 0 : 2);
}

TEST(a_passed_file_does_not_show_armed_commands)
{
	EXPECT_EQ(0, reap(spawn(has_anothers_file, &(enum cred){ALICE})));
	EXPECT_EQ(0, reap(spawn(has_anothers_file, &(enum cred){ROOT})));
	EXPECT_EQ(2, reap(spawn(has_anothers_file, &(enum cred){BOB})));
}

TEST(armed_commands_are_shown_with_the_right_to_trace)
{
	struct shown *s = shared(sizeof(*s));
	pid_t pid;

	s->cred = ALICE;
	pid = spawn(shows, s);
	await(&s->ready, 1);
	EXPECT_EQ(0, reap(spawn(looks, &(struct look){ALICE, s->path})));
	EXPECT_EQ(0, reap(spawn(looks, &(struct look){ROOT, s->path})));
	EXPECT_EQ(2, reap(spawn(looks, &(struct look){BOB, s->path})));
	raise_to(&s->stop, 1);
	EXPECT_EQ(0, reap(pid));
	/* The diagnostics are nowhere else. */
	EXPECT_NE(0, access("/sys/kernel/debug/treadle", F_OK));
	EXPECT_NE(0, access("/proc/treadle", F_OK));
}

/* --- containers ------------------------------------------------------------------------------- */

/*
 * Root of its own user namespace, with its own namespaces of other kinds, created by an
 * unprivileged user.
 */
static void in_a_container(void *arg)
{
	struct receiver *r = arg;
	struct node a, b;
	char buf[100], got[100];

	become(ALICE);
	prctl(PR_SET_DUMPABLE, 1);
	need(unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC) == 0);
	write_to("/proc/self/uid_map", "0 1001 1");
	need(getuid() == 0);
	node_open(&a, (struct options){.auth_key = "key"});
	node_open(&b, (struct options){});
	/* Processes in the container reach each other. */
	fill(buf, 100, 1);
	need(post_recv(&b, recv_of(got, 100, ANY, 1)) == 0);
	need(post(&a, send_of(buf, 100, peer(&a, b.addr), 2)) == 1);
	need(cq_next(&b.rcq).error == 0 && cq_next(&a.cq).error == 0 && same(got, 100, 1));
	/*
	 * The outside can't be reached, even with the right key: the address does not exist here.
	 */
	need(r->addr.port != a.addr.port && r->addr.port != b.addr.port);
	need(post(&a, send_of(buf, 8, peer(&a, r->addr), 3)) == 1);
	need(cq_next(&a.cq).error == ECONNREFUSED);
}

TEST(a_container_reaches_itself)
{
	struct receiver *r = shared(sizeof(*r));
	pid_t pid;

	r->cred = ALICE;
	r->key = "key";
	pid = spawn(receives, r);
	await(&r->ready, 1);
	EXPECT_EQ(0, reap(spawn(in_a_container, r)));
	raise_to(&r->stop, 1);
	EXPECT_EQ(0, reap(pid));
	EXPECT_EQ(0, r->got);
}

/* A root file system with nothing from outside but the device. */
static void moves_into_a_root_of_its_own(void)
{
	int fd;

	need(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	need(mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0);
	need(mkdir("/tmp/dev", 0755) == 0 && mkdir("/tmp/old", 0755) == 0);
	fd = open("/tmp" TREADLE_DEVICE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	need(fd >= 0 && close(fd) == 0);
	need(mount(TREADLE_DEVICE, "/tmp" TREADLE_DEVICE, NULL, MS_BIND, NULL) == 0);
	need(syscall(SYS_pivot_root, "/tmp", "/tmp/old") == 0 && chdir("/") == 0);
	need(umount2("/old", MNT_DETACH) == 0 && rmdir("/old") == 0);
	need(access("/proc", F_OK) < 0 && access("/dev/null", F_OK) < 0);
}

static void is_first_of_a_container(void *arg)
{
	struct receiver *outside = arg, *inside = shared(sizeof(*inside));
	char buf[8] = "message";
	struct node n;
	__u64 to, away;

	need(getpid() == 1 && getuid() == 0);
	moves_into_a_root_of_its_own();
	spawn(receives, inside);
	await(&inside->ready, 1);
	node_open(&n, (struct options){.auth_key = "key"});
	to = peer(&n, inside->addr);
	away = peer(&n, outside->addr);
	need(post(&n, send_of(buf, 8, to, 1)) == 1);
	need(cq_next(&n.cq).error == 0);
	await(&inside->got, 1);
	if (outside->addr.port != inside->addr.port && outside->addr.port != n.addr.port) {
		need(post(&n, send_of(buf, 8, away, 2)) == 1);
		need(cq_next(&n.cq).error == ECONNREFUSED);
	}
	/* If the first process of a container ends, all of them end. */
}

static void makes_a_container(void *arg)
{
	become(ALICE);
	prctl(PR_SET_DUMPABLE, 1);
	need(unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID |
		     CLONE_NEWUTS | CLONE_NEWCGROUP) == 0);
	write_to("/proc/self/uid_map", "0 1001 1");
	write_to("/proc/self/setgroups", "deny");
	write_to("/proc/self/gid_map", "0 1001 1");
	need(reap(spawn(is_first_of_a_container, arg)) == 0);
}

TEST(a_container_with_a_root_of_its_own)
{
	struct receiver *r = shared(sizeof(*r));
	pid_t pid;

	r->cred = ALICE;
	r->key = "key";
	pid = spawn(receives, r);
	await(&r->ready, 1);
	EXPECT_EQ(0, reap(spawn(makes_a_container, r)));
	raise_to(&r->stop, 1);
	EXPECT_EQ(0, reap(pid));
	EXPECT_EQ(0, r->got);
	until_unused();
}

/* --- guesses ---------------------------------------------------------------------------------- */

/* The key with one bit changed, single bits, neighbours of the key, then random numbers. */
static __u64 guess_of(__u64 key, int i, __u64 *dice)
{
	if (i < 64)
		return key ^ 1ULL << i;
	if (i < 128)
		return 1ULL << (i - 64);
	if (i < 1000)
		return key + i - 500 + (i < 501 ? -1 : 0);
	return (__u64)lottery(dice) << 32 | lottery(dice);
}

/* A peer that may reach the endpoint still needs the key, and keys of the kernel never repeat. */
TEST(keys_are_not_guessed)
{
	char buf[64] = "unchanged", other[64] = "changed";
	__u64 key = 0, to, dice = now_ns();
	struct node a, b;
	__u32 id;

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	to = peer(&a, b.addr);
	ASSERT_EQ(0, mr(b.fd, buf, 64, TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
			TREADLE_MR_KERNEL_KEY, &key, &id));
	for (int i = 0; i < 5000; i++) {
		__u64 guess = guess_of(key, i, &dice);

		if (guess == key)
			continue;
		ASSERT_EQ(1, post(&a, write_of(other, 64, to, 0, guess, i)));
		ASSERT_EQ(EKEYREJECTED, cq_next(&a.cq).error);
	}
	EXPECT_STREQ("unchanged", buf);
	/* The right key works until its region is closed, and never again. */
	ASSERT_EQ(1, post(&a, write_of(other, 64, to, 0, key, 0)));
	EXPECT_EQ(0, cq_next(&a.cq).error);
	ASSERT_EQ(0, destroy(b.fd, id));
	for (int i = 0; i < 100; i++) {
		__u64 next = 0;

		ASSERT_EQ(0, mr(b.fd, buf, 64, TREADLE_ACCESS_REMOTE_WRITE, TREADLE_MR_KERNEL_KEY,
				&next, &id));
		EXPECT_NE(key, next);
		ASSERT_EQ(1, post(&a, write_of(other, 64, to, 0, key, 0)));
		EXPECT_EQ(EKEYREJECTED, cq_next(&a.cq).error);
		ASSERT_EQ(0, destroy(b.fd, id));
	}
}

TEST_HARNESS_MAIN
