// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_trigger(3), "XPU TRIGGERS"; fi_endpoint(3), FI_OPT_XPU_TRIGGER; fi_getinfo(3), FI_XPU */
#include <deque>
#include <set>
#include <thread>

#include "child.h"
#include "xpu.h"

namespace
{

/* --- fi_trigger(3) -------------------------------------------------------------------- */

// conformance: fi_trigger(3): FI_TRIGGER_XPU: deferred until the user writes provider specified
//   data to provider indicated locations
TEST_F(XpuTriggered, TheUserControlsTheTimingByWritingDataIntoATriggerVariable)
{
	int value = 7;
	Xpu xpu;

	ASSERT_EQ(send(value, xpu), 0);
	EXPECT_TRUE(is_silent(cq()));
	value = 8; /* the buffer is read when the transfer starts */
	xpu.write();
	EXPECT_EQ(received(1), std::vector{8});
	const auto entry = next(cq());
	EXPECT_EQ(entry.op_context, &xpu);
	EXPECT_EQ(entry.flags, FI_SEND | FI_MSG);
}

// conformance: fi_trigger(3): struct fi_triggered_context, or with FI_CONTEXT2 ...
// conformance: fi_trigger(3): count: in: variables available, out: those to be signaled, each
//   initialized: one, FI_UINT64; -FI_ETOOSMALL if there is room for none
// conformance: fi_trigger(3): the structures are not modified after the call has returned
TEST_F(XpuTriggered, TheProviderInitializesEachValidEntry)
{
	fi_trigger_var vars[3]{};
	const int value = 1;
	Xpu xpu;

	xpu.trigger.xpu.var = vars;
	xpu.trigger.xpu.count = 3;
	vars[1].count = vars[2].count = 55;
	ASSERT_EQ(send(value, xpu), 0);
	/* "Count will be less than or equal to the input value" */
	EXPECT_EQ(xpu.trigger.xpu.count, 1);
	EXPECT_EQ(vars[0].datatype, FI_UINT64);
	EXPECT_EQ(vars[0].count, 1);
	ASSERT_NE(vars[0].addr, nullptr);
	EXPECT_NE(*static_cast<std::uint64_t *>(vars[0].addr), vars[0].value.val64);
	/* Variables behind the returned ones are not touched. */
	EXPECT_EQ(vars[1].count, 55);
	EXPECT_EQ(vars[1].addr, nullptr);
	EXPECT_EQ(vars[2].count, 55);
	/* A context of the smaller kind has room for all used fields. */
	static_assert(sizeof(fi_trigger_xpu) + offsetof(fi_triggered_context, trigger) <=
		      sizeof(fi_triggered_context));
	*static_cast<volatile std::uint64_t *>(vars[0].addr) = vars[0].value.val64;
	EXPECT_EQ(received(1), std::vector{1});
	/* "the provider will not modify the structures after returning from the call" */
	EXPECT_EQ(next(cq()).op_context, &xpu);
	EXPECT_EQ(xpu.trigger.xpu.count, 1);
	EXPECT_EQ(xpu.trigger.xpu.var, vars);
}

// conformance: fi_trigger(3): FI_TRIGGER_XPU: deferred until the user writes provider specified ...
TEST_F(XpuTriggered, EveryDataTransferCallTakesIt)
{
	std::uint64_t here[5] = {11, 12, 13, 14, 15}, got[4] = {}, in[2] = {}, compare = 13;
	const iovec iov[5] = {
		{&here[0], 8}, {&here[1], 8}, {&here[2], 8}, {&got[0], 8}, {&here[4], 8}};
	const iovec to[2] = {{&in[0], 8}, {&in[1], 8}};
	const fi_rma_iov at[2] = {{0, 8, 5}, {8, 8, 5}};
	const fi_rma_ioc element{0, 1, 5};
	const fi_ioc operand{&here[3], 1};
	fi_ioc results[2] = {{&got[1], 1}, {&got[2], 1}}, compares{&compare, 1};
	std::deque<Xpu> x(9);
	std::size_t n = 0;
	const auto take = [&](ssize_t rc) {
		EXPECT_EQ(rc, 0) << "call " << n;
		EXPECT_NE(x[n].var.addr, nullptr) << "call " << n;
		++n;
	};

	there[1] = 21;
	const fi_msg recv{&to[0], nullptr, 1, FI_ADDR_UNSPEC, &x[0], 0};
	take(fi_recvmsg(p.b.ep.get(), &recv, FI_TRIGGER));
	const fi_msg_tagged trecv{&to[1], nullptr, 1, FI_ADDR_UNSPEC, 5, 0, &x[1], 0};
	take(fi_trecvmsg(p.b.ep.get(), &trecv, FI_TRIGGER));
	const fi_msg send{&iov[0], nullptr, 1, p.b_at_a, &x[2], 0};
	take(fi_sendmsg(ep(), &send, FI_TRIGGER));
	const fi_msg_tagged tsend{&iov[1], nullptr, 1, p.b_at_a, 5, 0, &x[3], 0};
	take(fi_tsendmsg(ep(), &tsend, FI_TRIGGER));
	const fi_msg_rma write{&iov[2], nullptr, 1, p.b_at_a, &at[0], 1, &x[4], 0};
	take(fi_writemsg(ep(), &write, FI_TRIGGER));
	const fi_msg_rma read{&iov[3], nullptr, 1, p.b_at_a, &at[1], 1, &x[5], 0};
	take(fi_readmsg(ep(), &read, FI_TRIGGER));
	fi_msg_atomic atomic{&operand, nullptr,	  1,	  p.b_at_a, &element,
			     1,	       FI_UINT64, FI_SUM, &x[6],    0};
	take(fi_atomicmsg(ep(), &atomic, FI_TRIGGER));
	atomic.context = &x[7];
	take(fi_fetch_atomicmsg(ep(), &atomic, &results[0], nullptr, 1, FI_TRIGGER));
	atomic.context = &x[8];
	atomic.op = FI_CSWAP;
	compare = 13 + 14 + 14;
	take(fi_compare_atomicmsg(ep(), &atomic, &compares, nullptr, 1, &results[1], nullptr, 1,
				  FI_TRIGGER));

	EXPECT_TRUE(is_silent(cq()));
	for (std::size_t i = 0; i < n; ++i) {
		x[i].write();
		if (i >= 2) {
			EXPECT_EQ(next(cq()).op_context, &x[i]);
		}
	}
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, &x[0]);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, &x[1]);
	EXPECT_EQ(in[0], 11u);
	EXPECT_EQ(in[1], 12u);
	EXPECT_EQ(got[0], 21u);
	EXPECT_EQ(got[1], 13u + 14);
	EXPECT_EQ(got[2], 13u + 14 + 14);
	EXPECT_EQ(there[0], 14u);
}

