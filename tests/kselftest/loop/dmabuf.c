/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Regions of dma-bufs: messages and RMA from and to them, their rights, their end, and exporters
 * that are refused. The exporter of treadle_loop is there on each kernel, udmabuf and the heap of
 * the system where the kernel has them.
 */
#include "loop.h"
#include "../rma.h"
#include "../../loop/exporter.h"

#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <treadle/atomic.h>

#define BYTES (1UL << 20)

enum source { OWN, OWN_MOVES, UDMABUF, HEAP, SOURCES };
static const char *const names[] = {"treadle_loop", "treadle_loop, moves", "udmabuf", "heap"};

static int export(enum export_kind kind, bool readonly)
{
	struct export_new new = {.kind = kind, .bytes = BYTES, .readonly = readonly};
	int fd = open(EXPORTER, O_RDWR | O_CLOEXEC), buf;

	need(fd >= 0);
	buf = ioctl(fd, EXPORT_NEW, &new);
	need(buf >= 0);
	close(fd);
	return buf;
}

static int move(int buf)
{
	int fd = open(EXPORTER, O_RDWR | O_CLOEXEC);
	int result;

	need(fd >= 0);
	result = ioctl(fd, EXPORT_MOVE, buf);
	close(fd);
	return result;
}

/* A dma-buf of BYTES; -1: the kernel has no such exporter. */
static int buffer_of(enum source source)
{
	struct dma_heap_allocation_data heap = {.len = BYTES, .fd_flags = O_RDWR | O_CLOEXEC};
	struct udmabuf_create create = {.flags = UDMABUF_FLAGS_CLOEXEC, .size = BYTES};
	int fd, buf;

	if (source == OWN || source == OWN_MOVES)
		return export(source == OWN ? EXPORT_STAYS : EXPORT_MOVES, false);
	fd = open(source == HEAP ? "/dev/dma_heap/system" : "/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		need(errno == ENOENT);
		return -1;
	}
	if (source == HEAP) {
		need(ioctl(fd, DMA_HEAP_IOCTL_ALLOC, &heap) == 0);
		buf = heap.fd;
	} else {
		create.memfd = memfd_create("udmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC);
		need(ftruncate(create.memfd, BYTES) == 0);
		need(fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
		buf = ioctl(fd, UDMABUF_CREATE, &create);
		need(buf >= 0);
		close(create.memfd);
	}
	close(fd);
	return buf;
}

/* A region of a dma-buf: its result, and for local buffers its address */
static int region_of(int fd, int buf, __u64 offset, __u64 len, __u32 access, __u32 flags,
		     __u64 base, __u64 key, __u64 *addr, __u32 *id)
{
	struct treadle_iov iov = {offset, len};
	struct treadle_mr_create c = {
		.size = sizeof(c),
		.flags = TREADLE_MR_DMABUF | flags,
		.access = access,
		.iov_count = 1,
		.iov = (unsigned long)&iov,
		.key = key,
		.fd = buf,
		.base = base,
	};
	int result = call(fd, TREADLE_IOC_MR_CREATE, &c);

	if (addr)
		*addr = c.addr;
	if (id)
		*id = c.id;
	return result;
}

/* Linux 6.1 can't map what udmabuf exports, 6.12 can. */
static bool has_udmabuf_vmap(void)
{
	int major = 0, minor = 0;
	struct utsname kernel;

	need(uname(&kernel) == 0 && sscanf(kernel.release, "%d.%d", &major, &minor) == 2);
	return major > 6 || (major == 6 && minor >= 2);
}

static char *map_of(int buf)
{
	char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, buf, 0);

	need(map != MAP_FAILED);
	return map;
}

/* Messages and RMA of all lengths, between memory and a dma-buf, and between two of them */
static void transfers(FIXTURE_DATA(rma) * self, struct __test_metadata *_metadata,
		      enum source source)
{
	static const __u64 lengths[] = {1, 8, 100, 4096, 70000, 500001};
	const __u64 at = 4093, off = 8192;
	int here = buffer_of(source), there = buffer_of(source);
	__u64 local, remote;
	char *mine, *theirs;
	__u32 ids[2];

	ASSERT_LE(0, here);
	mine = map_of(here);
	theirs = map_of(there);
	ASSERT_EQ(0, region_of(self->a.fd, here, 0, BYTES, BOTH, 0, 0, 5, &local, &ids[0]));
	ASSERT_EQ(0,
		  region_of(self->b.fd, there, off, BYTES - off, BOTH, 0, 0, 6, &remote, &ids[1]));
	close(here); /* the region keeps the buffer */
	for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
		const __u64 len = lengths[i];
		struct treadle_desc d;

		about("%s, %llu bytes", names[source], len);
		/* WRITE, from a dma-buf to a dma-buf */
		fill(mine + at, len, i);
		memset(theirs, 0x55, BYTES);
		ASSERT_EQ(0, outcome(&self->a,
				     write_of((void *)(local + at), len, self->to, 77, 6, 1)));
		EXPECT_TRUE(same(theirs + off + 77, len, i));
		EXPECT_TRUE(all_are(theirs, off + 77, 0x55));
		EXPECT_TRUE(all_are(theirs + off + 77 + len, BYTES - off - 77 - len, 0x55));
		/* READ, to memory, and to a dma-buf */
		memset(self->here, 0, LARGE);
		ASSERT_EQ(0, outcome(&self->a, read_of(self->here, len, self->to, 77, 6, 2)));
		EXPECT_TRUE(same(self->here, len, i));
		memset(mine, 0, BYTES);
		ASSERT_EQ(0,
			  outcome(&self->a, read_of((void *)(local + 5), len, self->to, 77, 6, 3)));
		EXPECT_TRUE(same(mine + 5, len, i));
		EXPECT_TRUE(all_are(mine + 5 + len, BYTES - 5 - len, 0));
		/* messages: before the receive, and after it */
		for (int late = 0; late < 2; late++) {
			memset(theirs, 0x33, BYTES);
			d = recv_of((void *)(remote + 9), len, ANY, 4);
			if (!late)
				ASSERT_EQ(0, post_recv(&self->b, d));
			ASSERT_EQ(1,
				  post(&self->a, send_of((void *)(local + 5), len, self->to, 5)));
			if (late)
				ASSERT_EQ(0, post_recv(&self->b, d));
			EXPECT_EQ(0, cq_next(&self->b.rcq).error);
			EXPECT_EQ(0, cq_next(&self->a.cq).error);
			EXPECT_TRUE(same(theirs + off + 9, len, i));
			EXPECT_TRUE(all_are(theirs + off + 9 + len, 100, 0x33));
		}
	}
	ASSERT_EQ(0, destroy(self->a.fd, ids[0]));
	ASSERT_EQ(0, destroy(self->b.fd, ids[1]));
	/* its address is not used again */
	EXPECT_EQ(EFAULT, outcome(&self->a, send_of((void *)local, 8, self->to, 6)));
	EXPECT_EQ(EKEYREJECTED, outcome(&self->a, write_of(self->here, 8, self->to, 0, 6, 7)));
	munmap(mine, BYTES);
	munmap(theirs, BYTES);
	close(there);
}

