/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Objects that are closed during use: each call returns an errno that ioctl.h has for it,
 * everything can be torn down, and the kernel log stays silent.
 */
#include "connection.h"
#include "triggers.h"

#define SECONDS 4

static __u64 deadline;

static bool storming(void)
{
	return now_ns() < __atomic_load_n(&deadline, __ATOMIC_RELAXED);
}

static void set_sail(int seconds)
{
	deadline = now_ns() + seconds * 1000000000ULL;
}

#define SLOTS 8
enum { CANCELS_WORK = 5, ACCEPTS = 16, REJECTS = 17, SETS_ID = 19, ENDS_COPY }; /* kinds of calls */

enum kind { CQ, CNTR, AV, MR, RING, EP, PASSIVE, EQ, CELL, KINDS };

struct crowd {
	int fd;
	__u16 port;	   /* where an endpoint may listen */
	__u32 request;	   /* an id that may be a request */
	__u64 done[2][32]; /* results of each kind of call: refused, done */
	/* Ids of objects, which any thread may use or destroy. */
	__u32 ids[KINDS][SLOTS];
	char buf[1 << 17];
};

/* An id, mostly of this kind. */
static __u32 some_id(struct crowd *c, __u64 *state, enum kind kind)
{
	if (lottery(state) % 8 == 0)
		kind = lottery(state) % KINDS;
	return __atomic_load_n(&c->ids[kind][lottery(state) % SLOTS], __ATOMIC_RELAXED);
}

/* Returns @result, which must be no error, or one of @known (0 ends the list). */
static long check_errno(int line, long result, const int *known)
{
	for (; result < 0 && *known; known++)
		if (result == -*known)
			return result;
	if (result < 0) {
		note("%s:%d: %s", __FILE__, line, strerror(-result));
		_exit(1);
	}
	return result;
}

/* The object may be gone, or be of another kind; further errors are listed. */
#define MAY(call, ...) check_errno(__LINE__, call, (const int[]){ENOENT, EBADF, ##__VA_ARGS__, 0})

static void put_id(struct crowd *c, __u64 *state, enum kind kind, __u32 id)
{
	__u32 *slot = &c->ids[kind][lottery(state) % SLOTS];
	__u32 old = __atomic_exchange_n(slot, id, __ATOMIC_RELAXED);

	if (old)
		MAY(destroy(c->fd, old), EBUSY);
}

/* --- threads that create objects ------------------------------------------------------------- */

/* Arms on a store that comes at once, or on one that does not come. */
static struct treadle_desc stored(struct treadle_desc d, __u32 cell, __u64 *state)
{
	d.flags |= TREADLE_F_EXT | TREADLE_F_COND_CELL;
	d.cond = cell;
	d.value = lottery(state) % 2;
	return d;
}

/* Lets a counter follow a cell, or keeps a copy of it in cells: of any objects. */
static void uses_cells(struct crowd *c, __u64 *state, struct node *n)
{
	struct cells cells = {.fd = c->fd, .id = some_id(c, state, CELL)};
	struct cntr cntr = {.fd = c->fd, .id = some_id(c, state, CNTR)};
	struct treadle_desc d = follow(&cntr, &cells, lottery(state) % 8, lottery(state) % 2);

	ring_put(&n->tx, &d);
	/* EINVAL: there are no cells yet; then the id is 0 */
	MAY(copy_to(&cntr, &cells, 2 * (lottery(state) % 4)), EBUSY, EINVAL);
}

