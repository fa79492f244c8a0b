/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the tests of lanes: a sends by one to b. */
#ifndef TREADLE_KSELFTEST_LANE_H
#define TREADLE_KSELFTEST_LANE_H

#include "treadle.h"

#define BYTES (TREADLE_LANE_BYTES + TREADLE_LANE_UNITS * TREADLE_LANE_UNIT)

struct end {
	int fd;
	__u32 id;
	volatile struct treadle_lane *lane;
	const struct treadle_ring_cons *ro; /* the sender's */
	struct treadle_map rw_map, ro_map;
};

/* Offers a lane; returns 0 or -errno. */
static inline int lane_make(struct end *end, const struct node *n, __u64 to)
{
	struct treadle_lane_make m = {.size = sizeof(m), .ep = n->ep, .peer = to};
	int ret = call(n->fd, TREADLE_IOC_LANE_MAKE, &m);

	*end = (struct end){.fd = n->fd, .id = m.id, .rw_map = m.rw, .ro_map = m.ro};
	if (ret)
		return ret;
	end->lane = map(n->fd, m.rw, PROT_READ | PROT_WRITE);
	end->ro = map(n->fd, m.ro, PROT_READ);
	return 0;
}

static inline int lane_take(struct end *end, const struct node *n)
{
	struct treadle_lane_take t = {.size = sizeof(t), .rx = n->rx.id};
	int ret = call(n->fd, TREADLE_IOC_LANE_TAKE, &t);

	*end = (struct end){.fd = n->fd, .id = t.id, .rw_map = t.rw};
	if (ret)
		return ret;
	end->lane = map(n->fd, t.rw, PROT_READ | PROT_WRITE);
	return 0;
}

static inline int lane_source(const struct end *end, __u64 *src)
{
	struct treadle_lane_source s = {.size = sizeof(s), .lane = end->id};
	int ret = call(end->fd, TREADLE_IOC_LANE_SOURCE, &s);

	*src = s.src;
	return ret;
}

static inline void lane_unmap(struct end *end)
{
	if (end->lane)
		need(munmap((void *)end->lane, end->rw_map.length) == 0);
	if (end->ro)
		need(munmap((void *)end->ro, end->ro_map.length) == 0);
	end->lane = NULL;
	end->ro = NULL;
}

static inline bool is_gone(const struct end *end)
{
	return __atomic_load_n(&end->lane->gone, __ATOMIC_ACQUIRE) == 1;
}

static inline bool lane_is_closed(const struct end *end)
{
	return __atomic_load_n(&end->lane->state, __ATOMIC_ACQUIRE) == TREADLE_LANE_CLOSED;
}

static inline __u32 offers(const struct node *n)
{
	return __atomic_load_n(&n->rx.ro->offers, __ATOMIC_ACQUIRE);
}

static const struct options laned = {.rx_flags = TREADLE_RX_LANES};

FIXTURE(lane)
{
	struct node a, b;
	__u64 to;
	struct end s, r;
};

typedef FIXTURE_DATA(lane) lane;

FIXTURE_SETUP(lane)
{
	node_open(&self->a, laned);
	node_open(&self->b, laned);
	self->to = peer(&self->a, self->b.addr);
	ASSERT_EQ(0, lane_make(&self->s, &self->a, self->to));
	ASSERT_EQ(0, lane_take(&self->r, &self->b));
}

FIXTURE_TEARDOWN(lane)
{
	lane_unmap(&self->s);
	lane_unmap(&self->r);
	close(self->a.fd);
	close(self->b.fd);
}

static inline int makes(lane *self)
{
	struct end end;
	int ret = lane_make(&end, &self->a, self->to);

	lane_unmap(&end);
	if (ret == 0)
		need(destroy(self->a.fd, end.id) == 0);
	return ret;
}

static inline int lane_maps(int fd, struct treadle_map m, int prot, int flags)
{
	void *at = mmap(NULL, m.length, prot, flags, fd, m.offset);

	if (at == MAP_FAILED)
		return -errno;
	munmap(at, m.length);
	return 0;
}

#endif
