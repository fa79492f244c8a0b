/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The crowd: what a member does for the others at any time. It checks what comes, and posts
 * receives again.
 */
#ifndef TREADLE_KSELFTEST_CROWD_SERVES_H
#define TREADLE_KSELFTEST_CROWD_SERVES_H

#include "crowd.h"

/*
 * Contexts of receives. The first are for any message, in turn plain and tagged; every other pair
 * of them is scattered.
 */
enum {
	SINGLES = 16,
	MULTIS = SINGLES,
	BOX_RECVS = MULTIS + 2,
	STANDS = BOX_RECVS + CROWD,
	LOOKS = STANDS + CROWD
};

#define MULTI_BYTES (ROOM + 20000)

static const struct cuts pieces = {3, {500, 30000, ROOM - 30500}};

/* The buffer of a receive; one for several messages needs more. */
static char *buffer(struct member *m, __u64 id)
{
	if (id >= BOX_RECVS && id < STANDS)
		return m->region + BOXES + (id - BOX_RECVS) * BOX;
	return m->dst + (id < MULTIS	? id * ROOM :
			 id < BOX_RECVS ? SINGLES * ROOM + (id - MULTIS) * MULTI_BYTES :
					  SINGLES * ROOM + 2 * MULTI_BYTES + (id - STANDS) * ROOM);
}

#define BUFFER_BYTES (SINGLES * ROOM + 2 * MULTI_BYTES + (CROWD + 1) * ROOM)

static bool in_pieces(__u64 id)
{
	return id < SINGLES && id & 2;
}

/* A receive of the ring. */
static void post_ring(struct member *m, __u64 id)
{
	char *at = buffer(m, id);
	struct treadle_desc d = recv_of(at, ROOM, ANY, id);

	if (id >= BOX_RECVS) {
		d = trecv_of(at, BOX, ANY, BOXED + id - BOX_RECVS, 0, id);
	} else if (id >= MULTIS) {
		d.len = MULTI_BYTES;
		d.flags |= TREADLE_F_MULTI_RECV;
		d.data = ROOM;
		m->multi[id - MULTIS] = (struct multi){0};
	} else if (id & 1) {
		d = trecv_of(at, ROOM, ANY, TAGGED, OTHER_BITS, id);
	}
	if (in_pieces(id)) {
		struct command c = {.d = d};

		cut_local(&c, &pieces);
		ring_put_vector(&m->n[0].rx, &c.d, c.more[0].iov);
		if (ring_needs_doorbell(&m->n[0].rx))
			need(ring_doorbell(&m->n[0].rx) == 0);
	} else {
		need(post_recv(&m->n[0], d) == 0);
	}
}

/* --- messages --------------------------------------------------------------------------- */

/* A completion must agree with the contents of its message. */
static void agrees(struct member *m, const char *buf, const struct treadle_cqe *e, int end)
{
	struct head h = whole(buf, e->len);
	__u32 flags = TREADLE_CQ_RECV | (h.data ? TREADLE_CQ_REMOTE_CQ_DATA : 0);

	need(h.tag == e->tag && h.end == end);
	if (h.tag == PLAIN)
		flags |= TREADLE_CQ_MSG;
	else
		flags |= h.tag == COLLECTIVE ? TREADLE_CQ_COLLECTIVE : TREADLE_CQ_TAGGED;
	need((e->flags & ~TREADLE_CQ_MULTI_RECV) == flags);
	need(!h.data || e->data == h.data);
	/* The vector of the second endpoint is empty. */
	need(end ? e->src == TREADLE_ADDR_ANY :
		   !names_a_live_peer(m, e) || place_of_index(m, e->src) == h.from);
	came_from(m, h.from, h.seed);
	did(m, RECEIVED);
	if (h.data)
		did(m, DATA);
	if (end)
		did(m, SHARED);
}

/*
 * A receive may end with an error only if the sender has died. A source that is not in the vector
 * is not known.
 */
static void expect_sender_death(struct member *m, const struct treadle_cqe *e)
{
	need(e->error == ECONNRESET && !names_a_live_peer(m, e));
}

/*
 * Messages lie one behind the other, without gaps. The buffer is posted again once all that has
 * come is checked.
 */
static void part_came(struct member *m, const struct treadle_cqe *e, int end)
{
	struct multi *multi = &m->multi[e->context - MULTIS];
	__u64 start = (unsigned long)buffer(m, e->context);

	need(!multi->over || !(e->flags & TREADLE_CQ_MULTI_RECV));
	multi->over |= !!(e->flags & TREADLE_CQ_MULTI_RECV);
	if (e->error) {
		expect_sender_death(m, e);
		multi->torn = true;
	} else if (e->flags != TREADLE_CQ_MULTI_RECV) {
		need(e->buf >= start && e->buf + e->len <= start + MULTI_BYTES);
		agrees(m, (char *)(unsigned long)e->buf, e, end);
		multi->bytes += e->len;
		if (multi->end < e->buf + e->len - start)
			multi->end = e->buf + e->len - start;
		did(m, PARTS);
	}
}

