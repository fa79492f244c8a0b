/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Maps of rings and counters: what can be mapped, and how; and what becomes of a map when its
 * object, its file or its process goes.
 */
#include "triggers.h"

FIXTURE(mmap)
{
	int fd;
	struct ring tx, rx;
	struct cq q;
	struct cntr c;
	/* All that can be mapped, and whether it is writable. */
	struct part {
		const char *name;
		struct treadle_map map;
		bool writable;
		void *at;
		bool inherited;
	} parts[9];
};

FIXTURE_SETUP(mmap)
{
	struct treadle_cntr_create cntr = {.size = sizeof(cntr)};
	struct cells cells;

	self->fd = device();
	cells_open(&cells, self->fd, 1000);
	tx_open(&self->tx, self->fd, 64);
	rx_open(&self->rx, self->fd, 64, 0);
	cq_open(&self->q, self->fd, 128);
	ASSERT_EQ(0, call(self->fd, TREADLE_IOC_CNTR_CREATE, &cntr));
	self->c = (struct cntr){
		.fd = self->fd, .id = cntr.id, .page = map(self->fd, cntr.ro, PROT_READ)};
	self->parts[0] = (struct part){"tx rw", self->tx.rw_map, true, self->tx.rw};
	self->parts[1] = (struct part){"tx ro", self->tx.ro_map, false, (void *)self->tx.ro};
	self->parts[2] = (struct part){"rx rw", self->rx.rw_map, true, self->rx.rw};
	self->parts[3] = (struct part){"rx ro", self->rx.ro_map, false, (void *)self->rx.ro};
	self->parts[4] = (struct part){"cq rw", self->q.rw_map, true, self->q.rw};
	self->parts[5] = (struct part){"cq ro", self->q.ro_map, false, (void *)self->q.ro};
	self->parts[6] = (struct part){"cntr ro", cntr.ro, false, (void *)self->c.page};
	self->parts[7] = (struct part){"cells rw", cells.rw, true, cells.cell, true};
	self->parts[8] = (struct part){"cells ro", cells.ro, false, (void *)cells.done, true};
}

FIXTURE_TEARDOWN(mmap)
{
	close(self->fd);
}

/* Tries to map; returns 0, or the errno. */
static int try(int fd, __u64 offset, __u64 length, int prot, int flags)
{
	void *at = mmap(NULL, length, prot, flags, fd, offset);

	if (at == MAP_FAILED)
		return errno;
	munmap(at, length);
	return 0;
}

TEST_F(mmap, the_returned_offset_and_length_work)
{
	for (int i = 0; i < ARRAY_SIZE(self->parts); i++) {
		struct part *p = &self->parts[i];

		EXPECT_EQ(0, p->map.offset % PAGE);
		EXPECT_EQ(0, p->map.length % PAGE);
		/* The same map again, as often as it is wanted. */
		about("%s", p->name);
		EXPECT_EQ(0, try(self->fd, p->map.offset, p->map.length, PROT_READ, MAP_SHARED));
		EXPECT_EQ(0, try(self->fd, p->map.offset, p->map.length, PROT_NONE, MAP_SHARED));
		for (int j = 0; j < i; j++) {
			EXPECT_NE(p->map.offset, self->parts[j].map.offset);
		}
	}
	EXPECT_LE(TREADLE_SLOTS_OFFSET + 64 * TREADLE_SLOT_SIZE, self->tx.rw_map.length);
	EXPECT_LE(TREADLE_SLOTS_OFFSET + 128 * sizeof(struct treadle_cqe), self->q.ro_map.length);
}

TEST_F(mmap, both_maps_show_the_same)
{
	struct treadle_ring_prod *again = map(self->fd, self->tx.rw_map, PROT_READ | PROT_WRITE);

	again->prod = 77;
	EXPECT_EQ(77, self->tx.rw->prod);
	again->prod = 0;
}

static bool is_a_known_area(const struct part *parts, struct treadle_map m)
{
	for (int i = 0; i < 9; i++)
		if (parts[i].map.offset == m.offset && parts[i].map.length == m.length)
			return true;
	return false;
}