// conformance: fi_mr(3): FI_MR_DMABUF: a region is a range of a dma-buf, which need not be mapped
TEST_F(rma, transfers_from_and_to_dma_bufs_of_the_test)
{
	loop_load();
	transfers(self, _metadata, OWN);
	transfers(self, _metadata, OWN_MOVES);
	EXPECT_EQ(0, loop_unload());
}

TEST_F(rma, transfers_from_and_to_udmabuf)
{
	int buf = buffer_of(UDMABUF);

	if (buf < 0)
		SKIP(return, "the kernel has no /dev/udmabuf (CONFIG_UDMABUF)");
	if (!has_udmabuf_vmap()) {
		EXPECT_EQ(-EOPNOTSUPP,
			  region_of(self->a.fd, buf, 0, BYTES, BOTH, 0, 0, 5, NULL, NULL));
		close(buf);
		SKIP(return, "udmabuf of this kernel can't be mapped: it was refused");
	}
	close(buf);
	transfers(self, _metadata, UDMABUF);
}

TEST_F(rma, transfers_from_and_to_the_heap_of_the_system)
{
	int buf = buffer_of(HEAP);

	if (buf < 0)
		SKIP(return, "the kernel has no /dev/dma_heap/system (CONFIG_DMABUF_HEAPS_SYSTEM)");
	close(buf);
	transfers(self, _metadata, HEAP);
}

