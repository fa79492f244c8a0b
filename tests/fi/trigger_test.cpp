// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_trigger(3): triggered operations and the deferred work queue. */
// conformance: fi_trigger(3): struct fi_triggered_context, or with FI_CONTEXT2
//   fi_triggered_context2, is the operation's context; either works, and is read during the call

#include "work.h"

#include <algorithm>
#include <deque>
#include <random>

namespace
{

struct Trigger : fi_triggered_context {
	Trigger(fid_cntr *cntr, std::size_t threshold) : fi_triggered_context{}
	{
		event_type = FI_TRIGGER_THRESHOLD;
		trigger.threshold = {cntr, threshold};
	}
};

class Triggered : public testing::Test
{
protected:
	Triggered()
		: p(hints_for(FI_MSG | FI_TAGGED | FI_TRIGGER), options()), cntr(p.node.cntr()),
		  done(p.node.cntr())
	{
	}
	static Side::Options options()
	{
		Side::Options o;
		o.counters = true;
		return o;
	}

	/* The messages that have arrived at b, in order; exactly n. */
	std::vector<int> received(int n)
	{
		std::vector<int> values;
		while (n--) {
			int value = -1;
			EXPECT_EQ(fi_recv(p.b.ep.get(), &value, sizeof(value), nullptr,
					  FI_ADDR_UNSPEC, nullptr),
				  0);
			next(p.b.rx_cq.get());
			values.push_back(value);
		}
		return values;
	}

	Pair p;
	Owned<fid_cntr> cntr, done;
};

/* --- FI_TRIGGER ---------------------------------------------------------------------- */

// conformance: fi_trigger(3): any data transfer operation is potentially trigger-able: all of
//   messages, RMA and atomics are, collectives are -FI_EBADFLAGS; calls without a context, as
//   fi_inject, start at once
// conformance: fi_trigger(3): FI_TRIGGER_THRESHOLD: deferred until the counter crosses the
//   threshold
TEST_F(Triggered, ASendWaitsForItsThreshold)
{
	int value = 7;
	const iovec iov{&value, sizeof(value)};
	Trigger trigger(cntr.get(), 3);
	const fi_msg msg{&iov, nullptr, 1, p.b_at_a, &trigger, 0};

	ASSERT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 2), 0);
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(received(1), std::vector{7});
	const auto entry = next(p.a.tx_cq.get());
	EXPECT_EQ(entry.op_context, &trigger);
	EXPECT_EQ(entry.flags, FI_SEND | FI_MSG);
	EXPECT_TRUE(reaches(p.a.sent.get(), 1));
}

// conformance: fi_trigger(3): if the condition is met already, the transfer may start at once
TEST_F(Triggered, AConditionThatHoldsAlreadyDoesNotWait)
{
	int value = 8;
	const iovec iov{&value, sizeof(value)};
	Trigger trigger(cntr.get(), 1);
	const fi_msg msg{&iov, nullptr, 1, p.b_at_a, &trigger, 0};

	ASSERT_EQ(fi_cntr_set(cntr.get(), 5), 0);
	ASSERT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), 0);
	EXPECT_EQ(received(1), std::vector{8});
}

// conformance: fi_trigger(3): deferred work stays until success plus error has reached the
//   threshold
TEST_F(Triggered, ErrorsCountTowardsTheThreshold)
{
	int value = 9;
	const iovec iov{&value, sizeof(value)};
	Trigger trigger(cntr.get(), 2);
	const fi_msg msg{&iov, nullptr, 1, p.b_at_a, &trigger, 0};

	ASSERT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	ASSERT_EQ(fi_cntr_adderr(cntr.get(), 1), 0);
	EXPECT_EQ(received(1), std::vector{9});
}