// conformance: fi_trigger(3): users trigger in the order in which they have queued; operations
//   start in the order in which they are triggered
TEST_F(XpuTriggered, OperationsStartInTheOrderOfTheirQueue)
{
	constexpr int n = 500;
	std::deque<Xpu> xpus(n);
	std::vector<int> values(n);

	for (int round = 0; round < 3; ++round) {
		for (int i = 0; i < n; ++i) {
			values[i] = i;
			xpus[i].offer();
			ASSERT_EQ(send(values[i], xpus[i], FI_TRIGGER | (i % 3 ? FI_MORE : 0)), 0);
		}
		/* By another computational domain: here by another thread. */
		std::thread xpu([&] {
			for (const Xpu &x : xpus)
				x.write();
		});
		EXPECT_EQ(received(n), values);
		xpu.join();
		for (int i = 0; i < n; ++i)
			next(cq());
	}
}

// conformance: fi_trigger(3): requesting and triggering may occur on separate computational
//   domains: threads, processes that share the cells, devices
TEST_F(XpuTriggered, AProcessThatHoldsThePageStartsTheTransfer)
{
	const int value = 5;
	Xpu xpu;

	ASSERT_EQ(send(value, xpu), 0);
	Child child([&](int) {
		xpu.write();
		return 0;
	});
	EXPECT_EQ(received(1), std::vector{5});
	EXPECT_EQ(child.wait(), 0);
	EXPECT_EQ(next(cq()).op_context, &xpu);
}

