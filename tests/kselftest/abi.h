/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of all ioctls that abi.c sweeps over: a valid call of each, and the fields that a test
 * may spoil.
 */
#ifndef TREADLE_KSELFTEST_ABI_H
#define TREADLE_KSELFTEST_ABI_H

#include "treadle.h"

enum kind { CQ, CNTR, AV, MR, TX, RX, EP, EQ, CELL, KINDS };

static char region[PAGE];

FIXTURE(abi)
{
	int fd, eq_fd;
	__u32 id[KINDS];
	__u32 request; /* the last one */
};

static struct treadle_iov region_iov = {(unsigned long)region, sizeof(region)};

static int create(int fd, enum kind kind, __u32 *id)
{
	struct treadle_cq_create cq = {.size = sizeof(cq), .entries = 8};
	struct treadle_cntr_create cntr = {.size = sizeof(cntr)};
	struct treadle_av_create av = {.size = sizeof(av), .flags = TREADLE_AV_IDS};
	struct treadle_mr_create mr = {.size = sizeof(mr),
				       .flags = TREADLE_MR_KERNEL_KEY,
				       .access = TREADLE_ACCESS_SEND,
				       .iov_count = 1,
				       .iov = (unsigned long)&region_iov};
	struct treadle_ring_create ring = {.size = sizeof(ring), .entries = 8};
	struct treadle_eq_create eq = {.size = sizeof(eq)};
	struct treadle_cell_create cell = {.size = sizeof(cell), .count = 8};
	unsigned long ring_cmd = kind == TX ? TREADLE_IOC_TX_CREATE : TREADLE_IOC_RX_CREATE;
	struct treadle_addr addr = loopback(0);
	int result;

	switch (kind) {
	case CQ:
		result = call(fd, TREADLE_IOC_CQ_CREATE, &cq);
		*id = cq.id;
		return result;
	case CNTR:
		result = call(fd, TREADLE_IOC_CNTR_CREATE, &cntr);
		*id = cntr.id;
		return result;
	case AV:
		result = call(fd, TREADLE_IOC_AV_CREATE, &av);
		*id = av.id;
		return result;
	case MR:
		result = call(fd, TREADLE_IOC_MR_CREATE, &mr);
		*id = mr.id;
		return result;
	case TX:
	case RX:
		result = call(fd, ring_cmd, &ring);
		*id = ring.id;
		return result;
	case EQ:
		result = call(fd, TREADLE_IOC_EQ_CREATE, &eq);
		*id = eq.id;
		return result;
	case CELL:
		result = call(fd, TREADLE_IOC_CELL_CREATE, &cell);
		*id = cell.id;
		return result;
	default:
		return ep_create(fd, &addr, NULL, id);
	}
}

FIXTURE_SETUP(abi)
{
	self->fd = device();
	self->eq_fd = -1;
	for (int kind = 0; kind < KINDS; kind++) {
		ASSERT_EQ(0, create(self->fd, kind, &self->id[kind]));
	}
}

FIXTURE_TEARDOWN(abi)
{
	close(self->fd);
	close(self->eq_fd);
}

/* --- valid calls, to be spoiled -------------------------------------------- */

typedef FIXTURE_DATA(abi) world;

static struct treadle_addr one_addr;
static __u64 one_index;

static void valid_cq(world *w, void *arg)
{
	((struct treadle_cq_create *)arg)->entries = 8;
}

static void valid_cells(world *w, void *arg)
{
	((struct treadle_cell_create *)arg)->count = 8;
}

static void valid_ring(world *w, void *arg)
{
	((struct treadle_ring_create *)arg)->entries = 8;
}

static void valid_nothing(world *w, void *arg) {}

static void valid_insert(world *w, void *arg)
{
	struct treadle_av_insert *a = arg;

	one_addr = loopback(7000);
	a->av = w->id[AV];
	a->count = 1;
	a->addrs = (unsigned long)&one_addr;
	a->out = (unsigned long)&one_index;
}

static void insert_one(world *w)
{
	struct treadle_av_insert a = {.size = sizeof(a)};

	valid_insert(w, &a);
	need(call(w->fd, TREADLE_IOC_AV_INSERT, &a) == 0);
}

