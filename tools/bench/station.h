// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <vector>

#include "fabric.h"

namespace bench
{

/* What all processes of the ring know at the start. */
struct Plan {
	size_t rounds = 1000, size = 64;
	unsigned seconds = 60; /* timeout */
	bool deferred = false; /* FI_QUEUE_WORK */
};

/* One process of the ring, seen from inside. Lap 0 is a rehearsal, before the measured rounds. */
class Station
{
public:
	Station(const fi_info *info, const Plan &plan, bool first)
		: plan_(plan), first_(first), laps_(plan.rounds + 1),
		  end_(info, {.bytes = laps_ * plan.size * (first ? 2 : 1),
			      .cq_flags = FI_SELECTIVE_COMPLETION,
			      .count_received = true}),
		  receives_(laps_), forwards_(laps_)
	{
		fi_cntr_attr attr{};

		attr.events = FI_CNTR_EVENTS_COMP;
		deferred_sent_ =
			open<fid_cntr>("fi_cntr_open", fi_cntr_open, end_.domain.get(), &attr);
		if (first_)
			for (size_t lap = 0; lap < laps_; lap++)
				for (size_t i = 0; i < plan_.size; i++)
					out(lap)[i] = pattern(lap, i);
	}

	Card card() const { return end_.card(); }

	void arm(const Card &neighbour)
	{
		end_.meet(neighbour);
		for (size_t lap = 0; lap < laps_; lap++)
			receive(lap);
		/*
		 * The first process sends laps 0 and 1 itself. Each further lap is fired by the one
		 * before.
		 */
		for (size_t lap = first_ ? 2 : 0; lap < laps_; lap++)
			forward(lap, first_ ? lap : lap + 1);
	}

	void send(size_t lap)
	{
		post([&] {
			return fi_sendmsg(end_.ep.get(),
					  Message(*this, out(lap), &forwards_[lap].context).get(),
					  0);
		});
	}

	void await(size_t received)
	{
		const auto until = Clock::now() + std::chrono::seconds(plan_.seconds);

		for (;;) {
			const int rc = fi_cntr_wait(end_.received.get(), received, 100);
			if (fi_cntr_read(end_.received.get()) >= received)
				return;
			end_.progress(); /* throws if an operation has failed */
			if (rc && rc != -FI_ETIMEDOUT && rc != -FI_EAGAIN)
				must(rc, "fi_cntr_wait");
			if (Clock::now() >= until)
				throw Failure("round " + std::to_string(progress_made()) + " of " +
						      std::to_string(laps_ - 1),
					      FI_ETIMEDOUT);
		}
	}

	/* Checks that all messages were received, with the right data. */
	void verify()
	{
		end_.progress();
		if (const uint64_t errors = fi_cntr_readerr(end_.received.get()))
			throw std::runtime_error(std::to_string(errors) + " receives failed");
		if (fi_cntr_read(end_.received.get()) != laps_)
			throw std::runtime_error("received " + std::to_string(progress_made() + 1) +
						 " messages, not " + std::to_string(laps_));
		for (size_t lap = 0; lap < laps_; lap++)
			for (size_t i = 0; i < plan_.size; i++)
				if (in(lap)[i] != pattern(lap, i))
					throw std::runtime_error("wrong data in round " +
								 std::to_string(lap));
	}

private:
	/* A send or receive of one buffer. */
	class Message
	{
	public:
		Message(const Station &station, std::byte *data, void *context)
			: desc_(station.end_.desc()), iov_{data, station.plan_.size}
		{
			msg_.msg_iov = &iov_;
			msg_.desc = &desc_;
			msg_.iov_count = 1;
			msg_.addr = station.end_.peer;
			msg_.context = context;
		}
		Message(const Message &) = delete;

		const fi_msg *get() const { return &msg_; }

	private:
		void *desc_;
		iovec iov_;
		fi_msg msg_{};
	};

	/* Has to live until the command has run. */
	struct Forward {
		fi_triggered_context2 context;
		fi_deferred_work work;
		fi_op_msg op;
		std::unique_ptr<Message> message;
	};

	static std::byte pattern(size_t lap, size_t i)
	{
		return static_cast<std::byte>((lap * 1000003 + i + 1) * 2654435761U >> 16);
	}

	std::byte *in(size_t lap) const { return end_.buffer.data() + lap * plan_.size; }
	std::byte *out(size_t lap) const { return in(laps_ + lap); }
	size_t progress_made()
	{
		return std::max<uint64_t>(fi_cntr_read(end_.received.get()), 1) - 1;
	}

	template <class Call> void post(Call call)
	{
		ssize_t rc;

		while ((rc = call()) == -FI_EAGAIN)
			end_.progress();
		must(rc, "post");
	}

	void receive(size_t lap)
	{
		post([&] {
			Message message(*this, in(lap), &receives_[lap]);
			fi_msg msg = *message.get();
			msg.addr = FI_ADDR_UNSPEC;
			return fi_recvmsg(end_.ep.get(), &msg, 0);
		});
	}

	void forward(size_t lap, size_t threshold)
	{
		Forward &forward = forwards_[lap];
		fid_cntr *counter = end_.received.get();
		std::byte *data = first_ ? out(lap) : in(lap);

		if (plan_.deferred) {
			forward.message =
				std::make_unique<Message>(*this, data, &forward.work.context);
			forward.op = {end_.ep.get(), *forward.message->get(), 0};
			forward.work.threshold = threshold;
			forward.work.triggering_cntr = counter;
			forward.work.completion_cntr = deferred_sent_.get();
			forward.work.op_type = FI_OP_SEND;
			forward.work.op.msg = &forward.op;
			post([&] {
				return fi_control(&end_.domain->fid, FI_QUEUE_WORK, &forward.work);
			});
		} else {
			const Message message(*this, data, &forward.context);
			forward.context.event_type = FI_TRIGGER_THRESHOLD;
			forward.context.trigger.threshold = {counter, threshold};
			post([&] { return fi_sendmsg(end_.ep.get(), message.get(), FI_TRIGGER); });
		}
	}

	const Plan &plan_;
	const bool first_;
	const size_t laps_;
	End end_;
	Fid<fid_cntr> deferred_sent_; /* sockets crashes without */
	std::vector<fi_context2> receives_;
	std::vector<Forward> forwards_;
};

} // namespace bench
