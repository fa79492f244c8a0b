// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* FI_TRIGGER as a default: calls without flags are triggered, whatever the operation. */
#include "node.h"

#include <functional>
#include <ostream>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

namespace
{

constexpr std::uint64_t key = 5, tag = 3;

/* The way to set the default. */
enum class By { alias, attributes, control };

std::ostream &operator<<(std::ostream &out, By by)
{
	static const char *const names[] = {"alias", "attributes", "control"};

	return out << names[static_cast<int>(by)];
}

Info hints_by(By by)
{
	Info hints = hints_for(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER);

	if (by == By::attributes)
		hints->tx_attr->op_flags = hints->rx_attr->op_flags = FI_TRIGGER;
	return hints;
}

class TriggeredBy : public testing::TestWithParam<By>
{
protected:
	TriggeredBy() : p(hints_by(GetParam())), cntr(p.node.cntr())
	{
		fid_mr *opened = nullptr;

		EXPECT_EQ(fi_mr_reg(p.node.domain.get(), &there, sizeof(there),
				    FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &opened, nullptr),
			  0);
		mr.reset(opened);
		trigger.event_type = FI_TRIGGER_THRESHOLD;
	}
	/* An endpoint for calls in one direction, with the default. */
	fid_ep *with_default(const Side &side, std::uint64_t direction)
	{
		std::uint64_t flags = direction | FI_TRIGGER;
		fid_ep *opened = nullptr;

		switch (GetParam()) {
		case By::alias:
			EXPECT_EQ(fi_ep_alias(side.ep.get(), &opened, flags), 0);
			alias.reset(opened);
			return opened;
		case By::control:
			EXPECT_EQ(fi_control(&side.ep->fid, FI_SETOPSFLAG, &flags), 0);
			[[fallthrough]];
		case By::attributes:
			return side.ep.get();
		}
		return nullptr;
	}
	/* The call is posted, and has no effect before its threshold. */
	void expect_triggered(const char *name, ssize_t posted, fid_cq *cq)
	{
		EXPECT_EQ(posted, 0) << name;
		EXPECT_TRUE(is_silent(cq)) << name;
	}
	/* The next operation waits for the counter's next value. */
	void *arm()
	{
		trigger.trigger.threshold = {cntr.get(), ++threshold};
		return &trigger;
	}
	void fire() { ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0); }

	Pair p;
	Owned<fid_cntr> cntr;
	Owned<fid_ep> alias;
	Owned<fid_mr> mr;
	fi_triggered_context trigger{};
	std::size_t threshold = 0;
	std::uint64_t here = 0, there = 0, in = 0, old = 0, compare = 0;
};

