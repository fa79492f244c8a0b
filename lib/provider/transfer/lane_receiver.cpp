// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/lane_receiver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "endpoint/endpoint.h"
#include "names/av.h"
#include "transfer/direct.h"

namespace treadle::fi
{

namespace
{

/* Of a receive that got no message. */
treadle_cqe failed(std::uint64_t context, std::uint64_t buf, bool tagged, int error) noexcept
{
	treadle_cqe cqe{};

	cqe.context = context;
	cqe.buf = buf;
	cqe.src = TREADLE_ADDR_ANY;
	cqe.flags = kind_of(tagged);
	cqe.error = static_cast<std::uint32_t>(error);
	return cqe;
}

} // namespace

/* --- life ---------------------------------------------------------------------------------- */

/*
 * Not for endpoints with deferred work, which the kernel posts at any time; nor for those that want
 * the address of unknown senders.
 */
template <class Lock>
std::unique_ptr<LaneReceiver<Lock>> LaneReceiver<Lock>::make(Endpoint &endpoint, const LaneUse &use,
							     BasicReceiveRing<Lock> &ring)
{
	std::unique_ptr<LaneReceiver> receiver(new LaneReceiver(endpoint, use, ring));

	return receiver->reports_.allow() ? std::move(receiver) : nullptr;
}

template <class Lock>
LaneReceiver<Lock>::LaneReceiver(Endpoint &endpoint, const LaneUse &use,
				 BasicReceiveRing<Lock> &ring)
	: use_(use), endpoint_(endpoint), ring_(ring), lock_(!endpoint.domain().serialized(true)),
	  peers_(endpoint, use), reports_(use.received_to, use.received),
	  waiting_(peers_, endpoint.info().rx_attr->total_buffered_recv ?: std::size_t{1} << 20),
	  most_(std::min(most_posted, ring.entries()))
{
	stats_.size = sizeof(stats_);
	ends_.reserve(most_lanes);
}

/* --- open and closed ----------------------------------------------------------------------- */

template <class Lock> void LaneReceiver<Lock>::make() noexcept
{
	const std::lock_guard guard(lock_);

	advance();
}

template <class Lock> void LaneReceiver<Lock>::advance() noexcept
{
	if (!reports_.catch_up()) [[unlikely]]
		return;
	if (stopped_) [[unlikely]] {
		close();
		return;
	}
	if (ring_.offers() != offers_) [[unlikely]]
		take_lanes();
	if (!open_) {
		try_open();
		if (!open_)
			return;
	}
	if (ring_.holds_messages()) [[unlikely]] {
		bounce();
		return;
	}
	bool ended = false;
	for (const auto &end : ends_) {
		detail::LaneReader::Message message;

		for (std::uint32_t n = 0; n < most_taken && end->reader.look(message); ++n) {
			if (!accept(*end, message, false))
				break;
			if (reports_.late() || waiting_.full()) [[unlikely]]
				break;
		}
		ended |= end->reader.gone();
		if (reports_.late()) [[unlikely]]
			return;
	}
	if (waiting_.full()) [[unlikely]]
		bounce();
	if (ended) [[unlikely]]
		drop_ended();
}

/*
 * The kernel has neither a receive nor a message of this ring. After a bounce it is tried less
 * often.
 */
template <class Lock> void LaneReceiver<Lock>::try_open() noexcept
{
	if (ends_.empty() || stopped_ || sleepers_ || reports_.late() || waiting_.half_full())
		return;
	if (pause_) {
		--pause_;
		return;
	}
	if (!ring_.idle() || ring_.holds_messages())
		return;
	for (const auto &end : ends_)
		end->reader.open();
	open_ = true;
	taken_ = 0;
}

/*
 * Hands over to the kernel. False: there is no memory for the messages in the lanes; it is open as
 * before, which is right as the kernel has got nothing.
 */
template <class Lock> bool LaneReceiver<Lock>::close() noexcept
{
	constexpr std::uint32_t most = 2 * TREADLE_LANE_UNITS; /* more only an ill sender has */

	if (!open_)
		return true;
	for (const auto &end : ends_)
		end->reader.close();
	for (const auto &end : ends_) {
		detail::LaneReader::Message message;

		for (std::uint32_t n = 0; n < most && end->reader.look(message); ++n) {
			if (accept(*end, message, true))
				continue;
			for (const auto &each : ends_)
				each->reader.open();
			return false;
		}
	}
	open_ = false;
	++stats_.closed;
	for (; first_ != end_; ++first_) {
		const Posted &p = posted_[first_];

		std::ignore = ring_.post({.opcode = static_cast<std::uint8_t>(
						  p.tagged ? TREADLE_OP_TRECV : TREADLE_OP_RECV),
					  .flags = p.flags,
					  .context = p.context,
					  .addr = p.addr,
					  .len = p.len,
					  .peer = p.peer,
					  .tag = p.tag,
					  .ignore = p.ignore});
	}
	return true;
}

/* Hands over because of a message in the kernel, or because too many wait here. */
template <class Lock> void LaneReceiver<Lock>::bounce() noexcept
{
	if (taken_ > 1024) /* it was worth it */
		next_pause_ = 1;
	if (!close())
		return;
	pause_ = next_pause_;
	next_pause_ = std::min(2 * next_pause_, longest_pause);
}

template <class Lock> bool LaneReceiver<Lock>::begin_sleep() noexcept
{
	const std::lock_guard guard(lock_);

	++sleepers_;
	reports_.catch_up();
	return close();
}

template <class Lock> void LaneReceiver<Lock>::end_sleep() noexcept
{
	const std::lock_guard guard(lock_);

	--sleepers_;
}

template <class Lock> void LaneReceiver<Lock>::stop() noexcept
{
	const std::lock_guard guard(lock_);

	reports_.catch_up();
	stopped_ = true;
	close();
}

template <class Lock> void LaneReceiver<Lock>::take_lanes() noexcept
{
	offers_ = ring_.offers();
	while (ends_.size() < most_lanes) {
		auto lane = Lane::take(endpoint_.domain().kernel(), ring_.id());
		if (!lane)
			return;
		auto *const end = new (std::nothrow) LaneEnd(std::move(*lane));
		if (!end)
			return;
		ends_.emplace_back(end); /* reserved */
		++stats_.taken;
		if (open_)
			end->reader.open();
	}
}

/* Lanes that their sender has closed, and that are empty. */
template <class Lock> void LaneReceiver<Lock>::drop_ended() noexcept
{
	const auto ended = std::erase_if(ends_, [](const auto &end) {
		detail::LaneReader::Message message;

		return end->reader.gone() && !end->waiting &&
		       (!end->reader.look(message) || end->reader.broken());
	});
	if (ended)
		offers_ = ring_.offers() - 1; /* there is room for others */
}

/* --- matching ------------------------------------------------------------------------------ */

/* The index of the first receive that matches, or end_. */
template <class Lock>
std::uint32_t LaneReceiver<Lock>::find(std::uint32_t flags, std::uint64_t tag,
				       const LaneEnd &end) noexcept
{
	const bool tagged = flags & TREADLE_LANE_TAGGED;
	std::uint32_t i = first_;

	for (; i != end_; ++i) {
		const Posted &p = posted_[i];

		if (p.tagged == tagged && !((p.tag ^ tag) & ~p.ignore) &&
		    (p.port == any_port || p.port == end.port))
			break;
	}
	return i;
}

/* Takes a receive out of the list. */
template <class Lock> void LaneReceiver<Lock>::drop_posted(std::uint32_t index) noexcept
{
	if (index != first_) [[unlikely]]
		std::copy_backward(posted_.begin() + first_, posted_.begin() + index,
				   posted_.begin() + index + 1);
	if (++first_ == end_)
		first_ = end_ = 0;
}

/*
 * Takes a message out of its lane, unless the sender has taken it back. False: it has to stay, as
 * there is no memory; or, unless all are taken, as too many wait here.
 */
template <class Lock>
bool LaneReceiver<Lock>::accept(LaneEnd &end, const detail::LaneReader::Message &message,
				bool all) noexcept
{
	peers_.ask(end);
	const std::uint32_t i = find(message.flags, message.tag, end);
	if (i == end_) [[unlikely]]
		return (all || !waiting_.full()) && keep(end, message);
	const Posted &p = posted_[i];
	const std::uint64_t len = std::min<std::uint64_t>(message.len, p.len);

	if (len == 8) [[likely]]
		std::memcpy(reinterpret_cast<void *>(p.addr), message.bytes, 8);
	else if (len)
		std::memcpy(reinterpret_cast<void *>(p.addr), message.bytes, len);
	if (!end.reader.take(message)) [[unlikely]]
		return true;
	const bool data = message.flags & TREADLE_LANE_DATA;
	const std::uint32_t flags = p.flags;
	const treadle_cqe cqe{.context = p.context,
			      .len = len,
			      .data = data ? message.data : 0,
			      .tag = p.tagged ? message.tag : 0,
			      .buf = p.addr,
			      .src = peers_.source_of(end),
			      .flags = kind_of(p.tagged, data),
			      .error = message.len > p.len ? TREADLE_ETRUNC : 0U,
			      .olen = message.len - len};

	drop_posted(i);
	++taken_;
	++stats_.received;
	reports_.report(cqe, flags, message.len);
	return true;
}

/* No receive matches: the message waits. */
template <class Lock>
bool LaneReceiver<Lock>::keep(LaneEnd &end, const detail::LaneReader::Message &message) noexcept
{
	WaitingMessage *const copy = LaneWaiting::copy(end, message);

	if (!copy)
		return false;
	if (!end.reader.take(message)) {
		LaneWaiting::drop(copy);
		return true;
	}
	waiting_.keep(copy);
	++taken_;
	++stats_.received;
	return true;
}

/* Completes a receive with these flags that has got, or looked at, a message that waited. */
template <class Lock>
void LaneReceiver<Lock>::consume(WaitingMessage &message, const treadle_cqe &cqe,
				 std::uint32_t flags, std::uint64_t len) noexcept
{
	waiting_.consumed(message);
	reports_.report(cqe, flags, len, &message);
}

/* Gives a message that waited to a receive. */
template <class Lock>
void LaneReceiver<Lock>::give(WaitingMessage &message, const Message &receive,
			      std::span<const treadle_iov> iov) noexcept
{
	const std::uint64_t room = total(iov);

	message.copy_to(iov);
	consume(message,
		{.context = receive.context,
		 .len = std::min<std::uint64_t>(message.len, room),
		 .data = message.data,
		 .tag = is_tagged(receive) ? message.tag : 0,
		 .buf = iov.size() == 1 ? iov[0].addr : 0,
		 .src = source_of(*message.end),
		 .flags = kind_of(is_tagged(receive), message.has_data()),
		 .error = message.len > room ? TREADLE_ETRUNC : 0U,
		 .olen = message.len > room ? message.len - room : 0},
		receive.flags, message.len);
}

/* Gives it the oldest one that it matches. False: none does. */
template <class Lock>
bool LaneReceiver<Lock>::give(const Message &receive, std::span<const treadle_iov> iov) noexcept
{
	WaitingMessage *const message = waiting_.remove(receive);

	if (message)
		give(*message, receive, iov);
	return message;
}

/* --- receives ------------------------------------------------------------------------------ */

template <class Lock> int LaneReceiver<Lock>::post(const Message &receive) noexcept
{
	const std::lock_guard guard(lock_);
	const treadle_iov iov{receive.addr, receive.len};

	if (!reports_.catch_up()) [[unlikely]]
		return -EAGAIN;
	if (give(receive, {&iov, 1})) [[unlikely]]
		return 0;
	if (!open_)
		try_open();
	if (open_) {
		const std::uint32_t port = peers_.port_of(receive.peer);

		if (end_ - first_ < most_ && port != no_port) [[likely]] {
			if (end_ == posted_.size()) [[unlikely]] {
				std::copy(posted_.begin() + first_, posted_.end(), posted_.begin());
				end_ -= first_;
				first_ = 0;
			}
			posted_[end_++] = {.addr = receive.addr,
					   .len = receive.len,
					   .tag = receive.tag,
					   .ignore = receive.ignore,
					   .context = receive.context,
					   .peer = receive.peer,
					   .flags = receive.flags,
					   .port = port,
					   .tagged = is_tagged(receive)};
			return 0;
		}
		if (!close())
			return -ENOMEM;
		if (!reports_.catch_up())
			return -EAGAIN;
		/* the lanes may have had a message for it */
		if (give(receive, {&iov, 1}))
			return 0;
	}
	return negative(ring_.post(receive));
}

template <class Lock>
int LaneReceiver<Lock>::post(const Message &receive, std::span<const treadle_iov> iov) noexcept
{
	const std::lock_guard guard(lock_);
	Message rest = receive;

	if (iov.size() > TREADLE_MAX_IOV)
		return -EINVAL;
	if (!close())
		return -ENOMEM;
	if (!reports_.catch_up())
		return -EAGAIN;
	if (receive.flags & TREADLE_F_MULTI_RECV) {
		stopped_ = true;
		return give_many(rest) ? 0 : negative(ring_.post(rest));
	}
	return give(receive, iov) ? 0 : negative(ring_.post(receive, iov));
}

/*
 * A receive of several messages gets those that wait here, as the kernel would cut them
 * (multi.c). True: it has ended; else receive is its rest.
 */
template <class Lock> bool LaneReceiver<Lock>::give_many(Message &receive) noexcept
{
	for (;;) {
		WaitingMessage *const message = waiting_.remove(receive);
		if (!message)
			return false;
		const std::uint64_t len = std::min<std::uint64_t>(message->len, receive.len);
		const treadle_iov part{receive.addr, len};
		const bool over = receive.len - len < std::max<std::uint64_t>(receive.data, 1);
		const treadle_cqe cqe{.context = receive.context,
				      .len = len,
				      .data = message->data,
				      .tag = 0,
				      .buf = receive.addr,
				      .src = source_of(*message->end),
				      .flags = kind_of(false, message->has_data()) |
					       (over ? TREADLE_CQ_MULTI_RECV : 0U),
				      .error = message->len > len ? TREADLE_ETRUNC : 0U,
				      .olen = message->len - len};

		message->copy_to({&part, 1});
		receive.addr += len;
		receive.len -= len;
		/* the end is always reported */
		consume(*message, cqe, receive.flags | (over ? TREADLE_F_COMPLETION : 0),
			message->len);
		if (over)
			return true;
	}
}

/* What a peek reports of a message. */
template <class Lock>
treadle_cqe LaneReceiver<Lock>::seen(WaitingMessage &message, std::uint64_t context) noexcept
{
	treadle_cqe cqe = failed(context, 0, true, 0);

	cqe.len = message.len;
	cqe.data = message.data;
	cqe.tag = message.tag;
	cqe.src = source_of(*message.end);
	cqe.flags = kind_of(true, message.has_data());
	return cqe;
}

/* FI_CLAIM without FI_PEEK, perhaps with FI_DISCARD: takes what was claimed. */
template <class Lock>
int LaneReceiver<Lock>::use_claim(const Message &receive, std::span<const treadle_iov> iov) noexcept
{
	WaitingMessage *const message = waiting_.take_claimed(receive.context);

	if (!message)
		return by_kernel;
	if (receive.flags & TREADLE_F_DISCARD)
		consume(*message, seen(*message, receive.context), receive.flags, 0);
	else
		give(*message, receive, iov);
	return 0;
}

template <class Lock>
int LaneReceiver<Lock>::peek(const Message &receive, std::span<const treadle_iov> iov) noexcept
{
	const std::lock_guard guard(lock_);

	if (iov.size() > TREADLE_MAX_IOV)
		return -EINVAL;
	if (!reports_.catch_up())
		return -EAGAIN;
	if (!(receive.flags & TREADLE_F_PEEK))
		return use_claim(receive, iov);
	advance();
	if (reports_.late())
		return -EAGAIN;
	WaitingMessage *const message = waiting_.find(receive);
	if (!message) {
		if (!open_)
			return by_kernel;
		if (peers_.port_of(receive.peer) == no_port || ring_.holds_messages())
			return close() ? by_kernel : -ENOMEM;
		reports_.report(failed(receive.context, 0, true, ENOMSG), receive.flags, 0);
		return 0;
	}
	const treadle_cqe cqe = seen(*message, receive.context);
	if (receive.flags & TREADLE_F_DISCARD) {
		consume(*waiting_.remove(receive), cqe, receive.flags, 0);
		return 0;
	}
	if (receive.flags & TREADLE_F_CLAIM)
		waiting_.claim(*waiting_.remove(receive), receive.context);
	reports_.report(cqe, receive.flags, 0);
	return 0;
}

template <class Lock> bool LaneReceiver<Lock>::cancel(std::uint64_t context) noexcept
{
	const std::lock_guard guard(lock_);

	for (std::uint32_t i = first_; i != end_; ++i) {
		if (posted_[i].context != context)
			continue;
		const Posted taken = posted_[i];

		drop_posted(i);
		reports_.report(failed(context, taken.addr, taken.tagged, ECANCELED), taken.flags,
				0);
		return true;
	}
	return false;
}

template <class Lock> std::uint32_t LaneReceiver<Lock>::posted() noexcept
{
	const std::lock_guard guard(lock_);

	return end_ - first_;
}

template class LaneReceiver<NoLock>;
template class LaneReceiver<Mutex>;

} // namespace treadle::fi
