// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PEER_WINDOW_H
#define TREADLE_PEER_WINDOW_H

#include <atomic>
#include <cstdint>
#include <cstring>

#include <treadle/detail/mapping.h>
#include <treadle/object.h>
#include <treadle/peer.h>

namespace treadle
{

class Context;

enum class WindowId : std::uint32_t {};

/**
 * A peer's region, or a part of it, mapped into this process: reads, writes and atomics without a
 * system call. See <treadle/window.h> of the uapi and Documentation/windows.rst.
 *
 *	auto window = Window::open(context, endpoint.id(), peer, remote, 8);
 *	if (!window || !window->holds(remote.addr, 8) ||
 *	    window->write(&value, remote.addr, 8) != Window::Outcome::done)
 *		error = ring.write(bytes, peer, remote);
 *
 * The kernel takes pages away at any time. The generation tells: an access that finds it changed
 * has perhaps done nothing, and is done again by a ring. An access never ends in a signal because
 * of the window; the buffer of the caller must be mapped.
 *
 * The rules for a user are those of a ring that the process itself serves. Order: an access takes
 * place at once, so it overtakes commands that were posted before; see
 * BasicTransmitRing::post_unless. Completions and counters are the caller's.
 *
 * The endpoint can't be closed before its windows (EBUSY).
 *
 * Threads: accesses from any thread at any time, all others by one thread at a time.
 */
class TREADLE_API Window : public Object<WindowId>
{
public:
	enum class Outcome {
		done,
		outside, /* not what the window grants, or too much at once */
		absent,	 /* a page is not in the window: fill may help, after a command */
		changed, /* perhaps without effect: do all of it again by a ring */
		closed,	 /* so it will be always */
	};

	/* Holds nothing. */
	Window() noexcept : Object(-1, 0) {}

	/*
	 * access: TREADLE_ACCESS_REMOTE_READ, _WRITE or both. The window has the len bytes from
	 * `from` on, and as much of their region as possible. The errors of the completion of such
	 * an access (EKEYREJECTED and others). EOPNOTSUPP: no window on such a region; EXDEV: the
	 * peer's process is not open to this one; ENOSPC; ENOMEM.
	 */
	[[nodiscard]] static Result<Window> open(const Context &context, EndpointId endpoint,
						 Peer peer, Remote from, std::uint64_t len,
						 std::uint32_t access) noexcept;

	/* The first byte, as peers address it, and the bytes. */
	std::uint64_t addr() const noexcept { return addr_; }
	std::uint64_t size() const noexcept { return size_; }
	std::uint32_t access() const noexcept { return access_; }
	/* May atomics be executed? */
	bool atomic() const noexcept { return atomic_; }
	bool holds(std::uint64_t addr, std::uint64_t len) const noexcept
	{
		return addr - addr_ <= size_ && len <= size_ - (addr - addr_);
	}
	/* The same for an aligned word of 8 bytes, which lies in one page. */
	bool holds_word(std::uint64_t addr) const noexcept
	{
		return holds(addr, 8) && !(offset(addr) % 8);
	}
	/* Where a byte of the window lies, for programs that keep the rules themselves. */
	std::byte *at(std::uint64_t addr) const noexcept { return first_ + (addr - addr_); }
	/* Offset of the first byte in its page, and the size of pages as a power of two. */
	std::uint32_t skip() const noexcept { return static_cast<std::uint32_t>(skip_); }
	std::uint32_t page_shift() const noexcept { return page_shift_; }
	/* See struct treadle_window_status; data page 0 is the first bit. */
	const treadle_window_status &status() const noexcept { return *status_; }
	/* Are the pages of len bytes there, one at least? A hint. */
	bool present(std::uint64_t addr, std::uint64_t len) const noexcept
	{
		const std::uint64_t first = page(addr), last = page(addr + len - 1);

		return first == last ? page_present(first) : present_all(first, last);
	}
	bool closed() const noexcept
	{
		return load(status_->flags, std::memory_order_relaxed) & TREADLE_WINDOW_CLOSED;
	}

	/*
	 * Enters pages that the owner has in memory. EAGAIN: not all of them are. EKEYREJECTED: the
	 * window is closed.
	 */
	[[nodiscard]] std::error_code fill(std::uint64_t addr, std::uint64_t len) noexcept;

	/*
	 * From and to buffers of the caller: 1 to most bytes. holds(addr, len) must be true; for a
	 * Word, which is inlined without a call, holds_word(addr), and len is 8.
	 */
	static constexpr std::uint64_t most = 65536;

