// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: copy bytes from span to span
 *
 * Copies go through the kernel's own mapping of the pages, TREADLE_CHUNK bytes
 * under one hold of the two pagemaps. Nothing faults under their locks: if a page
 * is missing, both are dropped, the page is faulted in, and the copy goes on.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "copy/mr.h"
#include "copy/transfer.h"
#include "core/trace.h"
#include "mm/dmabuf.h"
#include "mm/own.h"

#define LOCK_TRIES   64
#define MODIFY_CALLS 4 /* under one hold of the lock: each call may have to retry often */

static const bool no_process = true;

/**
 * treadle_span_user() - a span of buffers of a process
 * @s:      the span
 * @ctx:    context of the process
 * @closed: of the endpoint for which the buffers are used
 * @iov:    the buffers; used as long as the span is
 * @count:  how many
 * @off:    where the span begins, in bytes
 *
 * Context: any.
 */
void treadle_span_user(struct treadle_span *s, struct treadle_ctx *ctx, const bool *closed,
		       const struct treadle_iov *iov, unsigned int count, u64 off)
{
	s->ctx = ctx;
	s->pm = treadle_pm_of(ctx);
	s->closed = likely(s->pm) ? closed : &no_process; /* never touched */
	s->iov = iov;
	s->mr = NULL;
	s->msg = 0;
	s->i = 0;
	while (off && s->i < count && off >= iov[s->i].len)
		off -= iov[s->i++].len;
	s->off = off;
}

/* Address and length of the rest of the current buffer. The caller does not go beyond the last. */
static __always_inline u64 span_addr(struct treadle_span *s, u64 *len)
{
	while (s->off == s->iov[s->i].len) {
		s->i++;
		s->off = 0;
	}
	*len = s->iov[s->i].len - s->off;
	return s->iov[s->i].addr + s->off;
}

/*
 * struct stretch - bytes that lie together in the kernel's mapping
 * @at:    the first one
 * @len:   how many, up to the end of a page
 * @most:  how many there are up to the end of the buffer
 * @entry: pagemap entry of the page; NULL: a dma-buf
 */
struct stretch {
	void *at;
	u64 len, most;
	void **entry;
};

/* Find the next bytes of @s, within one page or dma-buf. False: the pagemap does not know it. */
static __always_inline bool span_at(struct treadle_span *s, bool write, struct stretch *t)
{
	u64 addr;

	if (!s->pm) {
		t->at = s->kbuf + s->off;
		t->len = t->most = U64_MAX;
		return true;
	}
	lockdep_assert_held(&s->pm->lock);
	addr = span_addr(s, &t->most);
	if (!s->leaf || addr >> PM_LEAF_SHIFT != s->leaf_addr >> PM_LEAF_SHIFT) {
		if (addr >> PM_ADDR_BITS) {
			t->len = t->most;
			t->entry = NULL;
			t->at = treadle_buffer_at(s->pm, addr, write, &t->len);
			return t->at;
		}
		s->leaf = treadle_pm_leaf(s->pm, addr);
		s->leaf_addr = addr;
		if (!s->leaf)
			return false;
	}
	t->len = min_t(u64, t->most, PAGE_SIZE - offset_in_page(addr));
	t->entry = &s->leaf[treadle_pm_index(addr, 0)];
	t->at = treadle_pm_page(*t->entry, addr, write);
	return t->at;
}

/*
 * Hold both pagemaps for reading; a span of the kernel has none. False: not held, as a writer has
 * kept @b's lock busy.
 */
static bool spans_lock(struct treadle_span *a, struct treadle_span *b)
{
	int tries;

	a->leaf = b->leaf = NULL;
	if (!a->pm || !b->pm) {
		if (a->pm)
			pm_lock(a->pm);
		else if (b->pm)
			pm_lock(b->pm);
		return true;
	}
	for (tries = 0; tries < LOCK_TRIES; tries++) {
		if (treadle_pm_lock2(a->pm, b->pm))
			return true;
		cpu_relax();
	}
	return false;
}

static void spans_unlock(struct treadle_span *a, struct treadle_span *b)
{
	if (b->pm && b->pm != a->pm)
		pm_unlock(b->pm);
	if (a->pm)
		pm_unlock(a->pm);
}

static __always_inline void copy_bytes(void *d, const void *s, u64 n)
{
	if (own_word(n)) /* as a whole, whatever thread copies */
		copy_word(d, s, n);
	else if (unlikely(s < d + n && d < s + n)) /* a process may send onto itself */
		memmove(d, s, n);
	else
		memcpy(d, s, n);
}

/* How many pages follow that of @entry in the same table. */
static __always_inline u64 pages_behind(void **entry)
{
	return PM_FAN - 1 - offset_in_page(entry) / sizeof(*entry);
}

