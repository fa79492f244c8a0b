/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The crowd of crowd.c: what its members know of each other and count, what a message contains, and
 * how a command is made of pieces.
 */
#ifndef TREADLE_KSELFTEST_CROWD_H
#define TREADLE_KSELFTEST_CROWD_H

#include "connection.h"
#include "triggers.h"

#include <treadle/atomic.h>

#define CROWD 8
#define ROOM  200000UL /* of a message, and of each writer in the memory of each peer */
#define BOX   32768UL  /* of a delivery */
#define WORDS 4	       /* of each writer, for compares */
#define ENDS  2	       /* endpoints of a member, which share a receive ring */
#define CALLS 3	       /* connections that a member serves at a time */

/*
 * What happens, each of it in every run. A member counts its own commands that succeeded, and what
 * came to it, after a check.
 */
#define KINDS(_)                                                  \
	_(MESSAGES, "batches of messages")                        \
	_(WRITES, "writes and reads")                             \
	_(SUMS, "sums")                                           \
	_(COMPARES, "comparisons")                                \
	_(DELIVERIES, "deliveries that were there on completion") \
	_(COLLECTIVES, "collective messages")                     \
	_(REPEATS, "repeating commands")                          \
	_(CALLED, "calls")                                        \
	_(INJECTS, "injected")                                    \
	_(FENCES, "fences with commands on both sides")           \
	_(VECTORS, "vectors")                                     \
	_(RANGES, "remote ranges")                                \
	_(RESULTS, "vectors of results")                          \
	_(NOTIFIED, "counted")                                    \
	_(BY_COUNTER, "started by a counter")                     \
	_(BY_CELL, "started by a cell")                           \
	_(TOLD, "writes with remote data")                        \
	_(RECEIVED, "received")                                   \
	_(DATA, "with data")                                      \
	_(SCATTERED, "into vectors")                              \
	_(SHARED, "from another endpoint's ring")                 \
	_(PARTS, "parts of multi-receives")                       \
	_(BUFFERS, "multi-receives")                              \
	_(PEEKED, "looked at")                                    \
	_(CLAIMED, "claimed")                                     \
	_(DISCARDED, "discarded")                                 \
	_(GATHERED, "collective receives")                        \
	_(SOURCELESS, "without their source")                     \
	_(ANSWERED, "calls with an answer")                       \
	_(SETTLED, "accounted for between survivors")             \
	_(ERRORS, "errors")

#define KIND(name, text) name,
enum kind { KINDS(KIND) KIND_COUNT };

/*
 * A place in the crowd. @generation: the generation of its process. It changes before a process is
 * killed: if it is the same before and after an operation, the process was alive. @here: the
 * generation that the other fields are of.
 */
struct place {
	__u64 generation, here;
	struct treadle_addr addr[ENDS], listens;
	__u64 key, pid;
};

/* Messages between two members: @pid of the other one, and the sum of their seeds. */
struct account {
	__u64 pid, count, sum;
};

struct crowd {
	struct place place[CROWD];
	__u64 done[KIND_COUNT];
	/* by receiver and writer: the last data of a write that the receiver has seen */
	__u64 told[CROWD][CROWD];
	/* by sender and receiver, once no member sends any more */
	struct account sent[CROWD][CROWD];
	int stop, silent, settled;
	__u32 owners[1 << 16]; /* how many processes have had each port */
};

/*
 * The start of each message; the bytes of fill() follow. @end: the endpoint at which it arrives.
 * @data: the data beside it, or 0.
 */
struct head {
	__u64 seed, len, tag, data;
	__u32 from, end;
};

/* Tags. PLAIN is for receives without a tag, all others for TRECV. */
enum { PLAIN = 0, TAGGED = 1, KEPT = 2, COLLECTIVE = 3, BOXED = 16 };
#define OTHER_BITS 0xff00ULL /* bits of a tag that its receives ignore */

