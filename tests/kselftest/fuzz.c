/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A random walk over everything at once: all ioctls, rings, memory and files, of several processes with several threads
 * each, which know of each other's endpoints and regions, change their memory meanwhile, and die. Nothing here has a right
 * result but this: whatever is called returns, all can be taken down, the kernel log stays silent, and a stranger
 * that keeps to the rules is served at the end as at the beginning.
 *
 * FUZZ_SECONDS=8, FUZZ_SEED=(random, printed): the same seed gives each thread the same dice, not the same races.
 *
 * test-timeout: 7200
 */
#include "connection.h"

#include <liburing.h>
#include <sys/random.h>

#define USERS	 3 /* processes */
#define THREADS	 3 /* of each */
#define CONTEXTS 4 /* files of each */
#define KNOWN	 6 /* objects of a kind that are remembered for a file */
#define PUBLIC	 16
#define ARENA	 (1UL << 20)

enum kind { CQ, CNTR, AV, MR, TX, RX, EP, EQ, KINDS };

/* What all processes know: where somebody may be, what he may have registered, and who has asked to be connected. */
struct town {
	struct treadle_addr addr[PUBLIC];
	__u64 key[PUBLIC];
	__u64 at[PUBLIC];
	__u32 request[PUBLIC];
	__u64 calls, good;
};

/* Threads of a process use all this without a lock: whatever they find is as good as anything else. */
struct file {
	int fd;
	__u32 id[KINDS][KNOWN];
	struct ring ring[KNOWN]; /* of TX and RX, mapped */
	struct cq cq[KNOWN];
	int eq[KNOWN]; /* files of event queues */
};

struct user {
	struct file file[CONTEXTS];
	char *arena;
};

/* What calls point to: for itself, as pointers are spoiled, too, and the kernel writes where they then point. */
struct desk {
	char before[1 << 17];
	struct treadle_addr addrs[4];
	__u64 out[4], ids[4];
	struct treadle_iov iov[TREADLE_MAX_MR_IOV];
	char data[TREADLE_CM_DATA];
	char name[8];
	char after[1 << 17];
};

struct walker {
	struct user *u;
	struct desk *desk;
	struct io_uring ring;
	__u64 dice;
};

static struct town *town;
static __u64 deadline;

/* --- dice -------------------------------------------------------------------------------- */

static __u32 roll(struct walker *w, __u32 sides)
{
	return lottery(&w->dice) % sides;
}

static bool one_in(struct walker *w, __u32 n)
{
	return roll(w, n) == 0;
}

#define PICK(w, array) ((array)[roll(w, sizeof(array) / sizeof((array)[0]))])

static __u64 some_number(struct walker *w)
{
	static const __u64 numbers[] = {0,	    1,		2,	    3,		7,
					8,	    63,		64,	    4095,	4096,
					65535,	    65536,	1 << 20,    0x7fffffff, 0x80000000,
					0xffffffff, 1ULL << 32, 1ULL << 47, 1ULL << 63, -4096ULL,
					-1ULL};

	return one_in(w, 4) ? lottery(&w->dice) : PICK(w, numbers);
}

static __u64 some_length(struct walker *w)
{
	static const __u64 lengths[] = {0, 1, 8, 64, 100, 256, 4096, 5000, 65536, 200000};

	return one_in(w, 16) ? some_number(w) : PICK(w, lengths);
}

/* Somewhere in the arena, or not in memory at all. */
static void *somewhere(struct walker *w)
{
	return one_in(w, 32) ? (void *)some_number(w) :
			       w->u->arena + (roll(w, ARENA) & (one_in(w, 2) ? ~7UL : ~0UL));
}

static struct file *some_file(struct walker *w)
{
	return &PICK(w, w->u->file);
}

/* One of that kind; or of another, or none. */
static __u32 some_id(struct walker *w, struct file *f, enum kind kind)
{
	if (one_in(w, 20))
		kind = roll(w, KINDS);
	return one_in(w, 40) ? roll(w, 64) : PICK(w, f->id[kind]);
}

/* Often none. */
static __u32 perhaps_id(struct walker *w, struct file *f, enum kind kind)
{
	return one_in(w, 3) ? 0 : some_id(w, f, kind);
}

static __u32 some_flags(struct walker *w, __u32 known)
{
	return one_in(w, 32) ? some_number(w) : one_in(w, 2) ? 0 : lottery(&w->dice) & known;
}

