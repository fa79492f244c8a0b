// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: atomics on a peer's memory
 *
 * fi_atomic(3). Like RMA, in three steps. The operands are copied into the kernel. Each element is
 * changed where it is (arith.h), under the lock of the peer's pagemap, and its old value replaces
 * the operand. The fetched values are copied to the initiator. If pages are missing, the worker of
 * their context goes on with the step.
 */
#include <linux/hash.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#ifdef CONFIG_X86_64
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#endif

#include "exec/complete.h"
#include "mm/own.h"
#include "path/path.h"
#include "pure/arith.h"

#define LOCK_BITS 6

/*
 * For elements that are no words. Hashed by the kernel address of the memory, so that all mappings
 * of a page share a lock.
 */
static raw_spinlock_t element_locks[1 << LOCK_BITS] = {
	[0 ...(1 << LOCK_BITS) - 1] = __RAW_SPIN_LOCK_UNLOCKED(element_locks),
};

/* --- the machine -------------------------------------------------------------------------- */

#ifdef CONFIG_X86_64
const bool treadle_has_fp = true;

static treadle_compute_fn *const compute_fp = treadle_compute_fp;

static u32 longest_word(void)
{
	return boot_cpu_has(X86_FEATURE_CX16) ? 16 : 8;
}

/*
 * Until fp_end(), no preemption. KFPU_387: long double needs the default rounding and precision of
 * the x87.
 */
static void fp_begin(void)
{
	kernel_fpu_begin_mask(KFPU_387 | KFPU_MXCSR);
}

static void fp_end(void)
{
	kernel_fpu_end();
}
#else
/*
 * Where long double is binary128. On other machines, treadle_atomic_validate() refuses all types
 * with a floating point.
 */
const bool treadle_has_fp = IS_ENABLED(CONFIG_ARM64);

static treadle_compute_fn *const compute_fp = treadle_compute_soft;

static u32 longest_word(void)
{
	return sizeof(long);
}

static void fp_begin(void) {}

static void fp_end(void) {}
#endif

static bool is_fp(u8 type)
{
	return TREADLE_TYPES_FP >> type & 1;
}

/* --- validation --------------------------------------------------------------------------- */

/* Does the opcode take the operation? */
static bool op_fits(const struct treadle_desc *d)
{
	if (d->opcode == TREADLE_OP_COMPARE)
		return d->atomic_op >= TREADLE_ATOMIC_CSWAP;
	return d->atomic_op < TREADLE_ATOMIC_CSWAP &&
	       (d->atomic_op != TREADLE_ATOMIC_READ || d->opcode == TREADLE_OP_FETCH);
}

/* Validate one of the vectors of a fetch: as long as the command. */
static noinline int validate_vector(const struct treadle_cmd *cmd, int which)
{
	const struct treadle_iov *iov;
	struct treadle_iov one;
	unsigned int count;

	iov = treadle_cmd_fetch(cmd, which, &one, &count);
	return treadle_iov_validate(iov, count, cmd->d.len);
}

/* Validate the buffers for results (0) or to compare with (1): as long as the command. */
static __always_inline int validate_fetch(const struct treadle_cmd *cmd, int which)
{
	const struct treadle_desc *d = &cmd->d;
	u64 end;

	if (unlikely(d->fetch_iov_count > 1))
		return validate_vector(cmd, which);
	return check_add_overflow(which ? d->compare : d->result, d->len, &end) ? -EINVAL : 0;
}

static noinline int validate_ranges(const struct treadle_cmd *cmd, u32 size)
{
	const struct treadle_rma_iov *range;
	struct treadle_rma_iov one;
	unsigned int i, count;

	range = treadle_cmd_rma(cmd, &one, &count);
	for (i = 0; i < count; i++)
		if (range[i].len & (size - 1))
			return -EINVAL;
	return 0;
}

/*
 * Validate that remote ranges have whole elements, so that none is in two of them. @size is a
 * power of 2.
 */
static __always_inline int validate_elements(const struct treadle_cmd *cmd, u32 size)
{
	if (unlikely(cmd->d.rma_iov_count > 1))
		return validate_ranges(cmd, size);
	return cmd->d.len & (size - 1) ? -EINVAL : 0;
}

