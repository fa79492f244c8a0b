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
