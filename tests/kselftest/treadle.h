/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for tests of the ABI: a minimal client of /dev/treadle, written from the two headers in
 * uapi/treadle/ alone.
 *
 * Calls that a test expects to fail return -errno. Set-up that is not the subject of a test ends
 * the test if it fails.
 */
#ifndef TREADLE_KSELFTEST_H
#define TREADLE_KSELFTEST_H

#include "support.h"

#include <treadle/ioctl.h>
#include <treadle/ring.h>

#define ANY TREADLE_ADDR_ANY

/* --- calling --------------------------------------------------------------- */

static inline int call(int fd, unsigned long cmd, const void *arg)
{
	int result = ioctl(fd, cmd, arg);

	return result < 0 ? -errno : result;
}

static inline int device(void)
{
	int fd = open(TREADLE_DEVICE, O_RDWR | O_CLOEXEC);

	need(fd >= 0);
	return fd;
}

static inline struct treadle_query query(int fd)
{
	struct treadle_query q = {.size = sizeof(q)};

	need(call(fd, TREADLE_IOC_QUERY, &q) == 0);
	return q;
}

static inline int doorbell(int fd, __u32 id)
{
	return call(fd, TREADLE_IOC_DOORBELL, (void *)(unsigned long)id);
}

/* The same by lseek(), which is shorter. */
static inline long doorbell_seek(int fd, __u64 id)
{
	long rc = lseek(fd, id, SEEK_SET);

	return rc < 0 ? -errno : rc;
}

static inline int destroy(int fd, __u32 id)
{
	struct treadle_destroy d = {.size = sizeof(d), .id = id};

	return call(fd, TREADLE_IOC_DESTROY, &d);
}

static inline void *map(int fd, struct treadle_map m, int prot)
{
	void *at = mmap(NULL, m.length, prot, MAP_SHARED, fd, m.offset);

	need(at != MAP_FAILED);
	return at;
}

/* --- objects --------------------------------------------------------------- */

/* A transmit or a receive ring. */
struct ring {
	int fd;
	__u32 id;
	__u32 entries;
	__u32 prod;
	struct treadle_map rw_map, ro_map;
	struct treadle_ring_prod *rw;
	const struct treadle_ring_cons *ro;
	union treadle_slot *slots;
};

struct cq {
	int fd;
	__u32 id;
	__u32 entries;
	__u32 cons;
	struct treadle_map rw_map, ro_map;
	struct treadle_cq_cons *rw;
	const struct treadle_cq_prod *ro;
	const struct treadle_cqe *cqes;
};

struct cntr {
	int fd;
	__u32 id;
	const struct treadle_cntr_page *page;
};

static inline void ring_open(struct ring *r, int fd, unsigned long cmd, __u32 flags, __u32 entries,
			     __u32 buffered)
{
	struct treadle_ring_create c = {
		.size = sizeof(c), .flags = flags, .entries = entries, .buffered = buffered};

	need(call(fd, cmd, &c) == 0);
	*r = (struct ring){.fd = fd,
			   .id = c.id,
			   .entries = c.entries,
			   .rw_map = c.rw,
			   .ro_map = c.ro,
			   .rw = map(fd, c.rw, PROT_READ | PROT_WRITE),
			   .ro = map(fd, c.ro, PROT_READ)};
	r->slots = (void *)((char *)r->rw + TREADLE_SLOTS_OFFSET);
}

static inline void tx_open(struct ring *r, int fd, __u32 entries)
{
	ring_open(r, fd, TREADLE_IOC_TX_CREATE, 0, entries, 0);
}

static inline void rx_open(struct ring *r, int fd, __u32 entries, __u32 buffered)
{
	ring_open(r, fd, TREADLE_IOC_RX_CREATE, 0, entries, buffered);
}

