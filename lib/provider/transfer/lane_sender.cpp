// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/lane_sender.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "endpoint/endpoint.h"
#include "names/av.h"

namespace treadle::fi
{

std::unique_ptr<LaneSender> LaneSender::make(Endpoint &endpoint, const LaneUse &use,
					     std::uint32_t entries)
{
	std::unique_ptr<LaneSender> sender(new LaneSender(endpoint, use, entries));

	if (use.sent_to) {
		if (use.sent_to->allow_local())
			return nullptr;
		sender->queue_ = use.sent_to->local();
	}
	return sender;
}

LaneSender::LaneSender(Endpoint &endpoint, const LaneUse &use, std::uint32_t entries)
	: use_(use), endpoint_(endpoint), most_(entries - 1),
	  longest_(std::min<std::uint64_t>(endpoint.domain().kernel().limits().inject_size,
					   TREADLE_LANE_LONGEST)),
	  removals_(use.removals->load(std::memory_order_relaxed)),
	  entries_(std::make_unique<std::array<Entry, places>>())
{
	stats_.size = sizeof(stats_);
}

LaneSender::Open *LaneSender::look_up(std::uint64_t peer) noexcept
{
	if (use_.removals->load(std::memory_order_relaxed) != removals_)
		check_removed();
	Entry *const entry = peer == TREADLE_ADDR_ANY ? nullptr : place(peer);
	if (!entry)
		return nullptr;
	if (entry->open && entry->open->writer.closed()) /* another endpoint may be there now */
		forget(*entry);
	if (!entry->open) {
		if (entry->wait) {
			--entry->wait;
			return nullptr;
		}
		if (!open(*entry))
			return nullptr;
	}
	last_ = entry->open.get();
	return last_;
}

void LaneSender::forget(Entry &entry) noexcept
{
	if (last_ == entry.open.get())
		last_ = nullptr;
	if (quick_ == entry.open.get())
		quick_ = nullptr;
	entry.open.reset();
	entry.wait = patience;
	--lanes_;
}

/* The entry of a peer; a new one if there is room. */
LaneSender::Entry *LaneSender::place(std::uint64_t peer) noexcept
{
	const std::size_t first = (peer * 0x9e3779b97f4a7c15U) >> 32;
	Entry *unused = nullptr;

	for (std::size_t i = 0; i < ways; ++i) {
		Entry &entry = (*entries_)[(first + i) % places];

		if (entry.peer == peer)
			return &entry;
		if (!entry.open && (!unused || entry.peer == TREADLE_ADDR_ANY))
			unused = &entry;
	}
	if (!unused)
		return nullptr;
	unused->peer = peer;
	unused->wait = patience;
	unused->fails = 0;
	return unused;
}

/* An address may be in the vector several times: two lanes to it would have no order. */
bool LaneSender::has_lane(const treadle_addr &address) const noexcept
{
	return std::ranges::any_of(*entries_, [&](const Entry &entry) {
		return entry.open && !std::memcmp(&entry.open->address, &address, sizeof(address));
	});
}

bool LaneSender::open(Entry &entry) noexcept
{
	const auto address = use_.av->find(entry.peer);

	if (address && lanes_ < most_lanes && !has_lane(*address)) {
		auto lane =
			Lane::make(endpoint_.domain().kernel(), endpoint_.id(), Peer{entry.peer});
		if (lane) {
			std::byte *const data = lane->data();

			entry.open.reset(new (std::nothrow)
						 Open{.peer = entry.peer,
						      .address = *address,
						      .lane = std::move(*lane),
						      .writer = detail::LaneWriter(data, most_)});
		}
		if (entry.open) {
			entry.fails = 0;
			++lanes_;
			++stats_.lanes;
			return true;
		}
	}
	entry.wait = refused_patience << std::min(entry.fails, 10U);
	++entry.fails;
	return false;
}

/*
 * Peers were removed: an index may stand for another one now. Its lane is closed: the receiver gets
 * what is left there.
 */
void LaneSender::check_removed() noexcept
{
	removals_ = use_.removals->load(std::memory_order_relaxed);
	for (Entry &entry : *entries_) {
		if (!entry.open || is_still(*entry.open))
			continue;
		forget(entry);
		entry.peer = TREADLE_ADDR_ANY;
	}
}

bool LaneSender::is_still(const Open &to) noexcept
{
	const auto address = use_.av->find(to.peer);

	return address && !std::memcmp(&*address, &to.address, sizeof(*address));
}

} // namespace treadle::fi
