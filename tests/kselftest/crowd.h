/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The crowd: what its members know of each other, what they count, what a message says of itself, and how a command is
 * made of pieces.
 */
#ifndef TREADLE_KSELFTEST_CROWD_H
#define TREADLE_KSELFTEST_CROWD_H

#include "connection.h"
#include "triggers.h"

#include <treadle/atomic.h>

#define CROWD 8
#define ROOM  200000UL /* of one message, and of one writer in the memory of each peer */
#define BOX   32768UL  /* of one delivery */
#define WORDS 4	       /* of a writer, to compare with */
#define ENDS  2	       /* endpoints of one, which share a receive ring */
#define CALLS 3	       /* connections that one serves at a time */

/*
 * What happens, each of it in every run. A member counts what it has seen to be right: commands of its own that have
 * succeeded, and what has come to it.
 */
#define KINDS(_)                                                 \
	_(MESSAGES, "batches of messages")                       \
	_(WRITES, "writes and reads")                            \
	_(SUMS, "sums")                                          \
	_(COMPARES, "comparisons")                               \
	_(DELIVERIES, "deliveries that were there when told of") \
	_(COLLECTIVES, "collective messages")                    \
	_(REPEATS, "repeating commands")                         \
	_(CALLED, "calls")                                       \
	_(INJECTS, "injected")                                   \
	_(FENCES, "fences that parted something")                \
	_(VECTORS, "vectors")                                    \
	_(RANGES, "remote ranges")                               \
	_(RESULTS, "vectors of results")                         \
	_(NOTIFIED, "counted")                                   \
	_(BY_COUNTER, "started by a counter")                    \
	_(BY_CELL, "started by a cell")                          \
	_(TOLD, "writes that the peer was told of")              \
	_(RECEIVED, "received")                                  \
	_(DATA, "with data")                                     \
	_(SCATTERED, "into vectors")                             \
	_(SHARED, "from another endpoint's ring")                \
	_(PARTS, "parts of multi-receives")                      \
	_(BUFFERS, "multi-receives")                             \
	_(PEEKED, "looked at")                                   \
	_(CLAIMED, "claimed")                                    \
	_(DISCARDED, "discarded")                                \
	_(GATHERED, "collective receives")                       \
	_(ORPHANED, "whose source was gone")                     \
	_(ANSWERED, "calls with an answer")                      \
	_(SETTLED, "accounted for between survivors")            \
	_(ERRORS, "errors")

#define KIND(name, text) name,
enum kind { KINDS(KIND) KIND_COUNT };

/*
 * A place in the crowd. @lives: whose turn it is; it changes before a process goes, so who sees the same before and
 * after an operation has had to do with one that lives. @here: for which of them the rest is true.
 */
struct place {
	__u64 lives, here;
	struct treadle_addr addr[ENDS], listens;
	__u64 key, pid;
};

/* Messages between two: @whose, of the other, and the sum of their seeds. */
struct account {
	__u64 whose, count, sum;
};

struct crowd {
	struct place place[CROWD];
	__u64 done[KIND_COUNT];
	__u64 told[CROWD][CROWD];	   /* the last data that one was told of another's write */
	struct account sent[CROWD][CROWD]; /* by whom, to whom: when nobody sends any more */
	int stop, silent, settled;
	__u32 owners[1 << 16]; /* of each port, one after the other */
};

/*
 * What each message begins with; behind it are the bytes of fill(). @end: at which endpoint it arrives. @data: what is
 * told beside it, or 0.
 */
struct head {
	__u64 seed, len, tag, data;
	__u32 from, end;
};

/* The first is for receives without a tag, all others of TRECV. */
enum { PLAIN = 0, TAGGED = 1, KEPT = 2, COLLECTIVE = 3, BOXED = 16 };
#define OTHER_BITS 0xff00ULL /* of a tag, that its receives ignore */

/* What a process has of its own. */
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
	/* What it knows of those at a place: of whom, their indices, and what its words there are. */
	struct acquaintance {
		__u64 lives, index[ENDS], compared, words[WORDS], counted, count;
	} knows[CROWD];
	struct account sent[CROWD], came[CROWD]; /* well */
	struct standing {			 /* a collective receive */
		bool posted;
		__u64 index;
		struct place seen;
	} stands[CROWD];
	struct multi {
		__u64 bytes, end;
		bool over, torn;
	} multi[2];
	int looks;		/* what it does about messages that wait for somebody to look */
	__u64 claimed, dropped; /* their data */
	struct cntr told, go, ran;
	__u64 goes;
	struct cells cells;
	__u64 stored;
	char *src, *dst, *region, *got, *flat;
};