/* Creates an endpoint, uses it a little, and leaves its objects to the other threads. */
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
			e.rx = some_id(c, &state, RING);
		if (lottery(&state) % 4 == 0)
			e.cntr_recv = some_id(c, &state, CNTR);
		MAY(call(c->fd, TREADLE_IOC_EP_ENABLE, &e), EBUSY);
		peer(&n, n.addr);
		for (int i = 0; i < messages; i++) {
			size_t len = lottery(&state) % 3 ? 64 : 100000;
			struct treadle_desc d = send_of(c->buf, len, 0, i);

			if (lottery(&state) % 3 == 0) {
				d = when(d, &n.sent, lottery(&state) % 4);
				d.cond = lottery(&state) % 2 ? n.sent.id : some_id(c, &state, CNTR);
			} else if (lottery(&state) % 3 == 0) {
				d = stored(d, some_id(c, &state, CELL), &state);
			}
			ring_put(&n.tx, &d);
			d = recv_of(c->buf, len, ANY, i);
			ring_put(&n.rx, &d);
		}
		if (lottery(&state) % 4 == 0)
			uses_cells(c, &state, &n);
		ring_publish(&n.tx);
		ring_publish(&n.rx);
		put_id(c, &state, RING, n.tx.id);
		put_id(c, &state, EP, n.ep);
		while (MAY(ring_doorbell(&n.tx), ENOTCONN, ESHUTDOWN, EDESTADDRREQ) > 0)
			;
		put_id(c, &state, RING, n.rx.id);
		put_id(c, &state, CNTR, n.sent.id);
		MAY(ring_doorbell(&n.rx));
		put_id(c, &state, CQ, n.rcq.id);
		put_id(c, &state, AV, n.av);
		/* The rest is destroyed at once, maps first, so that these do not pile up. */
		munmap(n.tx.rw, n.tx.rw_map.length);
		munmap((void *)n.tx.ro, n.tx.ro_map.length);
		munmap(n.rx.rw, n.rx.rw_map.length);
		munmap((void *)n.rx.ro, n.rx.ro_map.length);
		munmap(n.cq.rw, n.cq.rw_map.length);
		munmap((void *)n.cq.ro, n.cq.ro_map.length);
		munmap(n.rcq.rw, n.rcq.rw_map.length);
		munmap((void *)n.rcq.ro, n.rcq.ro_map.length);
		munmap((void *)n.sent.page, PAGE);
		munmap((void *)n.rcvd.page, PAGE);
		MAY(destroy(c->fd, n.ep), EBUSY);
		MAY(destroy(c->fd, n.cq.id), EBUSY);
		MAY(destroy(c->fd, n.rcvd.id), EBUSY);
	}
	return NULL;
}

/* Creates cells, and writes one if they have not been closed. */
static void makes_cells(struct crowd *c, __u64 *state)
{
	struct cells cells;

	cells_open(&cells, c->fd, 8);
	put_id(c, state, CELL, cells.id);
	cell_write(&cells, 0, 1);
	munmap(cells.cell, cells.rw.length);
	munmap((void *)cells.done, cells.ro.length);
}

static void makes_regions(struct crowd *c, __u64 *state)
{
	struct treadle_iov iov = {(unsigned long)c->buf, sizeof(c->buf)};
	struct treadle_mr_create m = {.size = sizeof(m),
				      .flags = TREADLE_MR_KERNEL_KEY |
					       (lottery(state) % 2 ? TREADLE_MR_PINNED : 0),
				      .access = TREADLE_ACCESS_SEND | TREADLE_ACCESS_REMOTE_WRITE,
				      .iov_count = 1,
				      .iov = (unsigned long)&iov,
				      .cntr = lottery(state) % 2 ? some_id(c, state, CNTR) : 0,
				      .ep = lottery(state) % 2 ? some_id(c, state, EP) : 0};

	if (MAY(call(c->fd, TREADLE_IOC_MR_CREATE, &m)) == 0)
		put_id(c, state, MR, m.id);
}

/* Reads an event, if the queue is there. */
static void takes_event(struct crowd *c, int eq)
{
	struct treadle_event ev;

	if (MAY(event_take(eq, &ev), EAGAIN, ESHUTDOWN) > 0 && ev.event == TREADLE_EVENT_CONNREQ)
		__atomic_store_n(&c->request, ev.request, __ATOMIC_RELAXED);
}

/*
 * Creates an endpoint with events and all objects that it needs to be enabled; 0: there is no such
 * request.
 */
static __u32 makes_end(struct crowd *c, __u64 *state, __u32 type, int eq, __u32 request)
{
	struct treadle_ep_enable e = {.size = sizeof(e)};
	struct treadle_addr addr = loopback(0);
	struct cntr cntr;
	struct ring tx;
	struct cq cq;

	if (MAY(ep_create_as(c->fd, type, request, &addr, NULL, &e.ep), EBUSY) < 0)
		return 0;
	put_id(c, state, type == TREADLE_EP_PASSIVE ? PASSIVE : EP, e.ep);
	MAY(ep_eq(c->fd, e.ep, eq, 1), EISCONN);
	if (type == TREADLE_EP_PASSIVE) {
		MAY(listen_to(c->fd, e.ep, 0), EINVAL);
		__atomic_store_n(&c->port, addr.port, __ATOMIC_RELAXED);
		return e.ep;
	}
	tx_open(&tx, c->fd, 8);
	cq_open(&cq, c->fd, 8);
	cntr_open(&cntr, c->fd);
	e.tx = tx.id;
	e.tx_cq = cq.id;
	e.cntr_send = cntr.id;
	MAY(call(c->fd, TREADLE_IOC_EP_ENABLE, &e), EISCONN);
	put_id(c, state, RING, tx.id);
	put_id(c, state, CQ, cq.id);
	put_id(c, state, CNTR, cntr.id);
	ring_unmap(&tx);
	cq_unmap(&cq);
	munmap((void *)cntr.page, PAGE);
	return e.ep;
}

