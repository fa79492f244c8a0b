/* SPDX-License-Identifier: GPL-2.0 */
/* The random walk of fuzz.c: steps that create, bind, connect and destroy objects. */
#ifndef TREADLE_KSELFTEST_FUZZ_OBJECTS_H
#define TREADLE_KSELFTEST_FUZZ_OBJECTS_H

#include "fuzz.h"

/* --- objects ----------------------------------------------------------------------------- */

static void makes_queue(struct walker *w, struct file *f)
{
	struct treadle_cq_create c = {.size = sizeof(c), .entries = 1 + roll(w, 64)};
	struct cq *q = &PICK(w, f->cq);

	if (TRY(w, f, TREADLE_IOC_CQ_CREATE, &c))
		return;
	remember(w, f, CQ, c.id);
	remember_area(f, c.id, c.rw, c.ro);
	q->ro = mmap(NULL, c.ro.length, PROT_READ, MAP_SHARED, f->fd, c.ro.offset);
	q->rw = mmap(NULL, c.rw.length, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, c.rw.offset);
}

/* Creates a ring; returns its id, or 0. */
static __u32 makes_one_ring(struct walker *w, struct file *f, bool tx, __u32 flags)
{
	struct treadle_ring_create c = {.size = sizeof(c),
					.flags = flags,
					.entries = 1 + roll(w, 64),
					.buffered = tx ? 0 : roll(w, 70000)};
	__u32 place = roll(w, KNOWN);
	struct ring new = {.fd = f->fd};
	void *ro, *rw;

	if (TRY(w, f, tx ? TREADLE_IOC_TX_CREATE : TREADLE_IOC_RX_CREATE, &c))
		return 0;
	remember(w, f, tx ? TX : RX, c.id);
	remember_area(f, c.id, c.rw, c.ro);
	rw = mmap(NULL, c.rw.length, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, c.rw.offset);
	ro = mmap(NULL, c.ro.length, PROT_READ, MAP_SHARED, f->fd, c.ro.offset);
	if (rw == MAP_FAILED || ro == MAP_FAILED)
		return 0;
	new.id = c.id;
	new.rw_map = c.rw;
	new.entries = c.entries;
	new.rw = rw;
	new.ro = ro;
	new.slots = (void *)((char *)rw + TREADLE_SLOTS_OFFSET);
	f->ring[place] = new;
	f->receives[place] = !tx;
	return c.id;
}

static void makes_ring(struct walker *w, struct file *f)
{
	makes_one_ring(w, f, one_in(w, 2), some_flags(w, 1));
}

static void makes_endpoint(struct walker *w, struct file *f)
{
	static const __u32 types[] = {TREADLE_EP_RDM, TREADLE_EP_RDM,	  TREADLE_EP_MSG,
				      TREADLE_EP_MSG, TREADLE_EP_PASSIVE, TREADLE_EP_DGRAM};
	struct treadle_ep_create c = {
		.size = sizeof(c),
		.type = PICK(w, types),
		.flags = one_in(w, 4) ? some_flags(w, 7) : 0,
		.addr = one_in(w, 8) ? some_addr(w) : loopback(0),
	};

	if (c.type == TREADLE_EP_MSG && one_in(w, 2)) {
		c.request = PICK(w, town->request);
		memset(&c.addr, 0, sizeof(c.addr));
	}
	if (c.flags) {
		c.parent = one_in(w, 2) ? some_id(w, f, EP) : 0;
		c.index = roll(w, 4);
	}
	if (TRY(w, f, TREADLE_IOC_EP_CREATE, &c))
		return;
	remember(w, f, EP, c.id);
	PICK(w, town->addr) = c.addr;
}

static void makes_region(struct walker *w, struct file *f)
{
	struct treadle_iov *iov = w->desk->iov;
	struct treadle_mr_create c = {.size = sizeof(c),
				      .flags = some_flags(w, 15),
				      .access = one_in(w, 4) ? some_flags(w, 0x3f) : 0x3f,
				      .iov_count = one_in(w, 4) ? roll(w, 10) : 1,
				      .iov = (unsigned long)iov,
				      .cntr = one_in(w, 8) ? some_id(w, f, CNTR) : 0,
				      .ep = one_in(w, 8) ? some_id(w, f, EP) : 0};
	__u32 place = roll(w, PUBLIC);

	if (!(c.flags & TREADLE_MR_KERNEL_KEY))
		c.key = some_number(w);
	for (__u32 i = 0; i < TREADLE_MAX_MR_IOV; i++)
		iov[i] = (struct treadle_iov){(unsigned long)somewhere(w), some_length(w)};
	if (TRY(w, f, TREADLE_IOC_MR_CREATE, &c))
		return;
	remember(w, f, MR, c.id);
	town->key[place] = c.key;
	town->at[place] = c.flags & TREADLE_MR_VIRT_ADDR ? iov[0].addr : 0;
}