// conformance: fi_trigger(3): users signal the start by writing the returned data to the address;
//   any other value does nothing
TEST_F(XpuTriggered, AWrongValueStartsNothingAndASecondWriteNothingMore)
{
	const int values[2] = {1, 2};
	Xpu xpus[2];

	ASSERT_EQ(send(values[0], xpus[0]), 0);
	ASSERT_EQ(send(values[1], xpus[1]), 0);
	*static_cast<volatile std::uint64_t *>(xpus[0].var.addr) = xpus[1].var.value.val64;
	EXPECT_TRUE(is_silent(cq()));
	for (int i = 0; i < 2; ++i) {
		xpus[i].write();
		xpus[i].write();
		EXPECT_EQ(received(1), std::vector{values[i]});
		EXPECT_EQ(next(cq()).op_context, &xpus[i]);
		xpus[i].write();
	}
	EXPECT_TRUE(is_silent(cq()));
}

/* "the triggered operation should be canceled to release any allocated resources" */
// conformance: fi_trigger(3): an operation that waits for an XPU can be canceled to release
//   resources
TEST_F(XpuTriggered, ATriggeredOperationCanBeCanceled)
{
	const int value = 3;
	Xpu xpu;

	ASSERT_EQ(send(value, xpu), 0);
	ASSERT_EQ(fi_cancel(&ep()->fid, &xpu), 0);
	const auto error = next_error(cq());
	EXPECT_EQ(error.err, FI_ECANCELED);
	EXPECT_EQ(error.op_context, &xpu);
	xpu.write();
	EXPECT_TRUE(is_silent(cq()));
	EXPECT_EQ(fi_cancel(&ep()->fid, &xpu), -FI_ENOENT);
}

/* Canceled and completed operations release their variables: otherwise memory would run out. */
// conformance: fi_trigger(3): an operation that waits for an XPU can be canceled to release ...
TEST_F(XpuTriggered, VariablesAreUsedAgain)
{
	std::set<void *> places;
	std::set<std::uint64_t> values;
	const int value = 3;
	int in;

	for (int i = 0; i < 2000; ++i) {
		Xpu xpu;
		ASSERT_EQ(send(value, xpu), 0);
		places.insert(xpu.var.addr);
		EXPECT_TRUE(values.insert(xpu.var.value.val64).second);
		if (i % 2) {
			ASSERT_EQ(fi_cancel(&ep()->fid, &xpu), 0);
			next_error(cq());
		} else {
			ASSERT_EQ(fi_recv(p.b.ep.get(), &in, sizeof(in), nullptr, FI_ADDR_UNSPEC,
					  nullptr),
				  0);
			xpu.write();
			next(cq());
			next(p.b.rx_cq.get());
		}
	}
	EXPECT_LE(places.size(), 1024u);
}

// conformance: fi_trigger(3): FI_TRIGGER_XPU: mixing with normal transfers is subject to the
//   provider: they may be mixed
TEST_F(XpuTriggered, AVariableThatIsNeverWrittenHoldsUpNothing)
{
	const int values[3] = {1, 2, 3};
	Xpu never, xpu;

	ASSERT_EQ(send(values[0], never), 0);
	ASSERT_EQ(send(values[1], xpu), 0);
	ASSERT_EQ(fi_send(ep(), &values[2], sizeof(int), nullptr, p.b_at_a, nullptr), 0);
	/* normal transfers may be mixed with triggered ones */
	EXPECT_EQ(received(1), std::vector{3});
	xpu.write();
	EXPECT_EQ(received(1), std::vector{2});
	EXPECT_EQ(next(cq()).op_context, nullptr);
	EXPECT_EQ(next(cq()).op_context, &xpu);
	/* The operation goes with its endpoint, and so does its variable. */
}

TEST_F(XpuTriggered, AnAliasMayTriggerByDefault)
{
	fid_ep *alias = nullptr;
	const int value = 9;
	int half[2] = {1, 2};
	const iovec iov[2] = {{&half[0], 2}, {&half[1], 2}};
	Xpu xpus[3];

	ASSERT_EQ(fi_ep_alias(ep(), &alias, FI_TRANSMIT | FI_TRIGGER), 0);
	const Owned<fid_ep> owner(alias);
	ASSERT_EQ(fi_send(alias, &value, sizeof(value), nullptr, p.b_at_a, &xpus[0]), 0);
	ASSERT_EQ(fi_sendv(alias, iov, nullptr, 2, p.b_at_a, &xpus[1]), 0);
	ASSERT_EQ(fi_write(alias, &value, sizeof(value), nullptr, p.b_at_a, 0, 5, &xpus[2]), 0);
	EXPECT_TRUE(is_silent(cq()));
	for (const Xpu &xpu : xpus)
		xpu.write();
	EXPECT_EQ(received(2), std::vector({9, 1 | 2 << 16}));
	for (int i = 0; i < 3; ++i)
		next(cq());
	EXPECT_EQ(there[0], 9u);
}