// conformance: fi_trigger(3): an endpoint must be created with FI_TRIGGER; operations with the ...
TEST_F(Triggered, EveryCallWithFlagsTakesIt)
{
	int out[2] = {1, 2}, in[2] = {};
	const iovec from[2] = {{&out[0], sizeof(int)}, {&out[1], sizeof(int)}};
	const iovec to[2] = {{&in[0], sizeof(int)}, {&in[1], sizeof(int)}};
	Trigger triggers[2] = {{cntr.get(), 1}, {cntr.get(), 1}};
	Trigger later[2] = {{cntr.get(), 2}, {cntr.get(), 2}};
	const fi_msg recv{&to[0], nullptr, 1, FI_ADDR_UNSPEC, &triggers[0], 0};
	const fi_msg_tagged trecv{&to[1], nullptr, 1, FI_ADDR_UNSPEC, 5, 0, &triggers[1], 0};
	const fi_msg send{&from[0], nullptr, 1, p.b_at_a, &later[0], 0};
	const fi_msg_tagged tsend{&from[1], nullptr, 1, p.b_at_a, 5, 0, &later[1], 77};

	ASSERT_EQ(fi_recvmsg(p.b.ep.get(), &recv, FI_TRIGGER), 0);
	ASSERT_EQ(fi_trecvmsg(p.b.ep.get(), &trecv, FI_TRIGGER), 0);
	ASSERT_EQ(fi_sendmsg(p.a.ep.get(), &send, FI_TRIGGER), 0);
	ASSERT_EQ(fi_tsendmsg(p.a.ep.get(), &tsend, FI_TRIGGER | FI_REMOTE_CQ_DATA), 0);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	ASSERT_EQ(fi_cntr_add(cntr.get(), 2), 0);
	auto entry = next(p.b.rx_cq.get());
	EXPECT_EQ(entry.op_context, &triggers[0]);
	entry = next(p.b.rx_cq.get());
	EXPECT_EQ(entry.op_context, &triggers[1]);
	EXPECT_EQ(entry.data, 77u);
	EXPECT_EQ(in[0], 1);
	EXPECT_EQ(in[1], 2);
}

// conformance: fi_trigger(3): any data transfer operation is potentially trigger-able: all of ...
TEST_F(Triggered, AReceiveIsNotThereBeforeItsTime)
{
	int early = 0, late = 0, value = 5;
	const iovec to{&early, sizeof(int)};
	Trigger trigger(cntr.get(), 1);
	const fi_msg recv{&to, nullptr, 1, FI_ADDR_UNSPEC, &trigger, 0};

	ASSERT_EQ(fi_recvmsg(p.b.ep.get(), &recv, FI_TRIGGER), 0);
	ASSERT_EQ(fi_recv(p.b.ep.get(), &late, sizeof(int), nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_inject(p.a.ep.get(), &value, sizeof(int), p.b_at_a), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
	EXPECT_EQ(late, 5);
	/* The receive takes an unexpected message once it fires. */
	ASSERT_EQ(fi_inject(p.a.ep.get(), &value, sizeof(int), p.b_at_a), 0);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, &trigger);
	EXPECT_EQ(early, 5);
}

// conformance: fi_trigger(3): triggered in the order of thresholds, even if the counter jumps
TEST_F(Triggered, ThresholdOrderAlsoIfTheCounterJumps)
{
	constexpr int n = 200;
	std::vector<int> order(n), values(n);
	std::deque<Trigger> triggers;

	for (int i = 0; i < n; ++i)
		order[i] = values[i] = i;
	std::shuffle(order.begin(), order.end(), std::mt19937(1));
	for (const int i : order) {
		const iovec iov{&values[i], sizeof(int)};
		triggers.emplace_back(cntr.get(), i + 1);
		const fi_msg msg{&iov, nullptr, 1, p.b_at_a, &triggers.back(), 0};
		ASSERT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), 0);
	}
	ASSERT_EQ(fi_cntr_set(cntr.get(), n), 0);
	EXPECT_EQ(received(n), values);
}