/* The private state of a process. */
struct member {
	struct crowd *c;
	int me;
	__u64 life, dice, seeds, contexts;
	struct node n[ENDS];
	struct listener l;
	struct caller {
		bool used;
		struct node n;
		char *buf;
	} callers[CALLS];
	/*
	 * What it knows of the process at a place: its generation, its indices, and the words of
	 * this process there.
	 */
	struct acquaintance {
		__u64 generation, index[ENDS], compared, words[WORDS], counted, count;
	} knows[CROWD];
	struct account sent[CROWD], came[CROWD]; /* of messages that succeeded */
	struct standing {			 /* a collective receive */
		bool posted;
		__u64 index;
		struct place seen;
	} stands[CROWD];
	struct multi {
		__u64 bytes, end;
		bool over, torn;
	} multi[2];
	int looks;		/* how it looks at messages that wait for a peek */
	__u64 claimed, dropped; /* data of messages */
	struct cntr told, go, ran;
	__u64 goes;
	struct cells cells;
	__u64 stored;
	char *src, *dst, *region, *got, *flat;
};

/*
 * The region: for each writer a counter, its words and, a page further, ROOM bytes; then a box for
 * each writer.
 */
#define STRIDE (ROOM + 4096)
#define BOXES  (CROWD * STRIDE)
#define REGION (BOXES + CROWD * BOX)

static void attend(struct member *m);

static void did(struct member *m, enum kind kind)
{
	__atomic_fetch_add(&m->c->done[kind], 1, __ATOMIC_RELAXED);
}

static __u32 roll(struct member *m, __u32 sides)
{
	return lottery(&m->dice) % sides;
}

static bool is_alive(const struct place *p, const struct place *seen)
{
	return __atomic_load_n(&p->generation, __ATOMIC_ACQUIRE) == seen->generation;
}

static struct place *look(struct member *m, int other, struct place *seen)
{
	struct place *p = &m->c->place[other];

	seen->generation = __atomic_load_n(&p->generation, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&p->here, __ATOMIC_ACQUIRE) != seen->generation)
		return NULL;
	seen->here = seen->generation;
	memcpy(seen->addr, p->addr, sizeof(seen->addr));
	seen->listens = p->listens;
	seen->key = p->key;
	seen->pid = p->pid;
	return is_alive(p, seen) ? p : NULL;
}

/* A seed names the sender and the message, in the 32 bits that fill() uses. */
#define SEEDS 17 /* bits */

static __u32 pid_bits(void)
{
	return (__u32)getpid() & ((1 << (32 - SEEDS)) - 1);
}

static void book(struct account *a, __u64 pid, __u64 seed)
{
	if (a->pid != pid)
		*a = (struct account){.pid = pid};
	a->count++;
	a->sum += seed;
}

/* Counts a message that was sent with success. */
static void sent_to(struct member *m, int other, const struct place *seen, __u64 seed)
{
	book(&m->sent[other], seen->pid, seed);
}

/* Counts a message that has come, unless its sender has died. */
static void came_from(struct member *m, int other, __u64 seed)
{
	struct place seen;

	need(other < CROWD);
	if (look(m, other, &seen) && seen.pid == seed >> SEEDS)
		book(&m->came[other], seen.pid, seed);
}

/* The index of the place's endpoint @end. The entries of its former process are removed. */
static __u64 index_of(struct member *m, int other, const struct place *seen, int end)
{
	struct acquaintance *k = &m->knows[other];

	if (k->generation != seen->generation) {
		if (k->generation)
			need(av_remove(m->n[0].fd, m->n[0].av, k->index, ENDS) == 0);
		*k = (struct acquaintance){.generation = seen->generation};
		for (int i = 0; i < ENDS; i++)
			k->index[i] = peer(&m->n[0], seen->addr[i]);
	}
	return k->index[end];
}

/* Only a peer that died may have caused the error. */
static void expect_death(struct member *m, const struct place *p, const struct place *seen,
			 __u32 error)
{
	bool alive = is_alive(p, seen), known = false;
	static const __u32 errors[] = {ECONNRESET, ECONNREFUSED, EKEYREJECTED, ESHUTDOWN,
				       ECANCELED};

	if (!error)
		return;
	for (int i = 0; i < ARRAY_SIZE(errors); i++)
		known |= error == errors[i];
	if (alive || !known)
		note("%d: error %u of a peer that %s", m->me, error, alive ? "is alive" : "died");
	need(!alive && known);
	did(m, ERRORS);
}

