/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The crowd: what a member does with others. Each way waits for the end of its operations and
 * checks their effect.
 */
#ifndef TREADLE_KSELFTEST_CROWD_WAYS_H
#define TREADLE_KSELFTEST_CROWD_WAYS_H

#include "crowd_serves.h"

#define INJECT_BYTES 4096

/* --- messages --------------------------------------------------------------------------- */

/* A message of some kind. Messages that are peeked at carry data. */
static struct command some_message(struct member *m, __u64 to, int end, char *at)
{
	size_t bytes = some_bytes(m, ROOM);
	struct head h = {.end = end, .data = roll(m, 2)};
	struct command c;
	__u64 seed;

	switch (roll(m, 4)) {
	case 0:
		h.tag = TAGGED | (roll(m, 256) << 8);
		break;
	case 1:
		h.tag = KEPT;
		h.data = 1;
		break;
	}
	seed = compose(m, at, bytes, h);
	c = (struct command){.d = h.tag ? tsend_of(at, bytes, to, h.tag, 0) :
					  send_of(at, bytes, to, 0),
			     .seed = seed};
	if (h.data) {
		c.d.data = data_in(at);
		c.d.flags |= TREADLE_F_REMOTE_CQ_DATA;
	}
	if (roll(m, 3) == 0) {
		struct cuts cuts = some_cuts(m, bytes, 1);

		memcpy(m->flat, at, bytes);
		scatter(at, m->flat, &cuts);
		cut_local(&c, &cuts);
	}
	if (bytes <= INJECT_BYTES && roll(m, 3) == 0)
		c.d.flags |= TREADLE_F_INJECT;
	if (roll(m, 4) == 0)
		c.d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	return c;
}

static bool is_armed(const struct command *c)
{
	return c->d.flags & (TREADLE_F_COND_CNTR | TREADLE_F_COND_CELL);
}

/*
 * Commands before a fence have completed before it and those behind it. An armed command does not
 * count as before it, and commands behind it do not wait for the fence itself.
 */
static void check_fences(struct member *m, const struct command *c, const int *came, int count)
{
	bool checked = false;

	for (int f = 1; f < count; f++)
		for (int i = 0; i < f && c[f].d.flags & TREADLE_F_FENCE; i++)
			for (int later = f; later < count && !(is_armed(&c[i]) || is_armed(&c[f]));
			     later++) {
				need(came[i] < came[later]);
				checked = true;
			}
	if (checked)
		did(m, FENCES);
}

/*
 * Several messages, some of them armed on the ones before, or on cells that are written once all
 * are posted.
 */
static void messages(struct member *m, int other, struct place *p, struct place *seen)
{
	__u64 right = cntr_value(&m->told), wrong = cntr_errors(&m->told), first = m->contexts + 1;
	int count = 1 + roll(m, WORDS), end = roll(m, ENDS), came[WORDS], well = 0;
	__u64 to = index_of(m, other, seen, end), began = right + wrong;
	struct command c[WORDS];

	for (int i = 0; i < count; i++) {
		c[i] = some_message(m, to, end, m->src + i * ROOM);
		c[i].d = then(c[i].d, &m->told);
		c[i].d.context = ++m->contexts;
		if (roll(m, 3) == 0)
			c[i].d.flags |= TREADLE_F_FENCE;
		switch (roll(m, 6)) {
		case 0:
			c[i].d = when(c[i].d, &m->told, began + i);
			break;
		case 1:
			c[i].d = once(c[i].d, &m->cells, i, ++m->stored);
			break;
		}
		issue(m, &c[i]);
	}
	for (int i = 0; i < count; i++) {
		if (!(c[i].d.flags & TREADLE_F_COND_CELL))
			continue;
		need(cell_done(&m->cells, i) != c[i].d.value);
		cell_write(&m->cells, i, c[i].d.value);
	}
	for (int i = 0; i < count; i++) {
		struct treadle_cqe e = await_own(m, &m->n[0].cq);
		int which = e.context - first;

		need(which >= 0 && which < count && c[which].d.flags);
		expect_death(m, p, seen, e.error);
		need(!(c[which].d.flags & TREADLE_F_COND_CNTR) || i >= which);
		if (c[which].d.flags & TREADLE_F_COND_CELL)
			need(cell_done(&m->cells, which) == c[which].d.value);
		if (!e.error) {
			succeeded(m, &c[which].d);
			sent_to(m, other, seen, c[which].seed);
		}
		came[which] = i;
		well += !e.error;
	}
	need(cntr_becomes(&m->told, right + well, wrong + count - well));
	if (well == count)
		check_fences(m, c, came, count);
	did(m, MESSAGES);
}

