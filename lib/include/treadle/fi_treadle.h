/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the libfabric provider can do that libfabric has no call for. C and C++;
 * nothing has to be linked. See fi_treadle(7).
 *
 *	struct fi_treadle_ops_domain *ops;
 *
 *	if (!fi_open_ops(&domain->fid, FI_TREADLE_DOMAIN_OPS_1, 0, (void **)&ops, NULL))
 *		ops->mr_regpinned(domain, &attr, 0, &mr);
 *
 * And graphs of deferred work, FI_TREADLE_GRAPH_OPS_1, which the kernel runs as often as they are
 * launched:
 *
 *	struct fi_treadle_ops_graph *ops;
 *	struct fid_treadle_graph *graph;
 *	uint32_t received;
 *
 *	fi_open_ops(&domain->fid, FI_TREADLE_GRAPH_OPS_1, 0, (void **)&ops, NULL);
 *	ops->graph_open(domain, &graph, NULL);
 *	ops->graph_add(graph, &receive, NULL, 0, &received);
 *	ops->graph_add(graph, &send, &received, 1, NULL);
 *	ops->graph_install(graph, launches, NULL);
 *	fi_cntr_add(launches, 1);
 */
#ifndef TREADLE_FI_TREADLE_H
#define TREADLE_FI_TREADLE_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_trigger.h>
#include <treadle/ioctl.h>

#define FI_TREADLE_DOMAIN_OPS_1 "treadle_domain_ops_1"

/* size: what the provider knows of it; what lies beyond is not there. Each returns 0 or -FI_errno. */
struct fi_treadle_ops_domain {
	size_t size;
	/* Limits and capabilities of the kernel, for one domain: <treadle/ioctl.h>. */
	int (*query)(struct fid_domain *domain, struct treadle_query *limits);
	/*
	 * fi_mr_regattr of memory that stays where it is: no access ever waits for a page. It
	 * has to be mapped (-FI_EFAULT) and is charged to RLIMIT_MEMLOCK (-FI_ENOMEM).
	 * Unmapping any of it ends all access to the region (FI_EKEYREJECTED at the peer).
	 */
	int (*mr_regpinned)(struct fid_domain *domain, const struct fi_mr_attr *attr,
			    uint64_t flags, struct fid_mr **mr);
	/* The domain's open /dev/treadle, which stays the domain's. */
	int (*getfd)(struct fid_domain *domain, int *fd);
};

#define FI_TREADLE_GRAPH_OPS_1 "treadle_graph_ops_1"

/* Closed by fi_close, which cancels what runs; -FI_EBUSY is said to who closes what it names. */
struct fid_treadle_graph {
	struct fid fid;
};

enum fi_treadle_graph_format { FI_TREADLE_GRAPH_TEXT, FI_TREADLE_GRAPH_DOT };

/*
 * One thread at a time for each graph. Each returns 0 or -FI_errno, of the domain (fi_open_ops says
 * which); -FI_ENOMEM may come from all but graph_wait and graph_cancel.
 */
struct fi_treadle_ops_graph {
	size_t size;
	int (*graph_open)(struct fid_domain *domain, struct fid_treadle_graph **graph,
			  void *context);
	/*
	 * Work as for FI_QUEUE_WORK, without counters, threshold and FI_COMPLETION, FI_INJECT,
	 * FI_MULTI_RECV; it is copied. It starts when the `count` commands in `after` have succeeded. node (may
	 * be NULL): its number; they count from 0. -FI_EINVAL and others as for FI_QUEUE_WORK.
	 */
	int (*graph_add)(struct fid_treadle_graph *graph, const struct fi_deferred_work *work,
			 const uint32_t *after, size_t count, uint32_t *node);
	/* before (which may be added later) comes before after (-FI_EINVAL: which may not). */
	int (*graph_order)(struct fid_treadle_graph *graph, uint32_t before, uint32_t after);
	/*
	 * Puts all of it into the kernel. launches: a counter; it is launched once for each 1 that is
	 * added to it from now on, by whatever does that, one launch after the other; NULL: by
	 * graph_launch only. ended: a counter of the launches that have ended, as errors those in
	 * which a command failed, or NULL. If a command fails, those after it fail, and all
	 * launches that follow; install it again. -FI_EINVAL: commands wait for each other, or for
	 * one that was not added; -FI_EBUSY: it runs; or why a command was refused.
	 */
	int (*graph_install)(struct fid_treadle_graph *graph, struct fid_cntr *launches,
			     struct fid_cntr *ended);
	/* -FI_EOPBADSTATE: it is not installed. */
	int (*graph_launch)(struct fid_treadle_graph *graph);
	/*
	 * Until all launches so far have ended. timeout: ms, negative: for ever. -FI_ETIMEDOUT, -FI_EINTR;
	 * -FI_EAVAIL: they have, and a command failed.
	 */
	int (*graph_wait)(struct fid_treadle_graph *graph, int timeout);
	/*
	 * What has not been done fails; what is being done ends by itself (graph_wait). It is not
	 * installed any more.
	 */
	int (*graph_cancel)(struct fid_treadle_graph *graph);
	/*
	 * As a line for each command, or for Graphviz. len: bytes of buf; then those needed, with the
	 * final 0. -FI_ETOOSMALL: it was cut off.
	 */
	int (*graph_print)(struct fid_treadle_graph *graph, enum fi_treadle_graph_format format,
			   char *buf, size_t *len);
};

#endif
