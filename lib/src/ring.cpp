// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/detail/ring.h>

#include <cstddef>
#include <cstring>
#include <tuple>

#include "sys/device.h"

namespace treadle::detail
{

/* The flags in a child after fork: it rings the doorbell, and gets the error (see Mapping). */
constexpr std::uint32_t ring_in_child = TREADLE_RING_DOORBELL | TREADLE_RING_BROKEN;
constexpr std::uint32_t queue_in_child = TREADLE_CQ_OVERFLOW;
static_assert(offsetof(treadle_ring_cons, flags) == Mapping::child_flags_offset);
static_assert(offsetof(treadle_cq_prod, flags) == Mapping::child_flags_offset);

Result<DescriptorRing> DescriptorRing::create(int fd, unsigned long request,
					      treadle_ring_create &args) noexcept
{
	if (const auto error = sys::checked(fd, request, args))
		return std::unexpected(error);

	auto rw = Mapping::create(fd, args.rw, Access::write);
	auto ro = Mapping::create(fd, args.ro, Access::read, ring_in_child);

	if (rw && ro)
		return DescriptorRing(std::move(*rw), std::move(*ro), args.entries);
	std::ignore = sys::destroy(fd, args.id);
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

int DescriptorRing::put(const Message &m, std::span<const treadle_iov> iov) noexcept
{
	const std::uint32_t prod = prod_->prod;
	const auto count = static_cast<std::uint8_t>(iov.size());
	treadle_desc &desc = slots_[prod & mask_].desc;
	treadle_slot &vector = slots_[(prod + 1) & mask_];

	if (iov.size() > TREADLE_MAX_IOV)
		return -EINVAL;
	if (!fits(prod, count > 1 ? 2 : 1))
		return -EAGAIN;
	if (count <= 1) {
		write(desc, m, m.flags, count, count ? iov[0].addr : 0, count ? iov[0].len : 0);
		will_be_written(desc, nullptr);
		store_release(prod_->prod, prod + 1); /* B */
		return 0;
	}
	write(desc, m, m.flags, count, 0, total(iov));
	std::memcpy(vector.iov, iov.data(), iov.size_bytes());
	will_be_written(desc, &vector);
	store_release(prod_->prod, prod + 2); /* B, for both at once */
	return 0;
}

int DescriptorRing::put(const Command &command) noexcept
{
	const treadle_desc &desc = command.desc();
	const std::uint32_t prod = prod_->prod;
	std::uint32_t i = prod;

	if (!command.whole())
		return -EINVAL;
	if (!fits(prod, command.slots()))
		return -EAGAIN;
	will_be_written(desc, command.vectors().data());
	std::memcpy(&slots_[i++ & mask_].desc, &desc,
		    desc.flags & TREADLE_F_EXT ? sizeof(desc) : offsetof(treadle_desc, ep));
	for (const treadle_slot &vector : command.vectors())
		slots_[i++ & mask_] = vector;
	store_release(prod_->prod, i); /* B */
	return 0;
}

} // namespace treadle::detail
