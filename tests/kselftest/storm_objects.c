/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Objects that are closed while others use them: nobody else notices, all can be taken down, the kernel log stays silent.
 */
#include "treadle.h"

#define SECONDS 4

static __u64 deadline;

static bool storming(void)
{
	return now_ns() < deadline;
}

static void set_sail(int seconds)
{
	deadline = now_ns() + seconds * 1000000000ULL;
}

#define SLOTS 16

struct crowd {
	int fd;
	/* Ids that somebody made; anybody may use or destroy them. */
	__u32 ids[SLOTS];
	char buf[1 << 17];
};

static __u32 some_id(struct crowd *c, __u64 *state)
{
	return __atomic_load_n(&c->ids[lottery(state) % SLOTS], __ATOMIC_RELAXED);
}

static void put_id(struct crowd *c, __u64 *state, __u32 id)
{
	__u32 old = __atomic_exchange_n(&c->ids[lottery(state) % SLOTS], id, __ATOMIC_RELAXED);

	if (old)
		destroy(c->fd, old);
}

/* Makes an endpoint of its own, uses it a little, and leaves its objects for the others. */
static void *uses(void *arg)
{
	struct crowd *c = arg;
	__u64 state = gettid();

	while (storming()) {
		struct treadle_ep_enable e;
		struct node n;
		int messages = lottery(&state) % 8;

		node_create(&n, (struct options){.context = c->fd});
		e = node_bindings(&n);
		if (lottery(&state) % 4 == 0)
			e.rx = some_id(c, &state);
		if (lottery(&state) % 4 == 0)
			e.cntr_recv = some_id(c, &state);
		call(c->fd, TREADLE_IOC_EP_ENABLE, &e);
		peer(&n, n.addr);
		for (int i = 0; i < messages; i++) {
			size_t len = lottery(&state) % 3 ? 64 : 100000;
			struct treadle_desc d = send_of(c->buf, len, 0, i);

			if (lottery(&state) % 3 == 0) {
				d = when(d, &n.sent, lottery(&state) % 4);
				d.cond = lottery(&state) % 2 ? n.sent.id : some_id(c, &state);
			}
			ring_put(&n.tx, &d);
			d = recv_of(c->buf, len, ANY, i);
			ring_put(&n.rx, &d);
		}
		ring_publish(&n.tx);
		ring_publish(&n.rx);
		put_id(c, &state, n.tx.id);
		put_id(c, &state, n.ep);
		while (ring_doorbell(&n.tx) > 0)
			;
		put_id(c, &state, n.rx.id);
		put_id(c, &state, n.sent.id);
		ring_doorbell(&n.rx);
		put_id(c, &state, n.rcq.id);
		put_id(c, &state, n.av);
		/* The rest at once: maps first, so that these do not pile up. */
		munmap(n.tx.rw, n.tx.rw_map.length);
		munmap((void *)n.tx.ro, n.tx.ro_map.length);
		munmap(n.rx.rw, n.rx.rw_map.length);
		munmap((void *)n.rx.ro, n.rx.ro_map.length);
		munmap(n.cq.rw, n.cq.rw_map.length);
		munmap((void *)n.cq.ro, n.cq.ro_map.length);
		munmap(n.rcq.rw, n.rcq.rw_map.length);
		munmap((void *)n.rcq.ro, n.rcq.ro_map.length);
		munmap((void *)n.sent.page, 4096);
		munmap((void *)n.rcvd.page, 4096);
		destroy(c->fd, n.ep);
		destroy(c->fd, n.cq.id);
		destroy(c->fd, n.rcvd.id);
	}
	return NULL;
}

/* Everything that takes an id, with whatever id there is. */
static void *meddles(void *arg)
{
	struct crowd *c = arg;
	__u64 state = gettid();

	while (storming()) {
		__u32 id = some_id(c, &state);
		struct treadle_wait w = {.size = sizeof(w), .id = id, .timeout_ns = 1000};
		struct treadle_wait_fd f = {.size = sizeof(f), .id = id};
		struct treadle_addr addr = loopback(1);
		__u32 count = 1;
		__u64 index;

		switch (lottery(&state) % 8) {
		case 0:
			doorbell(c->fd, id);
			break;
		case 1:
			destroy(c->fd, id);
			break;
		case 2:
			call(c->fd, TREADLE_IOC_WAIT, &w);
			break;
		case 3:
			call(c->fd, TREADLE_IOC_SIGNAL, (void *)(unsigned long)id);
			break;
		case 4:
			cancel(c->fd, lottery(&state) % 3, id, lottery(&state) % 8,
			       lottery(&state) % 4, NULL);
			break;
		case 5:
			if (call(c->fd, TREADLE_IOC_WAIT_FD, &f) == 0) {
				struct pollfd p = {.fd = f.fd, .events = POLLIN};

				poll(&p, 1, 1);
				close(f.fd);
			}
			break;
		case 6:
			av_insert(c->fd, id, &addr, &count, &index);
			break;
		case 7:
			cancel(c->fd, TREADLE_FLUSH_WORK, 0, 0, 0, NULL);
			break;
		}
	}
	return NULL;
}

TEST(objects_that_are_closed_while_they_are_used)
{
	struct crowd *c = shared(sizeof(*c));
	pthread_t t[4];

	c->fd = device();
	set_sail(SECONDS);
	t[0] = thread(uses, c);
	t[1] = thread(uses, c);
	t[2] = thread(meddles, c);
	t[3] = thread(meddles, c);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	close(c->fd);
}

TEST(nothing_is_left)
{
	until_unused();
}

TEST_HARNESS_MAIN