/* The region: for each writer a counter, its words and, a page further, ROOM bytes; then a box for each. */
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

static bool lives_on(const struct place *p, const struct place *seen)
{
	return __atomic_load_n(&p->lives, __ATOMIC_ACQUIRE) == seen->lives;
}

static struct place *look(struct member *m, int who, struct place *seen)
{
	struct place *p = &m->c->place[who];

	seen->lives = __atomic_load_n(&p->lives, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&p->here, __ATOMIC_ACQUIRE) != seen->lives)
		return NULL;
	seen->here = seen->lives;
	memcpy(seen->addr, p->addr, sizeof(seen->addr));
	seen->listens = p->listens;
	seen->key = p->key;
	seen->pid = p->pid;
	return lives_on(p, seen) ? p : NULL;
}

/* Whose bytes they are and which, in the 32 bits that fill() looks at. */
#define SEEDS 17 /* bits */

static __u32 pid_bits(void)
{
	return (__u32)getpid() & ((1 << (32 - SEEDS)) - 1);
}

static void book(struct account *a, __u64 whose, __u64 seed)
{
	if (a->whose != whose)
		*a = (struct account){.whose = whose};
	a->count++;
	a->sum += seed;
}

/* A message was sent well. */
static void sent_to(struct member *m, int who, const struct place *seen, __u64 seed)
{
	book(&m->sent[who], seen->pid, seed);
}

/* One has come. Those of the dead are nobody's. */
static void came_from(struct member *m, int who, __u64 seed)
{
	struct place seen;

	need(who < CROWD);
	if (look(m, who, &seen) && seen.pid == seed >> SEEDS)
		book(&m->came[who], seen.pid, seed);
}

/* Under which index its endpoint @end is known. Of those that it has replaced none is. */
static __u64 index_of(struct member *m, int who, const struct place *seen, int end)
{
	struct acquaintance *k = &m->knows[who];

	if (k->lives != seen->lives) {
		if (k->lives)
			need(av_remove(m->n[0].fd, m->n[0].av, k->index, ENDS) == 0);
		*k = (struct acquaintance){.lives = seen->lives};
		for (int i = 0; i < ENDS; i++)
			k->index[i] = peer(&m->n[0], seen->addr[i]);
	}
	return k->index[end];
}

/* An error is of one that died. */
static void expect_dead(struct member *m, const struct place *p, const struct place *seen,
			__u32 error)
{
	bool lives = lives_on(p, seen), known = false;
	static const __u32 errors[] = {ECONNRESET, ECONNREFUSED, EKEYREJECTED, ESHUTDOWN,
				       ECANCELED};

	if (!error)
		return;
	for (int i = 0; i < ARRAY_SIZE(errors); i++)
		known |= error == errors[i];
	if (lives || !known)
		note("%d: error %u of a peer that %s", m->me, error, lives ? "lives" : "died");
	need(!lives && known);
	did(m, ERRORS);
}

/* Who is known by this index of the first endpoint's vector; -1: nobody now. */
static int known_as(struct member *m, __u64 index)
{
	for (int who = 0; who < CROWD && index != TREADLE_ADDR_ANY; who++)
		for (int i = 0; i < ENDS; i++)
			if (m->knows[who].lives && m->knows[who].index[i] == index)
				return who;
	return -1;
}

/*
 * Does somebody live whom a completion of the first endpoint names? Then it has nothing to do with a death. Who is at a port
 * that another one had before may be named for him.
 */
static bool names_one_who_lives(struct member *m, const struct treadle_cqe *e)
{
	int who = known_as(m, e->src);
	struct place seen;

	return who >= 0 && look(m, who, &seen) && seen.lives == m->knows[who].lives &&
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

/* Pieces that lie the other way round: the last one comes first. */
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

/* How far into the buffer it lies. */
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

/* What was injected may be changed at once. */
static void issue(struct member *m, const struct command *c)
{
	int result;

	/* The queue that is full may be the peer's. */
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

/* It has succeeded. */
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

/* The next completion of its own; meanwhile the others are not forgotten. */
static struct treadle_cqe await_own(struct member *m, struct cq *q)
{
	__u64 end = now_ns() + 4 * PATIENCE_NS;
	struct treadle_cqe e;

	while (!cq_poll(q, &e)) {
		attend(m);
		if (now_ns() > end) {
			what_is_stuck(q);
			need(!"a completion does not come");
		}
		cq_wait(q, 500000);
	}
	return e;
}

/*
 * One command, alone; its error. Some wait for a cell first: not what the peer is told of, which fails if his queue is
 * full when its time has come.
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
