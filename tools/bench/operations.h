// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The kinds of conversation, one class for each, and start(), which chooses one. */
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "conversation.h"

namespace bench
{

/* Sends and receives: one-way in one thread, ping-pong between two processes. */
class Messages : public Conversation
{
public:
	Messages(const fi_info *info, const Operation &op, size_t size, Place place,
		 Partner *partner)
		: Conversation(info, op, size, place, partner), tagged_(op.kind == Kind::tagged)
	{
	}

protected:
	size_t grain() const override { return partner_ ? 2 : 1; }

	void speak(size_t turns, Watch &watch) override
	{
		if (!partner_)
			watch.start();
		for (; turns; turns--) {
			if (partner_)
				watch.start();
			End &receiver = partner_ ? *first_ : *second_;
			receive(receiver);
			send(*first_, out(*first_));
			await(receiver, &End::rx_done, receives_);
			await(*first_, &End::tx_done, sends_);
			if (partner_)
				watch.stop();
		}
		if (!partner_)
			watch.stop();
	}

	void expect() override { receive(*second_); }

	void reply(bool more) override
	{
		await(*second_, &End::rx_done, receives_);
		/*
		 * Post it now: the next message arrives only after this answer has left the buffer.
		 */
		if (more)
			receive(*second_);
		send(*second_, in(*second_));
		await(*second_, &End::tx_done, sends_);
	}

	bool right() override { return arrived(partner_ ? *first_ : *second_); }

	void receive(End &end)
	{
		post("receive", [&] {
			return tagged_ ? fi_trecv(end.ep.get(), in(end), size_, end.desc(),
						  end.peer, tag, 0, &end.rx_context) :
					 fi_recv(end.ep.get(), in(end), size_, end.desc(), end.peer,
						 &end.rx_context);
		});
		receives_++;
	}

	void send(End &end, const std::byte *from)
	{
		post("send", [&] {
			return tagged_ ? fi_tsend(end.ep.get(), from, size_, end.desc(), end.peer,
						  tag, &end.tx_context) :
					 fi_send(end.ep.get(), from, size_, end.desc(), end.peer,
						 &end.tx_context);
		});
		sends_++;
	}

	static constexpr uint64_t tag = 0x7ead1e;
	const bool tagged_;
	uint64_t receives_ = 0, sends_ = 0;
};

/*
 * Only the call that posts a send; and how much the CPU can compute meanwhile. The caches are
 * filled with other data before each call, as after a long transfer. Otherwise short messages would
 * be posted with warm caches and long ones with cold ones.
 */
class Post final : public Messages
{
public:
	struct Overlap {
		uint64_t transfer; /* ns from the call to both completions */
		uint64_t compute;  /* ns of a computation that takes about as long */
		uint64_t both;	   /* ns of both together */
	};

	using Messages::Messages;

	Overlap overlap()
	{
		Overlap result;

		result.transfer = timed(0);
		/* Find the number of loops that takes about as long as the transfer. */
		uint64_t loops = 100000;
		for (int i = 0; i < 2; i++) {
			const auto start = Clock::now();
			compute(loops);
			result.compute = nanoseconds(Clock::now() - start) + 1;
			if (i == 0)
				loops = loops * result.transfer / result.compute + 1;
		}
		result.both = timed(loops);
		return result;
	}

protected:
	void speak(size_t turns, Watch &watch) override
	{
		for (; turns; turns--) {
			receive(*second_);
			sweep();
			watch.start();
			send(*first_, out(*first_));
			watch.stop();
			finish();
		}
	}

private:
	/* Reads and writes more than the caches hold. */
	void sweep()
	{
		for (size_t i = 0; i < other_.size(); i += 64) {
			volatile char &line = other_[i];
			line = line + 1;
		}
	}

	void finish()
	{
		await(*second_, &End::rx_done, receives_);
		await(*first_, &End::tx_done, sends_);
	}

	uint64_t timed(uint64_t loops)
	{
		receive(*second_);
		const auto start = Clock::now();
		send(*first_, out(*first_));
		compute(loops);
		finish();
		return nanoseconds(Clock::now() - start);
	}

