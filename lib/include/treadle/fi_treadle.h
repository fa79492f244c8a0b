/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls of the provider that libfabric has no interface for. C and C++; nothing has to be linked.
 * See fi_treadle(7).
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

/* size: bytes that the provider knows; do not use fields beyond. Each returns 0 or -FI_errno. */
struct fi_treadle_ops_domain {
	size_t size;
	/* Limits and capabilities of the kernel, for one domain: <treadle/ioctl.h>. */
	int (*query)(struct fid_domain *domain, struct treadle_query *limits);
	/*
	 * fi_mr_regattr of pinned memory: no access ever waits for a page. The memory must be
	 * mapped (-FI_EFAULT) and is charged to RLIMIT_MEMLOCK (-FI_ENOMEM). Unmapping any of it
	 * ends all access to the region (FI_EKEYREJECTED at the peer).
	 */
	int (*mr_regpinned)(struct fid_domain *domain, const struct fi_mr_attr *attr,
			    uint64_t flags, struct fid_mr **mr);
	/* The domain's open /dev/treadle. The domain owns it. */
	int (*getfd)(struct fid_domain *domain, int *fd);
	/*
	 * Before fi_enable: a thread of the kernel looks at the transmit ring of the endpoint, so
	 * that its operations make no system call; when none has come for idle microseconds, it
	 * sleeps until the next one. 0: it is not polled. -FI_EINVAL: more than TREADLE_MAX_IDLE,
	 * or no transmit ring of its own; -FI_EOPNOTSUPP: the module can't; -FI_EOPBADSTATE: the
	 * endpoint is enabled.
	 */
	int (*poll_ep)(struct fid_ep *ep, uint32_t idle);
	/*
	 * The address of a region of FI_MR_DMABUF, for buffers of operations of this process: its
	 * memory need not be mapped. -FI_EINVAL: it is no such region; -FI_EOPBADSTATE: it is not
	 * registered yet, or an endpoint of the domain is enabled that copies small messages itself
	 * (FI_PROGRESS_MANUAL, FI_TREADLE_DIRECT). Endpoints that are enabled later don't do so.
	 */
	int (*mr_address)(struct fid_mr *mr, uint64_t *address);
	/*
	 * A word for a device that adds to a counter: a total, 0 at first, which the device counts
	 * up by stores. The counter's value grows by what is added, within about a millisecond, and
	 * so one store starts every operation that this makes due. word: its address for the
	 * device. xpu: iface and device, as for FI_TRIGGER_XPU; NULL: the process itself. The word
	 * goes with the counter: what was stored before fi_close is counted. fi_cntr_set does not
	 * change it, and later stores add to what was set. Differences are modulo 2^64, so a total
	 * that is set back takes away.
	 * -FI_EBUSY: it has a word for another device; -FI_EOPNOTSUPP: the device, or the module,
	 * has none; -FI_EINVAL: no counter of this provider, or no place for the answer.
	 */
	int (*cntr_word)(struct fid_cntr *cntr, const struct fi_trigger_xpu *xpu, uint64_t **word);
	/*
	 * A copy of a counter for a device that polls: copy[0] is what fi_cntr_read returns,
	 * copy[1] what fi_cntr_readerr does. Each change is followed by a store of the newest
	 * value. The device only reads it. It goes with the counter. Arguments and errors are those
	 * of cntr_word.
	 */
	int (*cntr_copy)(struct fid_cntr *cntr, const struct fi_trigger_xpu *xpu,
			 const uint64_t **copy);
};

#define FI_TREADLE_DIRECT_OPS_1 "treadle_direct_ops_1"

/* Why the kernel has executed an RMA or atomic operation, and not the process through a window. */
enum fi_treadle_why {
	FI_TREADLE_NO_WINDOW, /* too few operations yet, or the region can have none */
	FI_TREADLE_OUTSIDE,   /* not within the window or its rights; or more than 64 KiB */
	FI_TREADLE_ABSENT,    /* a page is not in the window */
	FI_TREADLE_CHANGED,   /* a page was taken away meanwhile: done again */
	FI_TREADLE_ENDED,     /* the window has ended, with its region or an endpoint */
	FI_TREADLE_BUSY,      /* earlier operations of the endpoint are under way */
	FI_TREADLE_WAITED,    /* a thread waits for completions or for a counter, or no room */
	FI_TREADLE_ASKS_MORE, /* flags, a counter, or an atomic that is not one instruction */
	FI_TREADLE_WHYS
};