TEST_F(mmap, nothing_else_can_be_mapped)
{
	for (int i = 0; i < ARRAY_SIZE(self->parts); i++) {
		struct treadle_map m = self->parts[i].map;
		const struct treadle_map wrong[] = {{m.offset, m.length + PAGE},
						    {m.offset, m.length - PAGE},
						    {m.offset, m.length * 2},
						    {m.offset + PAGE, m.length},
						    {m.offset + PAGE, m.length - PAGE},
						    {m.offset | 1ULL << 62, m.length},
						    {m.offset ^ 1ULL << 40, m.length},
						    {0, m.length},
						    {1ULL * PAGE, m.length},
						    {m.offset + m.length, m.length}};

		for (int j = 0; j < ARRAY_SIZE(wrong); j++) {
			if (!wrong[j].length || is_a_known_area(self->parts, wrong[j]))
				continue;
			about("%s, wrong %d", self->parts[i].name, j);
			EXPECT_NE(0, try(self->fd, wrong[j].offset, wrong[j].length, PROT_READ,
					 MAP_SHARED));
		}
	}
}

TEST_F(mmap, offsets_of_other_contexts_are_refused)
{
	int other = device();

	for (int i = 0; i < ARRAY_SIZE(self->parts); i++) {
		struct treadle_map m = self->parts[i].map;

		about("%s", self->parts[i].name);
		EXPECT_NE(0, try(other, m.offset, m.length, PROT_READ, MAP_SHARED));
	}
}

/* An offset may also be one of the context's own objects. */
TEST_F(mmap, offsets_of_other_contexts_show_nothing_of_them)
{
	int other = device(), shown = 0;
	struct cells cells;
	struct ring tx, rx;
	struct cntr c;
	struct cq q;

	cells_open(&cells, other, 1000);
	tx_open(&tx, other, 64);
	rx_open(&rx, other, 64, 0);
	cq_open(&q, other, 128);
	cntr_open(&c, other);
	for (int i = 0; i < ARRAY_SIZE(self->parts); i++) {
		struct part *p = &self->parts[i];
		__u32 *at = mmap(NULL, p->map.length, PROT_READ, MAP_SHARED, other, p->map.offset);

		if (!p->writable || at == MAP_FAILED)
			continue;
		about("%s", p->name);
		shown++;
		*(__u32 *)p->at = 12345;
		EXPECT_EQ(0, *at);
		*(__u32 *)p->at = 0;
		munmap(at, p->map.length);
	}
	/* Else no offset has been compared. */
	EXPECT_LT(0, shown);
}

TEST_F(mmap, private_maps_are_refused)
{
	for (int i = 0; i < ARRAY_SIZE(self->parts); i++) {
		struct treadle_map m = self->parts[i].map;

		EXPECT_NE(0, try(self->fd, m.offset, m.length, PROT_READ, MAP_PRIVATE));
		EXPECT_NE(0,
			  try(self->fd, m.offset, m.length, PROT_READ | PROT_WRITE, MAP_PRIVATE));
	}
}

