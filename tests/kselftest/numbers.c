/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ids of another context's objects, wherever a call or a command takes one: the errno says that
 * there is no such object, and the other context is not affected.
 */
#include "connection.h"

/* One of each kind, in an order in which they can be destroyed. */
enum kind { CONNECTING, LISTENING, EP, SCALABLE, REGION, EQ, AV, TX, RX, CQ, CNTR, CELL, KINDS };

#define NEVER 1000 /* is not reached */

struct holdings {
	__u32 id[KINDS];
	struct node n;
	struct treadle_cell_create cells;
	__u32 request; /* of CONNECTING to LISTENING */
	int eq;
	__u64 self, key;
	char out[64], in[64], region[64];
};

static struct treadle_desc on_cell(struct treadle_desc d, __u32 id, __u64 value)
{
	d.flags |= TREADLE_F_EXT | TREADLE_F_COND_CELL;
	d.cond = id;
	d.value = value;
	return d;
}

static void holdings_open(struct holdings *h, int fd)
{
	const __u32 access = TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE;
	struct treadle_ep_create scalable = {.size = sizeof(scalable),
					     .type = TREADLE_EP_RDM,
					     .flags = TREADLE_EP_SCALABLE,
					     .addr = loopback(0)};
	struct treadle_addr addr = loopback(0);
	struct treadle_desc d;
	struct node client;

	node_open(&h->n, (struct options){.context = fd});
	h->self = peer(&h->n, h->n.addr);
	h->cells = (struct treadle_cell_create){.size = sizeof(h->cells), .count = 1};
	need(call(fd, TREADLE_IOC_CELL_CREATE, &h->cells) == 0);
	need(call(fd, TREADLE_IOC_EP_CREATE, &scalable) == 0);
	need(mr(fd, h->region, 64, access, TREADLE_MR_KERNEL_KEY, &h->key, &h->id[REGION]) == 0);
	h->id[EQ] = eq_create(fd);
	h->eq = wait_fd(fd, h->id[EQ]);
	need(ep_create_as(fd, TREADLE_EP_PASSIVE, 0, &addr, NULL, &h->id[LISTENING]) == 0);
	need(ep_eq(fd, h->id[LISTENING], h->eq, PEP) == 0);
	need(listen_to(fd, h->id[LISTENING], 0) == 0);
	msg_open(&client, (struct options){.context = fd}, h->eq, CLIENT);
	need(connect_to(fd, client.ep, addr, NULL, 0) == 0);
	h->request = event_is(h->eq, TREADLE_EVENT_CONNREQ, PEP).request;
	h->id[CONNECTING] = client.ep;
	h->id[EP] = h->n.ep;
	h->id[SCALABLE] = scalable.id;
	h->id[AV] = h->n.av;
	h->id[TX] = h->n.tx.id;
	h->id[RX] = h->n.rx.id;
	h->id[CQ] = h->n.cq.id;
	h->id[CNTR] = h->n.sent.id;
	h->id[CELL] = h->cells.id;

	/* Targets for CANCEL_OP, CANCEL_WORK and a write to a cell. */
	d = when(send_of(h->out, 8, h->self, 7), &h->n.sent, NEVER);
	need(post(&h->n, d) == 1);
	d.context = 8;
	d.flags |= TREADLE_F_WORK;
	d.flags &= ~TREADLE_F_COMPLETION;
	need(post(&h->n, d) == 1);
	need(post(&h->n, on_cell(send_of(h->out, 64, h->self, 9), h->id[CELL], 1)) == 1);
}

