// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_MEMORY_REGION_H
#define TREADLE_MEMORY_REGION_H

#include <cstddef>
#include <span>

#include <treadle/ioctl.h>
#include <treadle/object.h>
#include <treadle/ring.h>

namespace treadle
{

class Context;

/**
 * A range of this process's memory, or several as one, that peers access by a key: fi_mr(3). Local
 * buffers need no region. To register without waiting, use
 * prep_register or Registrar (uring.h).
 *
 * Threads: everything may be called from any thread at any time.
 */
class TREADLE_API MemoryRegion : public Object<MemoryRegionId>
{
public:
	struct Options {
		std::uint32_t access;	 /* TREADLE_ACCESS_* */
		std::uint32_t flags = 0; /* TREADLE_MR_* */
		std::uint64_t key = 0;	 /* unless TREADLE_MR_KERNEL_KEY */
		CounterId counter{};	 /* counts what peers have written, or none */
		EndpointId endpoint{};	 /* the only one that peers may use, or none */
		/* at most limits().max_auth_key bytes, else EINVAL */
		/* NOLINTNEXTLINE(readability-redundant-member-init): so that it may be left out */
		std::span<const std::byte> auth_key = {};
		/*
		 * With TREADLE_MR_DMABUF the only range is an offset and a length in the dma-buf of
		 * this file descriptor. The region keeps the buffer, not the descriptor. base: with
		 * TREADLE_MR_VIRT_ADDR, the address of the buffer's first byte for peers.
		 */
		std::int32_t dmabuf = 0;
		std::uint64_t base = 0;
	};

	/*
	 * The caller keeps the ownership of the memory. A peer accesses the memory that is mapped
	 * at these addresses when it comes, even if that was mapped later. With TREADLE_MR_PINNED,
	 * unmapping them ends access for good. Peers see several ranges (TREADLE_MAX_MR_IOV at
	 * most) as one after the other.
	 *
	 * EFAULT: a range is not mapped, or not writable although it would be written; with
	 * TREADLE_MR_UNMAPPED this holds only for a range that is mapped as a whole, none of it
	 * PROT_NONE. ENOENT, EBADF: no such counter or endpoint. EEXIST, EINVAL, ENOMEM, ENOSPC,
	 * EINTR. Of a dma-buf: EBADF, EINVAL: no such file, or no dma-buf; EACCES: it is not open
	 * for that; EOPNOTSUPP: the processor does not reach its memory; EBUSY: it moves.
	 */
	[[nodiscard]] static Result<MemoryRegion> create(const Context &context,
							 std::span<const std::byte> memory,
							 const Options &options) noexcept;
	[[nodiscard]] static Result<MemoryRegion> create(const Context &context,
							 std::span<const treadle_iov> ranges,
							 const Options &options) noexcept;

	std::uint64_t key() const noexcept { return key_; }

	/*
	 * The address of a region of a dma-buf, for buffers of this process's commands. It can't be
	 * dereferenced. 0: the region is of memory of the process.
	 */
	std::uint64_t address() const noexcept { return address_; }

	/* Sets the option of this name later. EBUSY: it is set; ENOENT, EBADF. */
	[[nodiscard]] std::error_code bind(CounterId counter) noexcept;
	[[nodiscard]] std::error_code bind(EndpointId endpoint) noexcept;

private:
	friend class Registration;
	MemoryRegion(int device, std::uint32_t id, std::uint64_t key,
		     std::uint64_t address) noexcept
		: Object(device, id), key_(key), address_(address)
	{
	}

	std::uint64_t key_, address_;
};

} // namespace treadle

#endif