static void makes_others(struct walker *w, struct file *f)
{
	struct treadle_cntr_create cntr = {.size = sizeof(cntr)};
	struct treadle_av_create av = {.size = sizeof(av), .count = roll(w, 100)};
	struct treadle_eq_create eq = {.size = sizeof(eq)};
	struct treadle_wait_fd wait = {.size = sizeof(wait)};
	struct treadle_cell_create cells = {.size = sizeof(cells), .count = 1 + roll(w, 600)};
	int *place = &PICK(w, f->eq);
	void *at;

	switch (roll(w, 4)) {
	case 0:
		if (TRY(w, f, TREADLE_IOC_CNTR_CREATE, &cntr) == 0) {
			remember(w, f, CNTR, cntr.id);
			remember_area(f, cntr.id, cntr.ro, cntr.ro);
		}
		break;
	case 1:
		if (one_in(w, 4)) {
			av.name = (unsigned long)w->desk->name;
			av.name_size = 1 + roll(w, 3);
			av.flags = some_flags(w, TREADLE_AV_READ);
		} else {
			av.flags = some_flags(w, TREADLE_AV_IDS);
			av.rx_ctx_bits = one_in(w, 4) ? roll(w, 18) : 0;
		}
		if (TRY(w, f, TREADLE_IOC_AV_CREATE, &av) == 0)
			remember(w, f, AV, av.id);
		break;
	case 2:
		if (TRY(w, f, TREADLE_IOC_CELL_CREATE, &cells))
			return;
		remember(w, f, CELL, cells.id);
		remember_area(f, cells.id, cells.rw, cells.ro);
		at = mmap(NULL, cells.rw.length, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd,
			  cells.rw.offset);
		if (at != MAP_FAILED)
			PICK(w, f->cells) = at;
		break;
	default:
		if (TRY(w, f, TREADLE_IOC_EQ_CREATE, &eq))
			return;
		remember(w, f, EQ, eq.id);
		wait.id = eq.id;
		if (TRY(w, f, TREADLE_IOC_WAIT_FD, &wait) == 0) {
			int before = __atomic_exchange_n(place, wait.fd, __ATOMIC_RELAXED);

			if (before > 0)
				close(before);
		}
	}
}

static void enables(struct walker *w, struct file *f)
{
	struct treadle_ep_enable c = {
		.size = sizeof(c),
		.ep = some_id(w, f, EP),
		.flags = some_flags(w, 7),
		.tx = some_id(w, f, TX),
		.rx = some_id(w, f, RX),
		.av = perhaps_id(w, f, AV),
		.tx_cq = some_id(w, f, CQ),
		.rx_cq = some_id(w, f, CQ),
		.cntr_send = perhaps_id(w, f, CNTR),
		.cntr_recv = perhaps_id(w, f, CNTR),
		.cntr_read = perhaps_id(w, f, CNTR),
		.cntr_write = perhaps_id(w, f, CNTR),
		.cntr_remote_read = perhaps_id(w, f, CNTR),
		.cntr_remote_write = perhaps_id(w, f, CNTR),
	};

	TRY(w, f, TREADLE_IOC_EP_ENABLE, &c);
}

/* An endpoint with all objects that it needs, and with some peers in its vector. */
static struct treadle_ep_enable settle(struct walker *w, struct file *f, __u32 rx_flags)
{
	static const __u32 types[] = {TREADLE_EP_RDM, TREADLE_EP_RDM, TREADLE_EP_RDM,
				      TREADLE_EP_DGRAM};
	struct treadle_cq_create cq = {.size = sizeof(cq), .entries = 1 + roll(w, 64)};
	struct treadle_av_create av = {.size = sizeof(av), .count = 8};
	struct treadle_ep_create ep = {
		.size = sizeof(ep), .type = PICK(w, types), .addr = loopback(0)};
	struct treadle_av_insert insert = {
		.size = sizeof(insert), .count = 4, .addrs = (unsigned long)w->desk->addrs};
	struct treadle_ep_enable enable = {.size = sizeof(enable),
					   .flags = roll(w, 2),
					   .cntr_send = perhaps_id(w, f, CNTR),
					   .cntr_recv = perhaps_id(w, f, CNTR)};

