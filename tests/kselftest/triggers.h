/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers for tests of triggers: trigger cells, and the end of a test with two nodes. */
#ifndef TREADLE_KSELFTEST_TRIGGERS_H
#define TREADLE_KSELFTEST_TRIGGERS_H

#include "treadle.h"

/* Trigger cells. */
struct cells {
	int fd;
	__u32 id, count;
	struct treadle_map rw, ro;
	__u64 *cell;
	const __u64 *done;
};

static inline void cells_open(struct cells *c, int fd, __u32 count)
{
	struct treadle_cell_create create = {.size = sizeof(create), .count = count};

	need(call(fd, TREADLE_IOC_CELL_CREATE, &create) == 0);
	*c = (struct cells){.fd = fd,
			    .id = create.id,
			    .count = create.count,
			    .rw = create.rw,
			    .ro = create.ro,
			    .cell = map(fd, create.rw, PROT_READ | PROT_WRITE),
			    .done = map(fd, create.ro, PROT_READ)};
}

static inline void cell_write(const struct cells *c, int i, __u64 value)
{
	__atomic_store_n(&c->cell[i], value, __ATOMIC_RELEASE);
}

static inline __u64 cell_done(const struct cells *c, int i)
{
	return __atomic_load_n(&c->done[i], __ATOMIC_ACQUIRE);
}

/* Arms a command on cell @i: it starts when the cell has this value. */
static inline struct treadle_desc once(struct treadle_desc d, const struct cells *c, int i,
				       __u64 value)
{
	d.flags |= TREADLE_F_EXT | TREADLE_F_COND_CELL;
	d.cond = c->id;
	d.threshold = i * sizeof(__u64);
	d.value = value;
	return d;
}

/* A command by which @to follows cell @i, a total of which @total has been counted. */
static inline struct treadle_desc follow(const struct cntr *to, const struct cells *c, int i,
					 __u64 total)
{
	struct treadle_desc d = once(count_of(TREADLE_OP_CNTR_ADD, to, 0, i), c, i, total);

	d.flags |= TREADLE_F_WORK | TREADLE_F_REPEAT;
	return d;
}

static inline int unfollow(const struct cells *c, int i)
{
	return cancel(c->fd, TREADLE_CANCEL_WORK, c->id, i, i * sizeof(__u64), NULL);
}

/* Keeps a copy of a counter in cell @i and the next one; ends it if there are no cells. */
static inline int copy_to(const struct cntr *from, const struct cells *c, int i)
{
	struct treadle_cntr_copy copy = {.size = sizeof(copy),
					 .cntr = from->id,
					 .cells = c ? c->id : 0,
					 .offset = i * sizeof(__u64)};

	return call(from->fd, TREADLE_IOC_CNTR_COPY, &copy);
}

static inline __u64 cell_read(const struct cells *c, int i)
{
	return __atomic_load_n(&c->cell[i], __ATOMIC_ACQUIRE);
}

static inline struct treadle_desc nop(__u64 context)
{
	return (struct treadle_desc){
		.opcode = TREADLE_OP_NOP, .flags = TREADLE_F_COMPLETION, .context = context};
}

/* All completions have been taken. */
static inline bool nothing_is_left(struct node *a, struct node *b)
{
	return cq_empty(&a->cq) && cq_empty(&a->rcq) && cq_empty(&b->cq) && cq_empty(&b->rcq);
}

#endif
