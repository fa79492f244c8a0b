// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_WORK_H
#define TREADLE_TESTS_FI_WORK_H

#include "node.h"

/* All parts of one deferred operation, which have to live as long as it does. */
struct Work {
	Work(fi_op_type type, fid_cntr *trigger = nullptr, std::uint64_t threshold = 0,
	     fid_cntr *done = nullptr)
	{
		work.op_type = type;
		work.triggering_cntr = trigger;
		work.threshold = threshold;
		work.completion_cntr = done;
	}
	Work &message(fid_ep *ep, void *buf, std::size_t len, fi_addr_t peer,
		      std::uint64_t flags = 0)
	{
		iov = {buf, len};
		msg.ep = ep;
		msg.msg = {&iov, nullptr, 1, peer, &work.context, 0};
		msg.flags = flags;
		work.op.msg = &msg;
		return *this;
	}
	Work &tagged_message(fid_ep *ep, void *buf, std::size_t len, fi_addr_t peer,
			     std::uint64_t tag, std::uint64_t flags = 0)
	{
		iov = {buf, len};
		tagged.ep = ep;
		tagged.msg = {&iov, nullptr, 1, peer, tag, 0, &work.context, 0};
		tagged.flags = flags;
		work.op.tagged = &tagged;
		return *this;
	}
	Work &counter(fid_cntr *target, std::uint64_t value)
	{
		cntr = {target, value};
		work.op.cntr = &cntr;
		return *this;
	}
	int queue(const Node &node) { return fi_control(&node.domain->fid, FI_QUEUE_WORK, &work); }
	int cancel(const Node &node)
	{
		return fi_control(&node.domain->fid, FI_CANCEL_WORK, &work);
	}

	fi_deferred_work work{};
	iovec iov{};
	fi_op_msg msg{};
	fi_op_tagged tagged{};
	fi_op_cntr cntr{};
};

#endif
