/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The control interface: the rules that every ioctl keeps. Sizes, flags and ids are swept over the
 * table of all ioctls, so a new ioctl only adds a row.
 */
#include "abi.h"

/* --- sizes and flags ------------------------------------------------------- */

TEST_F(abi, valid_calls_work)
{
	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct arg arg = prepare(&rows[i], self);

		about("%s", rows[i].name);
		EXPECT_EQ(_IOC_SIZE(rows[i].cmd), size_now(&rows[i]));
		EXPECT_EQ(rows[i].result, call(self->fd, rows[i].cmd, &arg));
	}
}

// conformance: ioctl.h: EINVAL: size too small
TEST_F(abi, too_small_a_size_is_refused)
{
	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		for (__u32 size = 0; size < rows[i].size; size++) {
			struct arg arg = prepare(&rows[i], self);

			arg.size = size;
			about("%s, size %u", rows[i].name, size);
			EXPECT_EQ(-EINVAL, call(self->fd, rows[i].cmd, &arg));
		}
	}
}

TEST_F(abi, newer_fields_may_be_zero)
{
	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct arg arg = prepare(&rows[i], self);
		unsigned long future;

		arg.size = size_now(&rows[i]) + sizeof(arg.future);
		about("%s", rows[i].name);
		EXPECT_EQ(rows[i].result, call(self->fd, rows[i].cmd, &arg));

		/* A program built then has another size in the number of the ioctl, too. */
		arg = prepare(&rows[i], self);
		arg.size = size_now(&rows[i]) + sizeof(arg.future);
		future = _IOC(_IOC_READ | _IOC_WRITE, TREADLE_IOC_MAGIC, _IOC_NR(rows[i].cmd),
			      arg.size);
		about("%s, its number", rows[i].name);
		EXPECT_EQ(rows[i].result, call(self->fd, future, &arg));
	}
}

// conformance: ioctl.h: E2BIG: an excess that is not zero
TEST_F(abi, newer_fields_are_refused_if_set)
{
	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		for (int byte = 0; byte < sizeof(((struct arg *)0)->future); byte += 7) {
			struct arg arg = prepare(&rows[i], self);
			struct arg before;

			arg.size = size_now(&rows[i]) + sizeof(arg.future);
			((unsigned char *)&arg)[size_now(&rows[i]) + byte] = 1;
			before = arg;
			about("%s, byte %d of the tail", rows[i].name, byte);
			EXPECT_EQ(-E2BIG, call(self->fd, rows[i].cmd, &arg));
			about("%s wrote", rows[i].name);
			EXPECT_EQ(0, memcmp(&arg, &before, sizeof(arg)));
		}
	}
}

/*
 * Zeros behind the known fields are accepted up to a page, so that no caller makes the kernel read
 * megabytes.
 */
// conformance: ioctl.h: E2BIG: size larger than a page
TEST_F(abi, a_size_is_at_most_a_page)
{
	const __u32 page = PAGE;
	char *at = pages(2 * page);

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct arg arg = prepare(&rows[i], self);

		memset(at, 0, 2 * page);
		memcpy(at, &arg, size_now(&rows[i]));
		about("%s", rows[i].name);
		*(__u32 *)at = arg.size = page + 1;
		EXPECT_EQ(-E2BIG, call(self->fd, rows[i].cmd, at));
		EXPECT_EQ(0, memcmp(at, &arg, size_now(&rows[i])));
		*(__u32 *)at = ~0U;
		EXPECT_EQ(-E2BIG, call(self->fd, rows[i].cmd, at));
		*(__u32 *)at = page;
		EXPECT_EQ(rows[i].result, call(self->fd, rows[i].cmd, at));
	}
}

/* The kernel leaves the size field alone, so a caller may use the structure again. */
TEST_F(abi, the_size_is_the_callers)
{
	struct arg arg = {.size = sizeof(struct treadle_query) + sizeof(arg.future)};

	ASSERT_EQ(0, call(self->fd, TREADLE_IOC_QUERY, &arg));
	EXPECT_EQ(sizeof(struct treadle_query) + sizeof(arg.future), arg.size);
}

// conformance: ioctl.h: EINVAL: unknown flag, reserved field set
TEST_F(abi, unknown_flags_and_reserved_fields_are_refused)
{
	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		for (int f = 0; f < ARRAY_SIZE(rows[i].flags) && rows[i].flags[f].at; f++) {
			for (int bit = 0; bit < 32; bit++) {
				struct arg arg = prepare(&rows[i], self);

				if (rows[i].flags[f].known >> bit & 1)
					continue;
				arg.words[rows[i].flags[f].at / 4] |= 1U << bit;
				about("%s, offset %u, bit %d", rows[i].name, rows[i].flags[f].at,
				      bit);
				EXPECT_EQ(-EINVAL, call(self->fd, rows[i].cmd, &arg));
			}
		}
	}
}

