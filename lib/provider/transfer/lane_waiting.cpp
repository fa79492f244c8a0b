// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/lane_waiting.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace treadle::fi
{

void WaitingMessage::copy_to(std::span<const treadle_iov> iov) noexcept
{
	const std::byte *from = bytes();
	std::uint64_t left = len;

	for (const treadle_iov &buffer : iov) {
		const std::uint64_t n = std::min<std::uint64_t>(buffer.len, left);

		if (n)
			std::memcpy(reinterpret_cast<void *>(buffer.addr), from, n);
		from += n;
		left -= n;
	}
}

void LaneWaiting::Queue::append(WaitingMessage *message) noexcept
{
	message->after = nullptr;
	*last = message;
	last = &message->after;
}

WaitingMessage *LaneWaiting::Queue::remove(WaitingMessage **at) noexcept
{
	WaitingMessage *const message = *at;

	if (last == &message->after)
		last = at;
	*at = message->after;
	return message;
}

LaneWaiting::~LaneWaiting()
{
	for (Queue *const queue : {&unclaimed_, &claimed_}) {
		while (queue->first)
			std::free(queue->remove(&queue->first));
	}
}

WaitingMessage *LaneWaiting::copy(LaneEnd &end, const detail::LaneReader::Message &message) noexcept
{
	void *const memory = std::malloc(sizeof(WaitingMessage) + message.len);

	if (!memory)
		return nullptr;
	auto *const copy = new (memory) WaitingMessage;
	copy->heap = true;
	copy->end = &end;
	copy->tag = message.tag;
	copy->data = message.data;
	copy->len = message.len;
	copy->flags = message.flags;
	if (message.len)
		std::memcpy(copy->bytes(), message.bytes, message.len);
	return copy;
}

void LaneWaiting::keep(WaitingMessage *copy) noexcept
{
	++copy->end->waiting;
	bytes_ += copy->len + overhead;
	unclaimed_.append(copy);
}

bool LaneWaiting::matches(const WaitingMessage &message, const Message &receive,
			  std::uint32_t port) noexcept
{
	const bool tagged = message.flags & TREADLE_LANE_TAGGED;

	if (is_tagged(receive) != tagged ||
	    (tagged && (message.tag ^ receive.tag) & ~receive.ignore))
		return false;
	if (port == any_port)
		return true;
	peers_.ask(*message.end);
	return port != no_port && message.end->port == port;
}

/* Where the oldest match is listed, or null. */
WaitingMessage **LaneWaiting::place_of(const Message &receive) noexcept
{
	const std::uint32_t port = peers_.port_of(receive.peer);
	WaitingMessage **at = &unclaimed_.first;

	while (*at && !matches(**at, receive, port))
		at = &(*at)->after;
	return *at ? at : nullptr;
}

void LaneWaiting::claim(WaitingMessage &message, std::uint64_t context) noexcept
{
	message.claim = context;
	claimed_.append(&message);
}

WaitingMessage *LaneWaiting::take_claimed(std::uint64_t context) noexcept
{
	WaitingMessage **at = &claimed_.first;

	while (*at && (*at)->claim != context)
		at = &(*at)->after;
	return *at ? claimed_.remove(at) : nullptr;
}

} // namespace treadle::fi
