// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: where commands run when not in the caller
 *
 * Jobs go round in the run queue of whoever caused them until its budget is used
 * up; the rest goes to the workers of the contexts that they belong to. One work
 * item per context: a context whose memory is slow holds up only itself.
 *
 * A workqueue runs so many of its items at a time, and the memory of one context may be
 * slow on purpose (userfaultfd, FUSE) for as long as its owner likes. So each user has a
 * workqueue: who fills it holds up his own contexts. Users whom somebody may make up, in his
 * user namespaces, are he. What ends a context waits for nobody, and has one that is common to all.
 */
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/hashtable.h>
#include <linux/math64.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "treadle.h"

#define WORKER_BUDGET 1024
#define USERS_WORKERS 256
#define USERS_POLLERS 4u /* for each CPU, that look as often as they like */
#define ALL_POLLERS   32u
#define LEAST_PACE_NS (10 * NSEC_PER_MSEC)
#define MOST_PACE_NS  (10 * NSEC_PER_SEC)
#define PACE_LOOK_NS  (NSEC_PER_SEC / 4)
#define MOST_PAUSE    (HZ / 4UL)
#define LATER_LOOKS   1000 /* of a user, in a second */

/*
 * struct treadle_crew - the workers of a user, and of those for whom he answers
 * @ref:  contexts; the last one goes with crews_lock
 * @node: in crews (under crews_lock)
 * @end:  destroys @wq, which may not be done by one of its own workers
 * @pollers: contexts that have something armed on cells; up to @most they count among those of all users
 * @taken: up to when the processors' time is (under @pace)
 * @later: what waits for treadle_queue_later()
 */
struct treadle_crew {
	struct kref ref;
	struct hlist_node node;
	kuid_t uid;
	struct workqueue_struct *wq;
	struct work_struct end;
	atomic_t pollers, later;
	int most;
	spinlock_t pace;
	u64 taken;
};

static struct workqueue_struct *treadle_wq;
static atomic_t pollers;
static DEFINE_HASHTABLE(crews, 6);
static DEFINE_SPINLOCK(crews_lock); /* everybody's: nobody sleeps with it, nor can be made to */

int treadle_worker_init(void)
{
	treadle_wq = alloc_workqueue("treadle", WQ_UNBOUND, 0);
	return treadle_wq ? 0 : -ENOMEM;
}

void treadle_worker_exit(void)
{
	destroy_workqueue(treadle_wq);
}

static void crew_end(struct work_struct *work)
{
	struct treadle_crew *crew = container_of(work, struct treadle_crew, end);

	destroy_workqueue(crew->wq);
	kfree(crew);
}

static struct treadle_crew *crew_alloc(kuid_t uid)
{
	/* of a user, not of one of his groups */
	struct treadle_crew *crew = kzalloc(sizeof(*crew), GFP_KERNEL);

	if (!crew)
		return NULL;
	crew->wq = alloc_workqueue("treadle-%u", WQ_UNBOUND, USERS_WORKERS, __kuid_val(uid));
	if (!crew->wq) {
		kfree(crew);
		return NULL;
	}
	kref_init(&crew->ref);
	spin_lock_init(&crew->pace);
	crew->most = USERS_POLLERS * num_online_cpus();
	crew->uid = uid;
	INIT_WORK(&crew->end, crew_end);
	return crew;
}

/*
 * Who answers for the caller: he himself, or whoever made the user namespace that he is in, for that
 * one has all its users. The outermost one counts, but what the machine's root has made is for others:
 * in it everybody answers for himself.
 */
static kuid_t accountable(void)
{
	const struct user_namespace *ns;
	kuid_t uid = current_euid();

	for (ns = current_user_ns(); ns->parent; ns = ns->parent)
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			uid = ns->owner;
	return uid;
}

/* That of @uid, held; if there is none @new, if that is one. */
static struct treadle_crew *crew_find(kuid_t uid, struct treadle_crew *new)
{
	struct treadle_crew *crew;

	spin_lock(&crews_lock);
	hash_for_each_possible(crews, crew, node, __kuid_val(uid))
		if (uid_eq(crew->uid, uid))
			break;
	if (crew) { /* who drops the last reference holds crews_lock */
		kref_get(&crew->ref);
	} else if (new) {
		hash_add(crews, &new->node, __kuid_val(uid));
		crew = new;
	}
	spin_unlock(&crews_lock);
	return crew;
}

/* That of the caller, held; NULL: no memory. */
struct treadle_crew *treadle_crew_get(void)
{
	kuid_t uid = accountable();
	struct treadle_crew *crew = crew_find(uid, NULL), *new;

	if (crew)
		return crew;
	new = crew_alloc(uid);
	if (!new)
		return NULL;
	crew = crew_find(uid, new);
	if (crew != new) /* somebody else was faster */
		crew_end(&new->end);
	return crew;
}