// conformance: fi_trigger(3): the same threshold: in the order of submission to the endpoint (here:
//   to the counter)
TEST_F(Triggered, AtOneThresholdTheOrderIsThatOfSubmission)
{
	constexpr int n = 100;
	std::vector<int> values(n);
	std::deque<Trigger> triggers;

	for (int i = 0; i < n; ++i) {
		values[i] = i;
		const iovec iov{&values[i], sizeof(int)};
		triggers.emplace_back(cntr.get(), 1);
		const fi_msg msg{&iov, nullptr, 1, p.b_at_a, &triggers.back(), 0};
		ASSERT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER | (i % 3 ? FI_MORE : 0)), 0);
	}
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(received(n), values);
}

/*
 * FI_MORE does not put off a triggered operation: deferred work takes another way to its counter.
 */
TEST_F(Triggered, TheOrderIsThatOfSubmissionAlsoBesideDeferredWork)
{
	constexpr int n = 20;
	std::vector<int> values(n);
	std::deque<Trigger> triggers;
	std::deque<Work> works;

	for (int i = 0; i < n; ++i) {
		values[i] = i;
		if (i % 2) {
			works.emplace_back(FI_OP_SEND, cntr.get(), 1);
			works.back().message(p.a.ep.get(), &values[i], 4, p.b_at_a);
			ASSERT_EQ(works.back().queue(p.node), 0);
			continue;
		}
		const iovec iov{&values[i], sizeof(int)};
		triggers.emplace_back(cntr.get(), 1);
		const fi_msg msg{&iov, nullptr, 1, p.b_at_a, &triggers.back(), 0};
		ASSERT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER | FI_MORE), 0);
	}
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(received(n), values);
}

TEST_F(Triggered, AnAliasMayTriggerByDefault)
{
	fid_ep *alias = nullptr;
	int value = 3;
	Trigger trigger(cntr.get(), 1);

	ASSERT_EQ(fi_ep_alias(p.a.ep.get(), &alias, FI_TRANSMIT | FI_TRIGGER), 0);
	const Owned<fid_ep> owner(alias);
	ASSERT_EQ(fi_send(alias, &value, sizeof(value), nullptr, p.b_at_a, &trigger), 0);
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
	/* The endpoint itself does not trigger, nor does an operation without a context. */
	ASSERT_EQ(fi_send(p.a.ep.get(), &value, sizeof(value), nullptr, p.b_at_a, ctx(1)), 0);
	ASSERT_EQ(fi_inject(alias, &value, sizeof(value), p.b_at_a), 0);
	EXPECT_EQ(received(2), std::vector({3, 3}));
	EXPECT_EQ(next(p.a.tx_cq.get()).op_context, ctx(1));
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(received(1), std::vector{3});
	EXPECT_EQ(next(p.a.tx_cq.get()).op_context, &trigger);
	/* So do vectors and data. */
	const iovec iov[2] = {{&value, 2}, {reinterpret_cast<char *>(&value) + 2, 2}};
	ASSERT_EQ(fi_sendv(alias, iov, nullptr, 2, p.b_at_a, &trigger), 0);
	ASSERT_EQ(fi_senddata(alias, &value, sizeof(value), nullptr, 9, p.b_at_a, &trigger), 0);
	EXPECT_EQ(received(2), std::vector({3, 3}));
}

// conformance: fi_trigger(3): an endpoint must be created with FI_TRIGGER; operations with the ...
TEST_F(Triggered, ErrorsAreReturnedAtOnce)
{
	int value = 0;
	const iovec iov{&value, sizeof(value)};
	Node other(hints_for(FI_MSG));
	const auto elsewhere = other.cntr();
	Trigger nothing(nullptr, 1), foreign(elsewhere.get(), 1), xpu(cntr.get(), 1);
	xpu.event_type = FI_TRIGGER_XPU;
	fi_msg msg{&iov, nullptr, 1, p.b_at_a, nullptr, 0};

	EXPECT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), -FI_EINVAL);
	msg.context = &nothing;
	EXPECT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), -FI_EINVAL);
	msg.context = &foreign;
	EXPECT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), -FI_EINVAL);
	msg.context = &xpu;
	EXPECT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), -FI_EOPNOTSUPP);
	xpu.event_type = static_cast<fi_trigger_event>(99);
	EXPECT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), -FI_ENOSYS);
}