static inline void cq_open(struct cq *q, int fd, __u32 entries)
{
	struct treadle_cq_create c = {.size = sizeof(c), .entries = entries};

	need(call(fd, TREADLE_IOC_CQ_CREATE, &c) == 0);
	*q = (struct cq){.fd = fd,
			 .id = c.id,
			 .entries = c.entries,
			 .rw_map = c.rw,
			 .ro_map = c.ro,
			 .rw = map(fd, c.rw, PROT_READ | PROT_WRITE),
			 .ro = map(fd, c.ro, PROT_READ)};
	q->cqes = (const void *)((const char *)q->ro + TREADLE_SLOTS_OFFSET);
}

static inline void cntr_open_as(struct cntr *c, int fd, __u32 flags)
{
	struct treadle_cntr_create create = {.size = sizeof(create), .flags = flags};

	need(call(fd, TREADLE_IOC_CNTR_CREATE, &create) == 0);
	*c = (struct cntr){.fd = fd, .id = create.id, .page = map(fd, create.ro, PROT_READ)};
}

static inline void cntr_open(struct cntr *c, int fd)
{
	cntr_open_as(c, fd, 0);
}

static inline __u32 av_open(int fd)
{
	struct treadle_av_create c = {.size = sizeof(c), .count = 8};

	need(call(fd, TREADLE_IOC_AV_CREATE, &c) == 0);
	return c.id;
}

static inline int av_insert(int fd, __u32 av, const struct treadle_addr *addrs, __u32 *count,
			    __u64 *out)
{
	struct treadle_av_insert c = {.size = sizeof(c),
				      .av = av,
				      .count = *count,
				      .addrs = (unsigned long)addrs,
				      .out = (unsigned long)out};
	int result = call(fd, TREADLE_IOC_AV_INSERT, &c);

	*count = c.count;
	return result;
}

static inline int av_remove(int fd, __u32 av, const __u64 *indices, __u32 count)
{
	struct treadle_av_remove r = {
		.size = sizeof(r), .av = av, .count = count, .indices = (unsigned long)indices};

	return call(fd, TREADLE_IOC_AV_REMOVE, &r);
}

/* An endpoint, with one of each object that it can be bound to. */
struct node {
	int fd;
	__u32 ep, av;
	struct treadle_addr addr;
	struct ring tx, rx;
	struct cq cq, rcq; /* for sends, for receives */
	struct cntr sent, rcvd;
};

/* Differences from the defaults. */
struct options {
	int context;	       /* file; 0: a new one */
	__u32 tx, rx, cq, rcq; /* entries */
	__u32 buffered;
	__u32 rx_flags;
	__u32 flags; /* of EP_ENABLE */
	__u32 type;  /* of endpoint; 0: RDM */
	__u32 request;
	struct ring *shared_rx; /* a shared ring instead of one of its own */
	struct treadle_addr addr;
	const char *auth_key;
};

static inline struct treadle_addr loopback(__u16 port)
{
	return (struct treadle_addr){
		.family = AF_INET, .port = htons(port), .addr = {127, 0, 0, 1}};
}

/* Creates an endpoint without enabling it; returns 0 or -errno. */
static inline int ep_create_as(int fd, __u32 type, __u32 request, struct treadle_addr *addr,
			       const char *auth_key, __u32 *id)
{
	struct treadle_ep_create c = {.size = sizeof(c),
				      .type = type,
				      .addr = *addr,
				      .auth_key = (unsigned long)auth_key,
				      .auth_key_size = auth_key ? strlen(auth_key) : 0,
				      .request = request};
	int result = call(fd, TREADLE_IOC_EP_CREATE, &c);

	if (result == 0) {
		*addr = c.addr;
		*id = c.id;
	}
	return result;
}

static inline int ep_create(int fd, struct treadle_addr *addr, const char *auth_key, __u32 *id)
{
	return ep_create_as(fd, TREADLE_EP_RDM, 0, addr, auth_key, id);
}

