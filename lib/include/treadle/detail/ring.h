// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_DETAIL_RING_H
#define TREADLE_DETAIL_RING_H

/*
 * The process's half of <treadle/ring.h>: index arithmetic and barriers A to E, G and H. Those of
 * local completions are in local_completions.h. Other atomics in the library order nothing.
 *
 * The index that the process publishes is kept in the page where it is published. Only the process
 * writes that page, so the index is as private as a copy. A child after fork finds zeros there (see
 * Mapping), so its rings are empty and consistent.
 */

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <treadle/command.h>
#include <treadle/detail/mapping.h>
#include <treadle/detail/memcheck.h>
#include <treadle/ring.h>

namespace treadle::detail
{

inline std::uint32_t load_acquire(const std::uint32_t &word) noexcept
{
	return std::atomic_ref(const_cast<std::uint32_t &>(word)).load(std::memory_order_acquire);
}

inline std::uint64_t load_acquire(const __u64 &word) noexcept
{
	return std::atomic_ref(const_cast<__u64 &>(word)).load(std::memory_order_acquire);
}

inline void store_release(std::uint32_t &word, std::uint32_t value) noexcept
{
	std::atomic_ref(word).store(value, std::memory_order_release);
}

inline void store_release(std::uint64_t &word, std::uint64_t value) noexcept
{
	std::atomic_ref(word).store(value, std::memory_order_release);
}

/* Written by the process, read by the kernel: transmit and receive rings. */
class DescriptorRing
{
public:
	/* Creates the object, by request with args, and maps it; on error there is no object. */
	TREADLE_API static Result<DescriptorRing> create(int fd, unsigned long request,
							 treadle_ring_create &args) noexcept;

	std::uint32_t entries() const noexcept { return mask_ + 1; }

	/* Slots that can be written now. */
	std::uint32_t room() noexcept
	{
		released_ = load_acquire(cons_->released); /* A */
		return entries() - (prod_->prod - released_);
	}

	/* Has every command that was put completed? */
	bool idle() const noexcept { return prod_->prod == load_acquire(cons_->released); } /* A */

	/* Receive rings: do messages wait in the kernel, or is the ring broken? */
	bool wants_doorbell() const noexcept { return load_acquire(cons_->flags) != 0; }
	/* How many lanes were offered: changes with each. */
	std::uint32_t offers() const noexcept { return load_acquire(cons_->offers); }
	/* Does it want no doorbell, and were so many offered? */
	bool is_quiet(std::uint32_t offers) const noexcept
	{
		const treadle_ring_cons *const cons = cons_;

		return load_acquire(cons->offers) == offers && !load_acquire(cons->flags);
	}

	/*
	 * Receive rings and polled rings, after put: must the doorbell be rung? Either this sees
	 * the flag that the kernel set before its last look, or the kernel sees the command. A
	 * broken ring counts, too: its doorbell returns the error.
	 */
	bool doorbell_wanted() const noexcept
	{
		std::atomic_thread_fence(std::memory_order_seq_cst); /* C */
		return load_acquire(cons_->flags) != 0;
	}

	/* Is this a polled transmit ring? Then put always says EAGAIN: use put_polled. */
	bool polled() const noexcept { return limit_ == 0; }

	/*
	 * what: a message; also with an atomic, or with 0 to TREADLE_MAX_IOV buffers instead of its
	 * own; or a command. 0; -EAGAIN: nothing was written; -EINVAL: a vector is too long.
	 */
	template <class... What> [[gnu::always_inline]] int put(const What &...what) noexcept
	{
		const std::uint32_t prod = prod_->prod;
		const int n = slots_of(what...);

		if (n < 0)
			return n;
		if (!fits(prod, static_cast<std::uint32_t>(n), limit_)) [[unlikely]]
			return -EAGAIN;
		fill(prod, what...);
		store_release(prod_->prod, prod + static_cast<std::uint32_t>(n)); /* B */
		return 0;
	}

	/* The same; what TREADLE_F_INJECT promises is kept by a copy of the bytes. */
	template <class... What> int put_polled(const What &...what) noexcept
	{
		const std::uint32_t prod = prod_->prod;
		const int n = slots_of(what...);

		if (n < 0)
			return n;
		if (!fits(prod, static_cast<std::uint32_t>(n), entries())) [[unlikely]]
			return -EAGAIN;
		fill(prod, what...);
		if (slots_[prod & mask_].desc.flags & TREADLE_F_INJECT)
			keep(prod);
		store_release(prod_->prod, prod + static_cast<std::uint32_t>(n)); /* B */
		return 0;
	}

	/* Takes back the command that was put last, which the kernel has not taken. */
	void retract(std::uint32_t slots) noexcept
	{
		store_release(prod_->prod, prod_->prod - slots);
	}

	/* In a child after fork, where the kernel takes no commands: drops those in the ring. */
	void abandon() noexcept
	{
		released_ = load_acquire(cons_->released);
		store_release(prod_->prod, released_);
	}

private:
	DescriptorRing(Mapping rw, Mapping ro, std::uint32_t entries) noexcept
		: prod_(reinterpret_cast<treadle_ring_prod *>(rw.data())),
		  cons_(reinterpret_cast<const treadle_ring_cons *>(ro.data())),
		  slots_(reinterpret_cast<treadle_slot *>(rw.data() + TREADLE_SLOTS_OFFSET)),
		  mask_(entries - 1), limit_(entries), rw_(std::move(rw)), ro_(std::move(ro))
	{
	}

