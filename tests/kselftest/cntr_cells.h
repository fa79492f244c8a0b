/* SPDX-License-Identifier: GPL-2.0 */
/* The fixture of tests with counters that follow cells, and with copies of counters in cells. */
#ifndef TREADLE_KSELFTEST_CNTR_CELLS_H
#define TREADLE_KSELFTEST_CNTR_CELLS_H

#include "triggers.h"

FIXTURE(cntr_cells)
{
	struct node a, b; /* in separate contexts */
	__u64 to, back;
	struct cells c;	  /* of a */
	struct cntr d, e; /* of a */
	char *src, *dst;
};

FIXTURE_SETUP(cntr_cells)
{
	node_open(&self->a, (struct options){.tx = 1024, .cq = 4096});
	node_open(&self->b, (struct options){.rx = 4096, .rcq = 4096});
	self->to = peer(&self->a, self->b.addr);
	self->back = peer(&self->b, self->a.addr);
	cells_open(&self->c, self->a.fd, 1024);
	cntr_open(&self->d, self->a.fd);
	cntr_open(&self->e, self->a.fd);
	self->src = pages(1 << 20);
	self->dst = pages(1 << 20);
}

FIXTURE_TEARDOWN(cntr_cells)
{
	EXPECT_TRUE(nothing_is_left(&self->a, &self->b));
}

/* Longer than a poller would need. */
#define A_WHILE_US 30000

static inline bool becomes(const struct cells *c, int i, __u64 value)
{
	__u64 end = now_ns() + PATIENCE_NS;

	while (cell_read(c, i) != value && now_ns() < end)
		usleep(100);
	return cell_read(c, i) == value;
}

struct teller {
	struct cells *c;
	int stop;
	__u64 told;
};

#endif