/* The place of the peer with this index in the first endpoint's vector, or -1. */
static int place_of_index(struct member *m, __u64 index)
{
	for (int other = 0; other < CROWD && index != TREADLE_ADDR_ANY; other++)
		for (int i = 0; i < ENDS; i++)
			if (m->knows[other].generation && m->knows[other].index[i] == index)
				return other;
	return -1;
}

/*
 * Does the completion's source, for the first endpoint, name a live peer? Then a death has not
 * caused it. A port that several processes have had may name a later one.
 */
static bool names_a_live_peer(struct member *m, const struct treadle_cqe *e)
{
	int other = place_of_index(m, e->src);
	struct place seen;

	return other >= 0 && look(m, other, &seen) &&
	       seen.generation == m->knows[other].generation &&
	       __atomic_load_n(&m->c->owners[seen.addr[0].port], __ATOMIC_RELAXED) == 1;
}

/* --- what messages say ------------------------------------------------------------------ */

static size_t some_bytes(struct member *m, size_t room)
{
	const size_t least = sizeof(struct head);

	return least + roll(m, roll(m, 4) ? 2000 : room - least);
}

static __u64 compose(struct member *m, char *buf, size_t bytes, struct head h)
{
	h.seed = pid_bits() << SEEDS | (++m->seeds & ((1 << SEEDS) - 1));
	h.len = bytes;
	h.from = m->me;
	if (h.data)
		h.data = h.seed << 32 | h.from << 24 | bytes;
	memcpy(buf, &h, sizeof(h));
	fill(buf + sizeof(h), bytes - sizeof(h), h.seed);
	return h.seed;
}

static __u64 data_in(const char *buf)
{
	return ((const struct head *)buf)->data;
}

static bool is_whole(const char *buf, size_t bytes, struct head *h)
{
	if (bytes < sizeof(*h))
		return false;
	memcpy(h, buf, sizeof(*h));
	return h->len == bytes && same(buf + sizeof(*h), bytes - sizeof(*h), h->seed);
}

static struct head whole(const char *buf, size_t bytes)
{
	struct head h;

	need(is_whole(buf, bytes, &h));
	return h;
}

/* --- commands ---------------------------------------------------------------------------- */

/* Pieces in reverse order: the last one comes first. */
struct cuts {
	int n;
	__u64 part[WORDS];
};

static struct cuts some_cuts(struct member *m, __u64 len, __u64 grain)
{
	__u64 grains = len / grain;
	struct cuts c = {.n = grains < WORDS ? grains : 2 + roll(m, WORDS - 1)};

	for (int i = 0; i < c.n - 1; i++) {
		c.part[i] = grain * (1 + roll(m, len / grain - (c.n - 1 - i)));
		len -= c.part[i];
	}
	c.part[c.n - 1] = len;
	return c;
}

/* The offset of a piece in the buffer. */
static __u64 place_of(const struct cuts *c, int piece)
{
	__u64 at = 0;

	for (int i = piece + 1; i < c->n; i++)
		at += c->part[i];
	return at;
}

static void scatter(char *to, const char *from, const struct cuts *c)
{
	for (int i = 0; i < c->n; from += c->part[i++])
		memcpy(to + place_of(c, i), from, c->part[i]);
}

static void gather(char *to, const char *from, const struct cuts *c)
{
	for (int i = 0; i < c->n; to += c->part[i++])
		memcpy(to, from + place_of(c, i), c->part[i]);
}

/* A command and its slots, in the order in which they follow it. */
struct command {
	struct treadle_desc d;
	union treadle_slot more[4];
	int slots;
	__u64 seed; /* of a message */
};

static void iov_of(struct command *c, __u64 at, const struct cuts *cuts)
{
	struct treadle_iov *iov = c->more[c->slots++].iov;

	for (int i = 0; i < cuts->n; i++)
		iov[i] = (struct treadle_iov){at + place_of(cuts, i), cuts->part[i]};
}

static void cut_local(struct command *c, const struct cuts *cuts)
{
	if (cuts->n < 2)
		return;
	iov_of(c, c->d.addr, cuts);
	c->d.iov_count = cuts->n;
	c->d.addr = 0;
}