// conformance: fi_trigger(3): any data transfer operation is potentially trigger-able: all of ...
TEST_P(TriggeredBy, EveryCallThatTransmitsWaits)
{
	fid_ep *const ep = with_default(p.a, FI_TRANSMIT);
	const fi_addr_t to = p.b_at_a;
	const iovec iov{&here, sizeof(here)};
	const fi_ioc ioc{&here, 1}, compares{&compare, 1};
	fi_ioc results{&old, 1};
	struct Call {
		const char *name;
		std::function<ssize_t(void *context)> post;
		std::uint64_t *changed, value; /* the expected value after the operation */
		bool message = false, tagged = false;
	};
	const Call calls[] = {
		{"send", [&](void *c) { return fi_send(ep, &here, 8, nullptr, to, c); }, &in, 5,
		 true},
		{"sendv", [&](void *c) { return fi_sendv(ep, &iov, nullptr, 1, to, c); }, &in, 5,
		 true},
		{"senddata", [&](void *c) { return fi_senddata(ep, &here, 8, nullptr, 9, to, c); },
		 &in, 5, true},
		{"tsend", [&](void *c) { return fi_tsend(ep, &here, 8, nullptr, to, tag, c); }, &in,
		 5, true, true},
		{"tsendv", [&](void *c) { return fi_tsendv(ep, &iov, nullptr, 1, to, tag, c); },
		 &in, 5, true, true},
		{"tsenddata",
		 [&](void *c) { return fi_tsenddata(ep, &here, 8, nullptr, 9, to, tag, c); }, &in,
		 5, true, true},
		{"write", [&](void *c) { return fi_write(ep, &here, 8, nullptr, to, 0, key, c); },
		 &there, 5},
		{"writev", [&](void *c) { return fi_writev(ep, &iov, nullptr, 1, to, 0, key, c); },
		 &there, 5},
		{"writedata",
		 [&](void *c) { return fi_writedata(ep, &here, 8, nullptr, 9, to, 0, key, c); },
		 &there, 5},
		{"read", [&](void *c) { return fi_read(ep, &here, 8, nullptr, to, 0, key, c); },
		 &here, 7},
		{"readv", [&](void *c) { return fi_readv(ep, &iov, nullptr, 1, to, 0, key, c); },
		 &here, 7},
		{"atomic",
		 [&](void *c) {
			 return fi_atomic(ep, &here, 1, nullptr, to, 0, key, FI_UINT64, FI_SUM, c);
		 },
		 &there, 12},
		{"atomicv",
		 [&](void *c) {
			 return fi_atomicv(ep, &ioc, nullptr, 1, to, 0, key, FI_UINT64, FI_SUM, c);
		 },
		 &there, 12},
		{"fetch_atomic",
		 [&](void *c) {
			 return fi_fetch_atomic(ep, &here, 1, nullptr, &old, nullptr, to, 0, key,
						FI_UINT64, FI_SUM, c);
		 },
		 &old, 7},
		{"fetch_atomicv",
		 [&](void *c) {
			 return fi_fetch_atomicv(ep, &ioc, nullptr, 1, &results, nullptr, 1, to, 0,
						 key, FI_UINT64, FI_SUM, c);
		 },
		 &old, 7},
		{"compare_atomic",
		 [&](void *c) {
			 return fi_compare_atomic(ep, &here, 1, nullptr, &compare, nullptr, &old,
						  nullptr, to, 0, key, FI_UINT64, FI_CSWAP, c);
		 },
		 &there, 5},
		{"compare_atomicv",
		 [&](void *c) {
			 return fi_compare_atomicv(ep, &ioc, nullptr, 1, &compares, nullptr, 1,
						   &results, nullptr, 1, to, 0, key, FI_UINT64,
						   FI_CSWAP, c);
		 },
		 &there, 5},
	};

	for (const Call &call : calls) {
		here = 5;
		there = compare = 7;
		in = old = 0;
		const std::uint64_t before = *call.changed;
		const iovec to_in{&in, sizeof(in)};
		const fi_msg recv{&to_in, nullptr, 1, FI_ADDR_UNSPEC, ctx(2), 0};
		const fi_msg_tagged trecv{&to_in, nullptr, 1, FI_ADDR_UNSPEC, tag, 0, ctx(2), 0};
		if (call.tagged) { /* with flags, so that these do not wait */
			ASSERT_EQ(fi_trecvmsg(p.b.ep.get(), &trecv, 0), 0);
		} else if (call.message) {
			ASSERT_EQ(fi_recvmsg(p.b.ep.get(), &recv, 0), 0);
		}
		expect_triggered(call.name, call.post(arm()), p.a.tx_cq.get());
		EXPECT_EQ(*call.changed, before) << call.name;
		fire();
		EXPECT_EQ(next(p.a.tx_cq.get()).op_context, &trigger) << call.name;
		if (call.message) {
			EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(2)) << call.name;
		}
		EXPECT_EQ(*call.changed, call.value) << call.name;
		/* The target gets the data of a write. */
		fi_cq_tagged_entry entry;
		while (fi_cq_read(p.b.rx_cq.get(), &entry, 1) == 1)
			EXPECT_TRUE(entry.flags & FI_REMOTE_CQ_DATA) << call.name;
	}
}