/*
 * Copy @n bytes, which reach to the end of a page on both sides. Copy of the @more behind them as
 * many whole pages as the pagemaps know. Pages that lie together in the kernel's mapping are copied
 * at once, which is faster. Returns the bytes copied.
 *
 * Both pagemaps are locked.
 */
static __always_inline u64 copy_pages(struct stretch *d, struct stretch *s, u64 n, u64 more)
{
	u64 pages = min3(more, s->most - n, d->most - n) >> PAGE_SHIFT, all = n;

	pages = min3(pages, pages_behind(s->entry), pages_behind(d->entry));
	for (; pages; pages--) {
		void *from = treadle_pm_page(*++s->entry, 0, false);
		void *to = treadle_pm_page(*++d->entry, 0, true);

		if (!from || !to)
			break;
		all += PAGE_SIZE;
		if (from == s->at + n && to == d->at + n) {
			n += PAGE_SIZE;
			continue;
		}
		copy_bytes(d->at, s->at, n);
		treadle_pm_wrote(d->at, n);
		s->at = from;
		d->at = to;
		n = PAGE_SIZE;
	}
	copy_bytes(d->at, s->at, n);
	treadle_pm_wrote(d->at, n);
	return all;
}

/*
 * May the memory still be touched? Not if its endpoint is closed, or its region revoked. Its
 * pagemap is held.
 */
static __always_inline int span_error(const struct treadle_span *s)
{
	unsigned int i;

	if (s->closed && unlikely(READ_ONCE(*s->closed)))
		return -ESHUTDOWN;
	for (i = 0; s->mr && i < s->mrs; i++)
		if (treadle_mr_revoked(s->mr[i]))
			return -EKEYREJECTED;
	return 0;
}

/*
 * Copy up to @len bytes, until a page is missing: *@miss says on which side. Both pagemaps are
 * held. Returns how many were copied.
 */
static __always_inline u64 copy_known(struct treadle_span *dst, struct treadle_span *src, u64 len,
				      enum treadle_side *miss)
{
	struct stretch s, d;
	u64 n, left;

	*miss = TREADLE_NONE;
	for (left = len; left; left -= n) {
		if (!span_at(src, false, &s)) {
			*miss = TREADLE_SRC;
			break;
		}
		if (!span_at(dst, true, &d)) {
			*miss = TREADLE_DST;
			break;
		}
		n = min3(s.len, d.len, left);
		if (n == s.len && n == d.len && s.entry && d.entry) {
			n = copy_pages(&d, &s, n, left - n);
		} else {
			copy_bytes(d.at, s.at, n);
			if (dst->pm)
				treadle_pm_wrote(d.at, n);
		}
		src->off += n;
		dst->off += n;
	}
	return len - left;
}

/**
 * treadle_copy_small() - copy what lies within one page on both sides
 * @to:   endpoint of the receiving process
 * @dst:  address there
 * @from: endpoint of the sending process
 * @src:  address there
 * @len:  bytes
 * @mr:   the region of the peer that is read or written, or NULL
 *
 * The fast path of treadle_copy(), with the same checks.
 *
 * Context: takes both pagemaps' locks; does not sleep. @mr is kept by a
 * reference or the RCU read lock.
 * Return: true: copied. False: nothing was, use treadle_copy().
 */
TREADLE_HOT bool treadle_copy_small(const struct treadle_ep *to, u64 dst,
				    const struct treadle_ep *from, u64 src, u64 len,
				    const struct treadle_mr *mr)
{
	struct treadle_pm *there = treadle_pm_of(to->obj.ctx), *here = treadle_pm_of(from->obj.ctx);
	void *d, *s;
	bool ok;

	if (!treadle_pm_small(dst, len) || !treadle_pm_small(src, len) ||
	    unlikely(!treadle_pm_lock2(there, here)))
		return false;
	d = treadle_pm_known(there, dst, true);
	s = likely(d) ? treadle_pm_known(here, src, false) : NULL;
	ok = likely(s) && !(mr && treadle_mr_revoked(mr)) && !READ_ONCE(to->closed) &&
	     !READ_ONCE(from->closed);
	if (likely(ok)) {
		copy_bytes(d, s, len);
		treadle_pm_wrote(d, len);
	}
	treadle_pm_unlock2(there, here);
	return ok;
}

/**
 * treadle_copy_in() - copy bytes of the kernel to one page of a process
 * @to:   endpoint of the process
 * @at:   address in its memory
 * @from: the bytes
 * @len:  so many
 *
 * Context: takes the lock of the process's pagemap; does not sleep.
 * Return: true: copied. False: nothing was, use treadle_copy().
 */