	static void compute(uint64_t loops)
	{
		for (uint64_t x = 1; loops; loops--) {
			x ^= x << 7;
			x ^= x >> 9;
			asm volatile("" : "+r"(x));
		}
	}

	std::vector<char> other_ = std::vector<char>(64 << 20);
};

/*
 * Sends in one direction, with up to `window_` on their way. The second end has as many receives
 * posted, and answers when it has all messages. All of them use the same buffers.
 */
class Stream final : public Messages
{
public:
	using Messages::Messages;

protected:
	size_t grain() const override { return window_; }

	void speak(size_t turns, Watch &watch) override
	{
		receive(*first_);
		watch.start();
		for (size_t left = turns * window_; left; left--) {
			const uint64_t posted = sends_;
			wait(*first_, [&] { return posted - first_->tx_done < window_; });
			send(*first_, out(*first_));
		}
		await(*first_, &End::rx_done, receives_);
		watch.stop();
		await(*first_, &End::tx_done, sends_);
	}

	void expect() override
	{
		for (size_t i = 0; i < window_; i++)
			receive(*second_);
	}

	void reply(bool more) override
	{
		for (size_t i = 0; i < window_; i++) {
			await(*second_, &End::rx_done, ++taken_);
			if (more)
				receive(*second_);
		}
		if (more)
			return;
		send(*second_, in(*second_));
		await(*second_, &End::tx_done, sends_);
	}

private:
	/* Up to 64 messages, or fewer if they are long, but at least 8. */
	const size_t window_ = std::clamp<size_t>((8 << 20) / size_, 8, 64);
	uint64_t taken_ = 0;
};

/* RMA and atomics: the second end does nothing. */
class Remote final : public Conversation
{
public:
	Remote(const fi_info *info, const Operation &op, size_t size, Place place, Partner *partner)
		: Conversation(info, op, size, place, partner), kind_(op.kind)
	{
		size_t count = 0;

		if (kind_ != Kind::fetch_add || !first_)
			return;
		if (fi_fetch_atomicvalid(first_->ep.get(), FI_UINT64, FI_SUM, &count) || !count)
			throw Unsupported();
		const uint64_t one = 1;
		std::memcpy(out(*first_), &one, sizeof(one));
	}

protected:
	void speak(size_t turns, Watch &watch) override
	{
		watch.start();
		for (; turns; turns--)
			once(kind_);
		watch.stop();
	}

	bool passive() const override { return true; }

	bool right() override
	{
		uint64_t before;

		if (kind_ == Kind::write) {
			once(Kind::read, half_);
		} else if (kind_ == Kind::fetch_add) {
			std::memcpy(&before, in(*first_), sizeof(before));
			return before == done_ - 1;
		}
		return arrived(*first_);
	}

private:
	/*
	 * Writes and adds go to the peer's `in`. Reads come from its `out`, unless read_from says
	 * otherwise.
	 */
	void once(Kind kind, size_t read_from = 0)
	{
		End &end = *first_;
		fid_ep *ep = end.ep.get();
		const uint64_t remote = end.peer_card.addr, key = end.peer_card.key;

		post(kind == Kind::write ? "write" :
		     kind == Kind::read	 ? "read" :
					   "fetch-add",
		     [&] {
			     switch (kind) {
			     case Kind::write:
				     return fi_write(ep, out(end), size_, end.desc(), end.peer,
						     remote + half_, key, &end.tx_context);
			     case Kind::read:
				     return fi_read(ep, in(end), size_, end.desc(), end.peer,
						    remote + read_from, key, &end.tx_context);
			     default:
				     return fi_fetch_atomic(ep, out(end), 1, end.desc(), in(end),
							    end.desc(), end.peer, remote + half_,
							    key, FI_UINT64, FI_SUM,
							    &end.tx_context);
			     }
		     });
		await(end, &End::tx_done, ++done_);
	}