	if (TRY(w, f, TREADLE_IOC_CQ_CREATE, &cq) || TRY(w, f, TREADLE_IOC_AV_CREATE, &av) ||
	    TRY(w, f, TREADLE_IOC_EP_CREATE, &ep))
		return enable;
	remember(w, f, EP, ep.id);
	remember(w, f, AV, av.id);
	remember(w, f, CQ, cq.id);
	PICK(w, town->addr) = ep.addr;
	w->desk->addrs[0] = ep.addr;
	for (int i = 1; i < 4; i++)
		w->desk->addrs[i] = some_addr(w);
	insert.av = enable.av = av.id;
	TRY(w, f, TREADLE_IOC_AV_INSERT, &insert);
	enable.ep = ep.id;
	enable.tx_cq = enable.rx_cq = cq.id;
	enable.tx = makes_one_ring(w, f, true, 0);
	enable.rx = makes_one_ring(w, f, false, rx_flags);
	TRY(w, f, TREADLE_IOC_EP_ENABLE, &enable);
	return enable;
}

static void settles(struct walker *w, struct file *f)
{
	settle(w, f, 0);
}

/* Endpoints that share rings, or are contexts of a scalable one. */
static void shares(struct walker *w, struct file *f)
{
	static const __u32 kinds[] = {TREADLE_EP_TX_CONTEXT, TREADLE_EP_RX_CONTEXT};
	struct treadle_cq_create cq = {.size = sizeof(cq), .entries = 1 + roll(w, 64)};
	struct treadle_av_create av = {.size = sizeof(av), .count = 8, .rx_ctx_bits = roll(w, 3)};
	struct treadle_ep_create whole = {.size = sizeof(whole),
					  .type = one_in(w, 4) ? TREADLE_EP_DGRAM : TREADLE_EP_RDM,
					  .flags = TREADLE_EP_SCALABLE,
					  .addr = loopback(0)};
	struct treadle_av_insert insert = {
		.size = sizeof(insert), .count = 4, .addrs = (unsigned long)w->desk->addrs};
	__u32 tx = makes_one_ring(w, f, true, TREADLE_TX_SHARED);
	__u32 rx = makes_one_ring(w, f, false, TREADLE_RX_SHARED);
	bool scalable = one_in(w, 2);

	if (TRY(w, f, TREADLE_IOC_CQ_CREATE, &cq) || TRY(w, f, TREADLE_IOC_AV_CREATE, &av))
		return;
	remember(w, f, AV, av.id);
	if (scalable && TRY(w, f, TREADLE_IOC_EP_CREATE, &whole) == 0) {
		remember(w, f, EP, whole.id);
		PICK(w, town->addr) = whole.addr;
	}
	for (int i = 0; i < 4; i++)
		w->desk->addrs[i] = some_addr(w);
	insert.av = av.id;
	TRY(w, f, TREADLE_IOC_AV_INSERT, &insert);
	for (__u32 i = 0; i < 4; i++) {
		struct treadle_ep_create ep = {
			.size = sizeof(ep), .type = whole.type, .addr = loopback(0)};
		struct treadle_ep_enable enable = {.size = sizeof(enable),
						   .flags = roll(w, 4),
						   .av = av.id,
						   .tx_cq = cq.id,
						   .rx_cq = cq.id,
						   .cntr_recv = perhaps_id(w, f, CNTR)};

		if (scalable) {
			ep = (struct treadle_ep_create){.size = sizeof(ep),
							.flags = PICK(w, kinds),
							.parent = whole.id,
							.index = i / 2};
		}
		if (TRY(w, f, TREADLE_IOC_EP_CREATE, &ep))
			continue;
		remember(w, f, EP, ep.id);
		if (!scalable)
			PICK(w, town->addr) = ep.addr;
		enable.ep = ep.id;
		if (ep.flags != TREADLE_EP_RX_CONTEXT)
			enable.tx = one_in(w, 2) ? tx : makes_one_ring(w, f, true, 0);
		else
			enable.tx_cq = 0;
		if (ep.flags != TREADLE_EP_TX_CONTEXT)
			enable.rx = one_in(w, 2) ? rx : makes_one_ring(w, f, false, 0);
		else
			enable.rx_cq = enable.cntr_recv = 0;
		TRY(w, f, TREADLE_IOC_EP_ENABLE, &enable);
	}
}