static void valid_remove(world *w, void *arg)
{
	struct treadle_av_remove *a = arg;

	insert_one(w);
	a->av = w->id[AV];
	a->count = 1;
	a->indices = (unsigned long)&one_index;
}

static void valid_lookup(world *w, void *arg)
{
	struct treadle_av_lookup *a = arg;

	insert_one(w);
	a->av = w->id[AV];
	a->index = one_index;
}

static void valid_set_id(world *w, void *arg)
{
	struct treadle_av_set_id *a = arg;

	insert_one(w);
	a->av = w->id[AV];
	a->index = one_index;
	a->id = 5;
}

static void valid_ep(world *w, void *arg)
{
	struct treadle_ep_create *a = arg;

	a->type = TREADLE_EP_RDM;
	a->addr = loopback(0);
}

static void valid_context(world *w, void *arg)
{
	struct treadle_ep_create parent = {.size = sizeof(parent), .flags = TREADLE_EP_SCALABLE};
	struct treadle_ep_create *a = arg;

	valid_ep(w, &parent);
	need(call(w->fd, TREADLE_IOC_EP_CREATE, &parent) == 0);
	a->flags = TREADLE_EP_TX_CONTEXT;
	a->parent = parent.id;
}

static void valid_enable(world *w, void *arg)
{
	struct treadle_ep_enable *a = arg;

	/* An endpoint is enabled once, and its rings are its own. */
	need(create(w->fd, EP, &a->ep) == 0);
	need(create(w->fd, TX, &a->tx) == 0);
	need(create(w->fd, RX, &a->rx) == 0);
	a->av = w->id[AV];
	a->tx_cq = a->rx_cq = w->id[CQ];
	a->cntr_send = a->cntr_recv = a->cntr_read = a->cntr_write = w->id[CNTR];
	a->cntr_remote_read = a->cntr_remote_write = w->id[CNTR];
}

static void valid_mr(world *w, void *arg)
{
	struct treadle_mr_create *a = arg;

	a->flags = TREADLE_MR_KERNEL_KEY;
	a->access = TREADLE_ACCESS_SEND;
	a->iov_count = 1;
	a->iov = (unsigned long)&region_iov;
}

static void valid_bind(world *w, void *arg)
{
	struct treadle_mr_bind *a = arg;

	/* A region is bound once to each. */
	need(create(w->fd, MR, &a->mr) == 0);
	a->cntr = w->id[CNTR];
	a->ep = w->id[EP];
}

static void valid_copy(world *w, void *arg)
{
	struct treadle_cntr_copy *a = arg;

	/* A counter has one copy. */
	need(create(w->fd, CNTR, &a->cntr) == 0);
	a->cells = w->id[CELL];
}

static void valid_destroy(world *w, void *arg)
{
	need(create(w->fd, AV, &((struct treadle_destroy *)arg)->id) == 0);
}

static void valid_cancel_op(world *w, void *arg)
{
	((struct treadle_cancel *)arg)->id = w->id[EP];
}

static void valid_cancel_work(world *w, void *arg)
{
	((struct treadle_cancel *)arg)->kind = TREADLE_CANCEL_WORK;
	((struct treadle_cancel *)arg)->id = w->id[CNTR];
}

static void valid_flush_work(world *w, void *arg)
{
	((struct treadle_cancel *)arg)->kind = TREADLE_FLUSH_WORK;
	((struct treadle_cancel *)arg)->id = w->id[CNTR];
}

static void valid_wait(world *w, void *arg)
{
	((struct treadle_wait *)arg)->id = w->id[CQ];
}

static void valid_wait_fd(world *w, void *arg)
{
	((struct treadle_wait_fd *)arg)->id = w->id[CQ];
}

/* --- connections: each call is for an endpoint of its own --------------------- */

static int eq_fd_of(world *w)
{
	struct treadle_wait_fd f = {.size = sizeof(f), .id = w->id[EQ]};

	if (w->eq_fd < 0) {
		need(call(w->fd, TREADLE_IOC_WAIT_FD, &f) == 0);
		w->eq_fd = f.fd;
	}
	return w->eq_fd;
}