/**
 * treadle_atomic_validate - check an atomic command
 * @cmd:	the command
 *
 * Context: any.
 * Return: 0, or an error of the submission.
 */
int treadle_atomic_validate(struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;
	bool fetches = d->opcode != TREADLE_OP_ATOMIC, compares = d->opcode == TREADLE_OP_COMPARE;
	u64 end;
	int ret;

	if (!d->len || d->data || d->fetch_iov_count > TREADLE_MAX_IOV ||
	    (!fetches && (d->fetch_iov_count || d->result)) || (!compares && d->compare) ||
	    (d->fetch_iov_count > 1 && (d->result || d->compare)))
		return -EINVAL;
	if (d->datatype >= TREADLE_DATATYPES)
		return -EOPNOTSUPP;
	/* an index of tables, here and in arith.c */
	cmd->d.datatype = array_index_nospec(d->datatype, TREADLE_DATATYPES);
	if (!op_fits(d) || !(treadle_atomic_types(d->atomic_op) >> d->datatype & 1) ||
	    (is_fp(d->datatype) && !treadle_has_fp))
		return -EOPNOTSUPP;
	if (d->atomic_op == TREADLE_ATOMIC_READ && d->iov_count)
		return -EINVAL;
	if (d->len > TREADLE_MAX_ATOMIC)
		return -EMSGSIZE;
	if ((d->flags & TREADLE_F_LOCAL) &&
	    (d->peer || d->remote_key || d->rma_iov_count > 1 || (d->flags & TREADLE_F_FENCE) ||
	     check_add_overflow(d->remote_addr, d->len, &end)))
		return -EINVAL;
	ret = treadle_rma_validate_len(cmd);
	if (!ret)
		ret = validate_elements(cmd, treadle_type_size(d->datatype));
	if (!ret && fetches)
		ret = validate_fetch(cmd, 0);
	if (!ret && compares)
		ret = validate_fetch(cmd, 1);
	if (!ret && !(d->flags & TREADLE_F_LOCAL) && cmd->ep->type == TREADLE_EP_DGRAM)
		return -EOPNOTSUPP;
	return ret;
}

/* --- in place ----------------------------------------------------------------------------- */

/*
 * What modify() does. @words: the longest element that is changed as a word; @operand, @compare: of
 * the next element.
 */
struct work {
	u8 op, type;
	u32 size, words;
	treadle_compute_fn *compute;
	u8 *operand;
	const u8 *compare;
};

/* Modify an element that is no word: @bytes of it at @at, the others at @rest. */
static void modify_locked(const struct work *w, void *at, u64 bytes, void *rest)
{
	raw_spinlock_t *lock = &element_locks[hash_ptr(at, LOCK_BITS)];
	union treadle_element old, next;

	raw_spin_lock(lock);
	memcpy(old.bytes, at, bytes);
	memcpy(old.bytes + bytes, rest, w->size - bytes);
	next = old;
	if (w->compute(w->op, w->type, &next, w->operand, w->compare)) {
		memcpy(at, next.bytes, bytes);
		memcpy(rest, next.bytes + bytes, w->size - bytes);
	}
	raw_spin_unlock(lock);
	memcpy(w->operand, &old, w->size);
}

/*
 * For treadle_modify(): called under the lock of the pagemap, which keeps the pages in place.
 * Returns the bytes that were modified: fewer if others have changed a word each time.
 */
static u64 modify(void *arg, void *at, u64 bytes, void *rest)
{
	u64 done = 0, len = rest ? bytes + 1 : bytes;
	u32 tries = TREADLE_EXCHANGE_TRIES;
	struct work *w = arg;

	if (is_fp(w->type))
		fp_begin();
	while (done < len) {
		if (rest || !treadle_is_word(at + done, w->size, w->words))
			modify_locked(w, at + done, rest ? bytes : w->size, rest);
		else if (!treadle_update(w->compute, w->op, w->type, at + done, w->operand,
					 w->compare, &tries))
			break;
		done += w->size;
		w->operand += w->size;
		w->compare += w->size;
	}
	if (is_fp(w->type))
		fp_end();
	return done;
}

/* --- the steps ------------------------------------------------------------------------------ */

