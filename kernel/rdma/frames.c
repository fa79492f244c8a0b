// SPDX-License-Identifier: GPL-2.0
/*
 * treadle_rdma: the queue pair of a link: frames are sent and arrive
 *
 * Memory of processes is never a target of DMA: frames are in pages of the kernel, and no key of
 * memory leaves this node.
 */
#include <linux/gfp.h>

#include "rdma/verbs.h"

/* wr_id: the index of a buffer, the number of a send, or one of these */
#define MARKS	  (~1ull)
#define MARK_SEND (MARKS + 0)
#define MARK_RECV (MARKS + 1)

/* Frames that one run of a link's work processes. Then others have their turn. */
#define BUDGET 64
/* One send of so many is signaled at least. */
#define SIGNAL 16
#define POLLED 16

/* A device that does not complete the markers in this time is broken. */
#define DRAIN (10 * HZ)

/* May be called with interrupts off. */
static void completed(struct ib_cq *cq, void *context)
{
	struct rdma_link *link = context;

	queue_work(treadle_rdma_wq, &link->work);
}

/* May be called with interrupts off. */
static void qp_event(struct ib_event *event, void *context)
{
	struct rdma_link *link = context;

	switch (event->event) {
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		treadle_rdma_happened(link, RDMA_DOWN);
		break;
	default:
		break;
	}
}