static void copies_counter(struct walker *w, struct file *f)
{
	struct treadle_cntr_copy c = {
		.size = sizeof(c),
		.cntr = some_id(w, f, CNTR),
		.cells = one_in(w, 3) ? 0 : some_id(w, f, CELL),
	};

	if (c.cells)
		c.offset = roll(w, CELLS) * sizeof(__u64);
	TRY(w, f, TREADLE_IOC_CNTR_COPY, &c);
}

static void binds_region(struct walker *w, struct file *f)
{
	struct treadle_mr_bind c = {.size = sizeof(c),
				    .mr = some_id(w, f, MR),
				    .cntr = perhaps_id(w, f, CNTR),
				    .ep = perhaps_id(w, f, EP)};

	TRY(w, f, TREADLE_IOC_MR_BIND, &c);
	if (one_in(w, 2))
		copies_counter(w, f);
}

static void try_destroy(struct walker *w, struct file *f, __u32 id)
{
	struct treadle_destroy c = {.size = sizeof(c), .id = id};

	TRY(w, f, TREADLE_IOC_DESTROY, &c);
}

static void destroys(struct walker *w, struct file *f)
{
	try_destroy(w, f, some_id(w, f, roll(w, KINDS)));
}

static void uses_address_vector(struct walker *w, struct file *f)
{
	struct treadle_addr *addrs = w->desk->addrs;
	__u64 *out = w->desk->out, *ids = w->desk->ids;
	struct treadle_av_insert insert = {.size = sizeof(insert),
					   .av = some_id(w, f, AV),
					   .count = roll(w, 5),
					   .addrs = (unsigned long)addrs,
					   .out = (unsigned long)out,
					   .ids = one_in(w, 8) ? (unsigned long)ids : 0};
	struct treadle_av_remove remove = {.size = sizeof(remove),
					   .av = insert.av,
					   .count = roll(w, 3),
					   .indices = (unsigned long)out};
	struct treadle_av_lookup lookup = {
		.size = sizeof(lookup), .av = insert.av, .index = roll(w, 8)};
	struct treadle_av_set_id set_id = {
		.size = sizeof(set_id), .av = insert.av, .index = roll(w, 8), .id = roll(w, 8)};

	for (int i = 0; i < 4; i++) {
		addrs[i] = some_addr(w);
		out[i] = roll(w, 8);
	}
	switch (roll(w, 8)) {
	case 0:
		TRY(w, f, TREADLE_IOC_AV_REMOVE, &remove);
		break;
	case 1:
		TRY(w, f, TREADLE_IOC_AV_LOOKUP, &lookup);
		break;
	case 2:
		TRY(w, f, TREADLE_IOC_AV_SET_ID, &set_id);
		break;
	default:
		TRY(w, f, TREADLE_IOC_AV_INSERT, &insert);
	}
}

/* --- connections --------------------------------------------------------------------------- */

static void connects(struct walker *w, struct file *f)
{
	char *data = w->desk->data;
	struct treadle_ep_eq eq = {.size = sizeof(eq),
				   .ep = some_id(w, f, EP),
				   .eq_fd = PICK(w, some_file(w)->eq),
				   .context = roll_any(w)};
	struct treadle_listen listen = {.size = sizeof(listen), .ep = eq.ep, .backlog = roll(w, 5)};
	struct treadle_connect connect = {.size = sizeof(connect),
					  .ep = eq.ep,
					  .addr = some_addr(w),
					  .data = (unsigned long)data,
					  .data_size = roll(w, TREADLE_CM_DATA + 1)};
	struct treadle_accept accept = {.size = sizeof(accept),
					.ep = eq.ep,
					.data = (unsigned long)data,
					.data_size = roll(w, TREADLE_CM_DATA)};
	struct treadle_reject reject = {
		.size = sizeof(reject), .ep = eq.ep, .request = PICK(w, town->request)};
	struct treadle_shutdown shutdown = {.size = sizeof(shutdown), .ep = eq.ep};

	switch (roll(w, 12)) {
	case 0:
	case 1:
	case 2:
		TRY(w, f, TREADLE_IOC_EP_EQ, &eq);
		break;
	case 3:
	case 4:
		TRY(w, f, TREADLE_IOC_LISTEN, &listen);
		break;
	case 5:
	case 6:
	case 7:
		TRY(w, f, TREADLE_IOC_CONNECT, &connect);
		break;
	case 8:
	case 9:
		TRY(w, f, TREADLE_IOC_ACCEPT, &accept);
		break;
	case 10:
		TRY(w, f, TREADLE_IOC_REJECT, &reject);
		break;
	default:
		TRY(w, f, TREADLE_IOC_SHUTDOWN, &shutdown);
	}
}