TEST_F(Triggered, ATriggeredOperationCanBeCanceled)
{
	int value = 0;
	const iovec iov{&value, sizeof(value)};
	Trigger trigger(cntr.get(), 1);
	const fi_msg msg{&iov, nullptr, 1, p.b_at_a, &trigger, 0};

	ASSERT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), 0);
	ASSERT_EQ(fi_cancel(&p.a.ep->fid, &trigger), 0);
	const auto error = next_error(p.a.tx_cq.get());
	EXPECT_EQ(error.err, FI_ECANCELED);
	EXPECT_EQ(error.op_context, &trigger);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(fi_cancel(&p.a.ep->fid, &trigger), -FI_ENOENT);
}

TEST_F(Triggered, ATriggeredReceiveCanBeCanceled)
{
	int value = 0;
	const iovec iov{&value, sizeof(value)};
	Trigger trigger(cntr.get(), 1);
	const fi_msg_tagged msg{&iov, nullptr, 1, FI_ADDR_UNSPEC, 1, 0, &trigger, 0};

	for (const bool fired : {false, true}) {
		ASSERT_EQ(fi_trecvmsg(p.b.ep.get(), &msg, FI_TRIGGER), 0);
		ASSERT_EQ(fired ? fi_cntr_add(cntr.get(), 1) : 0, 0);
		ASSERT_EQ(fi_cancel(&p.b.ep->fid, &trigger), 0);
		const auto error = next_error(p.b.rx_cq.get());
		EXPECT_EQ(error.err, FI_ECANCELED);
		EXPECT_EQ(error.op_context, &trigger);
	}
}

/* --- the deferred work queue --------------------------------------------------------- */

// conformance: fi_trigger(3): deferred work: condition, operation, completion notification
// conformance: fi_trigger(3): FI_QUEUE_WORK by fi_control of the domain
// conformance: fi_trigger(3): on completion the completion counter is incremented by one
TEST_F(Triggered, EveryKindOfMessageWork)
{
	int in[2] = {}, out[2] = {11, 22};
	Work recv(FI_OP_RECV, cntr.get(), 1, done.get()),
		trecv(FI_OP_TRECV, cntr.get(), 1, done.get());
	Work send(FI_OP_SEND, cntr.get(), 2, done.get()),
		tsend(FI_OP_TSEND, cntr.get(), 2, done.get());

	ASSERT_EQ(recv.message(p.b.ep.get(), &in[0], 4, FI_ADDR_UNSPEC).queue(p.node), 0);
	ASSERT_EQ(trecv.tagged_message(p.b.ep.get(), &in[1], 4, FI_ADDR_UNSPEC, 9).queue(p.node),
		  0);
	ASSERT_EQ(send.message(p.a.ep.get(), &out[0], 4, p.b_at_a).queue(p.node), 0);
	ASSERT_EQ(tsend.tagged_message(p.a.ep.get(), &out[1], 4, p.b_at_a, 9).queue(p.node), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 2), 0);
	EXPECT_TRUE(reaches(done.get(), 4));
	EXPECT_EQ(in[0], 11);
	EXPECT_EQ(in[1], 22);
	/* The endpoints' queues get no completion. */
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	EXPECT_EQ(fi_cntr_read(p.a.sent.get()), 0u);
	EXPECT_EQ(fi_cntr_read(p.b.received.get()), 0u);
}