	const Kind kind_;
	uint64_t done_ = 0;
};

/*
 * Each end arms sends on its counter of receives, so that one send fires a whole chain. The chain
 * is measured, not the arming.
 */
class Chain final : public Conversation
{
public:
	using Conversation::Conversation;

protected:
	size_t grain() const override { return 2 * length; }

	void speak(size_t turns, Watch &watch) override
	{
		for (; turns; turns--) {
			if (second_)
				arm(*second_, second_armed_, length);
			else
				partner_->get();
			arm(*first_, first_armed_, length - 1);

			const uint64_t last = first_armed_.received;
			watch.start();
			send(*first_, out(*first_), &first_->tx_context, 0);
			wait(*first_, [&] { return fi_cntr_read(first_->received.get()) >= last; });
			watch.stop();

			first_armed_.sent++;
			finish(*first_, first_armed_);
			if (second_)
				finish(*second_, second_armed_);
		}
	}

	void reply(bool) override
	{
		arm(*second_, second_armed_, length);
		partner_->put(1);
		finish(*second_, second_armed_);
	}

	bool right() override { return arrived(*first_); }

private:
	static constexpr size_t length = 16; /* receives at each end */

	/* Receives and sends that will have completed once the chain has run. */
	struct Armed {
		uint64_t received = 0, sent = 0;
		std::array<fi_context2, length> receives;
		std::array<fi_triggered_context2, length> forwards;
	};

	void arm(End &end, Armed &armed, size_t forwards)
	{
		for (size_t i = 0; i < length; i++)
			post("receive", [&] {
				return fi_recv(end.ep.get(), in(end), size_, end.desc(), end.peer,
					       &armed.receives[i]);
			});
		for (size_t i = 0; i < forwards; i++) {
			fi_triggered_context2 &context = armed.forwards[i];
			context.event_type = FI_TRIGGER_THRESHOLD;
			context.trigger.threshold.cntr = end.received.get();
			context.trigger.threshold.threshold = armed.received + i + 1;
			send(end, in(end), &context, FI_TRIGGER);
		}
		armed.received += length;
		armed.sent += forwards;
	}

	void send(End &end, std::byte *from, void *context, uint64_t flags)
	{
		const iovec iov{from, size_};
		void *desc = end.desc();
		fi_msg msg{};
		msg.msg_iov = &iov;
		msg.desc = &desc;
		msg.iov_count = 1;
		msg.addr = end.peer;
		msg.context = context;
		post("send", [&] { return fi_sendmsg(end.ep.get(), &msg, flags | FI_COMPLETION); });
	}

	void finish(End &end, const Armed &armed)
	{
		await(end, &End::rx_done, armed.received);
		await(end, &End::tx_done, armed.sent);
	}

	Armed first_armed_, second_armed_;
};

/* Throws Unsupported if the provider does not offer what the operation needs. */
inline std::unique_ptr<Conversation> start(const Job &job, Place place = Place::both,
					   Partner *partner = nullptr)
{
	const Operation &op = job.op;
	const size_t size = job.size;
	const bool remote = job.address != "127.0.0.1";
	const Info info = find({.provider = job.provider,
				.caps = op.caps | (remote ? FI_REMOTE_COMM : 0),
				.type = job.type,
				.address = job.address,
				.progress = job.progress,
				.threading = job.threading});

	if (!info)
		throw Unsupported();
	switch (op.kind) {
	case Kind::msg:
	case Kind::tagged:
		return std::make_unique<Messages>(info.get(), op, size, place, partner);
	case Kind::write:
	case Kind::read:
	case Kind::fetch_add:
		return std::make_unique<Remote>(info.get(), op, size, place, partner);
	case Kind::trigger:
		return std::make_unique<Chain>(info.get(), op, size, place, partner);
	case Kind::post:
		/* With a partner, the partner's progress would be measured, too. */
		if (place != Place::both)
			throw Unsupported();
		return std::make_unique<Post>(info.get(), op, size, place, partner);
	case Kind::stream:
		if (place == Place::both)
			throw Unsupported();
		return std::make_unique<Stream>(info.get(), op, size, place, partner);
	}
	throw Unsupported();
}

} // namespace bench