/* Asks for connections, and answers. Other threads close the objects meanwhile. */
static void *connects(void *arg)
{
	struct crowd *c = arg;
	__u64 state = gettid();

	while (storming()) {
		struct treadle_addr to;
		__u32 id = eq_create(c->fd), ep, pep;
		struct treadle_wait_fd f = {.size = sizeof(f), .id = id};
		int eq;

		need(call(c->fd, TREADLE_IOC_WAIT_FD, &f) == 0);
		eq = f.fd;
		put_id(c, &state, EQ, id);
		pep = makes_end(c, &state, TREADLE_EP_PASSIVE, eq, 0);
		for (int i = lottery(&state) % 8; i >= 0; i--) {
			to = loopback(0);
			to.port = __atomic_load_n(&c->port, __ATOMIC_RELAXED);
			ep = makes_end(c, &state, TREADLE_EP_MSG, eq, 0);
			MAY(connect_to(c->fd, ep, to, NULL, 0), EINVAL, ENOTCONN, EISCONN);
			takes_event(c, eq);
			ep = makes_end(c, &state, TREADLE_EP_MSG, eq, c->request);
			MAY(accept_with(c->fd, ep, NULL, 0), EINVAL, ENOTCONN, EISCONN, ECONNRESET,
			    ESHUTDOWN);
			if (lottery(&state) % 2)
				MAY(hang_up(c->fd, ep), ENOTCONN);
		}
		MAY(reject_with(c->fd, pep, c->request, NULL, 0));
		takes_event(c, eq);
		close(eq);
	}
	return NULL;
}

/* --- threads that use any object -------------------------------------------------------------- */

/*
 * Waits with a file, which outlives the object; an event queue's file is used for other calls, too.
 */
static long has_file(struct crowd *c, __u32 id, __u32 ep)
{
	struct treadle_wait_fd f = {.size = sizeof(f), .id = id};
	long result = MAY(call(c->fd, TREADLE_IOC_WAIT_FD, &f));
	struct treadle_event ev;

	if (result == 0) {
		struct pollfd p = {.fd = f.fd, .events = POLLIN};

		poll(&p, 1, 1);
		MAY(event_take(f.fd, &ev), EAGAIN, ESHUTDOWN);
		MAY(ep_eq(c->fd, ep, f.fd, 2), EISCONN, EOPNOTSUPP);
		close(f.fd);
	}
	return result;
}

static long makes_one(struct crowd *c, __u64 *state)
{
	struct treadle_addr addr = loopback(0);
	__u32 id;

	switch (lottery(state) % 4) {
	case 0:
		makes_cells(c, state);
		break;
	case 2: /* for EP_ENABLE */
		need(ep_create(c->fd, &addr, NULL, &id) == 0);
		put_id(c, state, EP, id);
		break;
	case 1:
		put_id(c, state, EQ, eq_create(c->fd));
		break;
	default:
		makes_regions(c, state);
	}
	return 0;
}

/* The kind of object that each call is for; -1: several kinds. */
static const int meant[] = {RING, -1, -1, -1,	   EP, CNTR, CELL,    0,  -1, AV,   AV,
			    AV,	  MR, EP, PASSIVE, EP, EP,   PASSIVE, EP, AV, CNTR, 0};

#define KINDS_OF_CALLS ((int)ARRAY_SIZE(meant))