static bool has_row(int nr)
{
	for (int i = 0; i < ARRAY_SIZE(rows); i++)
		if (_IOC_NR(rows[i].cmd) == nr)
			return true;
	return false;
}

/* The table has a row for each ioctl, except for the two that take an id. */
// conformance: ioctl.h: ENOTTY: no such ioctl
TEST_F(abi, unknown_ioctls_are_refused)
{
	struct arg arg = {.size = sizeof(arg)};

	for (int nr = 0; nr < 256; nr++) {
		if (has_row(nr) || nr == _IOC_NR(TREADLE_IOC_DOORBELL) ||
		    nr == _IOC_NR(TREADLE_IOC_SIGNAL))
			continue;
		about("%d, which has no row", nr);
		EXPECT_EQ(-ENOTTY, call(self->fd, _IOC(3, TREADLE_IOC_MAGIC, nr, 72), &arg));
		EXPECT_EQ(-ENOTTY, call(self->fd, _IO(TREADLE_IOC_MAGIC, nr), &arg));
	}
	EXPECT_EQ(-ENOTTY, call(self->fd, _IOC(3, TREADLE_IOC_MAGIC + 1, 0, 72), &arg));
}

/* --- pointers -------------------------------------------------------------- */

// conformance: ioctl.h: EFAULT: a pointer in the structure
TEST_F(abi, bad_pointers_are_refused)
{
	char *page = pages(PAGE);

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct arg arg = prepare(&rows[i], self);
		char *straddling = page + PAGE - size_now(&rows[i]) + 4;

		about("%s", rows[i].name);
		EXPECT_EQ(-EFAULT, call(self->fd, rows[i].cmd, NULL));
		EXPECT_EQ(-EFAULT, call(self->fd, rows[i].cmd, (void *)~4095UL));
		EXPECT_EQ(-EFAULT, call(self->fd, rows[i].cmd, (void *)(1UL << 63)));
		memcpy(straddling, &arg, size_now(&rows[i]) - 4);
		EXPECT_EQ(-EFAULT, call(self->fd, rows[i].cmd, straddling));
	}
}

/*
 * An object is not created if its id can't be written back. If it were, the loop would reach the
 * limit.
 */