/* Change the elements that are left in the target's memory. Returns as treadle_modify(). */
static int modify_remote(struct treadle_rma *rma, struct treadle_run *run)
{
	const struct treadle_desc *d = &rma->cmd->d;
	u8 *operands = rma->cmd->inject;
	struct treadle_span span;
	struct work w = {
		.op = d->atomic_op,
		.type = d->datatype,
		.size = treadle_type_size(d->datatype),
		.words = longest_word(),
		.compute = is_fp(d->datatype) ? compute_fp : treadle_compute_int,
		.operand = operands + rma->done,
		.compare = operands + d->len + rma->done,
	};

	treadle_rma_span(rma, &span, rma->done);
	return treadle_modify(&span, &rma->done, d->len, w.size,
			      d->atomic_op != TREADLE_ATOMIC_READ, modify, &w, run);
}

/* Copy the fetched values to the initiator. Returns as treadle_copy(). */
static int return_results(struct treadle_rma *rma, struct treadle_run *run)
{
	const struct treadle_cmd *cmd = rma->cmd;
	const struct treadle_iov *iov;
	struct treadle_span src, dst;
	enum treadle_side side;
	struct treadle_iov one;
	unsigned int count;

	/* those of another node go with the answer */
	if (cmd->d.opcode == TREADLE_OP_ATOMIC || unlikely(cmd->d.flags & TREADLE_F_PROXY))
		return 0;
	iov = treadle_cmd_fetch(cmd, 0, &one, &count);
	treadle_span_kernel(&src, cmd->inject, rma->done);
	treadle_span_user(&dst, cmd->ep->obj.ctx, &cmd->ep->closed, iov, count, rma->done);
	return treadle_copy(&dst, &src, &rma->done, cmd->d.len, run, &side);
}

/*
 * Do the steps that are left, as far as possible; rma->modified and rma->done say where to go on.
 * Returns a verdict or an error for treadle_rma_conclude(). May sleep; takes pagemaps' locks.
 */
static int atomic_steps(struct treadle_rma *rma, struct treadle_run *run)
{
	int ret = treadle_rma_alive(rma) ?: treadle_take_inject(rma->cmd, run);

	if (!ret && !rma->modified) {
		ret = treadle_copy_verdict(modify_remote(rma, run), true);
		if (ret)
			return ret < 0 ? treadle_remote_error(rma, ret) : ret;
		rma->modified = true;
		rma->done = 0;
	}
	if (!ret)
		ret = return_results(rma, run);
	if (ret == -EAGAIN || ret == -EINPROGRESS)
		return TREADLE_DEFER_HERE;
	return ret == -ESHUTDOWN ? treadle_ep_error(rma->cmd->ep) : ret;
}

static void atomic_job(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_rma *rma = container_of(job, struct treadle_rma, job);

	if (treadle_trace_copies())
		treadle_trace_copy_begin(rma->cmd, rma->to, rma->done, run->worker);
	treadle_rma_conclude(rma, atomic_steps(rma, run), atomic_job, run);
}

/* The access that a region has to grant. */
static u32 access_for(const struct treadle_desc *d)
{
	u32 access = TREADLE_ACCESS_ATOMIC;

	if (d->opcode != TREADLE_OP_ATOMIC)
		access |= TREADLE_ACCESS_REMOTE_READ;
	if (d->atomic_op != TREADLE_ATOMIC_READ)
		access |= TREADLE_ACCESS_REMOTE_WRITE;
	return access;
}

/* What a word was. Not @ok: others have changed it each time. */
struct update {
	u64 was;
	bool ok;
};

/* Modify a word by compare-and-exchange. The pagemap's lock keeps its page in place. */
static noinline struct update update_word(const struct treadle_desc *d, void *at, u64 value,
					  u64 than)
{
	struct update result = { value };
	u32 tries = TREADLE_EXCHANGE_TRIES;

	result.ok = treadle_update(treadle_compute_int, d->atomic_op, d->datatype, at, &result.was,
				   &than, &tries);
	return result;
}

/* The kernel's address of a buffer of the initiator. NULL: it is not in one known page. */
static __always_inline void *known_word(struct treadle_pm *here, u64 addr, u32 len, bool write)
{
	lockdep_assert_held(&here->lock);
	return treadle_pm_small(addr, len) ? treadle_pm_known(here, addr, write) : NULL;
}

