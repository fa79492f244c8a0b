// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: atomics on a peer's memory
 *
 * fi_atomic(3). Like RMA, in three steps: the operands are copied into the kernel;
 * under the lock of the peer's pagemap each element is changed where it is (arith.h),
 * and what was there takes the operand's place; what has been fetched is copied
 * to the initiator. Each step goes on in the worker of whoever's pages are missing.
 */
#include <linux/hash.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#ifdef CONFIG_X86_64
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#endif

#include "mm/own.h"
#include "path/path.h"
#include "pure/arith.h"

#define LOCK_BITS 6

/* For elements that are no words; by where they are in memory, whoever maps that. */
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

/* Also what the x87 needs for long double: rounding and precision as they are by default. */
static void fp_begin(void)
{
	kernel_fpu_begin_mask(KFPU_387 | KFPU_MXCSR);
}

static void fp_end(void)
{
	kernel_fpu_end();
}
#else
/* Where long double is binary128. Elsewhere no such type gets past prep. */
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

/* --- judging ------------------------------------------------------------------------------ */

static bool op_fits(const struct treadle_desc *d)
{
	if (d->opcode == TREADLE_OP_COMPARE)
		return d->atomic_op >= TREADLE_ATOMIC_CSWAP;
	return d->atomic_op < TREADLE_ATOMIC_CSWAP &&
	       (d->atomic_op != TREADLE_ATOMIC_READ || d->opcode == TREADLE_OP_FETCH);
}

static noinline int judge_vector(const struct treadle_cmd *cmd, int which)
{
	const struct treadle_iov *iov;
	struct treadle_iov one;
	unsigned int count;

	iov = treadle_cmd_fetch(cmd, which, &one, &count);
	return treadle_iov_judge(iov, count, cmd->d.len);
}

/* Buffers for results (0) or to compare with (1): as long as the command. */
static __always_inline int judge_fetch(const struct treadle_cmd *cmd, int which)
{
	const struct treadle_desc *d = &cmd->d;
	u64 end;

	if (unlikely(d->fetch_iov_count > 1))
		return judge_vector(cmd, which);
	return check_add_overflow(which ? d->compare : d->result, d->len, &end) ? -EINVAL : 0;
}

static noinline int judge_ranges(const struct treadle_cmd *cmd, u32 size)
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

/* Remote ranges hold whole elements, so that none is in two of them. @size is a power of 2. */
static __always_inline int judge_elements(const struct treadle_cmd *cmd, u32 size)
{
	if (unlikely(cmd->d.rma_iov_count > 1))
		return judge_ranges(cmd, size);
	return cmd->d.len & (size - 1) ? -EINVAL : 0;
}

int treadle_atomic_prep(struct treadle_cmd *cmd)
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
	/* an index of tables, here and where it is computed */
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
	ret = treadle_rma_judge(cmd) ?: judge_elements(cmd, treadle_type_size(d->datatype));
	if (!ret && fetches)
		ret = judge_fetch(cmd, 0);
	if (!ret && compares)
		ret = judge_fetch(cmd, 1);
	if (ret || !(d->flags & TREADLE_F_LOCAL))
		return ret ?: treadle_rma_route(cmd);
	cmd->route = 0;
	cmd->port = cmd->ep->port;
	return 0;
}

/* --- in place ----------------------------------------------------------------------------- */

/* @operand: of the next element, @compare: likewise */
struct work {
	u8 op, type;
	u32 size, words;
	treadle_compute_fn *compute;
	u8 *operand;
	const u8 *compare;
};

/* An element that is no word, of which @bytes are at @at and the others at @rest. */
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

/* For treadle_modify: under the lock of the pagemap, which keeps the pages where they are. */
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

static int return_results(struct treadle_rma *rma, struct treadle_run *run)
{
	const struct treadle_cmd *cmd = rma->cmd;
	const struct treadle_iov *iov;
	struct treadle_span src, dst;
	enum treadle_side side;
	struct treadle_iov one;
	unsigned int count;

	if (cmd->d.opcode == TREADLE_OP_ATOMIC)
		return 0;
	iov = treadle_cmd_fetch(cmd, 0, &one, &count);
	treadle_span_kernel(&src, cmd->inject, rma->done);
	treadle_span_user(&dst, cmd->ep->obj.ctx, &cmd->ep->closed, iov, count, rma->done);
	return treadle_copy(&dst, &src, &rma->done, cmd->d.len, run, &side);
}

static void atomic_job(struct treadle_job *job, struct treadle_run *run);

static void atomic_go(struct treadle_rma *rma, struct treadle_run *run)
{
	struct treadle_ctx *here = rma->cmd->ep->obj.ctx, *there = rma->to->obj.ctx, *next = here;
	int ret = treadle_rma_alive(rma) ?: treadle_take_inject(rma->cmd, run);

	if (!ret && !rma->modified) {
		ret = modify_remote(rma, run);
		if (ret == -EAGAIN || ret == -EINPROGRESS) {
			next = there;
		} else if (ret) {
			ret = treadle_remote_error(rma, ret);
		} else {
			rma->modified = true;
			rma->done = 0;
		}
	}
	if (!ret)
		ret = return_results(rma, run);
	if (ret == -EAGAIN || ret == -EINPROGRESS)
		treadle_rma_defer(rma, next, atomic_job, run);
	else
		treadle_rma_finish(rma, ret == -ESHUTDOWN ? treadle_ep_error(rma->cmd->ep) : ret,
				   run);
}