static void cut_remote(struct command *c, const struct cuts *cuts)
{
	struct treadle_rma_iov *rma = c->more[c->slots].rma;

	if (cuts->n < 2)
		return;
	for (int i = 0; i < cuts->n; i++)
		rma[i] = (struct treadle_rma_iov){c->d.remote_addr + place_of(cuts, i),
						  cuts->part[i], c->d.remote_key};
	c->slots++;
	c->d.flags |= TREADLE_F_EXT;
	c->d.rma_iov_count = cuts->n;
	c->d.remote_addr = c->d.remote_key = 0;
}

static void cut_results(struct command *c, const struct cuts *cuts)
{
	if (cuts->n < 2)
		return;
	iov_of(c, c->d.result, cuts);
	iov_of(c, c->d.compare, cuts);
	c->d.fetch_iov_count = cuts->n;
	c->d.result = c->d.compare = 0;
}

static int put_command(struct node *n, const struct command *c)
{
	ring_wait(&n->tx, 1 + c->slots);
	ring_put(&n->tx, &c->d);
	for (int i = 0; i < c->slots; i++)
		ring_put(&n->tx, &c->more[i]);
	ring_publish(&n->tx);
	return ring_doorbell(&n->tx);
}

/* An injected buffer may be changed at once. */
static void issue(struct member *m, const struct command *c)
{
	int result;

	/* The full queue may be the peer's. */
	while ((result = put_command(&m->n[0], c)) == -EAGAIN)
		attend(m);
	need(result == 1);
	if (!(c->d.flags & TREADLE_F_INJECT))
		return;
	if (c->d.iov_count == 1)
		memset((void *)(unsigned long)c->d.addr, 0xee, c->d.len);
	for (int i = 0; c->d.iov_count > 1 && i < c->d.iov_count; i++)
		memset((void *)(unsigned long)c->more[0].iov[i].addr, 0xee, c->more[0].iov[i].len);
}

/* Counts a command that has succeeded. */
static void succeeded(struct member *m, const struct treadle_desc *d)
{
	static const struct {
		__u32 flag;
		enum kind kind;
	} of[] = {{TREADLE_F_INJECT, INJECTS},
		  {TREADLE_F_NOTIFY, NOTIFIED},
		  {TREADLE_F_COND_CNTR, BY_COUNTER},
		  {TREADLE_F_COND_CELL, BY_CELL},
		  {TREADLE_F_COLLECTIVE, COLLECTIVES}};

	for (int i = 0; i < ARRAY_SIZE(of); i++)
		if (d->flags & of[i].flag)
			did(m, of[i].kind);
	if (d->iov_count > 1)
		did(m, VECTORS);
	if (d->rma_iov_count > 1)
		did(m, RANGES);
	if (d->fetch_iov_count > 1)
		did(m, RESULTS);
}

/* The next completion of its own commands; meanwhile the others are served. */
static struct treadle_cqe await_own(struct member *m, struct cq *q)
{
	__u64 end = now_ns() + 4 * PATIENCE_NS;
	struct treadle_cqe e;

	while (!cq_poll(q, &e)) {
		attend(m);
		if (now_ns() > end) {
			log_stuck_queue(q);
			need(!"a completion does not come");
		}
		cq_wait(q, 500000);
	}
	return e;
}

/*
 * Performs one command, and returns its error. Some commands wait for a cell first, but none with
 * remote data: it fails if the peer's queue is full when it fires.
 */
static __u32 perform(struct member *m, struct command c)
{
	bool waits = roll(m, 6) == 0 && !(c.d.flags & TREADLE_F_REMOTE_CQ_DATA);
	struct treadle_cqe e;

	c.d.context = ++m->contexts;
	if (waits)
		c.d = once(c.d, &m->cells, 0, ++m->stored);
	issue(m, &c);
	if (waits) {
		need(cell_done(&m->cells, 0) != m->stored);
		cell_write(&m->cells, 0, m->stored);
	}
	e = await_own(m, &m->n[0].cq);
	need(e.context == c.d.context);
	if (!e.error)
		succeeded(m, &c.d);
	return e.error;
}

static __u32 perform_plain(struct member *m, struct treadle_desc d)
{
	return perform(m, (struct command){.d = d});
}

#endif