/*
 * Modify the word at @at of @there by *value, which becomes its old value. @than: the comparand of
 * a COMPARE; @mr: its region, or NULL. False: nothing is modified, as its page is not known, its
 * region is revoked, or others have changed it each time. Under the lock of @there.
 */
static __always_inline bool modify_word(const struct treadle_desc *d, struct treadle_pm *there,
					u64 at, const struct treadle_mr *mr, u64 *value, u64 than)
{
	void *word = treadle_pm_known(there, at, d->atomic_op != TREADLE_ATOMIC_READ);
	struct update o;

	lockdep_assert_held(&there->lock);
	if (unlikely(!word || (mr && treadle_mr_revoked(mr))))
		return false;
	if (likely(d->atomic_op == TREADLE_ATOMIC_SUM && d->len == sizeof(s64))) {
		*value = atomic64_fetch_add(*value, word);
		treadle_pm_wrote(word, d->len);
		return true;
	}
	o = update_word(d, word, *value, than);
	if (d->atomic_op != TREADLE_ATOMIC_READ)
		treadle_pm_wrote(word, d->len);
	*value = o.was;
	return o.ok;
}

/*
 * In the initiator's doorbell: its memory is accessed by its own addresses, the target's by the
 * pagemap.
 */
static __always_inline enum treadle_step modify_by_own(struct treadle_cmd *cmd,
						       const struct treadle_ep *to, u64 at,
						       const struct treadle_mr *mr)
{
	struct treadle_pm *there = treadle_pm_of(to->obj.ctx);
	const struct treadle_desc *d = &cmd->d;
	u64 value = 0, than = 0;
	bool ok;

	if ((d->iov_count && !treadle_own_get(&value, d->addr, d->len)) ||
	    (d->opcode == TREADLE_OP_COMPARE && !treadle_own_get(&than, d->compare, d->len)))
		return TREADLE_UNDONE;
	pm_lock(there);
	ok = !READ_ONCE(to->closed) && modify_word(d, there, at, mr, &value, than);
	pm_unlock(there);
	if (unlikely(!ok))
		return TREADLE_UNDONE;
	if (d->opcode == TREADLE_OP_ATOMIC || likely(treadle_own_put(d->result, value, d->len)))
		return TREADLE_DONE;
	cmd->d.data = value;
	return TREADLE_RESULT_DUE;
}

/*
 * Not in the initiator's doorbell, or armed: by the pagemaps of both sides, in pages that are
 * known.
 */
static __always_inline enum treadle_step modify_by_pages(struct treadle_cmd *cmd,
							 const struct treadle_ep *to, u64 at,
							 const struct treadle_mr *mr)
{
	struct treadle_pm *there = treadle_pm_of(to->obj.ctx),
			  *here = treadle_pm_of(cmd->ep->obj.ctx);
	const struct treadle_desc *d = &cmd->d;
	const void *operand, *compare;
	u64 value = 0, than = 0;
	bool ok = false;
	void *result;

	if (!treadle_pm_lock2(there, here))
		return TREADLE_UNDONE;
	operand = d->iov_count ? known_word(here, d->addr, d->len, false) : &value;
	compare = d->opcode == TREADLE_OP_COMPARE ? known_word(here, d->compare, d->len, false) :
						    &than;
	result =
		d->opcode != TREADLE_OP_ATOMIC ? known_word(here, d->result, d->len, true) : &value;
	if (operand && compare && result && !READ_ONCE(cmd->ep->closed) && !READ_ONCE(to->closed)) {
		copy_word(&value, operand, d->len);
		copy_word(&than, compare, d->len);
		ok = modify_word(d, there, at, mr, &value, than);
		if (ok)
			copy_word(result, &value, d->len);
		if (ok && result != &value)
			treadle_pm_wrote(result, d->len);
	}
	treadle_pm_unlock2(there, here);
	return ok ? TREADLE_DONE : TREADLE_UNDONE;
}

/*
 * A treadle_step_fn: modify one word. The operands are read once, as the process may change them
 * meanwhile. @mr is NULL with F_LOCAL.
 */