static void atomic_job(struct treadle_job *job, struct treadle_run *run)
{
	atomic_go(container_of(job, struct treadle_rma, job), run);
}

/* What a region has to grant. */
static u32 access_for(const struct treadle_desc *d)
{
	u32 access = TREADLE_ACCESS_ATOMIC;

	if (d->opcode != TREADLE_OP_ATOMIC)
		access |= TREADLE_ACCESS_REMOTE_READ;
	if (d->atomic_op != TREADLE_ATOMIC_READ)
		access |= TREADLE_ACCESS_REMOTE_WRITE;
	return access;
}

/* What a word was, unless others were faster all the time. */
struct outcome {
	u64 was;
	bool ok;
};

static noinline struct outcome update_word(const struct treadle_desc *d, void *at, u64 value,
					   u64 than)
{
	struct outcome result = { value };
	u32 tries = TREADLE_EXCHANGE_TRIES;

	result.ok = treadle_update(treadle_compute_int, d->atomic_op, d->datatype, at, &result.was,
				   &than, &tries);
	return result;
}

/* A buffer of the initiator's, in one page that is known, or NULL. Under its pagemap's lock. */
static __always_inline void *known_word(struct treadle_pm *here, u64 addr, u32 len, bool write)
{
	return treadle_pm_small(addr, len) ? treadle_pm_known(here, addr, write) : NULL;
}

/*
 * One word at @at of @there, whose lock is held: *value becomes what it was. False: its page is not known,
 * or its region revoked, or others were faster all the time.
 */
static __always_inline bool modify_word(const struct treadle_desc *d, struct treadle_pm *there,
					u64 at, const struct treadle_mr *mr, u64 *value, u64 than)
{
	void *word = treadle_pm_known(there, at, d->atomic_op != TREADLE_ATOMIC_READ);
	struct outcome o;

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

/* The initiator runs: his memory is used as he does it himself. */
static __always_inline enum treadle_step modify_by_own(struct treadle_cmd *cmd,
						       const struct treadle_ep *to, u64 at,
						       const struct treadle_mr *mr)
{
	struct treadle_pm *there = to->obj.ctx->pm;
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
	return TREADLE_OWED;
}

/* Somebody else runs, or it was armed: by the pagemaps of both, in pages that are known. */
static __always_inline enum treadle_step modify_by_pages(struct treadle_cmd *cmd,
							 const struct treadle_ep *to, u64 at,
							 const struct treadle_mr *mr)
{
	struct treadle_pm *there = to->obj.ctx->pm, *here = cmd->ep->obj.ctx->pm;
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

/* One word, whose operands are read once: the process may change them meanwhile. @mr: NULL with F_LOCAL */
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
 * What needs no region: the target is the process's own memory (F_LOCAL), or only a result is left.
 * False: it was dropped.
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

/* The result could not be written at once: it goes the way of those that were computed slowly. */
static void owe(struct treadle_rma *rma, struct treadle_run *run)
{
	struct treadle_cmd *cmd = rma->cmd;

	rma->modified = true;
	cmd->inject = treadle_cmd_alloc(cmd, sizeof(cmd->d.data), TREADLE_GFP, run);
	if (!cmd->inject) { /* as where the result's page is bad: it has been modified, which an error does not deny */
		cmd->d.data = 0;
		treadle_rma_finish(rma, -ENOMEM, run);
		return;
	}
	memcpy(cmd->inject, &cmd->d.data, sizeof(cmd->d.data));
	cmd->d.data = 0;
	atomic_go(rma, run);
}

static noinline void atomic_owed(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_rma rma TREADLE_UNSET;

	if (open_here(&rma, cmd))
		owe(&rma, run);
}

static noinline void atomic_slowly(struct treadle_cmd *cmd, struct treadle_run *run)
{
	u32 align = treadle_type_align(cmd->d.datatype), size = treadle_type_size(cmd->d.datatype);
	bool local = cmd->d.flags & TREADLE_F_LOCAL;
	enum treadle_step done = TREADLE_UNDONE;
	struct treadle_rma rma TREADLE_UNSET;
	unsigned int i;

	if (local ? !open_here(&rma, cmd) : !treadle_rma_open(&rma, cmd, access_for(&cmd->d), run))
		return;
	/* no element lies in two of a region's ranges; both are powers of 2 */
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
	else if (done == TREADLE_OWED)
		owe(&rma, run);
	else
		atomic_go(&rma, run);
}

TREADLE_HOT void treadle_atomic_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	enum treadle_step done = TREADLE_UNDONE;

	if (likely(!(cmd->d.flags & TREADLE_F_LOCAL)))
		done = treadle_rma_at_once(cmd, access_for(&cmd->d), modify_step, run);
	if (likely(done == TREADLE_DONE))
		treadle_cmd_complete(cmd, 0, run);
	else if (done == TREADLE_OWED)
		atomic_owed(cmd, run);
	else
		atomic_slowly(cmd, run);
}