static struct treadle_addr some_addr(struct walker *w)
{
	return one_in(w, 16) ? loopback(some_number(w)) : PICK(w, town->addr);
}

/* --- calls ------------------------------------------------------------------------------- */

static int through_io_uring(struct walker *w, int fd, unsigned long cmd, void *arg)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&w->ring);
	struct io_uring_cqe *cqe;
	int res;

	need(sqe);
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = cmd;
	sqe->addr3 = (unsigned long)arg;
	sqe->flags = cmd == TREADLE_IOC_DOORBELL ? 0 : IOSQE_ASYNC;
	need(io_uring_submit(&w->ring) == 1);
	while ((res = io_uring_wait_cqe(&w->ring, &cqe)) == -EINTR)
		;
	need(res == 0);
	res = cqe->res;
	io_uring_cqe_seen(&w->ring, cqe);
	return res;
}

static int try(struct walker *w, struct file *f, unsigned long cmd, void *arg, size_t size)
{
	unsigned char *bytes = arg;
	int result;

	if (size && one_in(w, 8))
		for (__u32 n = roll(w, 4); n; n--)
			bytes[roll(w, size)] = lottery(&w->dice);
	if (cmd != TREADLE_IOC_WAIT && one_in(w, 8))
		result = through_io_uring(w, f->fd, cmd, arg);
	else
		result = call(f->fd, cmd, one_in(w, 100) ? somewhere(w) : arg);
	__atomic_fetch_add(&town->calls, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&town->good, result >= 0, __ATOMIC_RELAXED);
	return result;
}

#define TRY(w, f, cmd, arg) try(w, f, cmd, arg, sizeof(*(arg)))

static void remember(struct walker *w, struct file *f, enum kind kind, __u32 id)
{
	PICK(w, f->id[kind]) = id;
}

/* --- objects ----------------------------------------------------------------------------- */

static void makes_queue(struct walker *w, struct file *f)
{
	struct treadle_cq_create c = {.size = sizeof(c), .entries = 1 + roll(w, 64)};
	struct cq *q = &PICK(w, f->cq);

	if (TRY(w, f, TREADLE_IOC_CQ_CREATE, &c))
		return;
	remember(w, f, CQ, c.id);
	q->ro = mmap(NULL, c.ro.length, PROT_READ, MAP_SHARED, f->fd, c.ro.offset);
	q->rw = mmap(NULL, c.rw.length, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, c.rw.offset);
}