/* All but EP_ENABLE. */
static inline void node_create(struct node *n, struct options o)
{
	n->fd = o.context ?: device();
	n->addr = o.addr.family ? o.addr : loopback(0);
	cq_open(&n->cq, n->fd, o.cq ?: 256);
	cq_open(&n->rcq, n->fd, o.rcq ?: 256);
	cntr_open(&n->sent, n->fd);
	cntr_open(&n->rcvd, n->fd);
	tx_open(&n->tx, n->fd, o.tx ?: 64);
	if (o.shared_rx)
		n->rx = *o.shared_rx;
	else
		ring_open(&n->rx, n->fd, TREADLE_IOC_RX_CREATE, o.rx_flags, o.rx ?: 64, o.buffered);
	n->av = o.type == TREADLE_EP_MSG ? 0 : av_open(n->fd);
	need(ep_create_as(n->fd, o.type ?: TREADLE_EP_RDM, o.request, &n->addr, o.auth_key,
			  &n->ep) == 0);
}

static inline struct treadle_ep_enable node_bindings(const struct node *n)
{
	return (struct treadle_ep_enable){.size = sizeof(struct treadle_ep_enable),
					  .ep = n->ep,
					  .tx = n->tx.id,
					  .rx = n->rx.id,
					  .av = n->av,
					  .tx_cq = n->cq.id,
					  .rx_cq = n->rcq.id,
					  .cntr_send = n->sent.id,
					  .cntr_recv = n->rcvd.id};
}

static inline void node_open(struct node *n, struct options o)
{
	struct treadle_ep_enable e;

	node_create(n, o);
	e = node_bindings(n);
	e.flags = o.flags;
	need(call(n->fd, TREADLE_IOC_EP_ENABLE, &e) == 0);
}

/* Inserts @addr into the vector of @n; returns its index. */
static inline __u64 peer(const struct node *n, struct treadle_addr addr)
{
	__u32 count = 1;
	__u64 index;

	need(av_insert(n->fd, n->av, &addr, &count, &index) == 0 && count == 1);
	return index;
}

/* Registers ranges; returns 0 or -errno, and id and key. */
static inline int mr_ranges(int fd, const struct treadle_iov *iov, __u32 count, __u32 access,
			    __u32 flags, __u64 *key, __u32 *id)
{
	struct treadle_mr_create c = {
		.size = sizeof(c),
		.flags = flags,
		.access = access,
		.iov_count = count,
		.iov = (unsigned long)iov,
		.key = key ? *key : 0,
	};
	int result = call(fd, TREADLE_IOC_MR_CREATE, &c);

	if (key && result == 0)
		*key = c.key;
	*id = c.id;
	return result;
}

static inline int mr(int fd, const void *buf, __u64 len, __u32 access, __u32 flags, __u64 *key,
		     __u32 *id)
{
	struct treadle_iov iov = {(unsigned long)buf, len};

	return mr_ranges(fd, &iov, 1, access, flags, key, id);
}

/* --- commands -------------------------------------------------------------- */

static inline struct treadle_desc send_of(const void *buf, __u64 len, __u64 to, __u64 context)
{
	return (struct treadle_desc){.opcode = TREADLE_OP_SEND,
				     .flags = TREADLE_F_COMPLETION,
				     .iov_count = !!len,
				     .addr = len ? (unsigned long)buf : 0,
				     .len = len,
				     .peer = to,
				     .context = context};
}

static inline struct treadle_desc tsend_of(const void *buf, __u64 len, __u64 to, __u64 tag,
					   __u64 context)
{
	struct treadle_desc d = send_of(buf, len, to, context);

	d.opcode = TREADLE_OP_TSEND;
	d.tag = tag;
	return d;
}

static inline struct treadle_desc recv_of(void *buf, __u64 len, __u64 from, __u64 context)
{
	struct treadle_desc d = send_of(buf, len, from, context);

	d.opcode = TREADLE_OP_RECV;
	return d;
}

static inline struct treadle_desc trecv_of(void *buf, __u64 len, __u64 from, __u64 tag,
					   __u64 ignore, __u64 context)
{
	struct treadle_desc d = send_of(buf, len, from, context);

	d.opcode = TREADLE_OP_TRECV;
	d.tag = tag;
	d.ignore = ignore;
	return d;
}