static __u32 ep_with_eq(world *w, __u32 type, __u32 request, struct treadle_addr *addr)
{
	struct treadle_ep_eq e = {.size = sizeof(e), .eq_fd = eq_fd_of(w)};
	struct treadle_ep_enable enable = {.size = sizeof(enable)};

	*addr = loopback(0);
	need(ep_create_as(w->fd, type, request, addr, NULL, &e.ep) == 0);
	need(call(w->fd, TREADLE_IOC_EP_EQ, &e) == 0);
	enable.ep = e.ep;
	if (type == TREADLE_EP_MSG)
		need(call(w->fd, TREADLE_IOC_EP_ENABLE, &enable) == 0);
	return e.ep;
}

/* A passive endpoint that listens. */
static __u32 listener(world *w, struct treadle_addr *addr)
{
	struct treadle_listen l = {.size = sizeof(l)};

	l.ep = ep_with_eq(w, TREADLE_EP_PASSIVE, 0, addr);
	need(call(w->fd, TREADLE_IOC_LISTEN, &l) == 0);
	return l.ep;
}

/* Sends one more request to a new listener, and returns the listener. */
static __u32 asked(world *w, __u32 *request)
{
	struct treadle_connect c = {.size = sizeof(c)};
	struct treadle_addr nowhere;
	struct treadle_event ev;
	__u32 pep = listener(w, &c.addr);

	c.ep = ep_with_eq(w, TREADLE_EP_MSG, 0, &nowhere);
	need(call(w->fd, TREADLE_IOC_CONNECT, &c) == 0);
	do /* events of earlier calls come first */
		need(read(eq_fd_of(w), &ev, sizeof(ev)) > 0);
	while (ev.event != TREADLE_EVENT_CONNREQ || ev.request <= w->request);
	*request = w->request = ev.request;
	return pep;
}

static void valid_ep_eq(world *w, void *arg)
{
	struct treadle_addr addr = loopback(0);
	struct treadle_ep_eq *a = arg;

	a->eq_fd = eq_fd_of(w);
	need(ep_create_as(w->fd, TREADLE_EP_PASSIVE, 0, &addr, NULL, &a->ep) == 0);
}

static void valid_listen(world *w, void *arg)
{
	struct treadle_addr addr;

	((struct treadle_listen *)arg)->ep = ep_with_eq(w, TREADLE_EP_PASSIVE, 0, &addr);
}

static void valid_connect(world *w, void *arg)
{
	struct treadle_connect *a = arg;
	struct treadle_addr nowhere;

	a->ep = ep_with_eq(w, TREADLE_EP_MSG, 0, &nowhere);
	a->addr = loopback(1); /* no endpoint has this address */
}

static void valid_accept(world *w, void *arg)
{
	struct treadle_addr addr;
	__u32 request;

	asked(w, &request);
	((struct treadle_accept *)arg)->ep = ep_with_eq(w, TREADLE_EP_MSG, request, &addr);
}

static void valid_reject(world *w, void *arg)
{
	struct treadle_reject *a = arg;

	a->ep = asked(w, &a->request);
}

static void valid_shutdown(world *w, void *arg)
{
	struct treadle_accept a = {.size = sizeof(a)};

	valid_accept(w, &a);
	need(call(w->fd, TREADLE_IOC_ACCEPT, &a) == 0);
	((struct treadle_shutdown *)arg)->ep = a.ep;
}

/* An endpoint of its own looks at itself. */
static void valid_window_open(world *w, void *arg)
{
	struct treadle_window_open *a = arg;
	struct node n;
	__u32 id;

	region[0] = 1;
	node_open(&n, (struct options){.context = w->fd, .tx = 32, .rx = 32, .cq = 32, .rcq = 32});
	need(mr(w->fd, region, sizeof(region), TREADLE_ACCESS_REMOTE_READ, TREADLE_MR_KERNEL_KEY,
		&a->key, &id) == 0);
	a->ep = n.ep;
	a->access = TREADLE_ACCESS_REMOTE_READ;
	a->peer = peer(&n, n.addr);
	a->len = 8;
}

static void valid_window_fill(world *w, void *arg)
{
	struct treadle_window_open open = {.size = sizeof(open)};
	struct treadle_window_fill *a = arg;

	valid_window_open(w, &open);
	need(call(w->fd, TREADLE_IOC_WINDOW_OPEN, &open) == 0);
	a->window = open.id;
	a->len = 8;
}

static __u32 lane_ring; /* of the last lane_node() */

