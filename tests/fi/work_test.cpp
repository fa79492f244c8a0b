// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_trigger(3), "DEFERRED WORK QUEUES": what work may name. */
#include "work.h"

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
TEST_F(DeferredWork, WhatIsNoEndpointIsRefused)
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

TEST_F(DeferredWork, TheLogTellsWhyItWasRefused)
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

} // namespace
