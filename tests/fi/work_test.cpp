// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_trigger(3), "DEFERRED WORK QUEUES": the objects that work may name. */
#include "work.h"

#include <rdma/fi_atomic.h>

namespace
{

class DeferredWork : public testing::Test
{
protected:
	DeferredWork()
		: p(hints_for(FI_MSG | FI_TAGGED | FI_TRIGGER)), cntr(p.node.cntr()),
		  done(p.node.cntr())
	{
	}

	Pair p;
	Owned<fid_cntr> cntr, done;
};

/* "The provider may validate fabric objects, such as endpoints and counters" */
// conformance: fi_trigger(3): buffers are not accessed before the event, except those of ...
TEST_F(DeferredWork, OtherObjectsThanEndpointsAreRefused)
{
	int value = 0;
	Log log;

	for (fid *const other : {&p.a.tx_cq->fid, &cntr->fid, &p.a.av->fid, &p.node.domain->fid,
				 &p.node.fabric->fid}) {
		auto *const ep = reinterpret_cast<fid_ep *>(other);
		Work send(FI_OP_SEND, cntr.get(), 1, done.get()),
			receive(FI_OP_TRECV, cntr.get(), 1, done.get());

		log.clear();
		EXPECT_EQ(send.message(ep, &value, 4, p.b_at_a).queue(p.node), -FI_EINVAL);
		EXPECT_TRUE(log.has("no endpoint")) << log.all();
		EXPECT_EQ(receive.tagged_message(ep, &value, 4, FI_ADDR_UNSPEC, 1).queue(p.node),
			  -FI_EINVAL);
	}
}

TEST_F(DeferredWork, TheLogHasTheReason)
{
	int value = 0;
	auto *const queue = reinterpret_cast<fid_cntr *>(p.a.tx_cq.get());
	Work unknown(static_cast<fi_op_type>(99), cntr.get(), 1),
		nothing(FI_OP_SEND, cntr.get(), 1), target(FI_OP_CNTR_ADD, cntr.get(), 1),
		told(FI_OP_SEND, cntr.get(), 1, queue);
	const struct {
		Work &work;
		int error;
		const char *why;
	} refused[] = {
		{unknown.message(p.a.ep.get(), &value, 4, p.b_at_a), FI_ENOSYS, "op_type 99: "},
		{nothing, FI_EINVAL, "op is NULL: "},
		{target.counter(queue, 1), FI_EINVAL, "op.cntr is no counter of this domain: "},
		{told.message(p.a.ep.get(), &value, 4, p.b_at_a), FI_EINVAL,
		 "completion_cntr is no counter of this domain: "},
	};
	Log log;

	for (const auto &[work, error, why] : refused) {
		log.clear();
		EXPECT_EQ(work.queue(p.node), -error) << why;
		EXPECT_TRUE(log.has(std::string(why) + fi_strerror(error))) << log.all();
	}
}

/*
 * "An endpoint must be created with the FI_TRIGGER capability in order to use triggered
 * operations."
 */
// conformance: fi_trigger(3): an endpoint must be created with FI_TRIGGER; operations with the flag
//   are triggered
TEST(DeferredWorkCaps, AnEndpointMustBeCreatedWithTheCapability)
{
	Node node(hints_for(FI_MSG));
	const auto cntr = node.cntr();
	int value = 0;
	const iovec iov{&value, sizeof(value)};
	fi_triggered_context triggered{};
	Log log;

	for (std::uint64_t *caps :
	     {&node.info->caps, &node.info->tx_attr->caps, &node.info->rx_attr->caps})
		*caps &= ~std::uint64_t{FI_TRIGGER};
	Side side(node);
	const fi_addr_t self = side.insert(side.ep.get());
	triggered.event_type = FI_TRIGGER_THRESHOLD;
	triggered.trigger.threshold = {cntr.get(), 1};
	const fi_msg msg{&iov, nullptr, 1, self, &triggered, 0};
	EXPECT_EQ(fi_sendmsg(side.ep.get(), &msg, FI_TRIGGER), -FI_EINVAL);
	EXPECT_TRUE(log.has("FI_TRIGGER")) << log.all();
	EXPECT_EQ(fi_recvmsg(side.ep.get(), &msg, FI_TRIGGER), -FI_EINVAL);
	log.clear();
	Work send(FI_OP_SEND, cntr.get(), 1), receive(FI_OP_RECV, cntr.get(), 1);
	EXPECT_EQ(send.message(side.ep.get(), &value, 4, self).queue(node), -FI_EINVAL);
	EXPECT_TRUE(log.has("FI_TRIGGER")) << log.all();
	EXPECT_EQ(receive.message(side.ep.get(), &value, 4, FI_ADDR_UNSPEC).queue(node),
		  -FI_EINVAL);
}

/*
 * "the endpoint counter is incremented only if it is explicitly referenced as the completion_cntr"
 */
// conformance: fi_trigger(3): deferred work: no completions at the endpoint by default, nor its ...
TEST(DeferredWorkCounter, TheEndpointsOwnCountsOnceIfItIsNamed)
{
	Side::Options options;
	options.counters = true;
	Pair p(hints_for(FI_MSG | FI_TRIGGER), options);
	const auto cntr = p.node.cntr();
	int value = 4, in = 0;
	std::uint64_t count = 0;

	for (const std::uint64_t flags : {std::uint64_t{0}, std::uint64_t{FI_COMPLETION}}) {
		Work send(FI_OP_SEND, cntr.get(), ++count, p.a.sent.get());
		send.message(p.a.ep.get(), &value, sizeof(value), p.b_at_a, flags);
		ASSERT_EQ(send.queue(p.node), 0);
		ASSERT_EQ(fi_recv(p.b.ep.get(), &in, sizeof(in), nullptr, FI_ADDR_UNSPEC, nullptr),
			  0);
		ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
		next(p.b.rx_cq.get());
		EXPECT_TRUE(reaches(p.a.sent.get(), count));
		if (flags)
			next(p.a.tx_cq.get());
		EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
		EXPECT_EQ(fi_cntr_read(p.a.sent.get()), count);
	}
}

/*
 * "If a provider cannot support a deferred work request, -FI_ENOSYS": an operation on a datatype
 * without it.
 */
// conformance: fi_trigger(3): unsupported requests: -FI_ENOSYS; undefined flags of work:
//   -FI_EBADFLAGS
TEST(DeferredWorkAtomics, UndefinedOperationsAreNotSupported)
{
	Pair p(hints_for(FI_MSG | FI_ATOMIC | FI_TRIGGER));
	const auto cntr = p.node.cntr();
	double value = 1;
	const fi_ioc ioc{&value, 1};
	const fi_rma_ioc there{0, 1, 5};
	fi_op_atomic op{};
	Work work(FI_OP_ATOMIC, cntr.get(), 1);

	op.ep = p.a.ep.get();
	op.msg = {&ioc, nullptr, 1, p.b_at_a, &there, 1, FI_DOUBLE, FI_BOR, nullptr, 0};
	work.work.op.atomic = &op;
	EXPECT_EQ(work.queue(p.node), -FI_ENOSYS);
	op.msg.op = FI_SUM;
	EXPECT_EQ(work.queue(p.node), 0);
	EXPECT_EQ(work.cancel(p.node), 0);
	op.flags = FI_COMMIT_COMPLETE;
	EXPECT_EQ(work.queue(p.node), -FI_ENOSYS);
	op.flags = FI_PEEK;
	EXPECT_EQ(work.queue(p.node), -FI_EBADFLAGS);
}

/* A peek is triggered, or at once, but no deferred work. */
// conformance: fi_trigger(3): unsupported requests: -FI_ENOSYS; undefined flags of work: ...
TEST(DeferredWorkFlags, PeeksAreNotSupported)
{
	Pair p(hints_for(FI_TAGGED | FI_TRIGGER));
	const auto cntr = p.node.cntr();
	fi_op_tagged op{};
	Work work(FI_OP_TRECV, cntr.get(), 1);
	Log log;

	op.ep = p.b.ep.get();
	work.work.op.tagged = &op;
	for (const std::uint64_t flags : {FI_PEEK, FI_CLAIM, FI_PEEK | FI_DISCARD}) {
		op.flags = flags;
		EXPECT_EQ(work.queue(p.node), -FI_ENOSYS);
	}
	EXPECT_TRUE(log.has("FI_PEEK can't be deferred")) << log.all();
	op.flags = FI_FENCE << 1 | FI_INJECT;
	EXPECT_EQ(work.queue(p.node), -FI_EBADFLAGS);
}

} // namespace
