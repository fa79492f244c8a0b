// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_DIRECT_H
#define TREADLE_PROVIDER_DIRECT_H

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include <treadle/fi_treadle.h>
#include <treadle/message.h>
#include <treadle/peer_window.h>

#include "endpoint/rings.h"
#include "notify/cntr.h"
#include "notify/cq.h"
#include "transfer/instructions.h"

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

		if (left_ != Window::Outcome::done) [[unlikely]]
			return undone(std::exchange(left_, Window::Outcome::done), false, nullptr,
				      at, len);
		if (is_elsewhere(buf)) [[unlikely]]
			return leave(FI_TREADLE_ASKS_MORE);
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
		finish(reported, counter, context, rma_flags(reads), len);
		return true;
	}

	/*
	 * The usual case, in few instructions and without a call: an aligned word of 8 bytes in the
	 * window that was used last. The flags of the operation are simple(). False: execute, or
	 * the kernel, does it.
	 */
	template <std::uint8_t Opcode, bool Reported, class Ring>
	[[gnu::always_inline]] bool execute_word(const Ring &ring, std::uint64_t context,
						 const void *buf, std::uint64_t peer,
						 std::uint64_t at, std::uint64_t key) noexcept
	{
		constexpr bool reads = Opcode == TREADLE_OP_READ;
		Cntr *const counter = reads ? use_.reads : use_.writes;
		Window &window = last_->window;

		if (is_elsewhere(address_of(buf)) ||
		    !begin_word<Reported>(ring, peer, at, key, counter)) [[unlikely]]
			return false;
		const Window::Outcome outcome =
			reads ? window.read<true>(const_cast<void *>(buf), at, 8) :
				window.write<true>(buf, at, 8);
		if (outcome != Window::Outcome::done) [[unlikely]]
			return leave_word(outcome, Reported, Reported ? nullptr : counter);
		finish(Reported, Reported ? nullptr : counter, context, rma_flags(reads), 8);
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
	/* The same as execute_word for an atomic on an integer of 8 bytes. */
	template <std::uint8_t Opcode, bool Reported, class Ring>
	[[gnu::always_inline]] bool execute_word(const Ring &ring, std::uint64_t context,
						 const void *operand, std::uint64_t peer,
						 std::uint64_t at, std::uint64_t key,
						 const Atomic &atomic) noexcept
	{
		Cntr *const counter = Opcode == TREADLE_OP_ATOMIC ? use_.writes : use_.reads;
		bool changed = false;

		/* An error is reported in any case. */
		if (!last_->window.atomic() || !is_instruction(Opcode, atomic.op) ||
		    is_elsewhere(address_of(operand) | atomic.compare | atomic.result) ||
		    !begin_word<true>(ring, peer, at, key, counter)) [[unlikely]]
			return false;
		const Window::Outcome outcome = last_->window.atomic<std::uint64_t>(
			at, [&] [[gnu::always_inline]] (std::atomic_ref<std::uint64_t> word) {
				const std::uint64_t before =
					apply(word, atomic.op, address_of(operand), atomic.compare);

				changed = true;
				if (Opcode != TREADLE_OP_ATOMIC)
					std::memcpy(reinterpret_cast<void *>(atomic.result),
						    &before, sizeof(before));
			});
		if (outcome != Window::Outcome::done) [[unlikely]]
			return changed ? fail(Opcode, context, nullptr) :
					 leave_word(outcome, true, nullptr);
		if (!Reported)
			queue_.cancel();
		finish(Reported, nullptr, context, atomic_flags(Opcode), 8);
		return true;
	}
	/* The same as execute for an atomic. */
	template <class Ring>
	[[gnu::noinline]] bool execute(const Ring &ring, std::uint32_t flags, std::uint64_t peer,
				       std::uint64_t key, const Change &change) noexcept
	{
		if (left_ != Window::Outcome::done) [[unlikely]]
			return undone(std::exchange(left_, Window::Outcome::done), false, nullptr,
				      change.at, change.len);
		if (is_elsewhere(change.operand | change.compare | change.result)) [[unlikely]]
			return leave(FI_TREADLE_ASKS_MORE);
		return begin(ring, flags, change.len, peer, change.at, key) && modify(change);
	}

	/* False: no window was found so often that none is looked for now. */
	[[gnu::always_inline]] bool looks() noexcept
	{
		pause_ -= pause_ != 0;
		return !pause_;
	}

	/* More flags ask for more than a transfer. */
	static constexpr bool simple(std::uint32_t flags) noexcept { return !(flags & ~plain); }

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
	static constexpr std::uint32_t plain = TREADLE_F_COMPLETION | TREADLE_F_INJECT |
					       TREADLE_F_DELIVERY_COMPLETE | TREADLE_F_FENCE |
					       TREADLE_F_MORE;

	Direct(Endpoint &endpoint, const DirectUse &use) noexcept;

	/*
	 * Is the buffer in a dma-buf? Its address (mr_address of fi_treadle.h) is none of the
	 * process's: only the kernel finds it.
	 */
	static constexpr bool is_elsewhere(std::uint64_t address) noexcept
	{
		return address >> 63 != 0;
	}
	/* Is there a window for this operation, and may it be used now? */
	template <class Ring>
	[[gnu::always_inline]] bool begin(const Ring &ring, std::uint32_t flags, std::uint64_t len,
					  std::uint64_t peer, std::uint64_t at,
					  std::uint64_t key) noexcept
	{
		if (!(is_last(peer, key) && last_->window.holds(at, len)) &&
		    !find(peer, key, at, len)) [[unlikely]]
			return false;
		if (!simple(flags) || (len > inject_size_ && flags & TREADLE_F_INJECT)) [[unlikely]]
			return leave(FI_TREADLE_ASKS_MORE);
		return ring.idle() || leave(FI_TREADLE_BUSY);
	}

	/* Is this peer's region that of last_? */
	bool is_last(std::uint64_t peer, std::uint64_t key) const noexcept
	{
		return last_->peer == peer && last_->key == key &&
		       use_.removals->load(std::memory_order_relaxed) == removals_;
	}
	/*
	 * The same as begin and reserve for execute_word. A word is never too long for
	 * TREADLE_F_INJECT. What is reported and counted takes the longer path.
	 */
	template <bool Reported, class Ring>
	[[gnu::always_inline]] bool begin_word(const Ring &ring, std::uint64_t peer,
					       std::uint64_t at, std::uint64_t key,
					       Cntr *counter) noexcept
	{
		return is_last(peer, key) && last_->window.holds_word(at) && ring.idle() &&
		       (Reported ? !counter && queue_ && queue_.reserve() :
				   reserve(false, counter));
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
	/* Lets execute, which follows with the same operation, leave it to the kernel. */
	bool leave_word(Window::Outcome outcome, bool reported, Cntr *counter) noexcept
	{
		cancel(reported, counter);
		left_ = outcome;
		pause_ = 0;
		return false;
	}
	/* Reserves what a completion needs; false: the kernel has to complete the operation. */
	[[gnu::always_inline]] bool reserve(bool reported, Cntr *counter) noexcept
	{
		if (reported && !queue_.reserve()) [[unlikely]]
			return false;
		if (!counter || counter->local().reserve()) [[likely]]
			return true;
		cancel(reported, nullptr);
		return false;
	}
	[[gnu::always_inline]] void cancel(bool reported, Cntr *counter) noexcept
	{
		if (reported)
			queue_.cancel();
		if (counter)
			counter->local().cancel();
	}
	[[gnu::always_inline]] void finish(bool reported, Cntr *counter, std::uint64_t context,
					   std::uint32_t flags, std::uint64_t len) noexcept
	{
		if (reported)
			queue_.add(context, flags);
		if (counter)
			counter->local().add(counter->step(len));
		++stats_.direct;
	}
	/* The flags of completions. */
	static constexpr std::uint32_t rma_flags(bool reads) noexcept
	{
		return TREADLE_CQ_RMA | (reads ? TREADLE_CQ_READ : TREADLE_CQ_WRITE);
	}
	static constexpr std::uint32_t atomic_flags(std::uint8_t opcode) noexcept
	{
		return TREADLE_CQ_ATOMIC |
		       (opcode == TREADLE_OP_ATOMIC ? TREADLE_CQ_WRITE : TREADLE_CQ_READ);
	}
	bool undone(Window::Outcome outcome, bool reported, Cntr *counter, std::uint64_t addr,
		    std::uint64_t len) noexcept;
	bool modify(const Change &change) noexcept;
	bool fail(std::uint8_t opcode, std::uint64_t context, Cntr *counter) noexcept;

	const DirectUse use_;
	Endpoint &endpoint_;
	detail::LocalQueue queue_; /* may hold nothing */
	Entry none_;
	Entry *last_ = &none_; /* has a window, or is none_ */
	std::uint32_t pause_ = 0, vain_ = 0;
	std::uint32_t removals_ = 0;
	Window::Outcome left_ = Window::Outcome::done; /* of execute_word */
	const std::uint64_t inject_size_;
	std::unique_ptr<std::array<std::array<Entry, ways>, sets>> entries_;
	fi_treadle_direct_stats stats_{};
};

} // namespace treadle::fi

#endif