// conformance: fi_trigger(3): FI_COMPLETION requests endpoint completions
TEST_F(Triggered, WorkIsReportedIfItAsksForIt)
{
	int value = 4;
	Work send(FI_OP_SEND, cntr.get(), 1);

	send.message(p.a.ep.get(), &value, sizeof(value), p.b_at_a, FI_COMPLETION);
	send.msg.msg.context = ctx(42);
	ASSERT_EQ(send.queue(p.node), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(next(p.a.tx_cq.get()).op_context, ctx(42));
	EXPECT_EQ(received(1), std::vector{4});
	EXPECT_EQ(fi_cntr_read(p.a.sent.get()), 0u);
}

// conformance: fi_trigger(3): FI_QUEUE_WORK by fi_control of the domain
// conformance: fi_trigger(3): counter operations only change the counter of fi_op_cntr;
//   completion_cntr must be NULL
TEST_F(Triggered, CounterWork)
{
	const auto target = p.node.cntr();
	Work set(FI_OP_CNTR_SET, cntr.get(), 1), add(FI_OP_CNTR_ADD, cntr.get(), 1);

	ASSERT_EQ(set.counter(target.get(), 5).queue(p.node), 0);
	ASSERT_EQ(add.counter(target.get(), 6).queue(p.node), 0);
	EXPECT_EQ(fi_cntr_read(target.get()), 0u);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_TRUE(reaches(target.get(), 11));
}

TEST_F(Triggered, WorkTriggersWork)
{
	constexpr int n = 1000;
	std::deque<Work> works;
	std::deque<Owned<fid_cntr>> counters;

	for (int i = 0; i < 3; ++i)
		counters.push_back(p.node.cntr());
	/* In a circle: each of three counters adds one to the next. */
	for (int round = 1; round <= n; ++round) {
		for (int i = 0; i < 3; ++i) {
			if (round == n && i == 2)
				break;
			works.emplace_back(FI_OP_CNTR_ADD, counters[i].get(), round);
			ASSERT_EQ(
				works.back().counter(counters[(i + 1) % 3].get(), 1).queue(p.node),
				0);
		}
	}
	ASSERT_EQ(fi_cntr_add(counters[0].get(), 1), 0);
	EXPECT_TRUE(reaches(counters[2].get(), n));
	EXPECT_TRUE(reaches(counters[0].get(), n));
}

TEST_F(Triggered, AReceiveCounterForwardsMessages)
{
	int through = 0, value = 31;
	Side c(p.node);
	const fi_addr_t c_at_b = p.b.insert(c.ep.get());
	Work forward(FI_OP_SEND, p.b.received.get(), 1);

	ASSERT_EQ(forward.message(p.b.ep.get(), &through, 4, c_at_b).queue(p.node), 0);
	ASSERT_EQ(fi_recv(p.b.ep.get(), &through, 4, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	int in = 0;
	ASSERT_EQ(fi_recv(c.ep.get(), &in, 4, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_send(p.a.ep.get(), &value, 4, nullptr, p.b_at_a, nullptr), 0);
	next(c.rx_cq.get());
	EXPECT_EQ(in, 31);
}

// conformance: fi_trigger(3): the application cancels work if its condition is not met
// conformance: fi_trigger(3): FI_CANCEL_WORK: exact, by the struct fi_deferred_work
TEST_F(Triggered, CanceledWorkNeverRuns)
{
	int values[3] = {1, 2, 3};
	Work works[3] = {{FI_OP_SEND, cntr.get(), 1},
			 {FI_OP_SEND, cntr.get(), 1},
			 {FI_OP_SEND, cntr.get(), 2}};

	for (int i = 0; i < 3; ++i)
		ASSERT_EQ(works[i].message(p.a.ep.get(), &values[i], 4, p.b_at_a).queue(p.node), 0);
	EXPECT_EQ(works[1].cancel(p.node), 0);
	EXPECT_EQ(works[1].cancel(p.node), -FI_ENOENT);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 2), 0);
	EXPECT_EQ(received(2), std::vector({1, 3}));
	EXPECT_EQ(works[0].cancel(p.node), -FI_ENOENT);
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
}

/* The struct fi_deferred_work identifies the work, whatever else several have in common. */
// conformance: fi_trigger(3): struct fi_deferred_work stays valid until the work has ended: it is
//   copied, and FI_CANCEL_WORK finds the work by its address
// conformance: fi_trigger(3): FI_CANCEL_WORK: exact, by the struct fi_deferred_work
TEST_F(Triggered, CancelingTakesTheWorkThatIsNamed)
{
	int values[3] = {1, 2, 3};
	Work works[3] = {{FI_OP_SEND, cntr.get(), 1},
			 {FI_OP_SEND, cntr.get(), 1},
			 {FI_OP_SEND, cntr.get(), 1}};

	for (int i = 0; i < 3; ++i) {
		works[i].message(p.a.ep.get(), &values[i], 4, p.b_at_a, FI_COMPLETION);
		works[i].msg.msg.context = nullptr;
	}
	ASSERT_EQ(works[0].queue(p.node), 0);
	ASSERT_EQ(works[1].queue(p.node), 0);
	EXPECT_EQ(works[2].cancel(p.node), -FI_ENOENT); /* was never queued */
	EXPECT_EQ(works[1].cancel(p.node), 0);
	EXPECT_EQ(works[1].cancel(p.node), -FI_ENOENT);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_EQ(received(1), std::vector({1}));
	EXPECT_EQ(next(p.a.tx_cq.get()).op_context, nullptr);
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
}

// conformance: fi_trigger(3): FI_FLUSH_WORK: of the domain, or of one counter (arg is the counter,
//   or work with that triggering_cntr)
TEST_F(Triggered, FlushTakesAllOrOneCountersWork)
{
	const auto other = p.node.cntr(), target = p.node.cntr();
	std::deque<Work> works;
	const auto queue = [&](fid_cntr *trigger) {
		works.emplace_back(FI_OP_CNTR_ADD, trigger, 1);
		ASSERT_EQ(works.back().counter(target.get(), 1).queue(p.node), 0);
	};

	for (int i = 0; i < 10; ++i) {
		queue(cntr.get());
		queue(other.get());
	}
	EXPECT_EQ(fi_control(&p.node.domain->fid, FI_FLUSH_WORK, cntr.get()), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	ASSERT_EQ(fi_cntr_add(other.get(), 1), 0);
	EXPECT_TRUE(reaches(target.get(), 10)) << "only the other counter's work has run";

	ASSERT_EQ(fi_cntr_set(cntr.get(), 0), 0);
	ASSERT_EQ(fi_cntr_set(other.get(), 0), 0);
	queue(cntr.get());
	queue(other.get());
	/* its completion counter is that of flushed work */
	EXPECT_EQ(fi_control(&p.node.domain->fid, FI_FLUSH_WORK, &works.back().work), 0);
	ASSERT_EQ(fi_cntr_add(other.get(), 1), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	EXPECT_TRUE(reaches(target.get(), 11));
	EXPECT_EQ(fi_cntr_read(target.get()), 11u);

	ASSERT_EQ(fi_cntr_set(cntr.get(), 0), 0);
	ASSERT_EQ(fi_cntr_set(other.get(), 0), 0);
	queue(cntr.get());
	queue(other.get());
	/* of the counter itself */
	EXPECT_EQ(fi_control(&cntr->fid, FI_FLUSH_WORK, nullptr), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	ASSERT_EQ(fi_cntr_add(other.get(), 1), 0);
	EXPECT_TRUE(reaches(target.get(), 12));
	EXPECT_EQ(fi_cntr_read(target.get()), 12u);

	ASSERT_EQ(fi_cntr_set(cntr.get(), 0), 0);
	ASSERT_EQ(fi_cntr_set(other.get(), 0), 0);
	queue(cntr.get());
	queue(other.get());
	EXPECT_EQ(fi_control(&p.node.domain->fid, FI_FLUSH_WORK, nullptr), 0);
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	ASSERT_EQ(fi_cntr_add(other.get(), 1), 0);
	EXPECT_EQ(fi_cntr_read(target.get()), 12u);
	EXPECT_EQ(fi_control(&p.node.domain->fid, FI_FLUSH_WORK, nullptr), 0);
}

// conformance: fi_trigger(3): counter operations only change the counter of fi_op_cntr; ...
// conformance: fi_trigger(3): buffers are not accessed before the event, except those of FI_INJECT,
//   which are read at once; objects and parameters may be checked
// conformance: fi_trigger(3): unsupported requests: -FI_ENOSYS; undefined flags of work: ...
TEST_F(Triggered, BadWorkIsRefusedAtSubmission)
{
	int value = 0;
	Node other(hints_for(FI_MSG));
	Side elsewhere(other);
	const auto disabled = p.node.ep();
	Log log;
	const auto send = [&] { return Work(FI_OP_SEND, cntr.get(), 1, done.get()); };

	auto work = send();
	work.message(p.a.ep.get(), &value, 4, p.b_at_a).work.triggering_cntr = nullptr;
	EXPECT_EQ(work.queue(p.node), -FI_EINVAL);
	EXPECT_TRUE(log.has("triggering_cntr"));
	work = send();
	EXPECT_EQ(work.message(elsewhere.ep.get(), &value, 4, p.b_at_a).queue(p.node), -FI_EINVAL);
	work = send();
	EXPECT_EQ(work.message(disabled.get(), &value, 4, p.b_at_a).queue(p.node), -FI_EOPBADSTATE);
	work = send();
	EXPECT_EQ(work.message(p.a.ep.get(), &value, 4, p.b_at_a, FI_PEEK).queue(p.node),
		  -FI_EBADFLAGS);
	work = send();
	EXPECT_EQ(work.message(p.a.ep.get(), &value, 4, 4711).queue(p.node), -FI_EADDRNOTAVAIL);
	work = send();
	work.work.op_type = FI_OP_CNTR_ADD;
	EXPECT_EQ(work.counter(cntr.get(), 1).queue(p.node), -FI_EINVAL)
		<< "has a completion counter";
	for (const auto type :
	     {FI_OP_READ, FI_OP_WRITE, FI_OP_ATOMIC, FI_OP_FETCH_ATOMIC, FI_OP_COMPARE_ATOMIC}) {
		/* the largest structure; each begins with its endpoint */
		fi_op_compare_atomic nothing{};
		nothing.ep = p.a.ep.get();
		work = send();
		work.work.op_type = type;
		work.work.op.compare_atomic = &nothing;
		EXPECT_EQ(work.queue(p.node), -FI_ENOSYS) << "the endpoint has no such capability";
	}
	work = send();
	work.message(p.a.ep.get(), &value, 4, p.b_at_a).work.op_type = static_cast<fi_op_type>(99);
	EXPECT_EQ(work.queue(p.node), -FI_ENOSYS);
	for (const auto type : {FI_OP_SEND, FI_OP_WRITE, FI_OP_CNTR_ADD}) {
		work = Work(type, cntr.get(), 1);
		EXPECT_EQ(work.queue(p.node), -FI_EINVAL) << "no operation";
	}
	/* the object is no counter */
	work = send();
	work.message(p.a.ep.get(), &value, 4, p.b_at_a).work.triggering_cntr =
		reinterpret_cast<fid_cntr *>(p.a.tx_cq.get());
	EXPECT_EQ(work.queue(p.node), -FI_EINVAL);
	for (const int command : {FI_QUEUE_WORK, FI_CANCEL_WORK})
		EXPECT_EQ(fi_control(&p.node.domain->fid, command, nullptr), -FI_EINVAL);
	const auto foreign = other.cntr();
	work = Work(FI_OP_SEND, foreign.get(), 1);
	EXPECT_EQ(fi_control(&p.node.domain->fid, FI_FLUSH_WORK, &work.work), -FI_EINVAL);
}

TEST_F(Triggered, ACounterWithWorkIsBusy)
{
	auto trigger = p.node.cntr();
	Work work(FI_OP_CNTR_ADD, trigger.get(), 1);

	ASSERT_EQ(work.counter(done.get(), 1).queue(p.node), 0);
	EXPECT_EQ(fi_close(&trigger->fid), -FI_EBUSY);
	ASSERT_EQ(work.cancel(p.node), 0);
}

} // namespace