struct fi_treadle_direct_stats {
	size_t size;			  /* in: of the structure; out: bytes that were set */
	uint64_t windows;		  /* opened */
	uint64_t direct;		  /* operations of the process itself */
	uint64_t kernel[FI_TREADLE_WHYS]; /* others, by reason */
};

/* Messages by lanes. The second part: why an endpoint that has a lane to the peer used its ring. */
struct fi_treadle_lane_stats {
	size_t size;	/* in: of the structure; out: bytes that were set */
	uint64_t lanes; /* made */
	uint64_t taken; /* lanes of peers */
	uint64_t sent;	/* messages */
	uint64_t received;
	uint64_t closed;     /* how often the kernel was given the receives */
	uint64_t taken_back; /* messages that were sent again by the ring */
	uint64_t other;	     /* too long, or flags */
	uint64_t busy;	     /* earlier operations are under way, or messages wait at the peer */
	uint64_t shut;	     /* the peer lets the kernel match */
	uint64_t full;	     /* the peer takes none */
	uint64_t waited;     /* a thread waits for completions or for a counter, or no room */
};

/*
 * Memory of a peer, mapped into this process: what shmem_ptr(3) gives, with a rule. The kernel
 * takes pages away before the peer's memory changes (munmap, fork, the end of region or peer).
 * Where a page is missing, loads return anything and stores have no effect; never a signal. So an
 * access is
 *
 *	uint64_t generation;
 *	uint64_t *word = fi_treadle_map_begin(map, addr, sizeof(*word), &generation);
 *
 *	if (word) // as many loads and stores as you like
 *		*word = 1;
 *	if (!word || !fi_treadle_map_end(map, generation))
 *		// perhaps without effect: do all of it again by fi_write, and then ask for fill
 *
 * Such an access has no completion and is not counted. It takes place at once, and so perhaps
 * before operations that were posted earlier.
 */
struct fi_treadle_map {
	void *base;    /* the byte at addr */
	uint64_t addr; /* first byte, as fi_write names it; at most the one that was asked for */
	uint64_t len;  /* bytes: those that were asked for, or more */
	const struct treadle_window_status *status;
	uint32_t skip; /* of base, in its page */
	uint32_t page_shift;
};

/*
 * Where an access to len bytes at addr may begin; NULL: they are not within the map, or a page is
 * missing. Any thread, at any time.
 */
static inline void *fi_treadle_map_begin(const struct fi_treadle_map *map, uint64_t addr,
					 size_t len, uint64_t *generation)
{
	const uint64_t off = addr - map->addr;
	int there = len && off < map->len && len <= map->len - off;

	*generation = __atomic_load_n(&map->status->generation, __ATOMIC_ACQUIRE);
	if (there) {
		const uint64_t last = (map->skip + off + len - 1) >> map->page_shift;
		uint64_t page;

		for (page = (map->skip + off) >> map->page_shift; page <= last; page++)
			there &= __atomic_load_n(&map->status->present[page / 64],
						 __ATOMIC_RELAXED) >>
				 page % 64;
	}
	return there ? (char *)map->base + off : NULL; /* NOLINT(modernize-use-nullptr): C, too */
}

/* Not 0: all loads and stores since fi_treadle_map_begin were on the peer's memory. */
static inline int fi_treadle_map_end(const struct fi_treadle_map *map, uint64_t generation)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&map->status->generation, __ATOMIC_RELAXED) == generation;
}

