// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_DIRECT_H
#define TREADLE_PROVIDER_DIRECT_H

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include <treadle/fi_treadle.h>
#include <treadle/message.h>
#include <treadle/peer_window.h>

#include "endpoint/rings.h"
#include "notify/cntr.h"
#include "notify/cq.h"

namespace treadle::fi
{

/*
 * The windows of an endpoint: RMA and atomics that this process executes itself. Everything that is
 * not simple is left to the kernel, and counted.
 *
 * Under the lock of the endpoint's transmit ring, all of it. An operation is direct only while the
 * ring is idle, so it overtakes nothing.
 */
class Direct
{
public:
	/* Null: such an endpoint has none. May throw. */
	static std::unique_ptr<Direct> make(Endpoint &endpoint, const DirectUse &use);

	/*
	 * Executes a read or write, which a Message has these fields for. False: the kernel has to.
	 * Under the lock of the ring. Not inlined, so that posts stay as short as they were.
	 */
	template <class Ring>
	[[gnu::noinline]] bool execute(const Ring &ring, std::uint8_t opcode, std::uint32_t flags,
				       std::uint64_t context, std::uint64_t buf, std::uint64_t len,
				       std::uint64_t peer, std::uint64_t at,
				       std::uint64_t key) noexcept
	{
		const bool reads = opcode == TREADLE_OP_READ;

		if (!begin(ring, flags, len, peer, at, key))
			return false;
		Window &window = last_->window;
		const bool reported = flags & TREADLE_F_COMPLETION && queue_;
		Cntr *const counter = reads ? use_.reads : use_.writes;

		if (!reserve(reported, counter)) [[unlikely]]
			return leave(FI_TREADLE_WAITED);
		const Window::Outcome outcome =
			reads ? window.read(reinterpret_cast<void *>(buf), at, len) :
				window.write(reinterpret_cast<const void *>(buf), at, len);
		if (outcome != Window::Outcome::done) [[unlikely]]
			return undone(outcome, reported, counter, at, len);
		if (reported)
			queue_.add(context,
				   TREADLE_CQ_RMA | (reads ? TREADLE_CQ_READ : TREADLE_CQ_WRITE));
		if (counter) [[unlikely]]
			counter->local().add(counter->step(len));
		++stats_.direct;
		return true;
	}

	/* An atomic. */
	struct Change {
		std::uint8_t opcode;
		treadle_atomic_op op;
		treadle_datatype type;
		bool reported;
		std::uint64_t context;
		std::uint64_t at, len; /* the peer's */
		std::uint64_t operand, compare, result;
	};
	/* The same for an atomic. */
	template <class Ring>
	[[gnu::noinline]] bool execute(const Ring &ring, std::uint32_t flags, std::uint64_t peer,
				       std::uint64_t key, const Change &change) noexcept
	{
		return begin(ring, flags, change.len, peer, change.at, key) && modify(change);
	}

	/* False: no window was found so often that none is looked for now. */
	[[gnu::always_inline]] bool looks() noexcept
	{
		pause_ -= pause_ != 0;
		return !pause_;
	}

	const fi_treadle_direct_stats &stats() const noexcept { return stats_; }

private:
	/* What an endpoint knows of a region: a window, or how often it was used without one. */
	struct Entry {
		std::uint64_t peer = 0, key = 0;
		std::uint32_t score = 0; /* how often it was looked for; ages */
		/*
		 * So many operations more before a window, or missing pages, are asked for; and how
		 * often that failed.
		 */
		std::uint32_t wait = 0, fails = 0;
		Window window; /* may hold nothing */

		bool has_window() const noexcept { return window.size() != 0; }
	};

	static constexpr std::size_t ways = 4, sets = 64;
	/* Operations before a window is opened, and after it was refused for the first time. */
	static constexpr std::uint32_t patience = 3, refused_patience = 64;
	static constexpr std::uint32_t most_score = 255;
	/* After so many searches in vain there is no search for a while. */
	static constexpr std::uint32_t most_vain = 8, pause = 511;
	/* More flags ask for more than a transfer. */
	static constexpr std::uint32_t plain = TREADLE_F_COMPLETION | TREADLE_F_INJECT |
					       TREADLE_F_DELIVERY_COMPLETE | TREADLE_F_FENCE |
					       TREADLE_F_MORE;

	Direct(Endpoint &endpoint, const DirectUse &use) noexcept;

	/* Is there a window for this operation, and may it be used now? */
	template <class Ring>
	[[gnu::always_inline]] bool begin(const Ring &ring, std::uint32_t flags, std::uint64_t len,
					  std::uint64_t peer, std::uint64_t at,
					  std::uint64_t key) noexcept
	{
		if (last_->peer != peer || last_->key != key || !last_->window.holds(at, len) ||
		    use_.removals->load(std::memory_order_relaxed) != removals_) [[unlikely]] {
			if (!find(peer, key, at, len))
				return false;
		}
		if (flags & ~plain || (len > inject_size_ && flags & TREADLE_F_INJECT)) [[unlikely]]
			return leave(FI_TREADLE_ASKS_MORE);
		return ring.idle() || leave(FI_TREADLE_BUSY);
	}

	bool find(std::uint64_t peer, std::uint64_t key, std::uint64_t addr,
		  std::uint64_t len) noexcept;
	Entry &place(std::uint64_t peer, std::uint64_t key, std::uint64_t addr,
		     std::uint64_t len) noexcept;
	bool open(Entry &entry, std::uint64_t addr, std::uint64_t len) noexcept;
	void fill(Entry &entry, std::uint64_t addr, std::uint64_t len) noexcept;
	void forget_all() noexcept;
	bool leave(fi_treadle_why why) noexcept
	{
		++stats_.kernel[why];
		return false;
	}
	/* Reserves what a completion needs; false: the kernel has to complete the operation. */
	[[gnu::always_inline]] bool reserve(bool reported, Cntr *counter) noexcept
	{
		if (reported && !queue_.reserve()) [[unlikely]]
			return false;
		if (!counter || counter->local().reserve()) [[likely]]
			return true;
		if (reported)
			queue_.cancel();
		return false;
	}
	bool undone(Window::Outcome outcome, bool reported, Cntr *counter, std::uint64_t addr,
		    std::uint64_t len) noexcept;
	bool modify(const Change &change) noexcept;

	const DirectUse use_;
	Endpoint &endpoint_;
	detail::LocalQueue queue_; /* may hold nothing */
	Entry none_;
	Entry *last_ = &none_; /* has a window, or is none_ */
	std::uint32_t pause_ = 0, vain_ = 0;
	std::uint32_t removals_ = 0;
	const std::uint64_t inject_size_;
	std::unique_ptr<std::array<std::array<Entry, ways>, sets>> entries_;
	fi_treadle_direct_stats stats_{};
};

} // namespace treadle::fi

#endif