/*
 * A message to a receive for this sender only, so the sender knows where its bytes are once the
 * delivery completes.
 */
static void deliveries(struct member *m, int other, struct place *p, struct place *seen)
{
	__u64 to = index_of(m, other, seen, 0), tag = BOXED + m->me, seed;
	size_t bytes = some_bytes(m, BOX);
	struct treadle_desc d = tsend_of(m->src, bytes, to, tag, 0);
	__u32 error;

	seed = compose(m, m->src, bytes, (struct head){.tag = tag});
	d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	error = perform_plain(m, d);
	if (!error)
		sent_to(m, other, seen, seed);
	if (!error)
		error = perform_plain(m, read_of(m->got, bytes, to, BOXES + m->me * BOX, seen->key,
						 0));
	expect_death(m, p, seen, error);
	if (error)
		return;
	need(whole(m->got, bytes).seed == seed);
	did(m, DELIVERIES);
}

/* The target has one receive for them, with this sender's address. */
static void collectives(struct member *m, int other, struct place *p, struct place *seen)
{
	size_t bytes = some_bytes(m, ROOM);
	struct treadle_desc d = tsend_of(m->src, bytes, index_of(m, other, seen, 0), COLLECTIVE, 0);

	__u64 seed = compose(m, m->src, bytes, (struct head){.tag = COLLECTIVE});
	__u32 error;

	d.flags |= TREADLE_F_COLLECTIVE;
	error = perform_plain(m, d);
	expect_death(m, p, seen, error);
	if (!error)
		sent_to(m, other, seen, seed);
}

/* --- memory of others ------------------------------------------------------------------- */

static __u32 reads_the_same(struct member *m, __u64 to, const struct place *seen, size_t bytes,
			    const struct cuts *remote, __u64 seed)
{
	struct command c = {.d = read_of(m->got, bytes, to, m->me * STRIDE + 4096, seen->key, 0)};
	struct cuts cuts = some_cuts(m, bytes, 1), *local = roll(m, 2) ? &cuts : NULL;
	__u32 error;

	if (local)
		cut_local(&c, local);
	error = perform(m, c);
	if (error)
		return error;
	if (local) {
		gather(m->flat, m->got, local);
		memcpy(m->got, m->flat, bytes);
	}
	if (remote) {
		gather(m->flat, m->got, remote);
		memcpy(m->got, m->flat, bytes);
	}
	need(whole(m->got, bytes).seed == seed);
	return 0;
}

/* Waits until the target has acknowledged the data, or is gone. */
static void await_acknowledgment(struct member *m, int other, struct place *p, struct place *seen,
				 __u64 data)
{
	__u64 end = now_ns() + 4 * PATIENCE_NS;

	while (__atomic_load_n(&m->c->told[other][m->me], __ATOMIC_ACQUIRE) != data) {
		if (!is_alive(p, seen))
			return;
		attend(m);
		usleep(200);
		need(now_ns() < end);
	}
	did(m, TOLD);
}

static void writes_and_reads(struct member *m, int other, struct place *p, struct place *seen)
{
	__u64 to = index_of(m, other, seen, 0), seed, data;
	size_t bytes = some_bytes(m, ROOM);
	struct command c = {.d = write_of(m->src, bytes, to, m->me * STRIDE + 4096, seen->key, 0)};
	struct cuts local = some_cuts(m, bytes, 1), remote = some_cuts(m, bytes, 1);
	bool reported = roll(m, 3) == 0, in_ranges = !reported && roll(m, 2);
	__u32 error;

	seed = compose(m, m->src, bytes, (struct head){.data = reported});
	data = data_in(m->src);
	if (roll(m, 3) == 0) {
		memcpy(m->flat, m->src, bytes);
		scatter(m->src, m->flat, &local);
		cut_local(&c, &local);
	}
	if (in_ranges)
		cut_remote(&c, &remote);
	if (bytes <= INJECT_BYTES && roll(m, 3) == 0)
		c.d.flags |= TREADLE_F_INJECT;
	if (reported) {
		c.d.data = data;
		c.d.flags |= TREADLE_F_REMOTE_CQ_DATA;
	}
	error = perform(m, c);
	if (!error && reported)
		await_acknowledgment(m, other, p, seen, data);
	if (!error)
		error = reads_the_same(m, to, seen, bytes, in_ranges ? &remote : NULL, seed);
	expect_death(m, p, seen, error);
	if (!error)
		did(m, WRITES);
}