static void multi_again(struct member *m, int i)
{
	struct multi *multi = &m->multi[i];

	if (!multi->over)
		return;
	if (!multi->torn) {
		need(multi->bytes == multi->end);
		did(m, BUFFERS);
	}
	post_ring(m, MULTIS + i);
}

static void message_came(struct member *m, const struct treadle_cqe *e, int end)
{
	char *at = buffer(m, e->context);

	if (e->error) {
		expect_sender_death(m, e);
	} else if (in_pieces(e->context)) {
		gather(m->flat, at, &pieces);
		agrees(m, m->flat, e, end);
		did(m, SCATTERED);
	} else {
		agrees(m, at, e, end);
	}
	post_ring(m, e->context);
}

/*
 * A peer has written, with data. It does not write again before this is acknowledged. The successor
 * of a dead peer does not know of its write.
 */
static void write_came(struct member *m, const struct treadle_cqe *e)
{
	int from = e->data >> 24 & 0xff;
	struct place seen, *p;
	struct head h;

	need(e->error == 0 && from < CROWD && e->len == (e->data & 0xffffff));
	need(e->flags == (TREADLE_CQ_RMA | TREADLE_CQ_REMOTE_WRITE | TREADLE_CQ_REMOTE_CQ_DATA));
	if (!is_whole(m->region + from * STRIDE + 4096, e->len, &h) || h.data != e->data) {
		p = look(m, from, &seen);
		need(!p || seen.pid != e->data >> (32 + SEEDS));
	}
	__atomic_store_n(&m->c->told[m->me][from], e->data, __ATOMIC_RELEASE);
}

/* --- collective messages ------------------------------------------------------------------ */

/* Posts a receive for each peer that is there. It ends with the peer at the latest. */
static void stand(struct member *m, int other)
{
	struct standing *s = &m->stands[other];
	struct command c = {0};

	if (s->posted || !look(m, other, &s->seen))
		return;
	s->index = peer(&m->n[0], s->seen.addr[0]);
	c.d = trecv_of(buffer(m, STANDS + other), ROOM, s->index, COLLECTIVE, 0, STANDS + other);
	c.d.flags |= TREADLE_F_COLLECTIVE;
	s->posted = true;
	issue(m, &c);
}

static void collective_came(struct member *m, const struct treadle_cqe *e)
{
	int other = e->context - STANDS;
	struct standing *s = &m->stands[other];
	char *at = buffer(m, e->context);

	need(s->posted);
	s->posted = false;
	need(av_remove(m->n[0].fd, m->n[0].av, &s->index, 1) == 0);
	expect_death(m, &m->c->place[other], &s->seen, e->error);
	if (!e->error) {
		agrees(m, at, e, 0);
		need(((struct head *)at)->from == other);
	}
	did(m, e->error ? SOURCELESS : GATHERED);
}

/* --- messages that wait for a peek ------------------------------------------------ */

enum { LOOKS_AWAY, GLANCES, CLAIMS, DISCARDS, RECEIVES_CLAIMED, DISCARDS_CLAIMED };

static void look_again(struct member *m, int how)
{
	static const __u32 flags[] = {
		[GLANCES] = TREADLE_F_PEEK,
		[CLAIMS] = TREADLE_F_PEEK | TREADLE_F_CLAIM,
		[DISCARDS] = TREADLE_F_PEEK | TREADLE_F_DISCARD,
		[RECEIVES_CLAIMED] = TREADLE_F_CLAIM,
		[DISCARDS_CLAIMED] = TREADLE_F_CLAIM | TREADLE_F_DISCARD,
	};
	struct command c = {.d = trecv_of(buffer(m, LOOKS), how == RECEIVES_CLAIMED ? ROOM : 0, ANY,
					  KEPT, 0, LOOKS)};

	c.d.flags |= flags[how];
	m->looks = how;
	issue(m, &c);
}