	/* Can n slots be written, so that at most `most` are used? */
	bool fits(std::uint32_t prod, std::uint32_t n, std::uint32_t most) noexcept
	{
		if (prod - released_ + n <= most) [[likely]]
			return true;
		released_ = load_acquire(cons_->released); /* A */
		return prod - released_ + n <= most;
	}

	static int slots_of(const Message &) noexcept { return 1; }
	static int slots_of(const Message &, const Atomic &) noexcept { return 1; }
	static int slots_of(const Message &, std::span<const treadle_iov> iov) noexcept
	{
		if (iov.size() > TREADLE_MAX_IOV)
			return -EINVAL;
		return iov.size() > 1 ? 2 : 1;
	}
	static int slots_of(const Command &command) noexcept
	{
		return command.whole() ? static_cast<int>(command.slots()) : -EINVAL;
	}

	/* Writes the slots from prod on; they are free. */
	void fill(std::uint32_t prod, const Message &m) noexcept
	{
		treadle_desc &desc = slots_[prod & mask_].desc;

		write(desc, m, m.flags, 1, m.addr, m.len);
		will_be_written(desc, nullptr);
	}
	void fill(std::uint32_t prod, const Message &m, const Atomic &atomic) noexcept
	{
		const bool reads = atomic.op == TREADLE_ATOMIC_READ;
		treadle_desc &desc = slots_[prod & mask_].desc;

		write(desc, m, m.flags | TREADLE_F_EXT, !reads, reads ? 0 : m.addr, m.len);
		desc.ep = desc.cond = desc.notify = desc.rest = desc.reserved1 = 0;
		desc.threshold = desc.value = desc.rest_threshold = 0;
		desc.atomic_op = static_cast<std::uint8_t>(atomic.op);
		desc.datatype = static_cast<std::uint8_t>(atomic.type);
		desc.rma_iov_count = desc.fetch_iov_count = 0;
		desc.result = atomic.result;
		desc.compare = atomic.compare;
		will_be_written(desc, nullptr);
	}
	TREADLE_API void fill(std::uint32_t prod, const Message &m,
			      std::span<const treadle_iov> iov) noexcept;
	TREADLE_API void fill(std::uint32_t prod, const Command &command) noexcept;

	/* Polled rings: copies the bytes that the command at prod injects; it names the copy. */
	TREADLE_API void keep(std::uint32_t prod) noexcept;

	/* Writes the first cache line; without TREADLE_F_EXT the kernel reads no other. */
	static void write(treadle_desc &desc, const Message &m, std::uint32_t flags,
			  std::uint8_t iov_count, std::uint64_t addr, std::uint64_t len) noexcept
	{
		desc.opcode = m.opcode;
		desc.iov_count = iov_count;
		desc.reserved0 = 0;
		desc.flags = flags;
		desc.context = m.context;
		desc.addr = addr;
		desc.len = len;
		desc.peer = m.peer;
		desc.tag = m.tag;
		desc.ignore = m.ignore;
		desc.data = m.data;
	}

	treadle_ring_prod *prod_;
	const treadle_ring_cons *cons_;
	treadle_slot *slots_;
	std::uint32_t mask_;
	std::uint32_t released_ = 0; /* as read when the ring last looked full */
	/* slots that put may use: all; or none, so that only the slow way asks for polled rings */
	std::uint32_t limit_;
	Mapping rw_;
	Mapping ro_;
	std::unique_ptr<std::byte[]> kept_; /* for each slot the bytes that its command injects */
};

/* Written by the kernel, read by the process: completion queues. */
class CompletionRing
{
public:
	/* As DescriptorRing::create. */
	TREADLE_API static Result<CompletionRing> create(int fd, treadle_cq_create &args) noexcept;

	std::uint32_t entries() const noexcept { return mask_ + 1; }

	/* Entries from head() to before tail() can be read. */
	std::uint32_t head() const noexcept
	{
		return std::atomic_ref(cons_->cons).load(std::memory_order_relaxed);
	}
	std::uint32_t tail() const noexcept { return tail(*prod_); }
	const treadle_cqe &at(std::uint32_t i) const noexcept { return cqes_[i & mask_]; }

	/* Gives the entries before head back to the kernel. */
	void release(std::uint32_t head) noexcept { store_release(cons_->cons, head); } /* E */

	/* Does the kernel keep completions that did not fit? */
	bool overflows() const noexcept { return overflows(*prod_); }

	std::uint32_t signals() const noexcept { return load_acquire(prod_->signals); }

	/* For callers that look at nothing else. It stays where it is, also if the ring moves. */
	const treadle_cq_prod *prod() const noexcept { return prod_; }
	static std::uint32_t tail(const treadle_cq_prod &prod) noexcept
	{
		return load_acquire(prod.prod); /* D */
	}
	static bool overflows(const treadle_cq_prod &prod) noexcept
	{
		return load_acquire(prod.flags) & TREADLE_CQ_OVERFLOW;
	}

private:
	CompletionRing(Mapping rw, Mapping ro, std::uint32_t entries) noexcept
		: cons_(reinterpret_cast<treadle_cq_cons *>(rw.data())),
		  prod_(reinterpret_cast<const treadle_cq_prod *>(ro.data())),
		  cqes_(reinterpret_cast<const treadle_cqe *>(ro.data() + TREADLE_SLOTS_OFFSET)),
		  mask_(entries - 1), rw_(std::move(rw)), ro_(std::move(ro))
	{
	}

	treadle_cq_cons *cons_;
	const treadle_cq_prod *prod_;
	const treadle_cqe *cqes_;
	std::uint32_t mask_;
	Mapping rw_;
	Mapping ro_;
};

} // namespace treadle::detail

#endif