TREADLE_HOT bool treadle_copy_in(const struct treadle_ep *to, u64 at, const void *from, u64 len)
{
	struct treadle_pm *there = treadle_pm_of(to->obj.ctx);
	void *page;
	bool ok;

	if (!treadle_pm_small(at, len))
		return false;
	pm_lock(there);
	page = treadle_pm_known(there, at, true);
	ok = page && !READ_ONCE(to->closed);
	if (likely(ok)) {
		copy_word(page, from, len);
		treadle_pm_wrote(page, len);
	}
	pm_unlock(there);
	return ok;
}

/**
 * treadle_span_fill() - make the next pages of a span known to its pagemap
 * @s:     the span of a process; its current page is missing
 * @len:   bytes that are needed
 * @write: for writing
 * @run:   of the caller
 *
 * Context: may sleep; no pagemap is held.
 * Return: 0: some of them are known, or were; -EAGAIN: this thread must not wait for the page
 * fault, the worker of the span's context has to; else why they can't be.
 */
int treadle_span_fill(struct treadle_span *s, u64 len, bool write, struct treadle_run *run)
{
	u64 together, addr = span_addr(s, &together);
	int ret;

	len = min(len, together);
	treadle_run_charge(run, TREADLE_CHARGE_FILL);
	/* mostly the page is there, just not known: this does not block */
	ret = treadle_pm_fill(s->pm, addr, len, write, TREADLE_FILL_THERE);
	if (ret == -EAGAIN)
		trace_treadle_page_wait(s->msg, READ_ONCE(s->ctx->number), addr, write);
	if (ret != -EAGAIN || run->guest)
		return ret;
	/*
	 * a page of the calling process, of whatever context, comes soon; others don't wait for it
	 */
	if (s->pm->mm == current->mm) {
		treadle_run_let_go(run);
		ret = treadle_pm_fill(s->pm, addr, len, write, TREADLE_FILL_NOWAIT);
	}
	if (ret != -EAGAIN || run->ctx != s->ctx || run->holds)
		return ret;
	/* a page fault of the owner's own: the run's other jobs don't wait for it */
	treadle_run_handoff(run);
	treadle_pool_sleeps(run->pool);
	ret = treadle_pm_fill(s->pm, addr, len, write, TREADLE_FILL_FAULT);
	treadle_pool_awakes(run->pool);
	return ret;
}

/**
 * treadle_span_prepare() - make all pages of the next bytes of a span known
 * @s:     the span of a process; advances
 * @len:   bytes that are needed
 * @write: for writing
 * @run:   of the caller
 *
 * They may be unknown again at any time.
 *
 * Context: takes the pagemap's lock; may sleep.
 * Return: 0; -ESHUTDOWN: the endpoint is closed; else as treadle_span_fill().
 */
int treadle_span_prepare(struct treadle_span *s, u64 len, bool write, struct treadle_run *run)
{
	struct stretch here;
	int ret, idle = 0;
	u64 done = 0, n;

	for (;;) {
		n = 0;
		spans_lock(s, s); /* a single pagemap is always locked */
		ret = span_error(s);
		while (!ret && done + n < len && span_at(s, write, &here)) {
			u64 step = min(here.len, len - done - n);

			s->off += step;
			n += step;
		}
		spans_unlock(s, s);
		done += n;
		if (ret || done == len)
			return ret;
		ret = treadle_span_fill(s, len - done, write, run);
		if (ret)
			return ret;
		idle = n ? 0 : idle + 1;
		if (idle > LOCK_TRIES)
			return -EAGAIN;
		cond_resched();
	}
}

/*
 * Between two parts: may the copy go on? A guest that should reschedule leaves the rest to a
 * worker: if its thread were throttled here, it would hold up another context's counter.
 */
static bool copy_pause(struct treadle_run *run)
{
	if (need_resched()) {
		if (run->guest)
			return false;
		treadle_run_let_go(run);
	}
	cond_resched();
	return run->budget > 0 && !fatal_signal_pending(current);
}

/**
 * treadle_copy() - copy bytes from span to span
 * @dst:  where to; advances
 * @src:  where from; advances
 * @done: how many of @len are done
 * @len:  how many in all
 * @run:  of the caller; its budget is charged
 * @side: on failure: which side it was
 *
 * Under each hold of the pagemaps the copy checks that the endpoints of the buffers are open and
 * the regions of a peer's memory are not revoked.
 *
 * Context: takes the pagemaps' locks; may sleep.
 * Return: 0: done; -EAGAIN: the worker of the owner of @side has to go on; -EINPROGRESS: the budget
 * is used up; -ESHUTDOWN: the endpoint of @side is closed; -EKEYREJECTED: a region of @side is
 * revoked; else the error of @side.
 */
