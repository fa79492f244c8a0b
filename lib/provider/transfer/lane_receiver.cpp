// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/lane_receiver.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "endpoint/endpoint.h"
#include "names/av.h"
#include "transfer/direct.h"

namespace treadle::fi
{

namespace
{

constexpr std::uint32_t peeks = TREADLE_F_PEEK | TREADLE_F_CLAIM | TREADLE_F_DISCARD;

bool is_tagged(const Message &receive) noexcept
{
	return receive.opcode == TREADLE_OP_TRECV;
}

std::uint32_t kind_of(bool tagged) noexcept
{
	return TREADLE_CQ_RECV | (tagged ? TREADLE_CQ_TAGGED : TREADLE_CQ_MSG);
}

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

/* Copies as much as there is room for. */
void scatter(std::span<const treadle_iov> iov, const std::byte *from, std::uint64_t len) noexcept
{
	for (const treadle_iov &buffer : iov) {
		const std::uint64_t n = std::min<std::uint64_t>(buffer.len, len);

		if (n)
			std::memcpy(reinterpret_cast<void *>(buffer.addr), from, n);
		from += n;
		len -= n;
	}
}

} // namespace

template <class Lock> inline bool LaneReceiver<Lock>::add(const treadle_cqe &cqe) noexcept
{
	if (!queue_.reserve_always()) [[unlikely]]
		return false;
	queue_.add(cqe);
	if (queue_.wakes()) [[unlikely]]
		use_.received_to->wake();
	return true;
}

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

	if (use.received_to) {
		if (use.received_to->allow_local())
			return nullptr;
		receiver->queue_ = use.received_to->local();
	}
	return receiver;
}

template <class Lock>
LaneReceiver<Lock>::LaneReceiver(Endpoint &endpoint, const LaneUse &use,
				 BasicReceiveRing<Lock> &ring)
	: use_(use), endpoint_(endpoint), ring_(ring), lock_(!endpoint.domain().serialized(true)),
	  names_(endpoint.rx_caps() & FI_SOURCE), directed_(endpoint.rx_caps() & FI_DIRECTED_RECV),
	  most_(std::min(most_posted, ring.entries())),
	  most_bytes_(endpoint.info().rx_attr->total_buffered_recv ?: std::size_t{1} << 20)
{
	stats_.size = sizeof(stats_);
	ends_.reserve(most_lanes);
	for (Report &report : reports_) {
		report.next = unused_;
		unused_ = &report;
	}
}

template <class Lock> LaneReceiver<Lock>::~LaneReceiver()
{
	for (Queue *const queue : {&waiting_, &claimed_}) {
		while (Waiting *const message = queue->first) {
			queue->remove(&queue->first);
			std::free(message);
		}
	}
	while (Report *const late = late_) {
		late_ = late->next;
		if (late->heap)
			std::free(late);
	}
}

/* --- open and closed ----------------------------------------------------------------------- */

template <class Lock> void LaneReceiver<Lock>::make() noexcept
{
	const std::lock_guard guard(lock_);

	advance();
}

template <class Lock> void LaneReceiver<Lock>::advance() noexcept
{
	if (late_ && !report_late()) [[unlikely]]
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
			if (late_ || bytes_ > most_bytes_) [[unlikely]]
				break;
		}
		ended |= end->reader.gone();
		if (late_) [[unlikely]]
			return;
	}
	if (bytes_ > most_bytes_) [[unlikely]]
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
	if (ends_.empty() || stopped_ || sleepers_ || late_ || bytes_ > most_bytes_ / 2)
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
	if (late_)
		report_late();
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

	if (late_)
		report_late();
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
		End *const end = new (std::nothrow) End(std::move(*lane));
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
				       const End &end) noexcept
{
	const bool tagged = flags & TREADLE_LANE_TAGGED;
	std::uint32_t i = first_;

	for (; i != end_; ++i) {
		const Posted &p = posted_[i];

		if (p.tagged == tagged && !((p.tag ^ tag) & ~p.ignore) &&
		    (p.port == any || p.port == end.port))
			break;
	}
	return i;
}