static inline struct treadle_desc read_of(void *buf, __u64 len, __u64 from, __u64 at, __u64 key,
					  __u64 context)
{
	struct treadle_desc d = send_of(buf, len, from, context);

	d.opcode = TREADLE_OP_READ;
	d.remote_addr = at;
	d.remote_key = key;
	return d;
}

static inline struct treadle_desc write_of(const void *buf, __u64 len, __u64 to, __u64 at,
					   __u64 key, __u64 context)
{
	struct treadle_desc d = read_of((void *)buf, len, to, at, key, context);

	d.opcode = TREADLE_OP_WRITE;
	return d;
}

static inline struct treadle_desc count_of(__u8 opcode, const struct cntr *c, __u64 value,
					   __u64 context)
{
	return (struct treadle_desc){.opcode = opcode,
				     .peer = c->id,
				     .data = value,
				     .context = context,
				     .flags = TREADLE_F_WORK};
}

static inline struct treadle_desc when(struct treadle_desc d, const struct cntr *c, __u64 threshold)
{
	d.flags |= TREADLE_F_EXT | TREADLE_F_COND_CNTR;
	d.cond = c->id;
	d.threshold = threshold;
	return d;
}

static inline struct treadle_desc then(struct treadle_desc d, const struct cntr *c)
{
	d.flags |= TREADLE_F_EXT | TREADLE_F_NOTIFY;
	d.notify = c->id;
	return d;
}

static inline __u32 ring_released(const struct ring *r)
{
	return __atomic_load_n(&r->ro->released, __ATOMIC_ACQUIRE);
}

static inline __u32 ring_room(const struct ring *r)
{
	return r->entries - (r->prod - ring_released(r));
}

/* Writes one slot, which the kernel does not see before ring_publish(). */
static inline void ring_put(struct ring *r, const void *slot)
{
	memcpy(&r->slots[r->prod++ & (r->entries - 1)], slot, sizeof(*r->slots));
}

static inline void ring_publish(struct ring *r)
{
	__atomic_store_n(&r->rw->prod, r->prod, __ATOMIC_RELEASE);
}

static inline bool ring_needs_doorbell(const struct ring *r)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&r->ro->flags, __ATOMIC_RELAXED) & TREADLE_RING_DOORBELL;
}

static inline int ring_doorbell(const struct ring *r)
{
	return doorbell(r->fd, r->id);
}

/* Waits until commands that finish have released so many slots. */
static inline void ring_wait(struct ring *r, __u32 slots)
{
	while (ring_room(r) < slots)
		sched_yield();
}

/* Posts to a transmit ring; returns the doorbell's result, 1 if the command was taken. */
static inline int post(struct node *n, struct treadle_desc d)
{
	ring_wait(&n->tx, 1);
	ring_put(&n->tx, &d);
	ring_publish(&n->tx);
	return ring_doorbell(&n->tx);
}

/* Posts to a receive ring, and rings the doorbell if there are unmatched messages. */
static inline int post_recv(struct node *n, struct treadle_desc d)
{
	ring_wait(&n->rx, 1);
	ring_put(&n->rx, &d);
	ring_publish(&n->rx);
	return ring_needs_doorbell(&n->rx) ? ring_doorbell(&n->rx) : 0;
}

/* The same command with @count buffers instead of one. */
static inline struct treadle_desc vector(struct treadle_desc d, const struct treadle_iov *iov,
					 int count)
{
	d.iov_count = count;
	d.addr = 0;
	d.len = 0;
	for (int i = 0; i < count; i++)
		d.len += iov[i].len;
	return d;
}

static inline void ring_put_vector(struct ring *r, const struct treadle_desc *d,
				   const struct treadle_iov *iov)
{
	union treadle_slot second = {0};

	memcpy(second.iov, iov, d->iov_count * sizeof(*iov));
	ring_wait(r, 2);
	ring_put(r, d);
	ring_put(r, &second);
	ring_publish(r);
}

