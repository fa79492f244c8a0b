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
 * A range of this process's memory, or several as one, which peers may name by a key:
 * fi_mr(3). Local buffers need none. Registrar registers without waiting for it.
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
	};

	/*
	 * The memory stays the caller's. What is mapped at these addresses when a peer comes is what it
	 * gets at, if it was mapped later, too; with TREADLE_MR_PINNED unmapping them ends access for good. Peers see
	 * several ranges (TREADLE_MAX_MR_IOV at most) as one after the other.
	 * EFAULT (not mapped, or not writable and it would be written; with TREADLE_MR_UNMAPPED only
	 * of a range that is mapped as a whole, none of it PROT_NONE), EEXIST, EINVAL, ENOMEM, ENOSPC; ENOENT, EBADF: no such counter or endpoint; EINTR.
	 */
	static Result<MemoryRegion> create(const Context &context, const void *addr,
					   std::size_t len, const Options &options) noexcept;
	static Result<MemoryRegion> create(const Context &context,
					   std::span<const treadle_iov> ranges,
					   const Options &options) noexcept;

	std::uint64_t key() const noexcept { return key_; }

	/* The options of these names, later. 0, -EBUSY: has one; -ENOENT, -EBADF. */
	int bind(CounterId counter) noexcept;
	int bind(EndpointId endpoint) noexcept;

private:
	friend class Registration;
	MemoryRegion(int fd, std::uint32_t id, std::uint64_t key) noexcept
		: Object(fd, id), key_(key)
	{
	}

	std::uint64_t key_;
};

} // namespace treadle

#endif