TREADLE_HOT int treadle_copy(struct treadle_span *dst, struct treadle_span *src, u64 *done, u64 len,
			     struct treadle_run *run, enum treadle_side *side)
{
	enum treadle_side miss;
	int idle = 0, ret;
	u64 n;

	while (*done < len) {
		/* a writer keeps the pagemap of @src busy: the worker of its owner goes on */
		if (!spans_lock(dst, src)) {
			*side = TREADLE_SRC;
			return -EAGAIN;
		}
		*side = TREADLE_SRC;
		ret = span_error(src);
		if (likely(!ret)) {
			*side = TREADLE_DST;
			ret = span_error(dst);
		}
		if (unlikely(ret)) {
			spans_unlock(dst, src);
			return ret;
		}
		n = copy_known(dst, src, min_t(u64, len - *done, TREADLE_CHUNK), &miss);
		spans_unlock(dst, src);
		*done += n;
		treadle_run_charge(run, n);
		if (*done == len)
			break;
		if (miss != TREADLE_NONE) {
			*side = miss;
			ret = miss == TREADLE_SRC ?
				      treadle_span_fill(src, len - *done, false, run) :
				      treadle_span_fill(dst, len - *done, true, run);
			if (ret)
				return ret;
			/* give up if pages are taken away as fast as they come */
			if (n)
				idle = 0;
			else if (++idle > LOCK_TRIES)
				return -EAGAIN;
		}
		if (!copy_pause(run))
			return -EINPROGRESS;
	}
	return 0;
}

/*
 * Call @fn for the next bytes that lie together, at most @len, whole units; or for one unit that
 * goes on in the next page. Returns how many bytes @fn has done. *@miss: how far ahead a page is
 * that the pagemap does not know. The pagemap is held.
 */
static u64 modify_known(struct treadle_span *span, u64 len, u32 unit, bool write,
			u64 (*fn)(void *arg, void *at, u64 bytes, void *rest), void *arg, u64 *miss)
{
	struct stretch here, rest;
	u64 done;

	*miss = 0;
	if (!span_at(span, write, &here))
		return 0;
	if (here.len < unit) {
		bool known;

		span->off += here.len;
		known = span_at(span, write, &rest);
		span->off -= here.len;
		*miss = known ? 0 : here.len;
		if (!known)
			return 0;
		done = fn(arg, here.at, here.len, rest.at);
		if (write) {
			treadle_pm_wrote(here.at, here.len);
			treadle_pm_wrote(rest.at, unit - here.len);
		}
		return done;
	}
	done = fn(arg, here.at, round_down(min(here.len, len), (u64)unit), NULL);
	if (write)
		treadle_pm_wrote(here.at, here.len);
	return done;
}

/**
 * treadle_modify() - let a function work on a peer's memory in place
 * @span:  the memory; advances. Each part is a multiple of @unit
 * @done:  how many bytes of @len are done
 * @len:   how many in all
 * @unit:  bytes that @fn works on as one
 * @write: @fn writes
 * @fn:    called under pm->lock with @bytes at @at; or with one unit, the rest of it at @rest.
 *	   Returns how many bytes are done: whole units, or 0
 * @arg:   for @fn
 * @run:   of the caller; its budget is charged
 *
 * Context: takes the pagemap's lock; may sleep.
 * Return: see treadle_copy().
 */
int treadle_modify(struct treadle_span *span, u64 *done, u64 len, u32 unit, bool write,
		   u64 (*fn)(void *arg, void *at, u64 bytes, void *rest), void *arg,
		   struct treadle_run *run)
{
	u64 n, miss, before;
	int idle = 0, calls, ret;

	while (*done < len) {
		calls = MODIFY_CALLS;
		before = *done;
		spans_lock(span, span); /* a single pagemap is always locked */
		ret = span_error(span);
		if (ret) {
			spans_unlock(span, span);
			return ret;
		}
		do {
			n = modify_known(span, len - *done, unit, write, fn, arg, &miss);
			span->off += n;
			*done += n;
		} while (n && *done < len && --calls);
		spans_unlock(span, span);
		/* also if nothing changed: @fn has then retried as often as it may */
		treadle_run_charge(run, max_t(u64, *done - before, TREADLE_CHARGE_FILL));
		if (*done == len)
			break;
		span->off += miss;
		ret = n ? 0 : treadle_span_fill(span, len - *done, write, run);
		span->off -= miss;
		if (ret)
			return ret;
		/* give up if pages are taken away, or words change, as fast as they come */
		if (*done != before)
			idle = 0;
		else if (++idle > LOCK_TRIES)
			return -EAGAIN;
		if (!copy_pause(run))
			return -EINPROGRESS;
	}
	return 0;
}