// conformance: ioctl.h: EACCES: mmap with more rights than the map has
TEST_F(mmap, maps_that_the_kernel_writes_are_read_only)
{
	int mem = open("/proc/self/mem", O_RDWR);
	struct iovec local = {"x", 1}, remote = {NULL, 1};

	for (int i = 0; i < ARRAY_SIZE(self->parts); i++) {
		struct part *p = &self->parts[i];

		if (p->writable)
			continue;
		EXPECT_NE(0, try(self->fd, p->map.offset, p->map.length, PROT_READ | PROT_WRITE,
				 MAP_SHARED));
		EXPECT_NE(0, try(self->fd, p->map.offset, p->map.length, PROT_WRITE, MAP_SHARED));
		EXPECT_EQ(-1, mprotect(p->at, p->map.length, PROT_READ | PROT_WRITE));
		EXPECT_EQ(EACCES, errno);
		EXPECT_EQ(-1, mprotect(p->at, PAGE, PROT_WRITE));
		/*
		 * Debuggers write through /proc/self/mem in spite of write protection. Here that
		 * fails.
		 */
		about("%s", p->name);
		EXPECT_EQ(-1, pwrite(mem, "x", 1, (off_t)(unsigned long)p->at));
		remote.iov_base = p->at;
		EXPECT_EQ(-1, process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
	}
}

/* tests/syzkaller/treadle.txt writes like this, as it has no stores. */
TEST_F(mmap, writable_maps_accept_process_vm_writev)
{
	struct {
		union {
			struct treadle_ring_prod prod;
			char unused[TREADLE_SLOTS_OFFSET];
		};
		struct treadle_desc slot;
	} image = {.prod.prod = 1, .slot = nop(5)};
	struct iovec from = {&image, sizeof(image)}, to = {};
	__u32 cons = 1;
	struct node n;

	node_open(&n, (struct options){.context = self->fd, .tx = 32});
	ASSERT_LE(TREADLE_SLOTS_OFFSET + 32 * sizeof(struct treadle_desc), n.tx.rw_map.length);
	to = (struct iovec){n.tx.rw, n.tx.rw_map.length};
	EXPECT_EQ(sizeof(image), process_vm_writev(getpid(), &from, 1, &to, 1, 0));
	EXPECT_EQ(1, ring_doorbell(&n.tx));
	EXPECT_EQ(5, n.cq.cqes[0].context);
	EXPECT_EQ(0, cq_wait(&n.cq, 0));
	from = (struct iovec){&cons, sizeof(cons)};
	to.iov_base = n.cq.rw; /* shorter than what the map has room for */
	EXPECT_EQ(sizeof(cons), process_vm_writev(getpid(), &from, 1, &to, 1, 0));
	EXPECT_EQ(-EAGAIN, cq_wait(&n.cq, 0));
	to.iov_base = self->parts[7].at; /* the map of cells */
	EXPECT_EQ(sizeof(cons), process_vm_writev(getpid(), &from, 1, &to, 1, 0));
	EXPECT_EQ(1, *(volatile __u32 *)self->parts[7].at);
}

TEST_F(mmap, nothing_is_executable)
{
	for (int i = 0; i < ARRAY_SIZE(self->parts); i++) {
		struct part *p = &self->parts[i];

		EXPECT_NE(0, try(self->fd, p->map.offset, p->map.length, PROT_READ | PROT_EXEC,
				 MAP_SHARED));
		EXPECT_EQ(-1, mprotect(p->at, p->map.length, PROT_READ | PROT_EXEC));
	}
}

// conformance: ioctl.h: EPERM: not the process that opened the context, and maps no cells
TEST_F(mmap, children_inherit_cells_and_nothing_else)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (int i = 0; i < ARRAY_SIZE(self->parts); i++)
			need(self->parts[i].inherited ?
				     *(volatile __u32 *)self->parts[i].at == 0 :
				     msync(self->parts[i].at, self->parts[i].map.length, MS_ASYNC) <
						     0 &&
					     errno == ENOMEM);
		_exit(0);
	}
	EXPECT_EQ(0, reap(pid));
	EXPECT_EQ(0, self->tx.ro->released);
}

TEST_F(mmap, a_map_does_not_grow)
{
	for (int i = 0; i < ARRAY_SIZE(self->parts); i++) {
		struct part *p = &self->parts[i];

		about("%s", p->name);
		EXPECT_EQ(MAP_FAILED,
			  mremap(p->at, p->map.length, p->map.length * 2, MREMAP_MAYMOVE));
		EXPECT_EQ(0, *(volatile __u32 *)p->at);
	}
}

/* A process may unmap its rings. The kernel has maps of its own. */
TEST_F(mmap, a_ring_without_its_map_goes_on)
{
	struct node n;
	char buf[64], got[64];
	void *moved;

	node_open(&n, (struct options){.context = self->fd});
	fill(buf, sizeof(buf), 1);
	moved = mremap(n.tx.rw, n.tx.rw_map.length, n.tx.rw_map.length,
		       MREMAP_MAYMOVE | MREMAP_FIXED, (char *)pages(1 << 20) + 65536);
	ASSERT_NE(MAP_FAILED, moved);
	n.tx.rw = moved;
	n.tx.slots = (void *)((char *)moved + TREADLE_SLOTS_OFFSET);
	ASSERT_EQ(0, munmap((void *)n.tx.ro, n.tx.ro_map.length));
	ASSERT_EQ(0, munmap((void *)n.cq.ro, n.cq.ro_map.length));
	ASSERT_EQ(0, munmap((void *)n.sent.page, PAGE));
	n.tx.ro = map(self->fd, n.tx.ro_map, PROT_READ);
	ASSERT_EQ(0, post_recv(&n, recv_of(got, sizeof(got), ANY, 1)));
	ASSERT_EQ(1, post(&n, send_of(buf, sizeof(buf), peer(&n, n.addr), 2)));
	EXPECT_EQ(1, cq_next(&n.rcq).context);
	EXPECT_TRUE(same(got, sizeof(got), 1));
	n.cq.ro = map(self->fd, n.cq.ro_map, PROT_READ);
	n.cq.cqes = (const void *)((const char *)n.cq.ro + TREADLE_SLOTS_OFFSET);
	EXPECT_EQ(2, cq_next(&n.cq).context);
}