// conformance: ioctl.h: EOPNOTSUPP: known, but not supported: ask QUERY
TEST_F(rma, what_the_processor_does_not_reach_is_refused)
{
	int io, unreached;

	loop_load();
	io = export(EXPORT_IO, false);
	unreached = export(EXPORT_UNREACHED, false);
	EXPECT_EQ(-EOPNOTSUPP, region_of(self->a.fd, io, 0, 8, BOTH, 0, 0, 5, NULL, NULL));
	EXPECT_EQ(-EOPNOTSUPP, region_of(self->a.fd, unreached, 0, 8, BOTH, 0, 0, 5, NULL, NULL));
	close(io);
	close(unreached);
	EXPECT_EQ(0, loop_unload()); /* nothing holds the buffers */
}

TEST_F(rma, wrong_files_and_ranges_are_refused)
{
	const int fd = self->a.fd, other = memfd_create("x", MFD_CLOEXEC);
	int buf, readonly;
	__u32 id;

	loop_load();
	buf = export(EXPORT_STAYS, false);
	readonly = export(EXPORT_STAYS, true);
	EXPECT_EQ(-EBADF, region_of(fd, 999, 0, 8, BOTH, 0, 0, 5, NULL, NULL));
	EXPECT_EQ(-EINVAL, region_of(fd, -1, 0, 8, BOTH, 0, 0, 5, NULL, NULL));
	EXPECT_EQ(-EINVAL, region_of(fd, other, 0, 8, BOTH, 0, 0, 5, NULL, NULL));
	EXPECT_EQ(-EINVAL, region_of(fd, buf, 0, 0, BOTH, 0, 0, 5, NULL, NULL));
	EXPECT_EQ(-EINVAL, region_of(fd, buf, 1, BYTES, BOTH, 0, 0, 5, NULL, NULL));
	EXPECT_EQ(-EINVAL, region_of(fd, buf, ~0ULL, 2, BOTH, 0, 0, 5, NULL, NULL));
	EXPECT_EQ(-EINVAL, region_of(fd, buf, 0, 8, BOTH, 0, 1, 5, NULL, NULL));
	EXPECT_EQ(-EINVAL,
		  region_of(fd, buf, 8, 8, BOTH, TREADLE_MR_VIRT_ADDR, ~0ULL, 5, NULL, NULL));
	for (__u32 flag = TREADLE_MR_PINNED; flag;
	     flag = flag == TREADLE_MR_PINNED ? TREADLE_MR_UNMAPPED : 0)
		EXPECT_EQ(-EINVAL, region_of(fd, buf, 0, 8, BOTH, flag, 0, 5, NULL, NULL));
	EXPECT_EQ(-EACCES, region_of(fd, readonly, 0, 8, BOTH, 0, 0, 5, NULL, NULL));
	EXPECT_EQ(0, region_of(fd, readonly, 0, 8, TREADLE_ACCESS_REMOTE_READ, 0, 0, 5, NULL, &id));
	EXPECT_EQ(0, destroy(fd, id));
	close(buf);
	close(readonly);
	close(other);
	EXPECT_EQ(0, loop_unload());
}

/* Peers name offsets, or with VIRT_ADDR addresses from base on. It grants no atomics. */
TEST_F(rma, addresses_for_peers_and_no_atomics)
{
	struct treadle_desc d;
	__u32 id;
	char *map;
	int buf;

	loop_load();
	buf = export(EXPORT_STAYS, false);
	map = map_of(buf);
	ASSERT_EQ(0, region_of(self->b.fd, buf, 4096, 4096, BOTH, TREADLE_MR_VIRT_ADDR, 1ULL << 40,
			       6, NULL, &id));
	memset(self->here, 1, 8);
	EXPECT_EQ(0,
		  outcome(&self->a, write_of(self->here, 8, self->to, (1ULL << 40) + 4096, 6, 1)));
	EXPECT_EQ(1, map[4096 + 7]);
	EXPECT_EQ(EREMOTEIO, outcome(&self->a, write_of(self->here, 8, self->to, 0, 6, 1)));
	EXPECT_EQ(EREMOTEIO, outcome(&self->a, write_of(self->here, 8, self->to,
							(1ULL << 40) + 8192 - 7, 6, 1)));
	d = write_of(self->here, 8, self->to, (1ULL << 40) + 4096, 6, 1);
	d.opcode = TREADLE_OP_ATOMIC;
	d.flags |= TREADLE_F_EXT;
	d.atomic_op = TREADLE_ATOMIC_SUM;
	d.datatype = TREADLE_UINT64;
	EXPECT_EQ(EACCES, outcome(&self->a, d));
	ASSERT_EQ(0, destroy(self->b.fd, id));
	munmap(map, BYTES);
	close(buf);
	EXPECT_EQ(0, loop_unload());
}

