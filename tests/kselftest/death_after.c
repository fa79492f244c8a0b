/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ports of a process are free once it is reaped. Other processes with its files do not tear
 * them down.
 */
#include "death.h"
#include "slow.h"

#include <sys/uio.h>

FIXTURE(after_death)
{
	struct meeting *m;
};

FIXTURE_SETUP(after_death)
{
	self->m = shared(sizeof(*self->m));
}

FIXTURE_TEARDOWN(after_death) {}

static void has_many_ports(void *arg)
{
	struct meeting *m = arg;
	int fd = device();
	__u32 id;

	for (int i = 0; i < 300; i++) {
		m->addr[1] = loopback(0);
		need(ep_create(fd, &m->addr[1], NULL, &id) == 0);
	}
	raise_to(&m->ready, 1);
	pause();
}

static void spins(void *stop)
{
	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
		;
}

/* A supervisor starts the process again once it has reaped it. No processor is idle. */
TEST_F(after_death, its_port_is_free_once_it_is_reaped)
{
	pid_t busy[4];

	self->m->go = 0;
	for (int i = 0; i < 4; i++)
		busy[i] = spawn(spins, &self->m->go);
	for (int i = 0; i < 100; i++) {
		pid_t pid;
		__u32 id;
		int fd;

		self->m->ready = 0;
		pid = spawn(has_many_ports, self->m);
		await(&self->m->ready, 1);
		kill_and_reap(pid);
		fd = device();
		EXPECT_EQ(0, ep_create(fd, &self->m->addr[1], NULL, &id));
		close(fd);
	}
	self->m->go = 1;
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(0, reap(busy[i]));
}

static void has_a_page_that_never_comes(void *arg)
{
	struct meeting *m = arg;
	char *buf = pages(PAGE);
	struct node n;

	node_open(&n, (struct options){});
	m->addr[1] = n.addr;
	m->at = buf;
	m->file = slow_pages(buf, PAGE);
	raise_to(&m->ready, 1);
	pause();
}

static void reads_there(void *arg)
{
	struct meeting *m = arg;
	char byte;
	struct iovec to = {&byte, 1}, from = {m->at, 1};

	close(m->file); /* else this process waits for itself */
	syscall(SYS_process_vm_readv, m->victim, &to, 1, &from, 1, 0);
}

/* A reader of its memory holds the mm, and with it the mapped rings. */
TEST_F(after_death, its_port_is_free_while_its_memory_is_not)
{
	int pidfd, fd;
	pid_t reader;
	__u32 id;

	self->m->ready = 0;
	self->m->victim = spawn(has_a_page_that_never_comes, self->m);
	await(&self->m->ready, 1);
	pidfd = syscall(SYS_pidfd_open, self->m->victim, 0);
	self->m->file = syscall(SYS_pidfd_getfd, pidfd, self->m->file, 0);
	ASSERT_LE(0, self->m->file);
	reader = spawn(reads_there, self->m);
	EXPECT_EQ((unsigned long)self->m->at, page_asked_for(self->m->file));
	kill_and_reap(self->m->victim);
	fd = device();
	EXPECT_EQ(0, ep_create(fd, &self->m->addr[1], NULL, &id));
	close(fd);
	close(self->m->file);
	close(pidfd);
	EXPECT_EQ(0, reap(reader));
}

/* --- processes that only have the file ---------------------------------------------------- */

static void has_much(int fd)
{
	for (int i = 0; i < 5000; i++) {
		struct treadle_cntr_create c = {.size = sizeof(c)};

		need(call(fd, TREADLE_IOC_CNTR_CREATE, &c) == 0);
	}
}

static __u64 cost_of_closing(int fd)
{
	__u64 before = own_ns();

	need(close(fd) == 0);
	return own_ns() - before;
}

static void closes_for_another(void *arg)
{
	struct meeting *m = arg;

	await(&m->go, 1);
	m->len = cost_of_closing(m->file);
}

/*
 * The last close of a passed file, in another process, does not tear down what the file's process
 * has created.
 */
TEST_F(after_death, a_file_of_another_costs_little_to_close)
{
	__u64 cost;
	pid_t pid;
	int own;

	self->m->file = device();
	has_much(self->m->file);
	pid = spawn(closes_for_another, self->m);
	need(close(self->m->file) == 0);
	own = device();
	has_much(own);
	cost = cost_of_closing(own);
	raise_to(&self->m->go, 1);
	EXPECT_EQ(0, reap(pid));
	note("%llu us for one's own, %zu us for another's", cost / 1000, self->m->len / 1000);
	EXPECT_LT(self->m->len, cost / 4);
}

TEST_HARNESS_MAIN