// conformance: ioctl.h: EFAULT: a pointer in the structure
TEST_F(abi, a_call_that_cannot_write_its_result_creates_nothing)
{
	struct treadle_query q = query(self->fd);
	struct treadle_ep_create *port;
	char *page = pages(PAGE);
	__u16 taken;
	__u32 id;

	for (__u32 i = KINDS; i < q.max_objects - 16; i++) {
		ASSERT_EQ(0, create(self->fd, AV, &id));
	}
	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct arg arg;

		if (!strstr(rows[i].name, "_CREATE"))
			continue;
		arg = prepare(&rows[i], self);
		ASSERT_EQ(0, mprotect(page, PAGE, PROT_READ | PROT_WRITE));
		memcpy(page, &arg, sizeof(arg));
		ASSERT_EQ(0, mprotect(page, PAGE, PROT_READ));
		for (int n = 0; n < 32; n++) {
			about("%s", rows[i].name);
			ASSERT_EQ(-EFAULT, call(self->fd, rows[i].cmd, page));
		}
		arg = prepare(&rows[i], self);
		about("%s", rows[i].name);
		EXPECT_EQ(0, call(self->fd, rows[i].cmd, &arg));
	}

	ASSERT_EQ(0, mprotect(page, PAGE, PROT_READ | PROT_WRITE));
	port = (void *)page;
	*port = (struct treadle_ep_create){
		.size = sizeof(*port), .type = TREADLE_EP_RDM, .addr = loopback(0)};
	ASSERT_EQ(0, call(self->fd, TREADLE_IOC_EP_CREATE, port));
	ASSERT_EQ(0, destroy(self->fd, port->id));
	taken = port->addr.port;
	ASSERT_EQ(0, mprotect(page, PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, call(self->fd, TREADLE_IOC_EP_CREATE, port));
	ASSERT_EQ(0, mprotect(page, PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, call(self->fd, TREADLE_IOC_EP_CREATE, port));
	EXPECT_EQ(taken, port->addr.port);
}

/* --- ids ------------------------------------------------------------------- */

static void expect_id(struct __test_metadata *_metadata, world *self, const struct row *row,
		      int field, __u32 id, int expected, const char *what)
{
	struct arg arg = prepare(row, self);

	arg.words[row->ids[field].at / 4] = id;
	about("%s, id at offset %u: %s", row->name, row->ids[field].at, what);
	EXPECT_EQ(expected, call(self->fd, row->cmd, &arg));
}

// conformance: ioctl.h: EINVAL: an id of 2^32 or more
// conformance: ioctl.h: ENOENT: no object with this id in this context
TEST_F(abi, ids_that_do_not_exist_are_refused)
{
	__u32 closed, foreign;
	int other = device();

	ASSERT_EQ(0, create(self->fd, CQ, &closed));
	ASSERT_EQ(0, destroy(self->fd, closed));
	/* Numbers that this context has not used: it makes fewer objects than these. */
	for (int i = 0; i < 1000; i++) {
		ASSERT_EQ(0, create(other, AV, &foreign));
	}

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		for (int f = 0; f < ARRAY_SIZE(rows[i].ids) && rows[i].ids[f].at; f++) {
			if (!(rows[i].ids[f].kinds & NONE_OK))
				expect_id(_metadata, self, &rows[i], f, 0, -ENOENT, "0");
			expect_id(_metadata, self, &rows[i], f, closed, -ENOENT, "closed");
			expect_id(_metadata, self, &rows[i], f, foreign, -ENOENT, "foreign");
			expect_id(_metadata, self, &rows[i], f, 1U << 31, -ENOENT, "2^31");
			expect_id(_metadata, self, &rows[i], f, ~0U, -ENOENT, "2^32 - 1");
		}
	}
	for (int cmd = 0; cmd < 2; cmd++) {
		unsigned long plain = cmd ? TREADLE_IOC_SIGNAL : TREADLE_IOC_DOORBELL;

		EXPECT_EQ(-ENOENT, call(self->fd, plain, NULL));
		EXPECT_EQ(-ENOENT, call(self->fd, plain, (void *)(unsigned long)closed));
		EXPECT_EQ(-ENOENT, call(self->fd, plain, (void *)(unsigned long)foreign));
		/* Not cut off to 32 bits. */
		EXPECT_EQ(-EINVAL, call(self->fd, plain, (void *)(1UL << 32)));
		EXPECT_EQ(-EINVAL, call(self->fd, plain, (void *)(1UL << 32 | self->id[CQ])));
		EXPECT_EQ(-EINVAL, call(self->fd, plain, (void *)-1UL));
	}
	EXPECT_EQ(-ENOENT, doorbell_seek(self->fd, 0));
	EXPECT_EQ(-ENOENT, doorbell_seek(self->fd, closed));
	EXPECT_EQ(-ENOENT, doorbell_seek(self->fd, foreign));
	EXPECT_EQ(-EINVAL, doorbell_seek(self->fd, 1UL << 32 | self->id[CQ]));
	EXPECT_EQ(-EINVAL, doorbell_seek(self->fd, -1));
}

// conformance: ioctl.h: EBADF: an object of another kind
TEST_F(abi, ids_of_another_kind_are_refused)
{
	const __u32 rung = 1 << TX | 1 << RX | 1 << CQ, waited = 1 << CQ | 1 << CNTR | 1 << EQ;

	for (int i = 0; i < ARRAY_SIZE(rows); i++)
		for (int f = 0; f < ARRAY_SIZE(rows[i].ids) && rows[i].ids[f].at; f++)
			for (int kind = 0; kind < KINDS; kind++)
				if (!(rows[i].ids[f].kinds >> kind & 1))
					expect_id(_metadata, self, &rows[i], f, self->id[kind],
						  -EBADF, "kind");
	for (int kind = 0; kind < KINDS; kind++) {
		if (!(rung >> kind & 1))
			EXPECT_EQ(-EBADF, doorbell(self->fd, self->id[kind]));
		EXPECT_EQ(rung >> kind & 1 ? 0 : -EBADF, doorbell_seek(self->fd, self->id[kind]));
		if (!(waited >> kind & 1))
			EXPECT_EQ(-EBADF, call(self->fd, TREADLE_IOC_SIGNAL,
					       (void *)(unsigned long)self->id[kind]));
	}
}

/* lseek() is a doorbell, and nothing else: the file has no position. */
// conformance: ioctl.h: ESPIPE: an lseek that is no doorbell
TEST_F(abi, there_is_nothing_to_seek)
{
	for (int whence = -1; whence < 7; whence++) {
		if (whence == SEEK_SET)
			continue;
		EXPECT_EQ(-1, lseek(self->fd, self->id[CQ], whence));
		EXPECT_EQ(whence < 0 || whence > SEEK_HOLE ? EINVAL : ESPIPE, errno);
	}
}

TEST_HARNESS_MAIN