	template <bool Word = false>
	[[gnu::always_inline]] Outcome write(const void *from, std::uint64_t to,
					     std::uint64_t len) noexcept
	{
		return transfer<TREADLE_ACCESS_REMOTE_WRITE, Word>(
			to, len, [&] [[gnu::always_inline]] (std::byte * at) {
				copy(at, from, len);
				std::atomic_thread_fence(std::memory_order_seq_cst);
			});
	}
	template <bool Word = false>
	[[gnu::always_inline]] Outcome read(void *to, std::uint64_t from,
					    std::uint64_t len) noexcept
	{
		return transfer<TREADLE_ACCESS_REMOTE_READ, Word>(
			from, len, [&] [[gnu::always_inline]] (const std::byte *at) {
				copy(to, at, len);
				std::atomic_thread_fence(std::memory_order_acquire);
			});
	}

	/*
	 * Calls change(std::atomic_ref<T>) on a word. holds(addr, sizeof(T)) must be true. Outcomes
	 * besides done: outside, absent: nothing was changed; closed: perhaps it was changed, in a
	 * region that has ended meanwhile.
	 */
	template <class T, class Change>
	[[gnu::always_inline]] Outcome atomic(std::uint64_t addr, Change &&change) noexcept
	{
		std::byte *const word = at(addr);

		if (!atomic_ || reinterpret_cast<std::uintptr_t>(word) % sizeof(T)) [[unlikely]]
			return Outcome::outside;
		static_cast<void>(load(status_->generation, std::memory_order_acquire));
		if (!page_present(page(addr))) [[unlikely]]
			return missing();
		change(std::atomic_ref(*reinterpret_cast<T *>(word)));
		std::atomic_thread_fence(std::memory_order_seq_cst);
		return closed() ? Outcome::closed : Outcome::done;
	}

private:
	Window(int device, std::uint32_t id, detail::Mapping data, detail::Mapping status,
	       const treadle_window_open &is) noexcept;

	static std::uint64_t load(const __u64 &word, std::memory_order order) noexcept
	{
		return std::atomic_ref(const_cast<__u64 &>(word)).load(order);
	}

	/* From the beginning of the data map; and its page. */
	std::uint64_t offset(std::uint64_t addr) const noexcept { return addr - addr_ + skip_; }
	std::uint64_t page(std::uint64_t addr) const noexcept
	{
		return offset(addr) >> page_shift_;
	}
	[[gnu::always_inline]] bool page_present(std::uint64_t page) const noexcept
	{
		return load(status_->present[page / 64], std::memory_order_relaxed) >> (page % 64) &
		       1;
	}

	/* Barriers: see struct treadle_window_open. */
	template <std::uint32_t Access, bool Word, class Copy>
	[[gnu::always_inline]] Outcome transfer(std::uint64_t addr, std::uint64_t len,
						Copy &&copy) noexcept
	{
		if ((!Word && len - 1 >= most) || !(access_ & Access)) [[unlikely]]
			return Outcome::outside;
		std::byte *const there = at(addr);
		const std::uint64_t only = page(addr); /* of a word */
		const std::uint64_t before = load(status_->generation, std::memory_order_acquire);
		if (!(Word ? page_present(only) : present(addr, len))) [[unlikely]]
			return missing();
		copy(there);
		if (load(status_->generation, std::memory_order_relaxed) != before) [[unlikely]]
			return closed() ? Outcome::closed : Outcome::changed;
		return Outcome::done;
	}

	bool present_all(std::uint64_t first, std::uint64_t last) const noexcept;
	[[gnu::always_inline]] Outcome missing() const noexcept
	{
		return closed() ? Outcome::closed : Outcome::absent;
	}

	/* A word in one piece, as others may poll it. */
	[[gnu::always_inline]] static void copy(void *to, const void *from,
						std::uint64_t len) noexcept
	{
		if (len == 8) [[likely]]
			std::memcpy(to, from, 8);
		else
			copy_any(to, from, len);
	}
	static void copy_any(void *to, const void *from, std::uint64_t len) noexcept;

	std::byte *first_ = nullptr; /* the byte at addr_ */
	const treadle_window_status *status_ = nullptr;
	std::uint64_t addr_ = 0, size_ = 0;
	std::uint64_t skip_ = 0;
	std::uint32_t access_ = 0;
	std::uint8_t page_shift_ = 0;
	bool atomic_ = false;
	detail::Mapping data_, status_map_;
};

} // namespace treadle

#endif
