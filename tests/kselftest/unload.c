/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module stays loaded as long as anything uses it, and no longer: an open file, a map, a wait
 * file, in this process, in a child, or in flight to another process. An attempt to unload it
 * fails, and disturbs nothing.
 */
#include "connection.h"
#include "module.h"

#include <liburing.h>

/* What is left of a context to use the module by: one of these. */
struct rest {
	int fd;
	void *map;
	size_t len;
	pid_t child;
	int sockets[2];
	struct io_uring ring;
};

static void an_open_file(struct rest *r)
{
	r->fd = device();
}

static void a_copy_of_the_file(struct rest *r)
{
	int fd = device();

	r->fd = dup(fd);
	close(fd);
}

static void cells_of(struct rest *r, struct treadle_cell_create *c)
{
	*c = (struct treadle_cell_create){.size = sizeof(*c), .count = 1};
	r->fd = device();
	need(call(r->fd, TREADLE_IOC_CELL_CREATE, c) == 0);
	r->map = map(r->fd, c->rw, PROT_READ | PROT_WRITE);
	r->len = c->rw.length;
	close(r->fd);
	r->fd = -1;
}

static void a_map_of_cells(struct rest *r)
{
	struct treadle_cell_create c;

	cells_of(r, &c);
	*(__u64 *)r->map = 1;
}

static void sleeps(void *arg)
{
	for (;;)
		pause();
}

static void a_map_that_a_child_has_inherited(struct rest *r)
{
	struct treadle_cell_create c;

	cells_of(r, &c);
	r->child = spawn(sleeps, NULL);
	munmap(r->map, r->len);
	r->map = NULL;
}

static void a_map_of_a_ring(struct rest *r)
{
	struct ring tx;

	tx_open(&tx, device(), 8);
	munmap((void *)tx.ro, tx.ro_map.length);
	r->map = tx.rw;
	r->len = tx.rw_map.length;
	close(tx.fd);
}

static void a_map_of_a_counter(struct rest *r)
{
	struct cntr c;

	cntr_open(&c, device());
	r->map = (void *)c.page;
	r->len = PAGE;
	close(c.fd);
}

static void a_file_to_wait_by(struct rest *r)
{
	struct cq q;

	cq_open(&q, device(), 8);
	r->fd = wait_fd(q.fd, q.id);
	cq_unmap(&q);
	close(q.fd);
}

static void a_file_of_an_event_queue(struct rest *r)
{
	int fd = device();

	r->fd = wait_fd(fd, eq_create(fd));
	close(fd);
}

static void a_file_on_its_way(struct rest *r)
{
	int fd = device();

	need(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, r->sockets) == 0);
	pass_file(r->sockets[0], fd);
	close(fd);
}

static void a_file_that_io_uring_knows(struct rest *r)
{
	int fd = device();

	need(io_uring_queue_init(1, &r->ring, 0) == 0);
	need(io_uring_register_files(&r->ring, &fd, 1) == 0);
	close(fd);
}

static void let_go(struct rest *r)
{
	if (r->fd >= 0)
		close(r->fd);
	if (r->map)
		munmap(r->map, r->len);
	if (r->child) {
		kill(r->child, SIGKILL);
		need(reap(r->child) == -SIGKILL);
	}
	if (r->sockets[0]) {
		close(r->sockets[0]);
		close(r->sockets[1]);
	}
	if (r->ring.sq.ring_ptr)
		io_uring_queue_exit(&r->ring);
}

/* The module works for a new process. */
static void works(void *arg)
{
	char out[100], in[100];
	struct node a, b;

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	fill(out, 100, 1);
	need(post_recv(&b, recv_of(in, 100, ANY, 1)) == 0);
	need(post(&a, send_of(out, 100, peer(&a, b.addr), 2)) == 1);
	need(cq_next(&b.rcq).error == 0 && cq_next(&a.cq).error == 0 && same(in, 100, 1));
}

static const struct {
	const char *name;
	void (*by)(struct rest *r);
} uses[] = {
	{"an open file", an_open_file},
	{"a copy of the file", a_copy_of_the_file},
	{"a map of cells", a_map_of_cells},
	{"a map that a child has inherited", a_map_that_a_child_has_inherited},
	{"a map of a ring", a_map_of_a_ring},
	{"a map of a counter", a_map_of_a_counter},
	{"a file to wait by", a_file_to_wait_by},
	{"a file of an event queue", a_file_of_an_event_queue},
	{"a file on its way", a_file_on_its_way},
	{"a file that io_uring knows", a_file_that_io_uring_knows},
};

static int unload(void)
{
	return syscall(SYS_delete_module, "treadle", O_NONBLOCK) < 0 ? -errno : 0;
}

/* Earlier users must be gone first, as contexts end a little later than their files. */
TEST(a_module_in_use_is_not_unloaded)
{
	for (int i = 0; i < ARRAY_SIZE(uses); i++) {
		struct rest r = {.fd = -1};

		about("%s", uses[i].name);
		until_unused();
		uses[i].by(&r);
		usleep(100000);
		for (int turn = 0; turn < 3; turn++) {
			ASSERT_EQ(-EWOULDBLOCK, unload());
			EXPECT_EQ(0, reap(spawn(works, NULL)));
		}
		let_go(&r);
		module_unload();
		EXPECT_NE(0, access(TREADLE_DEVICE, F_OK));
		ASSERT_EQ(0, module_load(false, ""));
		EXPECT_EQ(0, reap(spawn(works, NULL)));
	}
	until_unused();
}

/* QUERY returns the limits in effect, not the parameters as they were given. */
TEST(limits_are_those_in_effect)
{
	struct treadle_cq_create cq = {.size = sizeof(cq)};
	struct treadle_query q;
	int fd;

	until_unused();
	module_unload();
	EXPECT_EQ(-EINVAL, module_load(false, "max_cq=31"));
	EXPECT_EQ(-EINVAL, module_load(false, "max_ring=0"));
	ASSERT_EQ(0, module_load(false, "max_cq=1500 max_ring=63"));
	fd = device();
	q = query(fd);
	EXPECT_EQ(1024, q.max_cq);
	EXPECT_EQ(32, q.max_ring);
	cq.entries = 1025;
	EXPECT_EQ(-EINVAL, call(fd, TREADLE_IOC_CQ_CREATE, &cq));
	cq.entries = 1000;
	EXPECT_EQ(0, call(fd, TREADLE_IOC_CQ_CREATE, &cq));
	EXPECT_EQ(1024, cq.entries);
	close(fd);
	module_unload();
	ASSERT_EQ(0, module_load(false, ""));
	EXPECT_EQ(0, reap(spawn(works, NULL)));
	until_unused();
}

/* Messages pass during attempts to unload. */
TEST(attempts_to_unload_disturb_nothing)
{
	char out[64], in[64];
	struct node a, b;
	__u64 to;

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	to = peer(&a, b.addr);
	for (int i = 0; i < 200; i++) {
		fill(out, 64, i);
		ASSERT_EQ(0, post_recv(&b, recv_of(in, 64, ANY, i)));
		ASSERT_EQ(-EWOULDBLOCK, unload());
		ASSERT_EQ(1, post(&a, send_of(out, 64, to, i)));
		ASSERT_EQ(i, cq_next(&b.rcq).context);
		ASSERT_EQ(i, cq_next(&a.cq).context);
		ASSERT_TRUE(same(in, 64, i));
	}
	node_close(&a);
	node_close(&b);
	until_unused();
}

TEST_HARNESS_MAIN