static __always_inline enum treadle_step modify_step(struct treadle_cmd *cmd,
						     const struct treadle_ep *to, u64 at,
						     const struct treadle_mr *mr,
						     const struct treadle_ctx *own)
{
	const struct treadle_desc *d = &cmd->d;

	if (d->len > sizeof(u64) || d->len != treadle_type_size(d->datatype) ||
	    is_fp(d->datatype) || !treadle_is_word((void *)at, d->len, longest_word()) ||
	    !treadle_pm_small(at, d->len))
		return TREADLE_UNDONE;
	if (OWN_WORDS && likely(cmd->ep->obj.ctx == own))
		return modify_by_own(cmd, to, at, mr);
	return modify_by_pages(cmd, to, at, mr);
}

/*
 * Like treadle_rma_open(), where no region is needed: the target is the process's own memory
 * (F_LOCAL), or only a result is left. False: the command was dropped.
 */
static bool open_here(struct treadle_rma *rma, struct treadle_cmd *cmd)
{
	if (READ_ONCE(cmd->ep->dead)) {
		treadle_cmd_free(cmd);
		return false;
	}
	rma->to = treadle_ep_get(cmd->ep);
	rma->cmd = cmd;
	rma->done = 0;
	rma->heap = rma->modified = false;
	rma->count = 0;
	rma->parts = 1;
	rma->at[0] = (struct treadle_iov){ cmd->d.remote_addr, cmd->d.len };
	return true;
}

/*
 * The result could not be written at once: deliver it the long way, as if it had been computed
 * there. Consumes the command of @rma; may sleep.
 */
static void deliver_result_later(struct treadle_rma *rma, struct treadle_run *run)
{
	struct treadle_cmd *cmd = rma->cmd;

	rma->modified = true;
	cmd->inject = treadle_cmd_alloc(cmd, sizeof(cmd->d.data), TREADLE_GFP, run);
	/* as with a bad page for the result: an error does not say that nothing was modified */
	if (!cmd->inject) {
		cmd->d.data = 0;
		treadle_rma_finish(rma, -ENOMEM, run);
		return;
	}
	memcpy(cmd->inject, &cmd->d.data, sizeof(cmd->d.data));
	cmd->d.data = 0;
	atomic_job(&rma->job, run);
}

/* Deliver the result of a step that could not. */
static noinline void atomic_result(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_rma rma TREADLE_UNSET;

	if (open_here(&rma, cmd))
		deliver_result_later(&rma, run);
}

/* Execute an atomic the long way. */
static noinline void atomic_slowly(struct treadle_cmd *cmd, struct treadle_run *run)
{
	u32 align = treadle_type_align(cmd->d.datatype), size = treadle_type_size(cmd->d.datatype);
	bool local = cmd->d.flags & TREADLE_F_LOCAL;
	enum treadle_step done = TREADLE_UNDONE;
	struct treadle_rma rma TREADLE_UNSET;
	unsigned int i;

	if (local ? !open_here(&rma, cmd) : !treadle_rma_open(&rma, cmd, access_for(&cmd->d), run))
		return;
	/* no element is in two ranges of a region; both numbers are powers of 2 */
	for (i = 0; i < rma.parts; i++) {
		if ((rma.at[i].addr & (align - 1)) || (rma.at[i].len & (size - 1))) {
			treadle_rma_finish(&rma, -EINVAL, run);
			return;
		}
	}
	if (local && !cmd->vec && !cmd->inject)
		done = modify_step(cmd, rma.to, rma.at[0].addr, NULL, run->own);
	if (done == TREADLE_DONE)
		treadle_rma_finish(&rma, 0, run);
	else if (done == TREADLE_RESULT_DUE)
		deliver_result_later(&rma, run);
	else
		atomic_job(&rma.job, run);
}

/**
 * treadle_atomic_issue - execute an atomic command
 * @cmd:	the command; consumed
 * @run:	of the caller
 *
 * Context: May sleep.
 */
TREADLE_HOT void treadle_atomic_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	bool write = cmd->d.opcode == TREADLE_OP_ATOMIC;
	enum treadle_step done = TREADLE_UNDONE;

	if (likely(!(cmd->d.flags & TREADLE_F_LOCAL)))
		done = treadle_rma_at_once(cmd, access_for(&cmd->d), modify_step, run);
	if (likely(done == TREADLE_DONE))
		treadle_cmd_succeed(cmd, write ? cmd->ep->cntr_write : cmd->ep->cntr_read, run);
	else if (done == TREADLE_RESULT_DUE)
		atomic_result(cmd, run);
	else
		atomic_slowly(cmd, run);
}