/* Injected operations have no context, so they can't be triggered. */
// conformance: fi_trigger(3): any data transfer operation is potentially trigger-able: all of ...
TEST_P(TriggeredBy, InjectedOperationsDoNotWait)
{
	fid_ep *const ep = with_default(p.a, FI_TRANSMIT);
	const iovec to_in{&in, sizeof(in)};
	const fi_msg recv{&to_in, nullptr, 1, FI_ADDR_UNSPEC, ctx(1), 0};
	const fi_msg_tagged trecv{&to_in, nullptr, 1, FI_ADDR_UNSPEC, tag, 0, ctx(2), 0};

	here = 5;
	ASSERT_EQ(fi_recvmsg(p.b.ep.get(), &recv, 0), 0);
	ASSERT_EQ(fi_trecvmsg(p.b.ep.get(), &trecv, 0), 0);
	ASSERT_EQ(fi_inject(ep, &here, sizeof(here), p.b_at_a), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
	ASSERT_EQ(fi_tinject(ep, &here, sizeof(here), p.b_at_a, tag), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(2));
	ASSERT_EQ(fi_inject_write(ep, &here, sizeof(here), p.b_at_a, 0, key), 0);
	ASSERT_EQ(fi_inject_atomic(ep, &here, 1, p.b_at_a, 0, key, FI_UINT64, FI_SUM), 0);
	for (int waited = 0; there != 10 && waited < patience; waited += 20)
		EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
	EXPECT_EQ(there, 10u);
}

// conformance: fi_trigger(3): any data transfer operation is potentially trigger-able: all of ...
TEST_P(TriggeredBy, EveryCallThatReceivesWaits)
{
	fid_ep *const ep = with_default(p.b, FI_RECV);
	const iovec iov{&in, sizeof(in)};
	const struct {
		const char *name;
		std::function<ssize_t(void *context)> post;
		bool tagged = false;
	} calls[] = {
		{"recv", [&](void *c) { return fi_recv(ep, &in, 8, nullptr, FI_ADDR_UNSPEC, c); }},
		{"recvv",
		 [&](void *c) { return fi_recvv(ep, &iov, nullptr, 1, FI_ADDR_UNSPEC, c); }},
		{"trecv",
		 [&](void *c) { return fi_trecv(ep, &in, 8, nullptr, FI_ADDR_UNSPEC, tag, 0, c); },
		 true},
		{"trecvv",
		 [&](void *c) {
			 return fi_trecvv(ep, &iov, nullptr, 1, FI_ADDR_UNSPEC, tag, 0, c);
		 },
		 true},
	};

	here = 5;
	for (const auto &call : calls) {
		in = 0;
		ASSERT_EQ(call.tagged ?
				  fi_tinject(p.a.ep.get(), &here, sizeof(here), p.b_at_a, tag) :
				  fi_inject(p.a.ep.get(), &here, sizeof(here), p.b_at_a),
			  0);
		expect_triggered(call.name, call.post(arm()), p.b.rx_cq.get());
		EXPECT_EQ(in, 0u) << call.name;
		fire();
		EXPECT_EQ(next(p.b.rx_cq.get()).op_context, &trigger) << call.name;
		EXPECT_EQ(in, 5u) << call.name;
	}
}

INSTANTIATE_TEST_SUITE_P(Trigger, TriggeredBy,
			 testing::Values(By::alias, By::attributes, By::control));

/* Without the capability it can't be the default. With it in the hints the capability comes, too. */
// conformance: fi_trigger(3): FI_TRIGGER: the capability is needed
TEST(TriggerDefault, NeedsTheCapability)
{
	const auto manual = [] {
		Info hints = hints_for(FI_MSG);

		hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
		return hints;
	};
	Pair p(manual());
	std::uint64_t flags = FI_TRANSMIT | FI_TRIGGER;
	fid_ep *alias = nullptr;

	EXPECT_FALSE(p.node.info->caps & FI_TRIGGER);
	EXPECT_EQ(fi_ep_alias(p.a.ep.get(), &alias, flags), -FI_EINVAL);
	EXPECT_EQ(fi_control(&p.a.ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	Info hints = manual();
	hints->tx_attr->op_flags = FI_TRIGGER;
	const Info info = get_info(hints.get());
	ASSERT_TRUE(info);
	EXPECT_TRUE(info->caps & FI_TRIGGER);
}

} // namespace