/* What the exporter moves is not touched any more, by peers or by the process itself. */
TEST_F(rma, a_move_revokes_the_region)
{
	__u64 addr;
	__u32 id;
	char *map;
	int buf;

	loop_load();
	buf = export(EXPORT_MOVES, false);
	map = map_of(buf);
	ASSERT_EQ(0, region_of(self->b.fd, buf, 0, BYTES, BOTH, 0, 0, 6, &addr, &id));
	ASSERT_EQ(0, outcome(&self->a, write_of(self->here, 8, self->to, 0, 6, 1)));
	ASSERT_EQ(0, move(buf));
	EXPECT_EQ(EKEYREJECTED, outcome(&self->a, write_of(self->here, 8, self->to, 0, 6, 2)));
	EXPECT_EQ(EKEYREJECTED, outcome(&self->a, read_of(self->here, 8, self->to, 0, 6, 3)));
	ASSERT_EQ(0, post_recv(&self->b, recv_of((void *)addr, 8, ANY, 4)));
	post(&self->a, send_of(self->here, 8, self->to, 5));
	EXPECT_NE(0, cq_next(&self->b.rcq).error);
	cq_next(&self->a.cq);
	EXPECT_TRUE(all_are(map, BYTES, (char)0xee));
	EXPECT_EQ(0, destroy(self->b.fd, id));
	/* a new region has it where it is now */
	ASSERT_EQ(0, region_of(self->b.fd, buf, 0, BYTES, BOTH, 0, 0, 6, NULL, &id));
	EXPECT_EQ(0, outcome(&self->a, write_of(self->here, 8, self->to, 0, 6, 6)));
	EXPECT_EQ(0, destroy(self->b.fd, id));
	munmap(map, BYTES);
	close(buf);
	EXPECT_EQ(0, loop_unload());
}

static void *moves(void *arg)
{
	const int *buf = arg;

	usleep(3000);
	need(move(*buf) == 0);
	return NULL;
}

/* Copies and moves at once: after the move no byte is written. */
TEST_F(rma, a_move_among_copies)
{
	loop_load();
	for (int round = 0; round < 20; round++) {
		int buf = export(EXPORT_MOVES, false);
		char *map = map_of(buf);
		pthread_t thread;
		int error = 0;
		__u32 id;

		ASSERT_EQ(0, region_of(self->b.fd, buf, 0, BYTES, BOTH, 0, 0, 6, NULL, &id));
		ASSERT_EQ(0, pthread_create(&thread, NULL, moves, &buf));
		while (!error)
			error = outcome(&self->a,
					write_of(self->here, BYTES / 2, self->to, 0, 6, 1));
		EXPECT_EQ(EKEYREJECTED, error);
		ASSERT_EQ(0, pthread_join(thread, NULL));
		EXPECT_TRUE(all_are(map, BYTES, (char)0xee));
		EXPECT_EQ(0, destroy(self->b.fd, id));
		munmap(map, BYTES);
		close(buf);
	}
	EXPECT_EQ(0, loop_unload());
}

/* The whole buffer is charged, and refunded. */
TEST_F(rma, the_buffer_is_charged_as_locked_memory)
{
	const struct rlimit limit = {BYTES, BYTES};
	__u32 id;
	int buf;

	loop_load();
	buf = export(EXPORT_STAYS, false);
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &limit));
	need(seteuid(1) == 0);
	for (int i = 0; i < 3; i++) {
		__u32 more;

		ASSERT_EQ(0, region_of(self->b.fd, buf, 0, 8, BOTH, 0, 0, 6, NULL, &id));
		EXPECT_EQ(-ENOMEM, region_of(self->b.fd, buf, 0, 8, BOTH, 0, 0, 7, NULL, &more));
		ASSERT_EQ(0, destroy(self->b.fd, id));
	}
	need(seteuid(0) == 0);
	close(buf);
	EXPECT_EQ(0, loop_unload());
}

TEST_HARNESS_MAIN
