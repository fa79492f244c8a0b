// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/detail/ring.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <tuple>

#include "sys/device.h"

namespace treadle::detail
{

/* The flags in a child after fork: it rings the doorbell, and gets the error (see Mapping). */
constexpr std::uint32_t ring_in_child = TREADLE_RING_DOORBELL | TREADLE_RING_BROKEN;
constexpr std::uint32_t queue_in_child = TREADLE_CQ_OVERFLOW;
/* What a command may inject, and twice that: operands, and values to compare with. */
constexpr std::size_t most_injected = 4096, kept_size = 2 * most_injected;
static_assert(offsetof(treadle_ring_cons, flags) == Mapping::child_flags_offset);
static_assert(offsetof(treadle_cq_prod, flags) == Mapping::child_flags_offset);

Result<DescriptorRing> DescriptorRing::create(int fd, unsigned long request,
					      treadle_ring_create &args) noexcept
{
	if (const auto error = sys::checked(fd, request, args))
		return std::unexpected(error);

	auto rw = Mapping::create(fd, args.rw, Access::write);
	auto ro = Mapping::create(fd, args.ro, Access::read, ring_in_child);

	if (rw && ro) {
		DescriptorRing ring(std::move(*rw), std::move(*ro), args.entries);

		if (request != TREADLE_IOC_TX_CREATE || !(args.flags & TREADLE_TX_POLLED))
			return ring;
		ring.kept_.reset(new (std::nothrow) std::byte[args.entries * kept_size]);
		ring.limit_ = 0;
		if (ring.kept_)
			return ring;
	}
	std::ignore = sys::destroy(fd, args.id);
	if (rw && ro)
		return std::unexpected(from_errno(ENOMEM));
	return std::unexpected(rw ? ro.error() : rw.error());
}

Result<CompletionRing> CompletionRing::create(int fd, treadle_cq_create &args) noexcept
{
	if (const auto error = sys::checked(fd, TREADLE_IOC_CQ_CREATE, args))
		return std::unexpected(error);

	auto rw = Mapping::create(fd, args.rw, Access::write);
	auto ro = Mapping::create(fd, args.ro, Access::read, queue_in_child);

	if (rw && ro)
		return CompletionRing(std::move(*rw), std::move(*ro), args.entries);
	std::ignore = sys::destroy(fd, args.id);
	return std::unexpected(rw ? ro.error() : rw.error());
}

void DescriptorRing::fill(std::uint32_t prod, const Message &m,
			  std::span<const treadle_iov> iov) noexcept
{
	const auto count = static_cast<std::uint8_t>(iov.size());
	treadle_desc &desc = slots_[prod & mask_].desc;
	treadle_slot &vector = slots_[(prod + 1) & mask_];

	if (count <= 1) {
		write(desc, m, m.flags, count, count ? iov[0].addr : 0, count ? iov[0].len : 0);
		will_be_written(desc, nullptr);
		return;
	}
	write(desc, m, m.flags, count, 0, total(iov));
	std::memcpy(vector.iov, iov.data(), iov.size_bytes());
	will_be_written(desc, &vector);
}

void DescriptorRing::fill(std::uint32_t prod, const Command &command) noexcept
{
	const treadle_desc &desc = command.desc();

	will_be_written(desc, command.vectors().data());
	std::memcpy(&slots_[prod++ & mask_].desc, &desc,
		    desc.flags & TREADLE_F_EXT ? sizeof(desc) : offsetof(treadle_desc, ep));
	for (const treadle_slot &vector : command.vectors())
		slots_[prod++ & mask_] = vector;
}

namespace
{

/* Copies the bytes of a buffer to `to`, and names that instead. */
void move_to(std::byte *&to, __u64 &addr, std::uint64_t len) noexcept
{
	if (len)
		std::memcpy(to, reinterpret_cast<const void *>(addr), len);
	addr = address_of(to);
	to += len;
}

void move_to(std::byte *&to, std::span<treadle_iov> iov) noexcept
{
	for (treadle_iov &buffer : iov)
		move_to(to, buffer.addr, buffer.len);
}

} // namespace

/*
 * Few bytes go into the second line of the slot, which the kernel does not read without
 * TREADLE_F_EXT. What the kernel will refuse stays as it is.
 */
void DescriptorRing::keep(std::uint32_t prod) noexcept
{
	treadle_slot &slot = slots_[prod & mask_];
	treadle_desc &desc = slot.desc;
	const bool ext = desc.flags & TREADLE_F_EXT;
	const bool inside = !ext && desc.len <= sizeof(slot) / 2;
	std::byte *to = inside ? reinterpret_cast<std::byte *>(slot.bytes) + sizeof(slot) / 2 :
				 kept_.get() + (prod & mask_) * kept_size;

	if (desc.len > most_injected)
		return;
	if (desc.iov_count > 1) {
		const std::span iov(slots_[++prod & mask_].iov, desc.iov_count);

		if (total(iov) != desc.len)
			return;
		move_to(to, iov);
	} else if (desc.iov_count) {
		move_to(to, desc.addr, desc.len);
	}
	if (desc.opcode != TREADLE_OP_COMPARE || !ext)
		return;
	if (desc.fetch_iov_count <= 1) {
		move_to(to, desc.compare, desc.len);
		return;
	}
	prod += (desc.rma_iov_count > 1) + 2; /* ranges, results, comparands */
	const std::span iov(slots_[prod & mask_].iov, desc.fetch_iov_count);
	if (total(iov) == desc.len)
		move_to(to, iov);
}

} // namespace treadle::detail