static void crew_release(struct kref *ref) __releases(&crews_lock)
{
	struct treadle_crew *crew = container_of(ref, struct treadle_crew, ref);

	hash_del(&crew->node);
	spin_unlock(&crews_lock);
	queue_work(treadle_wq, &crew->end);
}

void treadle_crew_put(struct treadle_crew *crew)
{
	kref_put_lock(&crew->ref, crew_release, &crews_lock);
}

/* One context more that polls, or one less. Who has many looks seldom, and costs the others no more than that. */
void treadle_crew_polls(struct treadle_crew *crew, bool more)
{
	if (more && atomic_inc_return(&crew->pollers) <= crew->most)
		atomic_inc(&pollers);
	else if (!more && atomic_dec_return(&crew->pollers) < crew->most)
		atomic_dec(&pollers);
}

/* How many of the pollers of this user, or of all if those are many, have to share the time of one. */
unsigned int treadle_crew_share(const struct treadle_crew *crew)
{
	unsigned int cpus = num_online_cpus();

	return 1 + max(atomic_read(&crew->pollers) / (USERS_POLLERS * cpus),
		       atomic_read(&pollers) / (ALL_POLLERS * cpus));
}

/*
 * What this thread has run (known to a tick, which may count at the same time), and has waited for a processor. Without
 * the latter, many that sleep now and then would get more of it than one that would like to run all the time: the
 * scheduler is good to those who have slept.
 */
static u64 ran_so_far(void)
{
	u64 ran = READ_ONCE(current->se.sum_exec_runtime);

#ifdef CONFIG_SCHED_INFO
	ran += READ_ONCE(current->sched_info.run_delay);
#endif
	return ran;
}

void treadle_slice_begin(struct treadle_slice *slice)
{
	slice->began = ktime_get_ns();
	slice->ran = ran_so_far();
	slice->slept = 0;
	slice->switches = current->nvcsw;
}

/* @nap was begun before it perhaps slept. When it did, what it had run was counted; else that is not known well enough. */
void treadle_slice_slept(struct treadle_slice *slice, const struct treadle_slice *nap)
{
	u64 took = ktime_get_ns() - nap->began, ran = ran_so_far() - nap->ran;

	if (current->nvcsw != nap->switches && took > ran)
		slice->slept += took - ran;
}

/* What it took: not while its worker slept; to a tick, but if that was for a page. */
static u64 slice_took(const struct treadle_slice *slice, u64 now)
{
	return min_t(u64, now - slice->began - slice->slept, ran_so_far() - slice->ran + TICK_NSEC);
}

/*
 * A worker of @ctx has had a slice, and there may be more to do: circles of commands, or copies, for ever. No group of
 * processes pays for it, and as many may run as the user has contexts: so all of his together get what one for each processor
 * would, as if each slice had been one of a processor. He who has no more than that does not wait, nor for a bit more now and
 * then (LEAST_PACE_NS). Every slice counts, or who stays just below a budget would not be held up. Bounded; the
 * end of a context is not waited for. Another slice begins.
 */
void treadle_crew_pace(struct treadle_ctx *ctx, struct treadle_slice *slice)
{
	struct treadle_crew *crew = ctx->crew;
	u64 now = ktime_get_ns(), until;

	spin_lock(&crew->pace);
	/* from when it began: as many as there are processors never get ahead of the time, however long their slices are */
	until = min(max(crew->taken, slice->began), now + MOST_PACE_NS);
	crew->taken = until + div_u64(slice_took(slice, now), num_online_cpus());
	spin_unlock(&crew->pace);
	while (until > now + LEAST_PACE_NS && !READ_ONCE(ctx->dead)) {
		unsigned long us = div_u64(min_t(u64, until - now, PACE_LOOK_NS), NSEC_PER_USEC);

		usleep_idle_range(us, us + 50);
		now = ktime_get_ns();
	}
	treadle_slice_begin(slice);
}

/* What is allocated for @ctx is paid by it, and its pages come as if it asked for them (disk quotas, FUSE). */
struct treadle_guise treadle_guise_of(struct treadle_ctx *ctx)
{
	return (struct treadle_guise){ set_active_memcg(ctx->memcg), override_creds(ctx->cred) };
}

void treadle_guise_off(struct treadle_guise old)
{
	revert_creds(old.cred);
	set_active_memcg(old.memcg);
}

/* What may wait for the memory of @ctx. */
void treadle_queue_work(struct treadle_ctx *ctx, struct work_struct *work)
{
	queue_work(ctx->crew->wq, work);
}

/*
 * What has found somebody in its way that it does not wait for: again, ever more seldom (@pause, 0 at first), and of many of
 * a user's each as seldom as all of them together may.
 */