/* Windows and lanes, for a domain. Each returns 0 or -FI_errno. */
struct fi_treadle_ops_direct {
	size_t size;
	/* -FI_EOPNOTSUPP: the endpoint has no windows. */
	int (*stats)(struct fid_ep *ep, struct fi_treadle_direct_stats *stats);
	/* -FI_EOPNOTSUPP: the endpoint has no lanes. */
	int (*lane_stats)(struct fid_ep *ep, struct fi_treadle_lane_stats *stats);
	/*
	 * Maps memory of a peer: len bytes, at least 1, at addr of the region with this key. access
	 * is FI_READ, FI_WRITE or both. The endpoint is enabled, and can't be closed before the map
	 * (-FI_EBUSY). A peer that leaves the address vector stays mapped. Errors are those that an
	 * operation would complete with, and -FI_EOPNOTSUPP: the region can have no map, is on
	 * another node, or peers' operations on it are counted; EXDEV (negative): the peer's
	 * process is not open to this one; -FI_ENOSPC: max_windows of the module.
	 */
	int (*map)(struct fid_ep *ep, fi_addr_t peer, uint64_t addr, size_t len, uint64_t key,
		   uint64_t access, struct fi_treadle_map **map);
	/*
	 * Enters the pages that the peer has in memory; an operation of fi_rma(3) on them makes
	 * it have them. -FI_EAGAIN: not all are there now; -FI_EKEYREJECTED: the map has ended;
	 * -FI_EINVAL: not within it. One thread at a time for a map, as unmap.
	 */
	int (*fill)(struct fi_treadle_map *map, uint64_t addr, size_t len);
	/* Ends the map; no access may be under way. */
	int (*unmap)(struct fi_treadle_map *map);
};

#define FI_TREADLE_GRAPH_OPS_1 "treadle_graph_ops_1"

/* fi_close closes a graph and cancels it if it runs. fi_close of what it uses is -FI_EBUSY. */
struct fid_treadle_graph {
	struct fid fid;
};

enum fi_treadle_graph_format { FI_TREADLE_GRAPH_TEXT, FI_TREADLE_GRAPH_DOT };

/*
 * One thread at a time for each graph. Each returns 0 or -FI_errno. The domain is that of
 * fi_open_ops. -FI_ENOMEM may come from all but graph_wait and graph_cancel.
 */
struct fi_treadle_ops_graph {
	size_t size;
	int (*graph_open)(struct fid_domain *domain, struct fid_treadle_graph **graph,
			  void *context);
	/*
	 * Work as for FI_QUEUE_WORK, but without counters, threshold and FI_COMPLETION, FI_INJECT,
	 * FI_MULTI_RECV; it is copied. It starts when the `count` commands in `after` have
	 * succeeded. node (may be NULL): its number; numbers count from 0. -FI_EINVAL and others as
	 * for FI_QUEUE_WORK.
	 */
	int (*graph_add)(struct fid_treadle_graph *graph, const struct fi_deferred_work *work,
			 const uint32_t *after, size_t count, uint32_t *node);
	/* `before` (may be added later) runs before `after` (must have been added: -FI_EINVAL). */
	int (*graph_order)(struct fid_treadle_graph *graph, uint32_t before, uint32_t after);
	/*
	 * Installs the graph in the kernel. launches: a counter, or NULL: graph_launch only. Each 1
	 * that is added to it from now on, by any means, launches the graph once, one launch after
	 * the other. ended: a counter of the launches that have ended, or NULL; launches in which a
	 * command failed count as errors. If a command fails, those after it fail, and all launches
	 * that follow: install the graph again. -FI_EINVAL: commands wait for each other, or for
	 * one that was not added; -FI_EBUSY: the graph runs; or the error of a command.
	 */
	int (*graph_install)(struct fid_treadle_graph *graph, struct fid_cntr *launches,
			     struct fid_cntr *ended);
	/* -FI_EOPBADSTATE: it is not installed. */
	int (*graph_launch)(struct fid_treadle_graph *graph);
	/*
	 * Waits until all launches so far have ended. timeout: ms; negative: no limit.
	 * -FI_ETIMEDOUT, -FI_EINTR; -FI_EAVAIL: they have ended, and a command failed.
	 */
	int (*graph_wait)(struct fid_treadle_graph *graph, int timeout);
	/*
	 * Commands that have not started fail; those that run end by themselves (graph_wait). The
	 * graph is not installed any more.
	 */
	int (*graph_cancel)(struct fid_treadle_graph *graph);
	/*
	 * Prints a line for each command, or input for Graphviz. len: bytes of buf; on return the
	 * bytes needed, with the final 0. -FI_ETOOSMALL: the text was cut off.
	 */
	int (*graph_print)(struct fid_treadle_graph *graph, enum fi_treadle_graph_format format,
			   char *buf, size_t *len);
};

#endif
