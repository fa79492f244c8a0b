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

/* By fields: so the caller's own message stays in registers. */
detail::LaneReader::Message copy_of(const detail::LaneReader::Message &message) noexcept
{
	return {.len = message.len,
		.flags = message.flags,
		.tag = message.tag,
		.data = message.data,
		.bytes = message.bytes,
		.units = message.units};
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
	  limit_(posted_.data() + std::min(most_posted, ring.entries()))
{
	stats_.size = sizeof(stats_);
	ends_.reserve(most_lanes);
}

/* --- open and closed ----------------------------------------------------------------------- */

template <class Lock> void LaneReceiver<Lock>::make_progress() noexcept
{
	return lock_.locks() ? make_locked() : advance();
}

template <class Lock> void LaneReceiver<Lock>::make_locked() noexcept
{
	const std::lock_guard guard(lock_);

	advance();
}

template <class Lock> void LaneReceiver<Lock>::advance() noexcept
{
	if (!open_ || reports_.late() || !ring_.is_quiet(offers_)) [[unlikely]] {
		if (!prepare())
			return;
	}
	for (const auto &end : ends_) {
		if (!end->reader.refresh()) {
			if (end->reader.gone()) [[unlikely]]
				ended_ = true;
		} else if (!take_all(*end, false)) [[unlikely]] {
			if (!reports_.late())
				bounce();
			return;
		}
	}
	if (ended_) [[unlikely]]
		drop_ended();
}

/* False: nothing is taken from the lanes now. */
template <class Lock> bool LaneReceiver<Lock>::prepare() noexcept
{
	if (!reports_.catch_up())
		return false;
	if (stopped_) {
		close();
		return false;
	}
	if (ring_.offers() != offers_)
		take_lanes();
	if (!open_)
		try_open();
	if (!open_ || !ring_.holds_messages())
		return open_;
	bounce();
	return false;
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
	received_ = stats_.received;
}

/*
 * Hands over to the kernel. False: there is no memory for the messages in the lanes; it is open as
 * before, which is right as the kernel has got nothing.
 */
template <class Lock> bool LaneReceiver<Lock>::close() noexcept
{
	if (!open_)
		return true;
	for (const auto &end : ends_)
		end->reader.close();
	for (const auto &end : ends_) {
		if (!end->reader.refresh() || take_all(*end, true))
			continue;
		for (const auto &each : ends_)
			each->reader.open();
		return false;
	}
	open_ = false;
	++stats_.closed;
	for (; first_ != end_; ++first_) {
		const Posted &p = *first_;

		std::ignore = ring_.post(
			{.opcode = static_cast<std::uint8_t>(
				 p.kind & TREADLE_CQ_TAGGED ? TREADLE_OP_TRECV : TREADLE_OP_RECV),
			 .flags = p.flags,
			 .context = p.context,
			 .addr = p.addr,
			 .len = p.len,
			 .peer = p.peer,
			 .tag = p.tag,
			 .ignore = ~p.counts});
	}
	return true;
}

/* Hands over because of a message in the kernel, or because too many wait here. */
template <class Lock> void LaneReceiver<Lock>::bounce() noexcept
{
	if (stats_.received - received_ > 1024) /* it was worth it */
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

/* Lanes that are empty and closed by their sender, and those that it has spoiled. */
template <class Lock> void LaneReceiver<Lock>::drop_ended() noexcept
{
	const auto ended = std::erase_if(ends_, [](const auto &end) {
		return !end->waiting &&
		       (end->reader.broken() || (end->reader.gone() && !end->reader.refresh()));
	});
	ended_ = false;
	if (ended)
		offers_ = ring_.offers() - 1; /* there is room for others */
}

/* --- matching ------------------------------------------------------------------------------ */

/* The first receive that matches, or null. */
template <class Lock>
inline LaneReceiver<Lock>::Posted *LaneReceiver<Lock>::find(std::uint32_t flags, std::uint64_t tag,
							    const LaneEnd &end) noexcept
{
	for (Posted *p = first_; p != end_; ++p) {
		if (!((p->tag ^ tag) & p->counts) && !((p->kind ^ flags) & TREADLE_LANE_TAGGED) &&
		    (p->port == any_port || p->port == end.port)) [[likely]]
			return p;
	}
	return nullptr;
}

template <class Lock> void LaneReceiver<Lock>::close_gap(Posted *at) noexcept
{
	std::copy_backward(first_, at, at + 1);
}

/* Takes a receive out of the list. */
template <class Lock> inline void LaneReceiver<Lock>::drop_posted(Posted *at) noexcept
{
	if (at != first_) [[unlikely]]
		close_gap(at);
	if (++first_ == end_)
		first_ = end_ = posted_.data();
}

/* Is there room for one more receive? Moves them to the beginning if half of the room is there. */
template <class Lock> bool LaneReceiver<Lock>::has_room() noexcept
{
	Posted *const begin = posted_.data();

	if (end_ == limit_ && first_ - begin >= (limit_ - begin) / 2) {
		end_ = std::copy(first_, end_, begin);
		first_ = begin;
	}
	return end_ != limit_;
}

/* All that was seen. False as accept. */
template <class Lock> inline bool LaneReceiver<Lock>::take_all(LaneEnd &end, bool all) noexcept
{
	while (end.reader.more()) {
		detail::LaneReader::Message message;

		if (!end.reader.look(message)) [[unlikely]] {
			if (end.reader.skip())
				continue;
			ended_ = true;
			return true;
		}
		if (!accept(end, message, all)) [[unlikely]]
			return false;
	}
	return true;
}

/*
 * Takes a message out of its lane, unless the sender has taken it back. False: no more can be
 * taken, as a completion is late, or a message has to wait, and there is no memory; or, unless all
 * are taken, too many wait here.
 */
template <class Lock>
inline bool LaneReceiver<Lock>::accept(LaneEnd &end, const detail::LaneReader::Message &message,
				       bool all) noexcept
{
	peers_.ask(end);
	Posted *const p = find(message.flags, message.tag, end);
	if (!p) [[unlikely]]
		return keep_message(end, copy_of(message), all);
	std::uint64_t len = message.len, cut = 0;
	if (len > p->len) [[unlikely]] {
		cut = len - p->len;
		len = p->len;
	}
	if (len == 8) [[likely]]
		std::memcpy(reinterpret_cast<void *>(p->addr), message.bytes, 8);
	else if (len)
		std::memcpy(reinterpret_cast<void *>(p->addr), message.bytes, len);
	if (!end.reader.take(message)) [[unlikely]]
		return true;
	const std::uint32_t flags = p->flags;
	const treadle_cqe cqe{.context = p->context,
			      .len = len,
			      .data = message.data,
			      .tag = message.tag,
			      .buf = p->addr,
			      .src = end.source,
			      .flags = p->kind | (message.flags & TREADLE_LANE_DATA),
			      .error = cut ? TREADLE_ETRUNC : 0U,
			      .olen = cut};

	drop_posted(p);
	++stats_.received;
	return reports_.report(cqe, flags, message.len) || all;
}

/* No receive matches: the message waits. */
template <class Lock>
bool LaneReceiver<Lock>::keep_message(LaneEnd &end, detail::LaneReader::Message message,
				      bool all) noexcept
{
	WaitingMessage *const copy =
		all || !waiting_.full() ? LaneWaiting::copy(end, message) : nullptr;

	if (!copy)
		return false;
	if (!end.reader.take(message)) {
		LaneWaiting::drop(copy);
		return true;
	}
	waiting_.keep(copy);
	++stats_.received;
	return all || !waiting_.full();
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
		 .flags = kind_of(is_tagged(receive), message.flags),
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

		if (port != no_port && has_room()) [[likely]] {
			keep_receive(receive, port);
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
				      .flags = kind_of(false, message->flags) |
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
	cqe.flags = kind_of(true, message.flags);
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

	for (Posted *p = first_; p != end_; ++p) {
		if (p->context != context)
			continue;
		const Posted taken = *p;

		drop_posted(p);
		reports_.report(failed(context, taken.addr, taken.kind & TREADLE_CQ_TAGGED,
				       ECANCELED),
				taken.flags, 0);
		return true;
	}
	return false;
}

template <class Lock> std::uint32_t LaneReceiver<Lock>::posted() noexcept
{
	const std::lock_guard guard(lock_);

	return static_cast<std::uint32_t>(end_ - first_);
}

template class LaneReceiver<NoLock>;
template class LaneReceiver<Mutex>;

} // namespace treadle::fi