void treadle_queue_later(struct treadle_ctx *ctx, struct delayed_work *work, unsigned long *pause)
{
	struct treadle_crew *crew = ctx->crew;
	unsigned long n = *pause ? atomic_read(&crew->later) : atomic_inc_return(&crew->later);
	/* who merely crosses a doorbell does not wait for many that are in earnest */
	bool often = *pause < MOST_PAUSE;

	*pause = min_t(unsigned long, 2 * *pause + 1, MOST_PAUSE);
	queue_delayed_work(crew->wq, work, often ? *pause : max(*pause, n * HZ / LATER_LOOKS));
}

/* It does not come again; @pause is that of the last time. */
void treadle_queue_later_end(struct treadle_ctx *ctx, unsigned long pause)
{
	if (pause)
		atomic_dec(&ctx->crew->later);
}

/* What never waits. */
void treadle_queue_end(struct work_struct *work)
{
	queue_work(treadle_wq, work);
}

/* There are jobs of @ctx. The caller's reference is held by the work now, until it returns. */
static void queue_ctx(struct treadle_ctx *ctx)
{
	if (!queue_work(ctx->crew->wq, &ctx->work))
		treadle_ctx_put(ctx);
}

/* Give a job, which is on no list, to its context's worker. Under any lock but ctx->jobs_lock; never sleeps. */
void treadle_queue_job(struct treadle_job *job)
{
	struct treadle_ctx *ctx = job->ctx;

	kref_get(&ctx->ref); /* the job may be done as soon as it can be seen */
	spin_lock(&ctx->jobs_lock);
	list_add_tail(&job->link, &ctx->jobs);
	spin_unlock(&ctx->jobs_lock);
	queue_ctx(ctx);
}

/* All of them. A worker had those of its own context before what has come since: they stay before it. */
void treadle_run_handoff(struct treadle_run *run)
{
	struct treadle_ctx *ctx = run->ctx;

	treadle_run_let_go(run);
	if (list_empty(&run->jobs))
		return;
	kref_get(&ctx->ref);
	spin_lock(&ctx->jobs_lock);
	if (run->worker)
		list_splice_init(&run->jobs, &ctx->jobs);
	else
		list_splice_tail_init(&run->jobs, &ctx->jobs);
	spin_unlock(&ctx->jobs_lock);
	queue_ctx(ctx);
}

/*
 * In the middle of what no budget ends: a worker who has had his slice waits as he would behind it, but not with the
 * counter of another in his hands.
 */
void treadle_run_pause(struct treadle_run *run)
{
	treadle_run_let_go(run);
	if (run->slice.began && !run->guest && ktime_get_ns() - run->slice.began > LEAST_PACE_NS)
		treadle_crew_pace(run->ctx, &run->slice);
	cond_resched();
}

/*
 * Take the next job off its list: one of another context first, as it waits for nobody. But a worker's own ones have
 * every other turn. NULL: what was offered has been taken away.
 */
static struct treadle_job *next_job(struct treadle_run *run)
{
	bool mine = !run->offers || (run->mine && !list_empty(&run->jobs));
	struct treadle_job *job;

	run->mine = run->worker && !mine;
	if (!mine)
		return treadle_run_claim(run);
	job = list_first_entry(&run->jobs, struct treadle_job, link);
	list_del_init(&job->link);
	return job;
}

/*
 * Until nothing is left, or the budget is used up, or the caller is killed; a worker's is used up when others are to have the
 * processor after a job: before many keep a pace each has had one turn, however slow that is. A worker goes on by itself then.
 */
void treadle_run_jobs(struct treadle_run *run)
{
	/* of other endpoints, too, which may close meanwhile: treadle_ep_quiesce() does not wait for this run */
	run->own = NULL;
	while (!treadle_run_empty(run)) {
		struct treadle_job *job;

		if (run->budget <= 0 || fatal_signal_pending(current)) {
			if (!run->worker)
				treadle_run_handoff(run);
			return;
		}
		job = next_job(run);
		if (unlikely(!job))
			continue;
		if (job->ctx == run->ctx) /* which may sleep, for memory of his own */
			treadle_run_let_go(run);
		job->fn(job, run);
		run->budget--;
		if (need_resched()) {
			treadle_run_let_go(run);
			if (run->worker)
				run->budget = 0;
		}
		cond_resched();
	}
}

void treadle_ctx_worker(struct work_struct *work)
{
	struct treadle_ctx *ctx = container_of(work, struct treadle_ctx, work);
	struct treadle_guise old = treadle_guise_of(ctx);
	TREADLE_RUN(run, ctx);

	run.budget = WORKER_BUDGET;
	run.worker = true;
	treadle_slice_begin(&run.slice);
	spin_lock(&ctx->jobs_lock);
	list_splice_tail_init(&ctx->jobs, &run.jobs);
	spin_unlock(&ctx->jobs_lock);
	treadle_run_jobs(&run);
	treadle_guise_off(old);
	treadle_run_let_go(&run);
	treadle_crew_pace(ctx, &run.slice);
	treadle_run_handoff(&run); /* there is more to do */
	treadle_ctx_put(ctx);
}