/* A context has what the domain was opened for: fi_treadle(7). */
TEST(Xpus, ReceivesOfASharedContext)
{
	Info hints = hints_for(xpu_caps);
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	const Node node(std::move(hints));
	fid_ep *srx = nullptr;
	int in = 0;
	const iovec iov{&in, sizeof(in)};
	Xpu xpu;
	const fi_msg msg{&iov, nullptr, 1, FI_ADDR_UNSPEC, &xpu, 0};

	ASSERT_EQ(fi_srx_context(node.domain.get(), nullptr, &srx, nullptr), 0);
	const Owned<fid_ep> shared(srx);
	const auto av = node.av();
	const auto cq = node.cq();
	const auto ep = node.ep();
	ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &srx->fid, 0), 0);
	ASSERT_EQ(fi_enable(ep.get()), 0);
	fi_addr_t self = FI_ADDR_NOTAVAIL;
	ASSERT_EQ(fi_av_insert(av.get(), address_of(ep.get()).data(), 1, &self, 0, nullptr), 1);
	ASSERT_EQ(fi_recvmsg(srx, &msg, FI_TRIGGER), 0);
	xpu.write();
	ASSERT_EQ(fi_inject(ep.get(), "abc", 4, self), 0);
	EXPECT_EQ(next(cq.get()).op_context, &xpu);
}

// conformance: fi_trigger(3): count: in: variables available, out: those to be signaled, each ...
TEST_F(XpuTriggered, ErrorsAreReturnedAtOnce)
{
	const int value = 0;
	Xpu xpu;
	Log log;

	xpu.trigger.xpu.count = 0;
	EXPECT_EQ(send(value, xpu), -FI_ETOOSMALL);
	EXPECT_TRUE(log.has("room for 0 variables")) << log.all();
	xpu.offer();
	xpu.trigger.xpu.var = nullptr;
	EXPECT_EQ(send(value, xpu), -FI_EINVAL);
	xpu.offer();
	xpu.trigger.xpu.count = -1;
	EXPECT_EQ(send(value, xpu), -FI_EINVAL);
	/* An operation that the kernel refuses leaves no variable behind. */
	for (int i = 0; i < 2000; ++i) {
		const iovec iov{const_cast<int *>(&value), sizeof(value)};
		const fi_msg msg{&iov, nullptr, 1, 4711, &xpu, 0};
		xpu.offer();
		ASSERT_NE(fi_sendmsg(ep(), &msg, FI_TRIGGER | FI_MORE), 0);
	}
	xpu.offer();
	EXPECT_EQ(send(value, xpu), 0);
	xpu.write();
	EXPECT_EQ(received(1), std::vector{0});
	next(cq());
}

// conformance: fi_trigger(3): iface and device identify the XPU: FI_HMEM_SYSTEM; CUDA and ZE if
//   built with their headers and the driver has mapped the page; others are -FI_EOPNOTSUPP
TEST_F(XpuTriggered, AnUnknownDeviceIsRefused)
{
	const int value = 0;
	Log log;
	Xpu xpu;

	for (const fi_hmem_iface iface :
	     {FI_HMEM_ROCR, FI_HMEM_NEURON, static_cast<fi_hmem_iface>(99)}) {
		xpu.offer();
		xpu.trigger.xpu.iface = iface;
		log.clear();
		EXPECT_EQ(send(value, xpu), -FI_EOPNOTSUPP);
		EXPECT_TRUE(log.has("FI_HMEM_SYSTEM")) << log.all();
	}
}

/* hmem_test has the case with headers. */
#if !__has_include(<cuda.h>) && !__has_include(<level_zero/ze_api.h>)
// conformance: fi_trigger(3): iface and device identify the XPU: FI_HMEM_SYSTEM; CUDA and ZE if ...
TEST_F(XpuTriggered, ADeviceWithoutItsHeaderIsRefused)
{
	const int value = 0;
	Log log;
	Xpu xpu;

	xpu.trigger.xpu.iface = FI_HMEM_CUDA;
	EXPECT_EQ(send(value, xpu), -FI_EOPNOTSUPP);
	EXPECT_TRUE(log.has("FI_HMEM_CUDA: treadle was built without <cuda.h>")) << log.all();
	xpu.trigger.xpu.iface = FI_HMEM_ZE;
	EXPECT_EQ(send(value, xpu), -FI_EOPNOTSUPP);
	EXPECT_TRUE(log.has("FI_HMEM_ZE: treadle was built without <level_zero/ze_api.h>"))
		<< log.all();
}
#endif