/* All objects are there and work; then they are destroyed. */
static void holdings_close(struct __test_metadata *_metadata, struct holdings *h)
{
	__u64 *cells = map(h->n.fd, h->cells.rw, PROT_READ | PROT_WRITE);
	struct node *n = &h->n;

	fill(h->out, 64, 1);
	ASSERT_EQ(0, post_recv(n, recv_of(h->in, 64, ANY, 1)));
	__atomic_store_n(cells, 1, __ATOMIC_RELEASE);
	EXPECT_EQ(1, cq_next(&n->rcq).context);
	EXPECT_EQ(9, cq_next(&n->cq).context);
	EXPECT_TRUE(same(h->in, 64, 1));
	ASSERT_EQ(1, post(n, write_of(h->out, 64, h->self, 0, h->key, 2)));
	EXPECT_EQ(0, cq_next(&n->cq).error);
	EXPECT_TRUE(same(h->region, 64, 1));
	EXPECT_EQ(0, cancel(n->fd, TREADLE_CANCEL_OP, n->ep, 7, 0, NULL));
	EXPECT_EQ(ECANCELED, cq_next(&n->cq).error);
	EXPECT_EQ(0, cancel(n->fd, TREADLE_CANCEL_WORK, n->sent.id, 8, NEVER, NULL));
	EXPECT_TRUE(cntr_becomes(&n->sent, 1, 1));
	EXPECT_TRUE(cntr_becomes(&n->rcvd, 1, 0));
	EXPECT_TRUE(cq_empty(&n->cq) && cq_empty(&n->rcq) && eq_empty(h->eq));
	EXPECT_EQ(0, reject_with(n->fd, h->id[LISTENING], h->request, NULL, 0));
	event_is(h->eq, TREADLE_EVENT_CONNREFUSED, CLIENT);
	for (int kind = 0; kind < KINDS; kind++) {
		about("kind %d", kind);
		EXPECT_EQ(0, destroy(n->fd, h->id[kind]));
	}
	about("%s", "");
	close(h->eq);
	close(n->fd);
}

/* Every field of a call that is an id. */
#define FIELD(cmd, type, field, kind)                                                  \
	{                                                                              \
#cmd "." #field, TREADLE_IOC_##cmd, offsetof(struct type, field), kind \
	}

static const struct field {
	const char *name;
	unsigned long cmd;
	size_t at;
	enum kind kind;
	__u32 cancel;
} fields[] = {
	FIELD(AV_INSERT, treadle_av_insert, av, AV),
	FIELD(AV_LOOKUP, treadle_av_lookup, av, AV),
	FIELD(AV_REMOVE, treadle_av_remove, av, AV),
	FIELD(AV_SET_ID, treadle_av_set_id, av, AV),
	FIELD(EP_CREATE, treadle_ep_create, parent, SCALABLE),
	FIELD(EP_ENABLE, treadle_ep_enable, ep, EP),
	FIELD(EP_ENABLE, treadle_ep_enable, tx, TX),
	FIELD(EP_ENABLE, treadle_ep_enable, rx, RX),
	FIELD(EP_ENABLE, treadle_ep_enable, av, AV),
	FIELD(EP_ENABLE, treadle_ep_enable, tx_cq, CQ),
	FIELD(EP_ENABLE, treadle_ep_enable, rx_cq, CQ),
	FIELD(EP_ENABLE, treadle_ep_enable, cntr_send, CNTR),
	FIELD(EP_ENABLE, treadle_ep_enable, cntr_recv, CNTR),
	FIELD(EP_ENABLE, treadle_ep_enable, cntr_read, CNTR),
	FIELD(EP_ENABLE, treadle_ep_enable, cntr_write, CNTR),
	FIELD(EP_ENABLE, treadle_ep_enable, cntr_remote_read, CNTR),
	FIELD(EP_ENABLE, treadle_ep_enable, cntr_remote_write, CNTR),
	FIELD(MR_CREATE, treadle_mr_create, cntr, CNTR),
	FIELD(MR_CREATE, treadle_mr_create, ep, EP),
	FIELD(MR_BIND, treadle_mr_bind, mr, REGION),
	FIELD(MR_BIND, treadle_mr_bind, cntr, CNTR),
	FIELD(MR_BIND, treadle_mr_bind, ep, EP),
	FIELD(CNTR_COPY, treadle_cntr_copy, cntr, CNTR),
	FIELD(CNTR_COPY, treadle_cntr_copy, cells, CELL),
	FIELD(WAIT, treadle_wait, id, CQ),
	FIELD(WAIT_FD, treadle_wait_fd, id, EQ),
	FIELD(EP_EQ, treadle_ep_eq, ep, LISTENING),
	FIELD(LISTEN, treadle_listen, ep, LISTENING),
	FIELD(CONNECT, treadle_connect, ep, CONNECTING),
	FIELD(ACCEPT, treadle_accept, ep, CONNECTING),
	FIELD(REJECT, treadle_reject, ep, LISTENING),
	FIELD(SHUTDOWN, treadle_shutdown, ep, CONNECTING),
	{"CANCEL_OP", TREADLE_IOC_CANCEL, offsetof(struct treadle_cancel, id), EP},
	{"CANCEL_WORK", TREADLE_IOC_CANCEL, offsetof(struct treadle_cancel, id), CNTR,
	 TREADLE_CANCEL_WORK},
	{"FLUSH_WORK", TREADLE_IOC_CANCEL, offsetof(struct treadle_cancel, id), CELL,
	 TREADLE_FLUSH_WORK},
	FIELD(DESTROY, treadle_destroy, id, CELL),
};

