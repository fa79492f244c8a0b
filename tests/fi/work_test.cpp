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

} // namespace