static void makes_ring(struct walker *w, struct file *f)
{
	bool tx = one_in(w, 2);
	struct treadle_ring_create c = {.size = sizeof(c),
					.flags = some_flags(w, 1),
					.entries = 1 + roll(w, 64),
					.buffered = tx ? 0 : roll(w, 70000)};
	struct ring *r = &PICK(w, f->ring), new = {.fd = f->fd};
	void *ro, *rw;

	if (TRY(w, f, tx ? TREADLE_IOC_TX_CREATE : TREADLE_IOC_RX_CREATE, &c))
		return;
	remember(w, f, tx ? TX : RX, c.id);
	rw = mmap(NULL, c.rw.length, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, c.rw.offset);
	ro = mmap(NULL, c.ro.length, PROT_READ, MAP_SHARED, f->fd, c.ro.offset);
	if (rw == MAP_FAILED || ro == MAP_FAILED)
		return;
	new.id = c.id;
	new.entries = c.entries;
	new.rw = rw;
	new.ro = ro;
	new.slots = (void *)((char *)rw + TREADLE_SLOTS_OFFSET);
	*r = new;
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
	int *place = &PICK(w, f->eq);

	switch (roll(w, 3)) {
	case 0:
		if (TRY(w, f, TREADLE_IOC_CNTR_CREATE, &cntr) == 0)
			remember(w, f, CNTR, cntr.id);
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
		.flags = some_flags(w, 3),
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

static void binds_region(struct walker *w, struct file *f)
{
	struct treadle_mr_bind c = {.size = sizeof(c),
				    .mr = some_id(w, f, MR),
				    .cntr = perhaps_id(w, f, CNTR),
				    .ep = perhaps_id(w, f, EP)};

	TRY(w, f, TREADLE_IOC_MR_BIND, &c);
}

static void destroys(struct walker *w, struct file *f)
{
	struct treadle_destroy c = {.size = sizeof(c), .id = some_id(w, f, roll(w, KINDS))};

	TRY(w, f, TREADLE_IOC_DESTROY, &c);
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
				   .context = lottery(&w->dice)};
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

/* --- commands ------------------------------------------------------------------------------ */

static struct treadle_desc some_desc(struct walker *w, struct file *f)
{
	__u32 key = roll(w, PUBLIC);
	struct treadle_desc d = {
		.opcode = roll(w, TREADLE_OP_LAST),
		.flags = some_flags(w, TREADLE_F_ALL) | (one_in(w, 2) ? TREADLE_F_COMPLETION : 0),
		.iov_count = one_in(w, 4) ? roll(w, 9) : 1,
		.context = roll(w, 8),
		.addr = (unsigned long)somewhere(w),
		.len = some_length(w),
		.peer = one_in(w, 8) ? ANY : roll(w, 4),
		.data = roll(w, 64),
	};

	switch (d.opcode) {
	case TREADLE_OP_RECV:
	case TREADLE_OP_SEND:
		break;
	case TREADLE_OP_TSEND:
	case TREADLE_OP_TRECV:
		d.tag = roll(w, 3);
		if (d.opcode == TREADLE_OP_TRECV && one_in(w, 3))
			d.ignore = -1ULL;
		break;
	case TREADLE_OP_READ:
	case TREADLE_OP_WRITE:
	case TREADLE_OP_ATOMIC:
	case TREADLE_OP_FETCH:
	case TREADLE_OP_COMPARE:
		d.remote_addr = town->at[key] + (one_in(w, 4) ? some_length(w) : 0);
		d.remote_key = town->key[key];
		if (d.opcode >= TREADLE_OP_ATOMIC) {
			d.flags |= TREADLE_F_EXT;
			d.atomic_op = roll(w, 20);
			d.datatype = roll(w, 16);
			if (d.opcode != TREADLE_OP_ATOMIC)
				d.result = (unsigned long)somewhere(w);
			if (d.opcode == TREADLE_OP_COMPARE)
				d.compare = (unsigned long)somewhere(w);
		}
		break;
	default:
		d.iov_count = d.addr = d.len = d.data = 0;
		d.flags &= ~TREADLE_F_COMPLETION;
		if (d.opcode >= TREADLE_OP_CNTR_SET) {
			d.peer = some_id(w, f, CNTR);
			d.data = roll(w, 16);
		}
	}
	if (one_in(w, 4)) {
		d.flags |= TREADLE_F_EXT;
		if (one_in(w, 2)) {
			d.flags |= TREADLE_F_COND_CNTR;
			d.cond = some_id(w, f, CNTR);
			d.threshold = roll(w, 16);
		}
		if (one_in(w, 2)) {
			d.flags |= TREADLE_F_NOTIFY;
			d.notify = some_id(w, f, CNTR);
		}
		if (one_in(w, 3))
			d.flags |= TREADLE_F_WORK;
	}
	if (d.iov_count > 1)
		d.addr = 0;
	return d;
}

static void commands(struct walker *w, struct file *f)
{
	struct ring *r = &PICK(w, f->ring);
	struct ring copy = *r;

	if (!copy.rw || copy.fd != f->fd)
		return;
	for (__u32 n = roll(w, 8); n; n--) {
		struct treadle_desc d = some_desc(w, f);
		union treadle_slot slot;
		unsigned char *bytes = (void *)&d;

		if (ring_room(&copy) < 2)
			break;
		if (d.iov_count > 1 && one_in(w, 8) == 0) {
			d.len = 0;
			for (int i = 0; i < TREADLE_MAX_IOV; i++) {
				slot.iov[i] = (struct treadle_iov){(unsigned long)somewhere(w),
								   roll(w, 5000)};
				if (i < d.iov_count)
					d.len += slot.iov[i].len;
			}
		}
		if (one_in(w, 10))
			bytes[roll(w, sizeof(d))] = lottery(&w->dice);
		ring_put(&copy, &d);
		if (d.iov_count > 1)
			ring_put(&copy, &slot);
	}
	if (one_in(w, 500)) /* rarely out of range: it is a dead ring then */
		copy.prod = some_number(w);
	ring_publish(&copy);
	r->prod = copy.prod;
	__atomic_fetch_add(&town->calls, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&town->good, ring_doorbell(&copy) >= 0, __ATOMIC_RELAXED);
}

static void rings(struct walker *w, struct file *f)
{
	static const enum kind kinds[] = {TX, RX, CQ, CQ};
	unsigned long id = some_id(w, f, PICK(w, kinds));

	if (one_in(w, 3))
		call(f->fd, TREADLE_IOC_SIGNAL, (void *)id);
	else if (one_in(w, 2))
		call(f->fd, TREADLE_IOC_DOORBELL, (void *)id);
	else
		through_io_uring(w, f->fd, TREADLE_IOC_DOORBELL, (void *)id);
}

static void cancels(struct walker *w, struct file *f)
{
	struct treadle_cancel c = {.size = sizeof(c),
				   .kind = roll(w, 3),
				   .context = roll(w, 8),
				   .threshold = roll(w, 16)};

	c.id = some_id(w, f, c.kind == TREADLE_CANCEL_OP ? EP : CNTR);
	if (c.kind == TREADLE_FLUSH_WORK) {
		c.context = c.threshold = 0;
		if (one_in(w, 2))
			c.id = 0;
	}
	TRY(w, f, TREADLE_IOC_CANCEL, &c);
}

static void reads_completions(struct walker *w, struct file *f)
{
	struct cq q = PICK(w, f->cq);
	struct treadle_wait wait = {.size = sizeof(wait),
				    .id = some_id(w, f, one_in(w, 2) ? CQ : CNTR),
				    .timeout_ns = roll(w, 300000),
				    .threshold = roll(w, 16)};
	struct treadle_wait_fd file = {.size = sizeof(file), .id = wait.id};

	if (q.rw && q.rw != MAP_FAILED && q.ro != MAP_FAILED)
		q.rw->cons = one_in(w, 50) ? some_number(w) : q.ro->prod;
	if (one_in(w, 3)) {
		wait.threshold = one_in(w, 2) ? 0 : wait.threshold;
		/* As it is: what is waited for may never come. */
		try(w, f, TREADLE_IOC_WAIT, &wait, 0);
	} else if (one_in(w, 3) && TRY(w, f, TREADLE_IOC_WAIT_FD, &file) == 0) {
		struct pollfd p = {.fd = file.fd, .events = POLLIN};

		poll(&p, 1, roll(w, 2));
		close(file.fd);
	}
}

/* --- memory, files, processes --------------------------------------------------------------- */

static void moves_memory(struct walker *w, struct file *f)
{
	char *at = w->u->arena + (roll(w, ARENA) & ~4095UL);
	size_t len = 4096 << roll(w, 4);

	(void)f;
	if (at + len > w->u->arena + ARENA)
		return;
	switch (roll(w, 6)) {
	case 0:
		madvise(at, len, MADV_DONTNEED);
		break;
	case 1:
		mprotect(at, len, PROT_READ);
		break;
	case 2:
		/* As if it were not mapped, but nothing else can come to lie there. */
		need(mmap(at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		     at);
		break;
	case 3:
		if (fork() == 0)
			_exit(0);
		break;
	default:
		/* Back to what it was, for most of the time. */
		need(mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			  -1, 0) == at);
	}
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static void opens_again(struct walker *w, struct file *f)
{
	int fd;

	if (!one_in(w, 20))
		return;
	fd = device();
	for (int i = 0; i < KNOWN; i++)
		f->ring[i].rw = NULL;
	/* Whatever others are about with that number goes on in the new context. */
	need(dup3(fd, f->fd, O_CLOEXEC) == f->fd);
	close(fd);
}

static void maps_anything(struct walker *w, struct file *f)
{
	size_t len = 4096 << roll(w, 4);
	void *at = mmap(NULL, len, roll(w, 8), one_in(w, 4) ? MAP_PRIVATE : MAP_SHARED, f->fd,
			(off_t)(some_number(w) & ~4095ULL));

	if (at != MAP_FAILED)
		munmap(at, len);
}

static void asks(struct walker *w, struct file *f)
{
	struct treadle_query c = {.size = sizeof(c)};
	char anything[512] = "";

	TRY(w, f, TREADLE_IOC_QUERY, &c);
	if (one_in(w, 4)) {
		*(__u32 *)anything = roll(w, 300);
		try(w, f, _IOWR(TREADLE_IOC_MAGIC, roll(w, 64), struct treadle_query), anything,
		    sizeof(anything));
	}
}

/* How often of how many. */
static const struct {
	void (*step)(struct walker *w, struct file *f);
	__u32 weight;
} steps[] = {
	{makes_queue, 3},  {makes_ring, 5},   {makes_endpoint, 8},
	{makes_region, 6}, {makes_others, 8}, {enables, 12},
	{binds_region, 2}, {destroys, 8},     {uses_address_vector, 10},
	{connects, 20},	   {reads_events, 8}, {commands, 50},
	{rings, 6},	   {cancels, 4},      {reads_completions, 10},
	{moves_memory, 5}, {opens_again, 1},  {maps_anything, 1},
	{asks, 1},
};

static void *walks(void *arg)
{
	struct walker *w = arg;
	__u32 sum = 0;

	for (__u32 i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		sum += steps[i].weight;
	need(io_uring_queue_init(4, &w->ring, 0) == 0);
	while (now_ns() < deadline) {
		__u32 at = roll(w, sum), i = 0;

		while (at >= steps[i].weight)
			at -= steps[i++].weight;
		steps[i].step(w, some_file(w));
	}
	io_uring_queue_exit(&w->ring);
	return NULL;
}

/* One process, for a while or until it dies in the middle of everything. */
static void lives(void *arg)
{
	static struct user u;
	static struct walker walkers[THREADS];
	pthread_t t[THREADS];
	__u64 dice = *(__u64 *)arg;

	u.arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(u.arena != MAP_FAILED);
	for (int i = 0; i < CONTEXTS; i++)
		u.file[i].fd = device();
	for (int i = 0; i < THREADS; i++) {
		walkers[i] = (struct walker){
			.u = &u, .desk = pages(sizeof(struct desk)), .dice = dice * THREADS + i};
		t[i] = thread(walks, &walkers[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

/* --- the test -------------------------------------------------------------------------------- */

static void keeps_to_the_rules(void)
{
	struct node a, b;
	char src[64], dst[64] = "";

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	fill(src, sizeof(src), 1);
	need(post_recv(&b, recv_of(dst, sizeof(dst), ANY, 2)) == 0);
	need(post(&a, send_of(src, sizeof(src), peer(&a, b.addr), 3)) == 1);
	need(cq_next(&b.rcq).error == 0 && cq_next(&a.cq).error == 0);
	need(same(dst, sizeof(dst), 1));
	node_close(&a);
	node_close(&b);
}

static __u64 number_of(const char *name, __u64 otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

FIXTURE(fuzz)
{
	__u64 seed, seconds;
};

FIXTURE_SETUP(fuzz)
{
	need(getrandom(&self->seed, sizeof(self->seed), 0) == sizeof(self->seed));
	self->seed = number_of("FUZZ_SEED", self->seed % 1000000);
	self->seconds = number_of("FUZZ_SECONDS", 8);
	note("FUZZ_SECONDS=%llu FUZZ_SEED=%llu", self->seconds, self->seed);
	town = shared(sizeof(*town));
}

FIXTURE_TEARDOWN(fuzz) {}

TEST_F_TIMEOUT(fuzz, a_random_walk_harms_nobody, 7200)
{
	__u64 seeds[USERS], seed = self->seed, end = now_ns() + self->seconds * 1000000000ULL;
	pid_t users[USERS] = {0};
	int failed = 0, killed = 0;

	keeps_to_the_rules();
	while (now_ns() < end) {
		int i = lottery(&seed) % USERS;

		if (users[i] && kill(users[i], SIGKILL) == 0) {
			int status = reap(users[i]);

			failed += status > 0;
			killed++;
			users[i] = 0;
		}
		for (i = 0; i < USERS; i++)
			if (!users[i]) {
				seeds[i] = lottery(&seed);
				deadline = end;
				users[i] = spawn(lives, &seeds[i]);
			}
		keeps_to_the_rules();
		usleep(300000 + lottery(&seed) % 1500000);
	}
	for (int i = 0; i < USERS; i++)
		failed += users[i] && reap(users[i]) > 0;
	/* Where the kernel was told to write, it may have overwritten its caller: only who gives up has failed. */
	EXPECT_EQ(0, failed);
	note("%llu calls, of which %llu did something; %d processes killed", town->calls,
	     town->good, killed);
	keeps_to_the_rules();
	until_unused();
}

TEST_HARNESS_MAIN