union arg {
	__u32 size;
	char bytes[128];
	struct treadle_av_insert av_insert;
	struct treadle_av_remove av_remove;
	struct treadle_av_lookup av_lookup;
	struct treadle_av_set_id av_set_id;
	struct treadle_ep_create ep_create;
	struct treadle_ep_enable ep_enable;
	struct treadle_mr_create mr_create;
	struct treadle_mr_bind mr_bind;
	struct treadle_cntr_copy cntr_copy;
	struct treadle_cancel cancel;
	struct treadle_ep_eq ep_eq;
	struct treadle_connect connect;
	struct treadle_reject reject;
};

/* A valid argument, except for the id in question. Other ids are those of @h. */
static union arg good(const struct field *f, const struct holdings *h, const struct node *fresh,
		      __u32 request)
{
	static const struct treadle_iov iov = {(unsigned long)&fields, 8};
	static const struct treadle_addr addr = {.family = AF_INET, .addr = {127, 0, 0, 1}};
	union arg arg = {};

	switch (f->cmd) {
	case TREADLE_IOC_AV_INSERT:
		arg.av_insert.count = 1;
		arg.av_insert.addrs = (unsigned long)&addr;
		break;
	case TREADLE_IOC_EP_CREATE:
		arg.ep_create.flags = TREADLE_EP_TX_CONTEXT;
		break;
	case TREADLE_IOC_EP_ENABLE:
		arg.ep_enable = node_bindings(fresh);
		break;
	case TREADLE_IOC_MR_CREATE:
		arg.mr_create.flags = TREADLE_MR_KERNEL_KEY;
		arg.mr_create.access = TREADLE_ACCESS_REMOTE_READ;
		arg.mr_create.iov_count = 1;
		arg.mr_create.iov = (unsigned long)&iov;
		break;
	case TREADLE_IOC_MR_BIND:
		arg.mr_bind.mr = h->id[REGION];
		break;
	case TREADLE_IOC_CNTR_COPY:
		arg.cntr_copy.cntr = h->id[CNTR];
		arg.cntr_copy.cells = h->id[CELL];
		break;
	case TREADLE_IOC_CANCEL:
		arg.cancel.kind = f->cancel;
		arg.cancel.context = (__u64[]){7, 8, 0}[f->cancel];
		arg.cancel.threshold = f->cancel == TREADLE_CANCEL_WORK ? NEVER : 0;
		break;
	case TREADLE_IOC_EP_EQ:
		arg.ep_eq.eq_fd = h->eq;
		break;
	case TREADLE_IOC_CONNECT:
		arg.connect.addr = addr;
		break;
	case TREADLE_IOC_REJECT:
		arg.reject.request = request;
		break;
	}
	arg.size = _IOC_SIZE(f->cmd);
	return arg;
}

static int call_with(int fd, const struct field *f, union arg arg, __u32 id)
{
	memcpy(arg.bytes + f->at, &id, sizeof(id));
	return call(fd, f->cmd, &arg);
}

/* Every field of a command that is an id. */
#define IN(form, field, kind)                                                      \
	{                                                                          \
#form "." #field, form, offsetof(struct treadle_desc, field), kind \
	}

enum form { SENDS, ARMED, ON_CELL, TOLD, RESTS, SETS, ADDS, ADDS_LATER, FOLLOWS };

static const struct {
	const char *name;
	enum form form;
	size_t at;
	enum kind kind;
} names[] = {
	IN(SENDS, ep, EP),	 IN(ARMED, ep, EP),	     IN(ARMED, cond, CNTR),
	IN(ON_CELL, ep, EP),	 IN(ON_CELL, cond, CELL),    IN(TOLD, notify, CNTR),
	IN(RESTS, cond, CNTR),	 IN(RESTS, rest, CNTR),	     IN(SETS, peer, CNTR),
	IN(ADDS, peer, CNTR),	 IN(ADDS_LATER, peer, CNTR), IN(FOLLOWS, peer, CNTR),
	IN(FOLLOWS, cond, CELL),
};

static struct treadle_desc command(enum form form, struct holdings *h)
{
	struct treadle_desc d = send_of(h->out, 8, h->self, 0);

