// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/receive_ring.h>

#include <treadle/context.h>

namespace treadle
{

template <class Lock>
Result<BasicReceiveRing<Lock>>
BasicReceiveRing<Lock>::create(const Context &context, std::uint32_t entries,
			       std::uint32_t buffered, std::uint32_t flags) noexcept
{
	treadle_ring_create args{};

	args.flags = flags;
	args.entries = entries;
	args.buffered = buffered;
	auto ring = detail::DescriptorRing::create(context.device(), TREADLE_IOC_RX_CREATE, args);
	if (!ring)
		return std::unexpected(ring.error());
	return BasicReceiveRing(context.device(), args.id, std::move(*ring));
}

template class BasicReceiveRing<NoLock>;
template class BasicReceiveRing<Mutex>;

} // namespace treadle