/* An endpoint of its own, which offers lanes to itself. */
static void lane_node(world *w, struct node *n)
{
	node_open(n, (struct options){.context = w->fd,
				      .tx = 32,
				      .rx = 32,
				      .cq = 32,
				      .rcq = 32,
				      .rx_flags = TREADLE_RX_LANES});
	lane_ring = n->rx.id;
}

/* Takes what was offered, and closes it. */
static inline void close_offers(const world *w)
{
	struct treadle_lane_take take = {.size = sizeof(take), .rx = lane_ring};

	while (call(w->fd, TREADLE_IOC_LANE_TAKE, &take) == 0)
		need(destroy(w->fd, take.id) == 0);
}

static void valid_lane_make(world *w, void *arg)
{
	struct treadle_lane_make *a = arg;
	struct node n;

	lane_node(w, &n);
	a->ep = n.ep;
	a->peer = peer(&n, n.addr);
}

static void valid_lane_take(world *w, void *arg)
{
	struct treadle_lane_make make = {.size = sizeof(make)};
	struct treadle_lane_take *a = arg;
	struct node n;

	lane_node(w, &n);
	make.ep = n.ep;
	make.peer = peer(&n, n.addr);
	/* two: if the answer can't be written, the lane is closed */
	for (int i = 0; i < 2; i++)
		need(call(w->fd, TREADLE_IOC_LANE_MAKE, &make) == 0);
	a->rx = n.rx.id;
}

static void valid_lane_source(world *w, void *arg)
{
	struct treadle_lane_take take = {.size = sizeof(take)};
	struct treadle_lane_source *a = arg;

	valid_lane_take(w, &take);
	need(call(w->fd, TREADLE_IOC_LANE_TAKE, &take) == 0);
	a->lane = take.id;
}

/* clang-format off */
#define CASE(NAME, bytes, outcome, prepare) \
	.name = #NAME, .cmd = TREADLE_IOC_##NAME, .size = bytes, .result = outcome, .valid = prepare
#define AT(type, field, known) { offsetof(struct type, field), known }
#define ID(type, field, kinds) { offsetof(struct type, field), kinds }
#define NONE_OK (1U << 31)
#define ENABLE_FLAGS (TREADLE_EP_SOURCE | TREADLE_EP_SOURCE_ERR | TREADLE_EP_RECV_COMPLETION | \
		      TREADLE_EP_NO_RMA | TREADLE_EP_NO_ATOMIC | TREADLE_EP_NO_REMOTE_READ | \
		      TREADLE_EP_NO_REMOTE_WRITE)