/* Makes call @kind, with ids of any kind of object. */
static long meddle(struct crowd *c, int kind, __u64 *state)
{
	__u32 id = some_id(c, state, meant[kind] < 0 ? lottery(state) % KINDS : meant[kind]);
	__u32 cntr = some_id(c, state, CNTR), ep = some_id(c, state, EP);
	struct treadle_wait w = {.size = sizeof(w), .id = id, .timeout_ns = 1000};
	struct treadle_mr_bind b = {.size = sizeof(b), .mr = id, .cntr = cntr, .ep = ep};
	struct treadle_ep_enable e = {.size = sizeof(e), .ep = id, .cntr_send = cntr};
	struct treadle_av_remove r = {.size = sizeof(r), .av = id, .count = 1};
	struct treadle_av_lookup l = {.size = sizeof(l), .av = id};
	struct treadle_av_set_id s = {.size = sizeof(s), .av = id, .id = 1};
	struct treadle_cntr_copy copy = {.size = sizeof(copy), .cntr = id};
	struct treadle_addr addr = loopback(1);
	__u64 index = 0, context = lottery(state) % 8;
	__u32 count = 1, request = __atomic_load_n(&c->request, __ATOMIC_RELAXED);

	switch (kind) {
	case 0: /* or the error of a command in the ring */
		return MAY(doorbell(c->fd, id), ENOTCONN, ESHUTDOWN, EDESTADDRREQ);
	case 1:
		return MAY(destroy(c->fd, id), EBUSY);
	case 2:
		return MAY(call(c->fd, TREADLE_IOC_WAIT, &w), ETIMEDOUT, ECANCELED);
	case 3:
		return MAY(call(c->fd, TREADLE_IOC_SIGNAL, (void *)(unsigned long)id));
	case 4:
		return MAY(cancel(c->fd, TREADLE_CANCEL_OP, id, context, 0, NULL));
	case CANCELS_WORK:
		return MAY(cancel(c->fd, TREADLE_CANCEL_WORK, id, context, 1, NULL));
	case 6:
		return MAY(cancel(c->fd, TREADLE_FLUSH_WORK, id, 0, 0, NULL));
	case 7:
		return cancel(c->fd, TREADLE_FLUSH_WORK, 0, 0, 0, NULL);
	case 8:
		return has_file(c, id, ep);
	case 9:
		return MAY(av_insert(c->fd, id, &addr, &count, &index));
	case 10:
		r.indices = (unsigned long)&index;
		return MAY(call(c->fd, TREADLE_IOC_AV_REMOVE, &r));
	case 11:
		return MAY(call(c->fd, TREADLE_IOC_AV_LOOKUP, &l));
	case 12:
		return MAY(call(c->fd, TREADLE_IOC_MR_BIND, &b), EBUSY);
	case 13:
		e.rx = some_id(c, state, RING);
		return MAY(call(c->fd, TREADLE_IOC_EP_ENABLE, &e), EOPNOTSUPP, EISCONN, EBUSY);
	case 14:
		return MAY(listen_to(c->fd, id, 1), EOPNOTSUPP, EINVAL);
	case 15:
		addr.port = __atomic_load_n(&c->port, __ATOMIC_RELAXED);
		return MAY(connect_to(c->fd, id, addr, NULL, 0), EOPNOTSUPP, ENOTCONN, EINVAL,
			   EISCONN);
	case ACCEPTS:
		return MAY(accept_with(c->fd, id, NULL, 0), EOPNOTSUPP, ENOTCONN, EINVAL, EISCONN,
			   ECONNRESET, ESHUTDOWN);
	case REJECTS:
		return MAY(reject_with(c->fd, id, request, NULL, 0), EOPNOTSUPP);
	case 18:
		return MAY(hang_up(c->fd, id), EOPNOTSUPP, ENOTCONN);
	case ENDS_COPY:
		return MAY(call(c->fd, TREADLE_IOC_CNTR_COPY, &copy));
	case SETS_ID: /* the vectors have no identifiers */
		return MAY(call(c->fd, TREADLE_IOC_AV_SET_ID, &s), EINVAL);
	default:
		return makes_one(c, state);
	}
}

/* Makes each call that takes an id, with any id. */
static void *meddles(void *arg)
{
	struct crowd *c = arg;
	__u64 state = gettid();

	while (storming()) {
		int kind = lottery(&state) % KINDS_OF_CALLS;
		bool done = meddle(c, kind, &state) >= 0;

		__atomic_fetch_add(&c->done[done][kind], 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* CANCEL_WORK never finds armed work with that context; ACCEPT and REJECT seldom find a request. */
static bool each_was_done(const struct crowd *c)
{
	for (int i = 0; i < KINDS_OF_CALLS; i++) {
		bool done = i != CANCELS_WORK && i != ACCEPTS && i != REJECTS && i != SETS_ID;

		if (!__atomic_load_n(&c->done[done][i], __ATOMIC_RELAXED))
			return false;
	}
	return true;
}

TEST(objects_that_are_closed_while_they_are_used)
{
	struct crowd *c = shared(sizeof(*c));
	void *(*const roles[])(void *) = {uses, uses, meddles, meddles, connects};
	pthread_t t[ARRAY_SIZE(roles)];

	c->fd = device();
	set_sail(10 * SECONDS);
	for (int i = 0; i < ARRAY_SIZE(roles); i++)
		t[i] = thread(roles[i], c);
	/* more time on a slow machine */
	sleep(SECONDS);
	while (!each_was_done(c) && storming())
		usleep(100000);
	__atomic_store_n(&deadline, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < ARRAY_SIZE(roles); i++)
		pthread_join(t[i], NULL);
	close(c->fd);
	for (int i = 0; i < KINDS_OF_CALLS; i++) {
		note("call %d: %llu done, %llu refused", i, c->done[1][i], c->done[0][i]);
	}
	EXPECT_TRUE(each_was_done(c));
}

TEST(nothing_of_them_is_left)
{
	until_unused();
}

TEST_HARNESS_MAIN