/* In a child, as a read of the map may end in SIGBUS. */
TEST_F(mmap, dropping_the_pages_of_a_map_is_harmless)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct node n;
		char buf[8] = "abcdefg", got[8];

		node_open(&n, (struct options){});
		madvise(n.tx.rw, n.tx.rw_map.length, MADV_DONTNEED);
		madvise((void *)n.rcq.ro, n.rcq.ro_map.length, MADV_DONTNEED);
		madvise(n.tx.rw, n.tx.rw_map.length, MADV_PAGEOUT);
		madvise(n.tx.rw, n.tx.rw_map.length, MADV_REMOVE);
		post_recv(&n, recv_of(got, sizeof(got), ANY, 1));
		post(&n, send_of(buf, sizeof(buf), peer(&n, n.addr), 2));
		_exit(cq_next(&n.rcq).context != 1);
	}
	status = reap(pid);
	about("%d", status);
	EXPECT_TRUE(status == 0 || status == -SIGBUS || status == -SIGSEGV);
}

TEST_F(mmap, maps_outlive_their_objects)
{
	struct node n;
	char got[8];

	node_open(&n, (struct options){.context = self->fd});
	ASSERT_EQ(0, post_recv(&n, recv_of(got, 8, ANY, 5)));
	ASSERT_EQ(1, post(&n, send_of("abcdefg", 8, peer(&n, n.addr), 6)));
	ASSERT_EQ(5, cq_next(&n.rcq).context);
	ASSERT_EQ(6, cq_next(&n.cq).context);
	ASSERT_EQ(0, destroy(self->fd, n.ep));
	ASSERT_EQ(0, destroy(self->fd, n.tx.id));
	ASSERT_EQ(0, destroy(self->fd, n.rx.id));
	ASSERT_EQ(0, destroy(self->fd, n.rcq.id));
	ASSERT_EQ(0, destroy(self->fd, n.rcvd.id));

	/* The contents no longer change, and writable maps stay writable. */
	EXPECT_EQ(1, n.tx.ro->released);
	EXPECT_EQ(1, n.rcq.ro->prod);
	EXPECT_EQ(5, n.rcq.cqes[0].context);
	EXPECT_EQ(1, cntr_value(&n.rcvd));
	memset(n.tx.slots, 0xff, n.tx.entries * TREADLE_SLOT_SIZE);
	n.tx.rw->prod = 12345;
	n.rcq.rw->cons = 999;
	EXPECT_EQ(-ENOENT, doorbell(self->fd, n.tx.id));
	EXPECT_EQ(1, n.tx.ro->released);

	/* The object can't be mapped any more, and no new object gets its offset. */
	EXPECT_NE(0, try(self->fd, n.tx.rw_map.offset, n.tx.rw_map.length, PROT_READ, MAP_SHARED));
	for (int i = 0; i < 100; i++) {
		struct ring r;

		tx_open(&r, self->fd, 64);
		EXPECT_NE(r.rw_map.offset, n.tx.rw_map.offset);
		EXPECT_NE(r.rw, n.tx.rw);
	}
	EXPECT_EQ(12345, n.tx.rw->prod);
}

TEST_F(mmap, maps_outlive_the_file)
{
	for (int i = 0; i < ARRAY_SIZE(self->parts); i++) {
		EXPECT_EQ(0, *(volatile __u32 *)self->parts[i].at);
	}
	EXPECT_EQ(0, close(self->fd));
	for (int i = 0; i < ARRAY_SIZE(self->parts); i++) {
		EXPECT_EQ(0, *(volatile __u32 *)self->parts[i].at);
		if (self->parts[i].writable)
			memset(self->parts[i].at, 0xff, self->parts[i].map.length);
		EXPECT_EQ(0, munmap(self->parts[i].at, PAGE));
	}
	self->fd = device();
	/* The maps of a new context have new pages. */
	tx_open(&self->tx, self->fd, 64);
	EXPECT_EQ(0, self->tx.rw->prod);
	EXPECT_TRUE(all_are(self->tx.slots, 64 * TREADLE_SLOT_SIZE, 0));
}

TEST_HARNESS_MAIN