static const struct row {
	const char *name;
	unsigned long cmd;
	__u32 size;				/* of the first release: never changes */
	__u32 grown;				/* of this one, if it is larger */
	int result;				/* of a valid call */
	void (*valid)(world *w, void *arg);
	struct { __u32 at, known; } flags[4];	/* 32-bit fields and the bits they may have */
	struct { __u32 at, kinds; } ids[12];	/* ids and the kinds they may be of */
} rows[] = {
	{ CASE(QUERY, 72, 0, valid_nothing), .grown = 96 },
	{ CASE(CQ_CREATE, 48, 0, valid_cq), { AT(treadle_cq_create, flags, 0) } },
	{ CASE(CNTR_CREATE, 32, 0, valid_nothing),
	  { AT(treadle_cntr_create, flags, TREADLE_CNTR_BYTES),
	    AT(treadle_cntr_create, reserved, 0) } },
	{ CASE(AV_CREATE, 16, 0, valid_nothing), .grown = 32, .flags =
	  { AT(treadle_av_create, flags, TREADLE_AV_READ | TREADLE_AV_IDS),
	    AT(treadle_av_create, rx_ctx_bits, 31) } },
	{ CASE(AV_INSERT, 32, 0, valid_insert), .grown = 40, .flags =
	  { AT(treadle_av_insert, flags, 0) }, .ids =
	  { ID(treadle_av_insert, av, 1 << AV) } },
	{ CASE(AV_REMOVE, 24, 0, valid_remove), { AT(treadle_av_remove, flags, 0) },
	  { ID(treadle_av_remove, av, 1 << AV) } },
	{ CASE(AV_LOOKUP, 40, 0, valid_lookup), .grown = 72, .flags =
	  { AT(treadle_av_lookup, reserved, 0) }, .ids =
	  { ID(treadle_av_lookup, av, 1 << AV) } },
	{ CASE(AV_SET_ID, 24, 0, valid_set_id), {}, { ID(treadle_av_set_id, av, 1 << AV) } },
	{ CASE(TX_CREATE, 56, 0, valid_ring),
	  { AT(treadle_ring_create, flags, TREADLE_TX_SHARED | TREADLE_TX_POLLED),
	    AT(treadle_ring_create, idle, 0), AT(treadle_ring_create, buffered, 0) } },
	{ CASE(RX_CREATE, 56, 0, valid_ring),
	  { AT(treadle_ring_create, flags, TREADLE_RX_SHARED | TREADLE_RX_LANES),
	    AT(treadle_ring_create, idle, 0) } },
	{ CASE(EP_CREATE, 56, 0, valid_ep), .grown = 64, .flags =
	  { AT(treadle_ep_create, flags, TREADLE_EP_SCALABLE), AT(treadle_ep_create, request, 0),
	    AT(treadle_ep_create, parent, 0), AT(treadle_ep_create, index, 0) } },
	{ CASE(EP_CREATE, 56, 0, valid_context), .grown = 64, .flags =
	  { AT(treadle_ep_create, flags, TREADLE_EP_TX_CONTEXT), AT(treadle_ep_create, type, 0),
	    AT(treadle_ep_create, request, 0), AT(treadle_ep_create, index, 0) }, .ids =
	  { ID(treadle_ep_create, parent, 1 << EP) } },
	{ CASE(EP_ENABLE, 56, 0, valid_enable),
	  { AT(treadle_ep_enable, flags, ENABLE_FLAGS) },
	  { ID(treadle_ep_enable, ep, 1 << EP),
	    ID(treadle_ep_enable, tx, 1 << TX | NONE_OK),
	    ID(treadle_ep_enable, rx, 1 << RX | NONE_OK),
	    ID(treadle_ep_enable, av, 1 << AV | NONE_OK),
	    ID(treadle_ep_enable, tx_cq, 1 << CQ | NONE_OK),
	    ID(treadle_ep_enable, rx_cq, 1 << CQ | NONE_OK),
	    ID(treadle_ep_enable, cntr_send, 1 << CNTR | NONE_OK),
	    ID(treadle_ep_enable, cntr_recv, 1 << CNTR | NONE_OK),
	    ID(treadle_ep_enable, cntr_read, 1 << CNTR | NONE_OK),
	    ID(treadle_ep_enable, cntr_write, 1 << CNTR | NONE_OK),
	    ID(treadle_ep_enable, cntr_remote_read, 1 << CNTR | NONE_OK),
	    ID(treadle_ep_enable, cntr_remote_write, 1 << CNTR | NONE_OK) } },
	{ CASE(MR_CREATE, 56, 0, valid_mr), .grown = 80, .flags =
	  { AT(treadle_mr_create, flags, 31), AT(treadle_mr_create, access, 63),
	    AT(treadle_mr_create, reserved, 0) }, .ids =
	  { ID(treadle_mr_create, cntr, 1 << CNTR | NONE_OK),
	    ID(treadle_mr_create, ep, 1 << EP | NONE_OK) } },
	{ CASE(MR_BIND, 24, 0, valid_bind),
	  { AT(treadle_mr_bind, flags, 0), AT(treadle_mr_bind, reserved, 0) },
	  { ID(treadle_mr_bind, mr, 1 << MR),
	    ID(treadle_mr_bind, cntr, 1 << CNTR | NONE_OK),
	    ID(treadle_mr_bind, ep, 1 << EP | NONE_OK) } },
	{ CASE(DESTROY, 8, 0, valid_destroy), {}, { ID(treadle_destroy, id, (1 << KINDS) - 1) } },
	{ CASE(CANCEL, 40, -ENOENT, valid_cancel_op),
	  { AT(treadle_cancel, flags, 3), AT(treadle_cancel, kind, 3) },
	  { ID(treadle_cancel, id, 1 << EP) } },
	{ CASE(CANCEL, 40, -ENOENT, valid_cancel_work), { AT(treadle_cancel, flags, 0) },
	  { ID(treadle_cancel, id, 1 << CNTR | 1 << CELL) } },
	{ CASE(CANCEL, 40, 0, valid_flush_work), { AT(treadle_cancel, flags, 0) },
	  { ID(treadle_cancel, id, 1 << CNTR | 1 << CELL | NONE_OK) } },
	{ CASE(WAIT, 40, -EAGAIN, valid_wait), { AT(treadle_wait, flags, TREADLE_WAIT_SIGNALS) },
	  { ID(treadle_wait, id, 1 << CQ | 1 << CNTR | 1 << EQ) } },
	{ CASE(WAIT_FD, 16, 0, valid_wait_fd), { AT(treadle_wait_fd, flags, 0) },
	  { ID(treadle_wait_fd, id, 1 << CQ | 1 << CNTR | 1 << EQ) } },
	{ CASE(EQ_CREATE, 16, 0, valid_nothing),
	  { AT(treadle_eq_create, flags, 0), AT(treadle_eq_create, reserved, 0) } },
	{ CASE(CELL_CREATE, 48, 0, valid_cells), { AT(treadle_cell_create, flags, 0) } },
	{ CASE(CNTR_COPY, 24, 0, valid_copy), { AT(treadle_cntr_copy, flags, 0) },
	  { ID(treadle_cntr_copy, cntr, 1 << CNTR), ID(treadle_cntr_copy, cells, 1 << CELL) } },
	{ CASE(EP_EQ, 24, 0, valid_ep_eq), { AT(treadle_ep_eq, flags, 0) },
	  { ID(treadle_ep_eq, ep, 1 << EP) } },
	{ CASE(LISTEN, 16, 0, valid_listen), { AT(treadle_listen, flags, 0) },
	  { ID(treadle_listen, ep, 1 << EP) } },
	{ CASE(CONNECT, 48, 0, valid_connect), { AT(treadle_connect, flags, 0) },
	  { ID(treadle_connect, ep, 1 << EP) } },
	{ CASE(ACCEPT, 24, 0, valid_accept), { AT(treadle_accept, flags, 0) },
	  { ID(treadle_accept, ep, 1 << EP) } },
	{ CASE(REJECT, 32, 0, valid_reject),
	  { AT(treadle_reject, flags, 0), AT(treadle_reject, reserved, 0) },
	  { ID(treadle_reject, ep, 1 << EP) } },
	{ CASE(WINDOW_OPEN, 96, 0, valid_window_open),
	  { AT(treadle_window_open, flags, 0), AT(treadle_window_open, reserved, 0),
	    AT(treadle_window_open, access, 48) },
	  { ID(treadle_window_open, ep, 1 << EP) } },
	{ CASE(WINDOW_FILL, 32, 0, valid_window_fill),
	  { AT(treadle_window_fill, flags, 0), AT(treadle_window_fill, reserved, 0) },
	  { ID(treadle_window_fill, window, 0) } },
	{ CASE(LANE_MAKE, 64, 0, valid_lane_make),
	  { AT(treadle_lane_make, flags, 0), AT(treadle_lane_make, reserved, 0) },
	  { ID(treadle_lane_make, ep, 1 << EP) } },
	{ CASE(LANE_TAKE, 40, 0, valid_lane_take),
	  { AT(treadle_lane_take, flags, 0), AT(treadle_lane_take, reserved, 0) },
	  { ID(treadle_lane_take, rx, 1 << RX) } },
	{ CASE(LANE_SOURCE, 24, 0, valid_lane_source),
	  { AT(treadle_lane_source, flags, 0), AT(treadle_lane_source, reserved, 0) },
	  { ID(treadle_lane_source, lane, 0) } },
	{ CASE(SHUTDOWN, 16, 0, valid_shutdown),
	  { AT(treadle_shutdown, flags, 0), AT(treadle_shutdown, reserved, 0) },
	  { ID(treadle_shutdown, ep, 1 << EP) } },
};

/* clang-format on */

/* Room for what a program of the future knows besides. */
struct arg {
	union {
		__u32 size;
		__u32 words[32];
		unsigned char bytes[128];
	};
	unsigned char future[64];
};

static __u32 size_now(const struct row *row)
{
	return row->grown ?: row->size;
}

static inline struct arg prepare(const struct row *row, world *w)
{
	struct arg arg = {0};

	row->valid(w, &arg);
	arg.size = size_now(row);
	return arg;
}

#endif