/* "Endpoints must be created with both the FI_TRIGGER and FI_XPU capabilities" */
// conformance: fi_trigger(3): endpoints must be created with both FI_TRIGGER and FI_XPU:
//   -FI_EOPNOTSUPP
TEST(XpuCapability, EndpointsMustBeCreatedWithIt)
{
	Pair p(hints_for(FI_MSG | FI_TRIGGER));
	const int value = 0;
	const iovec iov{const_cast<int *>(&value), sizeof(value)};
	Xpu xpu;
	const fi_msg msg{&iov, nullptr, 1, p.b_at_a, &xpu, 0};
	std::size_t size = sizeof(fi_trigger_xpu);
	Log log;

	EXPECT_FALSE(p.node.info->caps & FI_XPU_TRIGGER);
	EXPECT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), -FI_EOPNOTSUPP);
	EXPECT_TRUE(log.has("FI_XPU")) << log.all();
	EXPECT_EQ(fi_getopt(&p.a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_XPU_TRIGGER, &xpu.trigger.xpu,
			    &size),
		  -FI_EOPNOTSUPP);
}

/* --- fi_endpoint(3), FI_OPT_XPU_TRIGGER ------------------------------------------------ */

class XpuOption : public XpuTriggered
{
protected:
	int get(fi_trigger_xpu &xpu, std::size_t size = sizeof(fi_trigger_xpu))
	{
		const int rc =
			fi_getopt(&ep()->fid, FI_OPT_ENDPOINT, FI_OPT_XPU_TRIGGER, &xpu, &size);
		EXPECT_EQ(size, sizeof(fi_trigger_xpu));
		return rc;
	}
};

/* "If count is 0, the var field will be ignored, and the provider will return the number" */
// conformance: fi_endpoint(3): FI_OPT_XPU_TRIGGER: the number of variables, and the datatype and
//   count of each; only getopt
TEST_F(XpuOption, IfCountIsZeroVarIsIgnored)
{
	fi_trigger_xpu xpu{};

	xpu.var = reinterpret_cast<fi_trigger_var *>(8);
	EXPECT_EQ(get(xpu), 0);
	EXPECT_EQ(xpu.count, 1);
}

/* "for each fi_trigger_var available, set the datatype and count of the variable" */
// conformance: fi_endpoint(3): FI_OPT_XPU_TRIGGER: the number of variables, and the datatype ...
TEST_F(XpuOption, ForEachVariableItSetsDatatypeAndCount)
{
	fi_trigger_var vars[4]{};
	fi_trigger_xpu xpu{};

	xpu.count = 4;
	xpu.var = vars;
	vars[1].count = 77;
	EXPECT_EQ(get(xpu), 0);
	EXPECT_EQ(xpu.count, 1);
	EXPECT_EQ(vars[0].datatype, FI_UINT64);
	EXPECT_EQ(vars[0].count, 1);
	EXPECT_EQ(vars[1].count, 77);
}

// conformance: fi_endpoint(3): FI_OPT_XPU_TRIGGER: the number of variables, and the datatype ...
TEST_F(XpuOption, OnlyAppliesToGetopt)
{
	fi_trigger_xpu xpu{};

	EXPECT_EQ(fi_setopt(&ep()->fid, FI_OPT_ENDPOINT, FI_OPT_XPU_TRIGGER, &xpu, sizeof(xpu)),
		  -FI_ENOPROTOOPT);
	EXPECT_EQ(get(xpu, sizeof(xpu) - 1), -FI_ETOOSMALL);
}

/* "If the provider does not support XPU triggered operations from the given device" */
// conformance: fi_endpoint(3): FI_OPT_XPU_TRIGGER: the number of variables, and the datatype ...
TEST_F(XpuOption, AnUnknownDeviceIsEopnotsupp)
{
	fi_trigger_xpu xpu{};
	Log log;

	xpu.iface = FI_HMEM_ROCR;
	EXPECT_EQ(get(xpu), -FI_EOPNOTSUPP);
	EXPECT_TRUE(log.has("FI_HMEM_SYSTEM")) << log.all();
}

} // namespace