/*
 * Creates an endpoint with events in @eq, enables it with random objects, and returns its id, or 0.
 */
static __u32 makes_end(struct walker *w, struct file *f, struct treadle_ep_create *ep, int eq)
{
	struct treadle_cq_create cq = {.size = sizeof(cq), .entries = 1 + roll(w, 64)};
	struct treadle_ep_eq events = {.size = sizeof(events), .eq_fd = eq};
	struct treadle_ep_enable enable = {.size = sizeof(enable),
					   .cntr_send = perhaps_id(w, f, CNTR),
					   .cntr_recv = perhaps_id(w, f, CNTR),
					   .cntr_remote_write = perhaps_id(w, f, CNTR)};

	if (TRY(w, f, TREADLE_IOC_EP_CREATE, ep))
		return 0;
	remember(w, f, EP, ep->id);
	events.ep = enable.ep = ep->id;
	TRY(w, f, TREADLE_IOC_EP_EQ, &events);
	if (ep->type == TREADLE_EP_PASSIVE)
		return ep->id;
	enable.tx = one_in(w, 8) ? 0 : makes_one_ring(w, f, true, 0);
	enable.rx = one_in(w, 4) ? 0 : makes_one_ring(w, f, false, 0);
	if (TRY(w, f, TREADLE_IOC_CQ_CREATE, &cq) == 0) {
		remember(w, f, CQ, cq.id);
		enable.tx_cq = one_in(w, 8) ? 0 : cq.id;
		enable.rx_cq = enable.rx ? cq.id : 0;
	}
	TRY(w, f, TREADLE_IOC_EP_ENABLE, &enable);
	return ep->id;
}

/* Both ends of a connection: random calls alone seldom make one. */
static void joins(struct walker *w, struct file *f)
{
	struct treadle_eq_create eq = {.size = sizeof(eq)};
	struct treadle_wait_fd file = {.size = sizeof(file)};
	struct treadle_ep_create passive = {
		.size = sizeof(passive), .type = TREADLE_EP_PASSIVE, .addr = loopback(0)};
	struct treadle_ep_create asks = {
		.size = sizeof(asks), .type = TREADLE_EP_MSG, .addr = loopback(0)};
	struct treadle_ep_create accepts = {.size = sizeof(accepts), .type = TREADLE_EP_MSG};
	struct treadle_listen listen = {.size = sizeof(listen)};
	struct treadle_connect connect = {.size = sizeof(connect)};
	struct treadle_accept accept = {.size = sizeof(accept)};
	struct treadle_event ev;

	if (TRY(w, f, TREADLE_IOC_EQ_CREATE, &eq))
		return;
	remember(w, f, EQ, eq.id);
	file.id = eq.id;
	if (TRY(w, f, TREADLE_IOC_WAIT_FD, &file))
		return;
	listen.ep = makes_end(w, f, &passive, file.fd);
	TRY(w, f, TREADLE_IOC_LISTEN, &listen);
	connect.ep = makes_end(w, f, &asks, file.fd);
	connect.addr = passive.addr;
	TRY(w, f, TREADLE_IOC_CONNECT, &connect);
	if (event_take(file.fd, &ev) > 0 && ev.event == TREADLE_EVENT_CONNREQ) {
		accepts.request = ev.request;
		accept.ep = makes_end(w, f, &accepts, file.fd);
		TRY(w, f, TREADLE_IOC_ACCEPT, &accept);
	}
	close(file.fd);
}

static void reads_events(struct walker *w, struct file *f)
{
	struct treadle_event ev;
	struct pollfd p = {.fd = PICK(w, f->eq), .events = POLLIN | POLLOUT};

	if (p.fd <= 0)
		return;
	poll(&p, 1, 0);
	if (event_take(p.fd, &ev) > 0 && ev.event == TREADLE_EVENT_CONNREQ)
		PICK(w, town->request) = ev.request;
}

#endif
