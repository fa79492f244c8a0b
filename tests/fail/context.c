// SPDX-License-Identifier: GPL-2.0
/*
 * For tests alone: a context that stands for peers on another host, as no call makes one yet.
 * Writing to the parameter `context` makes one, uses what it has, and frees it.
 */
#include <linux/completion.h>
#include <linux/socket.h>
#include <linux/user_namespace.h>
#include <net/net_namespace.h>

#include "ep/endpoint.h"
#include "exec/trigger.h"

#define NEED(condition)                                               \
	do {                                                          \
		if (!(condition)) {                                   \
			pr_err("treadle: context: %s\n", #condition); \
			return -EINVAL;                               \
		}                                                     \
	} while (0)

struct errand {
	struct treadle_job job;
	struct completion done;
	bool alone;
};

static void run_errand(struct treadle_job *job, struct treadle_run *run)
{
	struct errand *errand = container_of(job, struct errand, job);

	errand->alone = run->worker && run->ctx == job->ctx && !current->mm;
	complete(&errand->done);
}

/* Its worker runs, although there is no process. */
static int use_worker(struct treadle_ctx *ctx)
{
	struct errand errand = {.job = {.ctx = ctx, .fn = run_errand}};

	init_completion(&errand.done);
	treadle_queue_job(&errand.job);
	wait_for_completion(&errand.done);
	NEED(errand.alone);
	return 0;
}

/* An endpoint of it is made, enabled and closed. Its own bytes are not to be had. */
static int use_endpoint(struct treadle_ctx *ctx)
{
	const struct treadle_iov iov = {.addr = 4096, .len = 8};
	struct treadle_ep_create create = {.type = TREADLE_EP_RDM, .addr.family = AF_INET};
	struct treadle_ep_enable enable = {};
	struct treadle_ucmd u = {.ctx = ctx, .arg = &create};
	TREADLE_RUN(run, ctx);
	enum treadle_side side;
	struct treadle_span src, dst;
	u64 done = 0, word = 0;
	bool open = false;

	NEED(!treadle_ioc_ep_create(&u));
	NEED(!treadle_obj_publish(u.new));
	enable.ep = create.id;
	u.arg = &enable;
	NEED(!treadle_ioc_ep_enable(&u));
	treadle_span_user(&src, ctx, &open, &iov, 1, 0);
	treadle_span_kernel(&dst, &word, 0);
	NEED(treadle_copy(&dst, &src, &done, sizeof(word), &run, &side) == -ESHUTDOWN);
	NEED(!done && !word);
	NEED(!treadle_obj_destroy(ctx, create.id));
	return 0;
}

/* The proof of a test: the peer knows the key "key". */
static bool knows(const struct treadle_key *key, const struct treadle_key *known)
{
	return known->size == 3 && !memcmp(known->bytes, "key", 3);
}

static const struct treadle_key right = {.size = 3, .bytes = "key"};
static const struct treadle_key wrong = {.size = 3, .bytes = "kez"};
static const struct treadle_key proof = {.proves = knows};

static int use_predicate(const struct treadle_owner *unknown)
{
	struct treadle_peer root = {.owner = {&init_user_ns, GLOBAL_ROOT_UID}};
	struct treadle_peer far = {.owner = *unknown}, other = far;

	NEED(treadle_admits(&root, &root));
	NEED(!treadle_admits(&root, &far) && !treadle_admits(&far, &root));
	NEED(!treadle_admits(&far, &other) && !treadle_admits(&far, &far));
	far.key = &proof;
	NEED(!treadle_admits(&root, &far) && !treadle_admits(&far, &root));
	root.owner.uid = KUIDT_INIT(1);
	root.key = &wrong;
	NEED(!treadle_admits(&root, &far) && !treadle_admits(&far, &root));
	root.key = &right;
	NEED(treadle_admits(&root, &far) && treadle_admits(&far, &root));
	other.key = &proof;
	NEED(!treadle_admits(&other, &far)); /* two proofs prove nothing */
	return 0;
}

static int set_context(const char *text, const struct kernel_param *kp)
{
	const struct treadle_owner unknown = {};
	struct treadle_ctx *ctx = treadle_ctx_create(&unknown, &init_net, NULL);
	int ret;

	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	treadle_poller_init(ctx);
	ctx->ports = treadle_ports(ctx->net);
	ret = use_worker(ctx) ?: use_endpoint(ctx) ?: use_predicate(&unknown);
	treadle_ctx_put(ctx);
	return ret;
}

static const struct kernel_param_ops context_ops = {.set = set_context};

module_param_cb(context, &context_ops, NULL, 0200);