/* --- atomics ---------------------------------------------------------------------------- */

static struct treadle_desc atomic_of(__u8 opcode, __u8 op, const void *operand, __u64 len, __u64 to,
				     __u64 at, __u64 key)
{
	struct treadle_desc d = write_of(operand, len, to, at, key, 0);

	d.opcode = opcode;
	d.flags |= TREADLE_F_EXT;
	d.atomic_op = op;
	d.datatype = TREADLE_UINT64;
	return d;
}

/* No other process counts there, so each sum is the last one plus one. */
static void sums(struct member *m, int other, struct place *p, struct place *seen)
{
	__u64 to = index_of(m, other, seen, 0), one = 1, was = -1ULL;
	struct treadle_desc d = atomic_of(TREADLE_OP_FETCH, TREADLE_ATOMIC_SUM, &one, 8, to,
					  m->me * STRIDE, seen->key);
	struct acquaintance *k = &m->knows[other];
	__u32 error;

	if (roll(m, 2))
		d.flags |= TREADLE_F_INJECT;
	d.result = (unsigned long)&was;
	error = perform_plain(m, d);
	expect_death(m, p, seen, error);
	if (!error && k->counted)
		need(was == k->count);
	k->count = was + 1;
	k->counted = !error;
	if (!error)
		did(m, SUMS);
}

static __u64 swapped(__u8 op, __u64 was, __u64 with, __u64 than)
{
	switch (op) {
	case TREADLE_ATOMIC_CSWAP:
		return was == than ? with : was;
	case TREADLE_ATOMIC_CSWAP_NE:
		return was != than ? with : was;
	case TREADLE_ATOMIC_CSWAP_GT:
		return than > was ? with : was;
	default:
		return (with & than) | (was & ~than);
	}
}

/* The same with words beside the counter: each must be the result of the last comparison. */
static void compares(struct member *m, int other, struct place *p, struct place *seen)
{
	static const __u8 ops[] = {TREADLE_ATOMIC_CSWAP, TREADLE_ATOMIC_CSWAP_NE,
				   TREADLE_ATOMIC_CSWAP_GT, TREADLE_ATOMIC_MSWAP};
	__u8 op = ops[roll(m, ARRAY_SIZE(ops))];
	int words = 1 + roll(m, WORDS);
	struct cuts cuts = some_cuts(m, words * 8, 8);
	struct acquaintance *k = &m->knows[other];
	__u64 with[WORDS], than[WORDS], was[WORDS];
	struct {
		__u64 with[WORDS], than[WORDS], was[WORDS];
	} there;
	struct command c = {.d = atomic_of(TREADLE_OP_COMPARE, op, there.with, words * 8,
					   index_of(m, other, seen, 0), m->me * STRIDE + 8,
					   seen->key)};
	__u32 error;

	for (int i = 0; i < words; i++) {
		with[i] = (__u64)roll(m, 1000) << 32 | roll(m, 1000);
		than[i] = roll(m, 2) ? k->words[i] : (__u64)roll(m, 1000) << 32;
	}
	scatter((char *)there.with, (char *)with, &cuts);
	scatter((char *)there.than, (char *)than, &cuts);
	c.d.compare = (unsigned long)there.than;
	c.d.result = (unsigned long)there.was;
	cut_local(&c, &cuts);
	cut_results(&c, &cuts);
	if (roll(m, 2))
		c.d.flags |= TREADLE_F_INJECT;
	error = perform(m, c);
	expect_death(m, p, seen, error);
	if (error) {
		k->compared = 0;
		return;
	}
	gather((char *)was, (char *)there.was, &cuts);
	for (int i = 0; i < words; i++) {
		if (k->compared & 1 << i)
			need(was[i] == k->words[i]);
		k->words[i] = swapped(op, was[i], with[i], than[i]);
		k->compared |= 1 << i;
	}
	did(m, COMPARES);
}

/* --- commands that repeat -------------------------------------------------------------------- */

