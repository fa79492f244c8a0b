// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_XPU_H
#define TREADLE_TESTS_FI_XPU_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "node.h"

inline constexpr std::uint64_t xpu_caps =
	FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER | FI_XPU_TRIGGER;

/* A context with room for the variable, and the store to it. */
struct Xpu : fi_triggered_context2 {
	Xpu() : fi_triggered_context2{}
	{
		event_type = FI_TRIGGER_XPU;
		trigger.xpu.iface = FI_HMEM_SYSTEM;
		offer();
	}
	Xpu(const Xpu &) = delete;

	/* Prepares the context for a call. */
	void offer()
	{
		trigger.xpu.count = 1;
		trigger.xpu.var = &var;
		var = {};
		var.datatype = FI_UINT64;
		var.count = 1;
	}
	/* A plain store. */
	void write() const { *static_cast<volatile std::uint64_t *>(var.addr) = var.value.val64; }

	fi_trigger_var var{};
};

class XpuTriggered : public testing::Test
{
protected:
	explicit XpuTriggered(const Side::Options &options = {})
		: p(hints_for(xpu_caps), options), there(64)
	{
		EXPECT_EQ(fi_mr_reg(p.node.domain.get(), there.data(), there.size() * 8,
				    FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &region, nullptr),
			  0);
		mr.reset(region);
	}

	fid_ep *ep() { return p.a.ep.get(); }
	fid_cq *cq() { return p.a.tx_cq.get(); }
	/* An armed send of a number. */
	int send(const int &value, Xpu &xpu, std::uint64_t flags = FI_TRIGGER)
	{
		const iovec iov{const_cast<int *>(&value), sizeof(value)};
		const fi_msg msg{&iov, nullptr, 1, p.b_at_a, &xpu, 0};

		return static_cast<int>(fi_sendmsg(ep(), &msg, flags));
	}
	/* The messages that have arrived at b, in the order in which they matched; exactly n. */
	std::vector<int> received(std::size_t n)
	{
		std::vector<int> values(n, -1);

		for (int &value : values)
			EXPECT_EQ(fi_recv(p.b.ep.get(), &value, sizeof(value), nullptr,
					  FI_ADDR_UNSPEC, nullptr),
				  0);
		while (n--)
			next(p.b.rx_cq.get());
		return values;
	}

	Pair p;
	std::vector<std::uint64_t> there;
	fid_mr *region = nullptr;
	Owned<fid_mr> mr;
};

#endif