static int post_buffer(struct rdma_link *link, u32 index)
{
	struct ib_sge sge = {
		.addr = link->buffers[index].map,
		.length = TREADLE_WIRE_FRAME_BYTES,
		.lkey = link->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_id = index, .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(link->qp, &wr, NULL);
}

static int create_queues(struct rdma_link *link)
{
	static atomic_t next_vector;
	struct ib_device *dev = link->id->device;
	struct ib_cq_init_attr cq_attr = {
		/* both markers */
		.cqe = RDMA_SENDS + RDMA_RECEIVES + 2,
		.comp_vector =
			(u32)atomic_inc_return(&next_vector) % max_t(u32, dev->num_comp_vectors, 1),
	};
	struct ib_qp_init_attr attr = {
		.event_handler = qp_event,
		.qp_context = link,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
		.cap = {
			.max_send_wr = RDMA_SENDS + 1,
			.max_recv_wr = RDMA_RECEIVES + 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct ib_pd *pd;
	struct ib_cq *cq;
	int ret;

	pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(pd))
		return PTR_ERR(pd);
	link->pd = pd;
	cq = ib_create_cq(dev, completed, NULL, link, &cq_attr);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	link->cq = cq;
	ret = ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
	if (ret)
		return ret;
	attr.send_cq = attr.recv_cq = cq;
	ret = rdma_create_qp(link->id, pd, &attr);
	if (!ret)
		link->qp = link->id->qp;
	return ret;
}

/**
 * treadle_rdma_setup() - give a link its queue pair, and buffers for frames of the peer
 * @link: its route is resolved, or it was asked for by the peer
 *
 * Context: may sleep.
 * Return: 0 or -errno. treadle_rdma_teardown() follows in either case.
 */
int treadle_rdma_setup(struct rdma_link *link)
{
	struct ib_device *dev = link->id->device;
	int ret = create_queues(link);
	u32 i;

	for (i = 0; i < RDMA_RECEIVES && !ret; i++) {
		struct rdma_buffer *buffer = &link->buffers[i];
		void *at = (void *)__get_free_pages(GFP_KERNEL | __GFP_NOWARN,
						    get_order(TREADLE_WIRE_FRAME_BYTES));

		if (!at)
			return -ENOMEM;
		buffer->map = ib_dma_map_single(dev, at, TREADLE_WIRE_FRAME_BYTES, DMA_FROM_DEVICE);
		if (ib_dma_mapping_error(dev, buffer->map)) {
			free_pages((unsigned long)at, get_order(TREADLE_WIRE_FRAME_BYTES));
			return -ENOMEM;
		}
		buffer->at = at;
		ret = post_buffer(link, i);
	}
	return ret;
}

/*
 * Wait until the adapter has completed all that was posted. Markers are the last in their queues.
 * (ib_drain_qp() is for completion queues of ib_alloc_cq().)
 */
static void wait_for_markers(struct rdma_link *link)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_send_wr send = {
		.wr_id = MARK_SEND,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct ib_recv_wr recv = { .wr_id = MARK_RECV };
	int i;

	init_completion(&link->drained[0]);
	init_completion(&link->drained[1]);
	if (ib_modify_qp(link->qp, &attr, IB_QP_STATE))
		return;
	/* What cannot be posted has nothing to wait for: destroying the queue pair is enough. */
	if (ib_post_send(link->qp, &send, NULL))
		complete(&link->drained[0]);
	if (ib_post_recv(link->qp, &recv, NULL))
		complete(&link->drained[1]);
	for (i = 0; i < 2; i++)
		if (!wait_for_completion_timeout(&link->drained[i], DRAIN))
			pr_warn_once("%s does not complete what was posted\n",
				     dev_name(&link->id->device->dev));
}

/**
 * treadle_rdma_drain() - end the queue pair of a link
 * @link: nothing is posted any more, and its work is in the stage RDMA_LEAVING
 *
 * After it, the adapter reads and writes no frame.
 *
 * Context: may sleep, but waits for no peer.
 */
void treadle_rdma_drain(struct rdma_link *link)
{
	if (link->qp) {
		wait_for_markers(link);
		rdma_destroy_qp(link->id);
	}
	WRITE_ONCE(link->stage, RDMA_DRAINED);
	queue_work(treadle_rdma_wq, &link->work);
	flush_work(&link->work);
}

/**
 * treadle_rdma_teardown() - free what treadle_rdma_setup() has allocated
 * @link: after treadle_rdma_drain(); its frames are unmapped
 *
 * Context: may sleep.
 */
void treadle_rdma_teardown(struct rdma_link *link)
{
	u32 i;

	if (link->cq)
		ib_destroy_cq(link->cq);
	for (i = 0; i < RDMA_RECEIVES && link->buffers[i].at; i++) {
		ib_dma_unmap_single(link->id->device, link->buffers[i].map,
				    TREADLE_WIRE_FRAME_BYTES, DMA_FROM_DEVICE);
		free_pages((unsigned long)link->buffers[i].at, get_order(TREADLE_WIRE_FRAME_BYTES));
	}
	if (link->pd)
		ib_dealloc_pd(link->pd);
}

/**
 * treadle_rdma_map() - prepare a frame of the session for treadle_rdma_post()
 * @base:  the link, which is up
 * @frame: the frame
 *
 * Context: the session's manager.
 * Return: 0 or -ENOMEM.
 */
int treadle_rdma_map(struct treadle_link *base, struct treadle_frame *frame)
{
	struct ib_device *dev = to_rdma(base)->id->device;

	frame->map = ib_dma_map_single(dev, frame->head, frame->room, DMA_TO_DEVICE);
	return ib_dma_mapping_error(dev, frame->map) ? -ENOMEM : 0;
}

/**
 * treadle_rdma_unmap() - undo treadle_rdma_map()
 * @base:  the link, which was left: until then the adapter may read an acknowledged frame again
 * @frame: the frame
 *
 * Context: the session's manager.
 */
void treadle_rdma_unmap(struct treadle_link *base, struct treadle_frame *frame)
{
	ib_dma_unmap_single(to_rdma(base)->id->device, frame->map, frame->room, DMA_TO_DEVICE);
}

/*
 * Is the completion of this send needed? A frame without a number is used again after it. With a
 * number: one completion is due at a time, as the session collects items until then. And the
 * entries of the queue are free only after a completion.
 */
static bool signaled(struct rdma_link *link, const struct treadle_frame *frame)
{
	bool numbered = frame->head->type == TREADLE_WIRE_ITEMS;

	if (numbered && READ_ONCE(link->due) && link->quiet + 1 < SIGNAL)
		return false;
	if (numbered)
		WRITE_ONCE(link->due, true);
	return true;
}

/**
 * treadle_rdma_post() - send a frame
 * @base:  the link, which is up
 * @frame: was mapped on this link
 *
 * Context: any, under the session's lock.
 */
void treadle_rdma_post(struct treadle_link *base, struct treadle_frame *frame)
{
	struct rdma_link *link = to_rdma(base);
	struct ib_sge sge = {
		.addr = frame->map,
		.length = frame->length,
		.lkey = link->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_id = link->posted,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
	};
	int ret;

	/* Pairs with smp_store_release() in sent(): the entry is free. */
	if (link->posted - smp_load_acquire(&link->sent) == RDMA_SENDS)
		goto fail;
	link->quiet++;
	if (signaled(link, frame)) {
		wr.send_flags = IB_SEND_SIGNALED;
		link->quiet = 0;
	}
	link->sends[link->posted++ % RDMA_SENDS] = frame;
	ib_dma_sync_single_for_device(link->id->device, frame->map, frame->length, DMA_TO_DEVICE);
	/*
	 * A device in software sends by a tasklet. It runs here, as the last thing, instead of in
	 * a thread that competes with the process.
	 */
	local_bh_disable();
	ret = ib_post_send(link->qp, &wr, NULL);
	local_bh_enable();
	if (!ret)
		return;
fail:
	treadle_rdma_happened(link, RDMA_DOWN);
}

static void sent(struct rdma_link *link, u32 number)
{
	struct treadle_frame *frame = link->sends[number % RDMA_SENDS];

	/* Before it is reported: for a frame that is posted now, another report is due. */
	if (frame->head->type == TREADLE_WIRE_ITEMS)
		WRITE_ONCE(link->due, false);
	/* Pairs with smp_load_acquire() in treadle_rdma_post(). */
	smp_store_release(&link->sent, number + 1);
	treadle_link_sent(&link->link, frame);
}

static void arrived(struct rdma_link *link, u32 index, u32 bytes)
{
	struct ib_device *dev = link->id->device;
	const struct rdma_buffer *buffer = &link->buffers[index];

	/*
	 * The message that the connection is established may come later. rdma_cm asks for it again
	 * if it is lost, so don't call rdma_notify(): it leaves this node's own message under way
	 * for a moment. If the id is destroyed then, rdma_destroy_id() waits for a minute.
	 */
	if (!link->told_up)
		treadle_rdma_up(link);
	ib_dma_sync_single_for_cpu(dev, buffer->map, bytes, DMA_FROM_DEVICE);
	if (treadle_link_arrived(&link->link, buffer->at, bytes)) {
		treadle_rdma_down(link);
		return;
	}
	ib_dma_sync_single_for_device(dev, buffer->map, bytes, DMA_FROM_DEVICE);
	if (post_buffer(link, index))
		treadle_rdma_happened(link, RDMA_DOWN);
}

static void complete_one(struct rdma_link *link, const struct ib_wc *wc)
{
	if (wc->wr_id >= MARKS) {
		complete(&link->drained[wc->wr_id - MARKS]);
		return;
	}
	if (READ_ONCE(link->stage) != RDMA_LIVE || link->told_down)
		return;
	if (wc->status) {
		if (wc->status != IB_WC_WR_FLUSH_ERR)
			pr_debug("completion: %s\n", ib_wc_status_msg(wc->status));
		treadle_rdma_happened(link, RDMA_DOWN);
	} else if (wc->opcode == IB_WC_SEND) {
		sent(link, wc->wr_id);
	} else {
		arrived(link, wc->wr_id, wc->byte_len);
	}
}

/**
 * treadle_rdma_poll() - process what has completed
 * @link: its queue pair is connected, or it is being drained
 *
 * Context: the link's work; may sleep.
 */
void treadle_rdma_poll(struct rdma_link *link)
{
	struct ib_wc wc[POLLED];
	int n, i, budget = BUDGET;

	do {
		while ((n = ib_poll_cq(link->cq, POLLED, wc)) > 0) {
			for (i = 0; i < n; i++)
				complete_one(link, &wc[i]);
			budget -= n;
			if (budget <= 0) {
				queue_work(treadle_rdma_wq, &link->work);
				return;
			}
		}
	} while (ib_req_notify_cq(link->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0);
}