/* How many of its rounds have succeeded once @rounds more have been asked for. */
static __u64 go_on(struct member *m, __u64 rounds)
{
	__u64 right = cntr_value(&m->ran), all = right + cntr_errors(&m->ran) + rounds;
	__u64 end = now_ns() + 4 * PATIENCE_NS;

	m->goes += rounds;
	issue(m, &(struct command){.d = count_of(TREADLE_OP_CNTR_ADD, &m->go, rounds, 0)});
	while (cntr_value(&m->ran) + cntr_errors(&m->ran) < all) {
		attend(m);
		usleep(200);
		need(now_ns() < end);
	}
	need(cntr_value(&m->ran) + cntr_errors(&m->ran) == all);
	return cntr_value(&m->ran) - right;
}

static void repeats_every(struct member *m, struct treadle_desc d)
{
	d = then(when(d, &m->go, m->goes + 1), &m->ran);
	d.flags &= ~TREADLE_F_COMPLETION;
	d.flags |= TREADLE_F_WORK | TREADLE_F_REPEAT;
	d.value = 1;
	issue(m, &(struct command){.d = d});
}

/*
 * A repeating sum with several rounds under way, and repeating writes of the current value. At the
 * end the command is still armed.
 */
static void repeats(struct member *m, int other, struct place *p, struct place *seen)
{
	__u64 to = index_of(m, other, seen, 0), one = 1, rounds = 2 + roll(m, 5), done, taken;
	size_t bytes = some_bytes(m, ROOM);
	bool adds = roll(m, 2);
	__u32 error = 0;

	if (adds) {
		repeats_every(m, atomic_of(TREADLE_OP_ATOMIC, TREADLE_ATOMIC_SUM, &one, 8, to,
					   m->me * STRIDE, seen->key));
		done = go_on(m, rounds);
		m->knows[other].count += rounds;
		m->knows[other].counted &= done == rounds;
	} else {
		repeats_every(m, write_of(m->src, bytes, to, m->me * STRIDE + 4096, seen->key, 0));
		for (done = 0; done < rounds && !error; done++) {
			__u64 seed = compose(m, m->src, bytes, (struct head){0});

			if (!go_on(m, 1))
				break;
			error = reads_the_same(m, to, seen, bytes, NULL, seed);
		}
	}
	need(cancel(m->n[0].fd, TREADLE_FLUSH_WORK, m->go.id, 0, 0, &taken) == 0 && taken == 1);
	/* The command does not report its error. */
	expect_death(m, p, seen, error ?: done < rounds ? ECONNRESET : 0);
	if (adds && m->knows[other].counted)
		sums(m, other, p, seen);
	if (!error && done == rounds)
		did(m, REPEATS);
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Waits for the next event of the call, and returns its kind. */
static __u32 await_event(struct member *m, int eq, struct treadle_event *ev)
{
	__u64 end = now_ns() + 4 * PATIENCE_NS;

	while (event_take(eq, ev) < 0) {
		attend(m);
		usleep(200);
		need(now_ns() < end);
	}
	return ev->event;
}

static void calls(struct member *m, int other, struct place *p, struct place *seen)
{
	int fd = m->n[0].fd, id = eq_create(fd), eq = wait_fd(fd, id);
	size_t bytes = some_bytes(m, ROOM);
	struct treadle_event ev;
	struct treadle_cqe e;
	struct node n;
	__u64 seed = compose(m, m->src, bytes, (struct head){0});

	msg_open(&n, own(m, 0), eq, 1);
	need(post_recv(&n, recv_of(m->got, ROOM, ANY, 1)) == 0);
	need(connect_to(n.fd, n.ep, seen->listens, NULL, 0) == 0);
	if (await_event(m, eq, &ev) == TREADLE_EVENT_CONNECTED) {
		int result = post(&n, send_of(m->src, bytes, 0, 2));

		if (result == 1) {
			e = await_own(m, &n.cq);
			expect_death(m, p, seen, e.error);
			e = await_own(m, &n.rcq);
			expect_death(m, p, seen, e.error);
			if (!e.error) {
				need(whole(m->got, e.len).seed == seed);
				did(m, ANSWERED);
			}
		} else {
			expect_death(m, p, seen, -result);
		}
	} else {
		need(ev.event == TREADLE_EVENT_CONNREFUSED || ev.event == TREADLE_EVENT_SHUTDOWN);
		if (!ev.data_size) /* else the peer is busy */
			expect_death(m, p, seen, ev.error ?: ECONNRESET);
	}
	node_destroy(&n);
	close(eq);
	need(destroy(fd, id) == 0);
	did(m, CALLED);
}

#endif