	d.flags = TREADLE_F_EXT;
	switch (form) {
	case ARMED:
		return when(d, &h->n.sent, NEVER);
	case ON_CELL:
		return on_cell(d, h->id[CELL], NEVER);
	case TOLD:
		return then(d, &h->n.rcvd);
	case RESTS:
		d = when(d, &h->n.sent, NEVER);
		d.flags |= TREADLE_F_REPEAT | TREADLE_F_WORK;
		d.value = 1;
		d.rest = h->n.rcvd.id;
		return d;
	case SETS:
		return count_of(TREADLE_OP_CNTR_SET, &h->n.sent, 0, 0);
	case ADDS:
		return count_of(TREADLE_OP_CNTR_ADD, &h->n.sent, 0, 0);
	case FOLLOWS:
		d = on_cell(count_of(TREADLE_OP_CNTR_ADD, &h->n.rcvd, 0, 0), h->id[CELL], 0);
		d.flags |= TREADLE_F_REPEAT;
		return d;
	case ADDS_LATER:
		return when(count_of(TREADLE_OP_CNTR_ADD, &h->n.rcvd, 0, 0), &h->n.sent, NEVER);
	default:
		return d;
	}
}

/* The other context has many objects, so that its ids differ from those of a small context. */
TEST(numbers_of_another_context_mean_nothing)
{
	struct treadle_cntr_create cntr = {.size = sizeof(cntr)};
	struct holdings theirs = {}, mine = {};
	int fd = device(), own = device();
	struct treadle_desc d;
	struct node fresh;

	for (int i = 0; i < 100; i++) {
		ASSERT_EQ(0, call(fd, TREADLE_IOC_CNTR_CREATE, &cntr));
	}
	holdings_open(&theirs, fd);
	holdings_open(&mine, own);
	node_create(&fresh, (struct options){.context = own});

	for (int kind = 0; kind < KINDS; kind++) {
		const __u32 id = theirs.id[kind];

		about("kind %d", kind);
		EXPECT_EQ(-ENOENT, doorbell(own, id));
		EXPECT_EQ(-ENOENT, doorbell_seek(own, id));
		EXPECT_EQ(-ENOENT, call(own, TREADLE_IOC_SIGNAL, (void *)(long)id));
		for (const struct field *f = fields; f < fields + ARRAY_SIZE(fields); f++) {
			about("%s, kind %d", f->name, kind);
			EXPECT_EQ(-ENOENT,
				  call_with(own, f, good(f, &mine, &fresh, theirs.request), id));
		}
		for (int i = 0; i < ARRAY_SIZE(names); i++) {
			about("command %s, kind %d", names[i].name, kind);
			d = command(names[i].form, &mine);
			memcpy((char *)&d + names[i].at, &id, sizeof(id));
			EXPECT_EQ(-ENOENT, post(&mine.n, d));
		}
	}
	const struct treadle_map maps[] = {theirs.n.tx.rw_map, theirs.n.tx.ro_map,
					   theirs.n.rx.rw_map, theirs.n.rx.ro_map,
					   theirs.n.cq.rw_map, theirs.n.cq.ro_map,
					   theirs.cells.rw,    theirs.cells.ro};

	for (int i = 0; i < ARRAY_SIZE(maps); i++) {
		about("map %d", i);
		EXPECT_EQ(MAP_FAILED,
			  mmap(NULL, maps[i].length, PROT_READ, MAP_SHARED, own, maps[i].offset));
		EXPECT_EQ(ENOENT, errno);
	}
	/* Only the id was wrong: with the caller's own the call gives another result. */
	for (const struct field *f = fields; f < fields + ARRAY_SIZE(fields); f++) {
		__u32 id = f->cmd == TREADLE_IOC_EP_ENABLE && f->kind == EP ? fresh.ep :
									      mine.id[f->kind];

		about("%s", f->name);
		EXPECT_NE(-ENOENT, call_with(own, f, good(f, &mine, &fresh, mine.request), id));
	}
	for (int i = 0; i < ARRAY_SIZE(names); i++) {
		about("command %s", names[i].name);
		d = command(names[i].form, &mine);
		memcpy((char *)&d + names[i].at, &mine.id[names[i].kind], sizeof(__u32));
		EXPECT_EQ(1, post(&mine.n, d));
	}
	close(own);
	holdings_close(_metadata, &theirs);
}

TEST_HARNESS_MAIN
