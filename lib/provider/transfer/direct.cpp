// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/direct.h"

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "endpoint/endpoint.h"

namespace treadle::fi
{

std::unique_ptr<Direct> Direct::make(Endpoint &endpoint, const DirectUse &use)
{
	const treadle_query &kernel = endpoint.domain().kernel().limits();

	if (!direct_wanted() || !(kernel.features & TREADLE_FEATURE_WINDOW) || !use.removals ||
	    !(endpoint.tx_caps() & (FI_RMA | FI_ATOMIC)))
		return nullptr;
	std::unique_ptr<Direct> direct(new Direct(endpoint, use));
	if (use.queue) {
		if (use.queue->allow_local())
			return nullptr;
		direct->queue_ = use.queue->local();
	}
	return direct;
}

Direct::Direct(Endpoint &endpoint, const DirectUse &use) noexcept
	: use_(use), endpoint_(endpoint), removals_(use.removals->load(std::memory_order_relaxed)),
	  inject_size_(endpoint.domain().kernel().limits().inject_size)
{
	stats_.size = sizeof(stats_);
	none_.peer = TREADLE_ADDR_ANY; /* no peer of such an endpoint */
}

/*
 * Makes last_ the entry of a peer's memory. False: it has no window, or there is no search for now.
 */
bool Direct::find(std::uint64_t peer, std::uint64_t key, std::uint64_t addr,
		  std::uint64_t len) noexcept
{
	const std::uint32_t removals = use_.removals->load(std::memory_order_relaxed);

	if (removals != removals_) { /* an index may stand for another peer now */
		removals_ = removals;
		forget_all();
	}
	if (!entries_)
		entries_.reset(new (std::nothrow) std::array<std::array<Entry, ways>, sets>);
	/* a connected endpoint has one peer, and whatever names it */
	if (!entries_ || (peer == none_.peer && !endpoint_.connected()))
		return leave(FI_TREADLE_NO_WINDOW);
	Entry &entry = place(peer, key, addr, len);
	if (&entry == &none_)
		return leave(FI_TREADLE_NO_WINDOW);
	entry.score += entry.score < most_score;
	if (!entry.has_window() && entry.wait) {
		--entry.wait;
		if (entry.fails && ++vain_ >= most_vain) {
			pause_ = pause;
			stats_.kernel[FI_TREADLE_NO_WINDOW] += pause;
		}
		return leave(FI_TREADLE_NO_WINDOW);
	}
	if (!entry.has_window() && !open(entry, addr, len))
		return leave(FI_TREADLE_NO_WINDOW);
	vain_ = 0;
	last_ = &entry;
	return true;
}

/*
 * The entry of a peer's memory; if it has none, it gets that of the least used one. An entry that
 * is used more is not replaced, but ages; then there is none_.
 */
Direct::Entry &Direct::place(std::uint64_t peer, std::uint64_t key, std::uint64_t addr,
			     std::uint64_t len) noexcept
{
	const std::uint64_t hash = (peer ^ key * 0x9e3779b97f4a7c15U) * 0xff51afd7ed558ccdU;
	auto &set = (*entries_)[hash >> 32 & (sets - 1)];
	Entry *without = nullptr;

	for (Entry &entry : set) {
		if (entry.peer != peer || entry.key != key || !entry.score)
			continue;
		if (!entry.has_window())
			without = &entry;
		else if (entry.window.holds(addr, len))
			return entry;
	}
	if (without)
		return *without;
	Entry &least = *std::ranges::min_element(set, {}, &Entry::score);
	if (least.score > 1) {
		--least.score;
		return none_;
	}
	if (last_ == &least)
		last_ = &none_;
	least.window = Window();
	least.peer = peer;
	least.key = key;
	least.score = 1;
	least.wait = patience;
	least.fails = 0;
	return least;
}

/*
 * Both rights if possible, so that reads and writes share a window. Operations that the peer counts
 * have none.
 */
bool Direct::open(Entry &entry, std::uint64_t addr, std::uint64_t len) noexcept
{
	const Context &context = endpoint_.domain().kernel();

	for (const std::uint32_t access :
	     {TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE, TREADLE_ACCESS_REMOTE_WRITE,
	      TREADLE_ACCESS_REMOTE_READ}) {
		auto window = Window::open(context, endpoint_.id(), Peer{entry.peer},
					   {.addr = addr, .key = entry.key}, len, access);

		if (window) {
			entry.window = std::move(*window);
			entry.wait = entry.fails = 0;
			++stats_.windows;
			return true;
		}
		if (window.error() != std::errc::permission_denied &&
		    window.error() != std::errc::operation_not_supported)
			break;
	}
	entry.wait = refused_patience << std::min(entry.fails, 10U);
	++entry.fails;
	return false;
}

/*
 * Enters pages around those that are missing. The operation is left to the kernel, which makes the
 * owner's pages; so those of the next one may be there. Pages that never come are asked for ever
 * more rarely.
 */
void Direct::fill(Entry &entry, std::uint64_t addr, std::uint64_t len) noexcept
{
	constexpr std::uint64_t around = 65536;
	Window &window = entry.window;
	const std::uint64_t end = window.addr() + window.size();
	const std::uint64_t from = std::max(window.addr(), addr - std::min(addr, addr % around));
	const std::uint64_t to = std::min(end, from + std::max(around, addr % around + len));

	if (entry.wait) {
		--entry.wait;
		return;
	}
	if (!window.fill(from, to - from) || window.present(addr, len))
		entry.fails = 0;
	else
		entry.wait = 1U << std::min(entry.fails++, 10U);
}

void Direct::forget_all() noexcept
{
	last_ = &none_;
	if (!entries_)
		return;
	for (auto &set : *entries_) {
		for (Entry &entry : set) {
			entry.window = Window();
			entry.score = 0;
		}
	}
}

/* A window that was closed is given back. The key may be that of another region soon. */
bool Direct::undone(Window::Outcome outcome, bool reported, Cntr *counter, std::uint64_t addr,
		    std::uint64_t len) noexcept
{
	cancel(reported, counter);
	switch (outcome) {
	case Window::Outcome::closed:
		last_->window = Window();
		last_->wait = patience;
		last_->fails = 0;
		last_ = &none_;
		return leave(FI_TREADLE_ENDED);
	case Window::Outcome::changed:
		return leave(FI_TREADLE_CHANGED);
	case Window::Outcome::absent:
		fill(*last_, addr, len);
		return leave(FI_TREADLE_ABSENT);
	default:
		return leave(FI_TREADLE_OUTSIDE);
	}
}

/*
 * An atomic can't be done again. If its region has ended meanwhile, it fails, whether or not it has
 * changed the memory.
 */
bool Direct::modify(const Change &c) noexcept
{
	constexpr std::uint32_t types = TREADLE_TYPES(TREADLE_INT8, TREADLE_UINT64);
	Window &window = last_->window;
	Cntr *const counter = c.opcode == TREADLE_OP_ATOMIC ? use_.writes : use_.reads;
	bool changed = false;
	const auto execute = [&]<class T>(T) {
		return window.atomic<T>(c.at, [&](std::atomic_ref<T> word) {
			const T before = apply(word, c.op, c.operand, c.compare);

			changed = true;
			if (c.opcode != TREADLE_OP_ATOMIC)
				std::memcpy(reinterpret_cast<void *>(c.result), &before,
					    sizeof(before));
		});
	};

	if (!window.atomic() || !is_instruction(c.opcode, c.op) || !(types >> c.type & 1) ||
	    c.len != treadle_type_size(c.type) || !queue_)
		return leave(FI_TREADLE_ASKS_MORE);
	if (!reserve(true, counter))
		return leave(FI_TREADLE_WAITED);
	Window::Outcome outcome;
	switch (c.len) {
	case 8:
		outcome = execute(std::uint64_t{});
		break;
	case 4:
		outcome = execute(std::uint32_t{});
		break;
	case 2:
		outcome = execute(std::uint16_t{});
		break;
	default:
		outcome = execute(std::uint8_t{});
	}
	const bool failed = outcome == Window::Outcome::closed && changed;
	if (outcome != Window::Outcome::done && !failed)
		return undone(outcome, true, counter, c.at, c.len);
	if (failed)
		return fail(c.opcode, c.context, counter);
	if (!c.reported)
		queue_.cancel();
	finish(c.reported, counter, c.context, atomic_flags(c.opcode), c.len);
	return true;
}

/* Completes an atomic after the end of its region: it is not known whether it was executed. */
bool Direct::fail(std::uint8_t opcode, std::uint64_t context, Cntr *counter) noexcept
{
	if (counter) {
		counter->local().cancel();
		std::ignore = counter->counter().add_error(1);
	}
	queue_.add(context, atomic_flags(opcode), EKEYREJECTED);
	++stats_.direct;
	return true;
}

} // namespace treadle::fi
