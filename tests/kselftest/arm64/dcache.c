/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that the kernel writes for a peer may be mapped as code. arm64 fetches instructions
 * through a cache of its own. A page flag (KPF_ARCH) says that this cache is up to date, and must
 * be cleared when the page is written.
 */
#include <treadle/atomic.h>

#include "../rma.h"

#define KPF_ARCH 38

enum { PAGES = 4 };

static char *at; /* PAGES of @file */
static int file, pagemap, flags;

static __u64 word_at(int fd, __u64 index)
{
	__u64 word;

	need(pread(fd, &word, sizeof(word), index * sizeof(word)) == sizeof(word));
	return word;
}

static bool noted(int page)
{
	__u64 entry = word_at(pagemap, (unsigned long)at / PAGE + page);

	need(entry >> 63);
	return word_at(flags, entry & ((1ULL << 55) - 1)) >> KPF_ARCH & 1;
}

/* A map with execute permission brings the cache up to date. */
static void bring_up(void)
{
	volatile char *code = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);

	need(code != MAP_FAILED);
	for (int i = 0; i < PAGES; i++) {
		(void)code[i * PAGE];
		need(noted(i));
	}
	need(munmap((void *)code, PAGES * PAGE) == 0);
}

static void open_file(void)
{
	file = memfd_create("code", 0);
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	flags = open("/proc/kpageflags", O_RDONLY);
	need(file >= 0 && pagemap >= 0 && flags >= 0);
	need(ftruncate(file, PAGES * PAGE) == 0);
	at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	need(at != MAP_FAILED);
	memset(at, 1, PAGES * PAGE);
}

/* Have pages @from to before @to been written since bring_up(), and no others? */
static bool written(int from, int to)
{
	for (int i = 0; i < PAGES; i++)
		if (noted(i) == (from <= i && i < to))
			return false;
	return true;
}

TEST_F(rma, written_code_is_fetched_anew)
{
	static const __u64 lengths[] = {1, 8, 100, 2000, PAGE, 2 * PAGE};
	struct treadle_desc sum = {
		.opcode = TREADLE_OP_ATOMIC,
		.flags = TREADLE_F_COMPLETION | TREADLE_F_EXT,
		.iov_count = 1,
		.peer = self->to,
		.remote_key = 5,
		.atomic_op = TREADLE_ATOMIC_SUM,
		.addr = (unsigned long)self->here,
	};
	static const __u8 types[] = {TREADLE_UINT64, TREADLE_UINT16, TREADLE_DOUBLE,
				     TREADLE_UINT128};
	__u64 key = 5;
	__u32 id;

	open_file();
	ASSERT_EQ(0, mr(self->b.fd, at, PAGES * PAGE, BOTH, 0, &key, &id));
	for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
		int end = 1 + (lengths[i] + PAGE - 1) / PAGE;

		about("%llu bytes", lengths[i]);
		/* a write, a read into it, and messages: expected, and unexpected */
		bring_up();
		ASSERT_EQ(0, outcome(&self->a,
				     write_of(self->here, lengths[i], self->to, PAGE, key, 1)));
		EXPECT_TRUE(written(1, end));
		bring_up();
		ASSERT_EQ(0, outcome(&self->a,
				     read_of(at + PAGE, lengths[i], self->to, 0, self->key, 1)));
		/*
		 * a few bytes are stored at the reader's own addresses: as after read(2), the
		 * process has to flush
		 */
		if (lengths[i] > 512)
			EXPECT_TRUE(written(1, end));
		bring_up();
		ASSERT_EQ(0, post_recv(&self->b, recv_of(at + PAGE, lengths[i], ANY, 2)));
		ASSERT_EQ(0, outcome(&self->a, send_of(self->here, lengths[i], self->to, 1)));
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
		EXPECT_TRUE(written(1, end));
		bring_up();
		ASSERT_EQ(1, post(&self->a, send_of(self->here, lengths[i], self->to, 1)));
		ASSERT_EQ(0, post_recv(&self->b, recv_of(at + PAGE, lengths[i], ANY, 2)));
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
		EXPECT_TRUE(written(1, end));
	}
	for (int i = 0; i < ARRAY_SIZE(types); i++) {
		about("type %d", types[i]);
		sum.datatype = types[i];
		sum.len = treadle_type_size(types[i]);
		sum.remote_addr = 2 * PAGE;
		bring_up();
		ASSERT_EQ(0, outcome(&self->a, sum));
		EXPECT_TRUE(written(2, 3));
	}
}

TEST_HARNESS_MAIN