/* The data contains the length, so the length is known of messages that are not received, too. */
static void looked(struct member *m, const struct treadle_cqe *e)
{
	int how = m->looks;

	m->looks = LOOKS_AWAY;
	need(how != LOOKS_AWAY);
	if (e->error) {
		/* A peek finds no message, or a claimed message waited at a sender that died. */
		if (how >= RECEIVES_CLAIMED)
			expect_sender_death(m, e);
		else
			need(e->error == ENOMSG);
		return;
	}
	need(e->tag == KEPT && e->len == (e->data & 0xffffff) && e->data != m->dropped);
	need(e->flags == (TREADLE_CQ_RECV | TREADLE_CQ_TAGGED | TREADLE_CQ_REMOTE_CQ_DATA));
	if (how >= RECEIVES_CLAIMED)
		need(e->data == m->claimed);
	switch (how) {
	case GLANCES:
		did(m, PEEKED);
		break;
	case CLAIMS:
		m->claimed = e->data;
		look_again(m, roll(m, 4) ? RECEIVES_CLAIMED : DISCARDS_CLAIMED);
		break;
	case RECEIVES_CLAIMED:
		agrees(m, buffer(m, LOOKS), e, ((struct head *)buffer(m, LOOKS))->end);
		did(m, CLAIMED);
		break;
	default:
		m->dropped = e->data;
		came_from(m, e->data >> 24 & 0xff, e->data >> 32);
		did(m, DISCARDED);
	}
}

/* --- calls ------------------------------------------------------------------------------------ */

static void node_destroy(struct node *n)
{
	node_unmap(n);
	need(destroy(n->fd, n->ep) == 0);
	need(destroy(n->fd, n->tx.id) == 0 && destroy(n->fd, n->rx.id) == 0);
	need(destroy(n->fd, n->cq.id) == 0 && destroy(n->fd, n->rcq.id) == 0);
	need(destroy(n->fd, n->sent.id) == 0 && destroy(n->fd, n->rcvd.id) == 0);
}

static struct options own(struct member *m, __u32 request)
{
	return (struct options){
		.context = m->n[0].fd, .tx = 4, .rx = 4, .cq = 8, .rcq = 8, .request = request};
}

/* A peer asks for a connection: accepted, unless there are too many. */
static void answer(struct member *m, __u32 request)
{
	int result;

	for (int i = 0; i < CALLS; i++) {
		struct caller *c = &m->callers[i];

		if (c->used)
			continue;
		c->used = true;
		msg_open(&c->n, own(m, request), m->l.eq, i);
		need(post_recv(&c->n, recv_of(c->buf, ROOM, ANY, 1)) == 0);
		result = accept_with(c->n.fd, c->n.ep, NULL, 0);
		if (result) {
			need(result == -ECONNRESET); /* the peer has gone already */
			node_destroy(&c->n);
			c->used = false;
		}
		return;
	}
	reject_with(m->l.fd, m->l.ep, request, "busy", 4);
}

/* A caller sends something, gets it back, and hangs up. */
static void serve(struct member *m)
{
	struct treadle_event ev;
	struct treadle_cqe e;

	while (event_take(m->l.eq, &ev) > 0) {
		if (ev.event == TREADLE_EVENT_CONNREQ) {
			answer(m, ev.request);
		} else if (ev.event == TREADLE_EVENT_SHUTDOWN) {
			node_destroy(&m->callers[ev.context].n);
			m->callers[ev.context].used = false;
		}
	}
	for (int i = 0; i < CALLS; i++) {
		struct caller *c = &m->callers[i];

		if (!c->used || !cq_poll(&c->n.rcq, &e) || e.error)
			continue;
		whole(c->buf, e.len);
		ring_put(&c->n.tx, &(struct treadle_desc){.opcode = TREADLE_OP_SEND,
							  .iov_count = 1,
							  .addr = (unsigned long)c->buf,
							  .len = e.len});
		ring_publish(&c->n.tx);
		ring_doorbell(&c->n.tx); /* the peer may have gone */
	}
}

/* --- all of it ---------------------------------------------------------------------------- */

static bool take(struct cq *q, struct treadle_cqe *e)
{
	if (cq_poll(q, e))
		return true;
	return cq_overflows(q) && doorbell(q->fd, q->id) == 0 && cq_poll(q, e);
}

static void came(struct member *m, const struct treadle_cqe *e, int end)
{
	if (e->flags & TREADLE_CQ_REMOTE_WRITE)
		write_came(m, e);
	else if (e->context == LOOKS)
		looked(m, e);
	else if (e->context >= STANDS)
		collective_came(m, e);
	else if (e->context >= MULTIS && e->context < BOX_RECVS)
		part_came(m, e, end);
	else
		message_came(m, e, end);
}

/* Checks what has come, and posts receives again. */
static void attend(struct member *m)
{
	struct treadle_cqe e;
	bool quiet;

	/*
	 * A buffer ends in the queue of one endpoint when all of its parts are in the queues of
	 * both.
	 */
	do {
		quiet = true;
		for (int end = 0; end < ENDS; end++)
			for (; take(&m->n[end].rcq, &e); quiet = false)
				came(m, &e, end);
	} while (!quiet);
	for (int i = 0; i < 2; i++)
		multi_again(m, i);
	for (int i = 0; i < CROWD; i++)
		stand(m, i);
	if (m->looks == LOOKS_AWAY && roll(m, 3) == 0)
		look_again(m, GLANCES + roll(m, 3));
	serve(m);
}

#endif