/* Takes a receive out of the list. */
template <class Lock> void LaneReceiver<Lock>::drop_posted(std::uint32_t index) noexcept
{
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
bool LaneReceiver<Lock>::accept(End &end, const detail::LaneReader::Message &message,
				bool all) noexcept
{
	if (names_ || directed_)
		ask(end);
	const std::uint32_t i = find(message.flags, message.tag, end);
	if (i != end_) {
		const Posted &p = posted_[i];
		const std::uint64_t len = std::min<std::uint64_t>(message.len, p.len);

		if (len == 8) [[likely]]
			std::memcpy(reinterpret_cast<void *>(p.addr), message.bytes, 8);
		else if (len)
			std::memcpy(reinterpret_cast<void *>(p.addr), message.bytes, len);
		if (!end.reader.take(message)) [[unlikely]]
			return true;
		const bool data = message.flags & TREADLE_LANE_DATA;
		const treadle_cqe cqe{.context = p.context,
				      .len = len,
				      .data = data ? message.data : 0,
				      .tag = p.tagged ? message.tag : 0,
				      .buf = p.addr,
				      .src = names_ ? end.source : TREADLE_ADDR_ANY,
				      .flags = kind_of(p.tagged) |
					       (data ? TREADLE_CQ_REMOTE_CQ_DATA : 0),
				      .error = message.len > p.len ? TREADLE_ETRUNC : 0U,
				      .olen = message.len - len};
		const bool reported = queue_ && (p.flags & TREADLE_F_COMPLETION || cqe.error);

		if (i != first_) [[unlikely]]
			drop_posted(i);
		else if (++first_ == end_)
			first_ = end_ = 0;
		++taken_;
		++stats_.received;
		if (reported && (late_ || !add(cqe))) [[unlikely]]
			keep(cqe, nullptr);
		if (use_.received) [[unlikely]]
			count(cqe, message.len);
		return true;
	}
	if (bytes_ > most_bytes_ && !all)
		return false;
	void *const memory = std::malloc(sizeof(Waiting) + message.len);
	if (!memory) [[unlikely]]
		return false;
	auto *const waiting = new (memory) Waiting;
	waiting->heap = true;
	waiting->end = &end;
	waiting->tag = message.tag;
	waiting->data = message.flags & TREADLE_LANE_DATA ? message.data : 0;
	waiting->len = message.len;
	waiting->flags = message.flags;
	if (message.len)
		std::memcpy(waiting->bytes(), message.bytes, message.len);
	if (!end.reader.take(message)) {
		std::free(memory);
		return true;
	}
	++taken_;
	++stats_.received;
	++end.waiting;
	bytes_ += message.len + overhead;
	waiting_.append(waiting);
	return true;
}

template <class Lock>
bool LaneReceiver<Lock>::matches(const Waiting &message, const Message &receive,
				 std::uint32_t port) noexcept
{
	if (is_tagged(receive) != !!(message.flags & TREADLE_LANE_TAGGED) ||
	    (is_tagged(receive) && (message.tag ^ receive.tag) & ~receive.ignore))
		return false;
	if (port == any)
		return true;
	ask(*message.end);
	return port != nobody && message.end->port == port;
}

/* The oldest message here that a new receive matches, or null. */
template <class Lock>
typename LaneReceiver<Lock>::Waiting **
LaneReceiver<Lock>::find_waiting(const Message &receive) noexcept
{
	Waiting **at = &waiting_.first;

	if (!*at) [[likely]]
		return nullptr;
	const std::uint32_t port = port_of(receive.peer);
	while (*at && !matches(**at, receive, port))
		at = &(*at)->after;
	return *at ? at : nullptr;
}

/* Gives a message that waits to a receive. */
template <class Lock>
int LaneReceiver<Lock>::give(Waiting **at, const Message &receive,
			     std::span<const treadle_iov> iov) noexcept
{
	Waiting &message = **at;
	const std::uint64_t room = total(iov);

	scatter(iov, message.bytes(), message.len);
	finish({.context = receive.context,
		.len = std::min<std::uint64_t>(message.len, room),
		.data = message.data,
		.tag = is_tagged(receive) ? message.tag : 0,
		.buf = iov.size() == 1 ? iov[0].addr : 0,
		.src = names_ ? source_of(*message.end) : TREADLE_ADDR_ANY,
		.flags = kind_of(is_tagged(receive)) |
			 (message.flags & TREADLE_LANE_DATA ? TREADLE_CQ_REMOTE_CQ_DATA : 0),
		.error = message.len > room ? TREADLE_ETRUNC : 0U,
		.olen = message.len > room ? message.len - room : 0},
	       receive.flags, message.len, &message);
	return 0;
}

/* --- receives ------------------------------------------------------------------------------ */

template <class Lock> int LaneReceiver<Lock>::post(const Message &receive) noexcept
{
	const std::lock_guard guard(lock_);

	if (late_ && !report_late()) [[unlikely]]
		return -EAGAIN;
	if (waiting_.first) [[unlikely]] {
		if (Waiting **const at = find_waiting(receive)) {
			const treadle_iov iov{receive.addr, receive.len};
			Waiting *one = *at;

			waiting_.remove(at);
			return give(&one, receive, {&iov, 1});
		}
	}
	if (!open_)
		try_open();
	if (open_) {
		const std::uint32_t port = port_of(receive.peer);

		if (end_ - first_ < most_ && port != nobody) [[likely]] {
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
		if (late_ && !report_late())
			return -EAGAIN;
		/* the lanes may have had a message for it */
		if (Waiting **const at = find_waiting(receive)) {
			const treadle_iov iov{receive.addr, receive.len};
			Waiting *one = *at;

			waiting_.remove(at);
			return give(&one, receive, {&iov, 1});
		}
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
	if (late_ && !report_late())
		return -EAGAIN;
	if (receive.flags & TREADLE_F_MULTI_RECV) {
		stopped_ = true;
		if (give_many(rest))
			return 0;
		return negative(ring_.post(rest));
	}
	if (Waiting **const at = find_waiting(receive)) {
		Waiting *one = *at;

		waiting_.remove(at);
		return give(&one, receive, iov);
	}
	return negative(ring_.post(receive, iov));
}

/*
 * A receive of several messages gets those that wait here, as the kernel would cut them
 * (multi.c). True: it has ended; else receive is its rest.
 */
template <class Lock> bool LaneReceiver<Lock>::give_many(Message &receive) noexcept
{
	bool over = false;

	while (!over) {
		Waiting **const at = find_waiting(receive);
		if (!at)
			return false;
		Waiting &message = **at;
		const std::uint64_t len = std::min<std::uint64_t>(message.len, receive.len);
		const treadle_iov part{receive.addr, len};

		waiting_.remove(at);
		scatter({&part, 1}, message.bytes(), message.len);
		over = receive.len - len < std::max<std::uint64_t>(receive.data, 1);
		const bool data = message.flags & TREADLE_LANE_DATA;
		const treadle_cqe cqe{.context = receive.context,
				      .len = len,
				      .data = message.data,
				      .tag = 0,
				      .buf = receive.addr,
				      .src = names_ ? source_of(*message.end) : TREADLE_ADDR_ANY,
				      .flags = kind_of(false) |
					       (data ? TREADLE_CQ_REMOTE_CQ_DATA : 0U) |
					       (over ? TREADLE_CQ_MULTI_RECV : 0U),
				      .error = message.len > len ? TREADLE_ETRUNC : 0U,
				      .olen = message.len - len};
		receive.addr += len;
		receive.len -= len;
		/* the end is always reported */
		finish(cqe, receive.flags | (over ? TREADLE_F_COMPLETION : 0), message.len,
		       &message);
	}
	return true;
}

/* What a peek reports of a message. */
template <class Lock>
treadle_cqe LaneReceiver<Lock>::seen(Waiting &message, std::uint64_t context) noexcept
{
	treadle_cqe cqe = failed(context, 0, true, 0);

	cqe.len = message.len;
	cqe.data = message.data;
	cqe.tag = message.tag;
	if (names_)
		cqe.src = source_of(*message.end);
	if (message.flags & TREADLE_LANE_DATA)
		cqe.flags |= TREADLE_CQ_REMOTE_CQ_DATA;
	return cqe;
}

template <class Lock>
int LaneReceiver<Lock>::peek(const Message &receive, std::span<const treadle_iov> iov) noexcept
{
	const std::lock_guard guard(lock_);
	const std::uint32_t what = receive.flags & peeks;

	if (iov.size() > TREADLE_MAX_IOV)
		return -EINVAL;
	if (late_ && !report_late())
		return -EAGAIN;
	if (!(what & TREADLE_F_PEEK)) { /* a claim is used up */
		Waiting **at = &claimed_.first;

		while (*at && (*at)->claim != receive.context)
			at = &(*at)->after;
		Waiting *one = *at;
		if (!one)
			return by_kernel;
		claimed_.remove(at);
		if (what == TREADLE_F_CLAIM) {
			give(&one, receive, iov);
			return 0;
		}
		finish(seen(*one, receive.context), receive.flags, 0, one);
		return 0;
	}
	advance();
	if (late_)
		return -EAGAIN;
	Waiting **const at = find_waiting(receive);
	if (!at) {
		if (!open_)
			return by_kernel;
		if (port_of(receive.peer) == nobody || ring_.holds_messages()) {
			return close() ? by_kernel : -ENOMEM;
		}
		finish(failed(receive.context, 0, true, ENOMSG), receive.flags, 0, nullptr);
		return 0;
	}
	Waiting *const message = *at;
	const treadle_cqe cqe = seen(*message, receive.context);
	if (what != TREADLE_F_PEEK)
		waiting_.remove(at);
	if (what & TREADLE_F_CLAIM) {
		message->claim = receive.context;
		claimed_.append(message);
	}
	finish(cqe, receive.flags, 0, what & TREADLE_F_DISCARD ? message : nullptr);
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
		finish(failed(context, taken.addr, taken.tagged, ECANCELED), taken.flags, 0,
		       nullptr);
		return true;
	}
	return false;
}

template <class Lock> std::uint32_t LaneReceiver<Lock>::posted() noexcept
{
	const std::lock_guard guard(lock_);

	return end_ - first_;
}

/* --- senders ------------------------------------------------------------------------------- */

/* The name of the sender, as the vector has it now. */
template <class Lock> void LaneReceiver<Lock>::ask(End &end) noexcept
{
	const std::uint32_t changes = use_.changes->load(std::memory_order_acquire);

	if (end.asked && end.changes == changes) [[likely]]
		return;
	const auto source = end.lane.source();
	end.asked = true;
	end.changes = changes;
	end.source = source ? *source : TREADLE_ADDR_ANY;
	end.port = directed_ && end.source != TREADLE_ADDR_ANY ? port_of(end.source) : nobody;
}

/*
 * What a receive is compared by. Peers with lanes are of this machine, where a port is one
 * endpoint; an address may be in the vector several times.
 */
template <class Lock> std::uint32_t LaneReceiver<Lock>::port_of(std::uint64_t peer) noexcept
{
	if (peer == TREADLE_ADDR_ANY) [[likely]]
		return any;
	const std::uint32_t changes = use_.changes->load(std::memory_order_acquire);
	Cached &cached = ports_[peer % ports_.size()];

	if (cached.peer != peer || cached.changes != changes) {
		const auto place = use_.av->place(peer);

		cached = {.peer = peer,
			  .port = place && place->here ? place->address.port : nobody,
			  .changes = changes};
	}
	return cached.port;
}

/* --- completions --------------------------------------------------------------------------- */

/*
 * A receive has finished: its completion, then its counter. memory: of a message that has waited,
 * which is consumed.
 */
template <class Lock>
void LaneReceiver<Lock>::finish(const treadle_cqe &cqe, std::uint32_t flags, std::uint64_t len,
				Waiting *memory) noexcept
{
	if (memory) {
		bytes_ -= memory->len + overhead;
		--memory->end->waiting;
	}
	if (queue_ && (flags & TREADLE_F_COMPLETION || cqe.error))
		report(cqe, memory);
	else if (memory)
		std::free(memory);
	if (use_.received && !(flags & (TREADLE_F_PEEK | TREADLE_F_DISCARD)))
		count(cqe, len);
}

template <class Lock>
void LaneReceiver<Lock>::count(const treadle_cqe &cqe, std::uint64_t len) noexcept
{
	Cntr &counter = *use_.received;

	if (cqe.error)
		std::ignore = counter.counter().add_error(1);
	else if (counter.local().reserve())
		counter.local().add(counter.step(len));
	else
		std::ignore = counter.counter().add(counter.step(len));
}

template <class Lock>
void LaneReceiver<Lock>::report(const treadle_cqe &cqe, Waiting *memory) noexcept
{
	if (!late_ && add(cqe)) [[likely]]
		std::free(memory);
	else
		keep(cqe, memory);
}

/* There is no room. */
template <class Lock>
void LaneReceiver<Lock>::keep(const treadle_cqe &cqe, Waiting *memory) noexcept
{
	Report *late = memory;
	if (!late) {
		late = unused_;
		unused_ = late->next;
	}
	late->cqe = cqe;
	late->next = nullptr;
	*last_late_ = late;
	last_late_ = &late->next;
}

/* False: some still have no room. */
template <class Lock> bool LaneReceiver<Lock>::report_late() noexcept
{
	while (Report *const late = late_) {
		if (!add(late->cqe))
			return false;
		late_ = late->next;
		if (late->heap) {
			std::free(late);
		} else {
			late->next = unused_;
			unused_ = late;
		}
	}
	last_late_ = &late_;
	return true;
}

template class LaneReceiver<NoLock>;
template class LaneReceiver<Mutex>;

} // namespace treadle::fi
