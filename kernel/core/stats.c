// SPDX-License-Identifier: GPL-2.0
/* treadle: the words of statistics */
#include <linux/errno.h>

#include <treadle/ioctl.h>

#include "core/stats.h"
#include "mm/base.h"

/* The errno of each word from TREADLE_STAT_ERRORS on; 0: all others. */
static const u16 errnos[TREADLE_STAT_ERRNOS] = {
	EPERM,	    ENOENT,	  EIO,	     EBADF,	     EAGAIN,	ENOMEM,	      EACCES,
	EFAULT,	    EBUSY,	  EINVAL,    ENOSPC,	     ENOMSG,	EDESTADDRREQ, EMSGSIZE,
	EOPNOTSUPP, ECONNRESET,	  ENOTCONN,  ESHUTDOWN,	     ETIMEDOUT, ECONNREFUSED, EHOSTUNREACH,
	ECANCELED,  EKEYREJECTED, EREMOTEIO, TREADLE_ETRUNC,
};

/**
 * treadle_stats_init() - allocate statistics, all zero
 * @s:		set up
 * @first:	the first word
 * @end:	the word behind the last one
 * @own:	zeroed words in the object, which lives as long; NULL: words for each CPU
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int treadle_stats_init(struct treadle_stats *s, u32 first, u32 end, u64 *own)
{
	u32 count = end - first;

	s->first = first;
	s->end = end;
	s->folded = kcalloc(count, sizeof(u64), TREADLE_GFP);
	s->own = own;
	if (!s->folded)
		return -ENOMEM;
	if (own)
		return 0;
	s->n = __alloc_percpu_gfp(count * sizeof(u64), sizeof(u64), TREADLE_GFP);
	if (s->n)
		return 0;
	kfree(s->folded);
	s->folded = NULL;
	return -ENOMEM;
}

/**
 * treadle_stats_free() - undo treadle_stats_init()
 * @s:	nothing counts there any more; or zeroed
 *
 * Context: any but interrupts.
 */
void treadle_stats_free(struct treadle_stats *s)
{
	free_percpu(s->n);
	kfree(s->folded);
}

static u64 stat_now(const struct treadle_stats *s, u32 i)
{
	u64 n = 0;
	int cpu;

	if (s->own)
		return READ_ONCE(s->own[i]);
	for_each_possible_cpu(cpu)
		n += READ_ONCE(*per_cpu_ptr(s->n + i, cpu));
	return n;
}

/**
 * treadle_stats_sum() - add the words of all CPUs
 * @s:		the statistics; may count meanwhile
 * @sum:	TREADLE_STATS words, to which those of @s are added
 *
 * Context: any.
 */
void treadle_stats_sum(const struct treadle_stats *s, u64 *sum)
{
	u32 i;

	for (i = s->first; s->folded && i < s->end; i++)
		sum[i] += stat_now(s, i - s->first);
}

/**
 * treadle_stats_fold() - add to the sums what was counted since the last call
 * @s:		statistics that end; may count meanwhile. One call at a time
 * @sums:	of the context
 *
 * Context: any.
 */
void treadle_stats_fold(struct treadle_stats *s, const struct treadle_stats *sums)
{
	u64 now;
	u32 i;

	for (i = s->first; s->folded && i < s->end; i++) {
		now = stat_now(s, i - s->first);
		treadle_stat_add(sums, i, now - s->folded[i - s->first]);
		s->folded[i - s->first] = now;
	}
}

/**
 * treadle_stat_errno() - the errno of a word
 * @i:	index from TREADLE_STAT_ERRORS on
 *
 * Context: any.
 * Return: a positive errno; 0: all others.
 */
int treadle_stat_errno(unsigned int i)
{
	return errnos[i];
}

/**
 * treadle_stat_error() - count a failure
 * @s:		of an endpoint or context
 * @error:	negative errno
 *
 * Context: any.
 */
void treadle_stat_error(const struct treadle_stats *s, int error)
{
	u32 i = 0;

	while (i < TREADLE_STAT_ERRNOS - 1 && errnos[i] != -error)
		i++;
	treadle_stat_add(s, TREADLE_STAT_ERRORS + i, 1);
}