/* side: TREADLE_CANCEL_*, or 0 */
static inline int cancel_of(int fd, __u32 side, __u32 kind, __u32 id, __u64 context,
			    __u64 threshold, __u64 *count)
{
	struct treadle_cancel c = {.size = sizeof(c),
				   .kind = kind,
				   .id = id,
				   .flags = side,
				   .context = context,
				   .threshold = threshold};
	int result = call(fd, TREADLE_IOC_CANCEL, &c);

	if (count)
		*count = c.count;
	return result;
}

static inline int cancel(int fd, __u32 kind, __u32 id, __u64 context, __u64 threshold, __u64 *count)
{
	return cancel_of(fd, 0, kind, id, context, threshold, count);
}

/* --- completions ----------------------------------------------------------- */

static inline bool cq_poll(struct cq *q, struct treadle_cqe *cqe)
{
	if (__atomic_load_n(&q->ro->prod, __ATOMIC_ACQUIRE) == q->cons)
		return false;
	*cqe = q->cqes[q->cons & (q->entries - 1)];
	__atomic_store_n(&q->rw->cons, ++q->cons, __ATOMIC_RELEASE);
	return true;
}

static inline bool cq_overflows(const struct cq *q)
{
	return __atomic_load_n(&q->ro->flags, __ATOMIC_RELAXED) & TREADLE_CQ_OVERFLOW;
}

static inline int cq_wait(const struct cq *q, __s64 timeout_ns)
{
	struct treadle_wait w = {.size = sizeof(w), .id = q->id, .timeout_ns = timeout_ns};

	return call(q->fd, TREADLE_IOC_WAIT, &w);
}

/*
 * Logs the state of a queue without completions, and the stacks of the threads that could add one.
 */
static inline void log_stuck_queue(const struct cq *q)
{
	note("queue %u: read up to %u of %u, flags %u", q->id, q->cons, q->ro->prod, q->ro->flags);
	system("for c in $(grep -lE \"^(kworker/u|treadle-|$(cat /proc/$PPID/comm)$)\" "
	       "/proc/[0-9]*/task/*/comm);"
	       "do cat $c ${c%comm}stack; done >&2");
}

/* Waits for the next completion. A child that ends may interrupt the wait. */
static inline struct treadle_cqe cq_next(struct cq *q)
{
	struct treadle_cqe cqe;

	while (!cq_poll(q, &cqe)) {
		int result = cq_overflows(q) ? doorbell(q->fd, q->id) : cq_wait(q, PATIENCE_NS);

		if (result == -ETIMEDOUT)
			log_stuck_queue(q);
		need(result == 0 || result == -EINTR);
	}
	return cqe;
}

/* No completion is in the ring, or kept. Operations under way don't count. */
static inline bool cq_empty(struct cq *q)
{
	return __atomic_load_n(&q->ro->prod, __ATOMIC_ACQUIRE) == q->cons && !cq_overflows(q);
}

static inline __u64 cntr_value(const struct cntr *c)
{
	return __atomic_load_n(&c->page->success, __ATOMIC_ACQUIRE);
}

static inline __u64 cntr_errors(const struct cntr *c)
{
	return __atomic_load_n(&c->page->error, __ATOMIC_ACQUIRE);
}

/* Waits until the counter has these values. A worker may count after the completion is written. */
static inline bool cntr_becomes(const struct cntr *c, __u64 value, __u64 errors)
{
	__u64 end = now_ns() + PATIENCE_NS;

	while (cntr_value(c) + cntr_errors(c) < value + errors && now_ns() < end)
		sched_yield();
	return cntr_value(c) == value && cntr_errors(c) == errors;
}

static inline int cntr_wait(const struct cntr *c, __u64 threshold, __u64 error, __s64 timeout_ns)
{
	struct treadle_wait w = {.size = sizeof(w),
				 .id = c->id,
				 .timeout_ns = timeout_ns,
				 .threshold = threshold,
				 .error = error};

	return call(c->fd, TREADLE_IOC_WAIT, &w);
}

#endif /* TREADLE_KSELFTEST_H */
