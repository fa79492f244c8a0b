// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/transmit_ring.h>

#include <treadle/context.h>

namespace treadle
{

template <class Lock>
Result<BasicTransmitRing<Lock>> BasicTransmitRing<Lock>::create(const Context &context,
								std::uint32_t entries,
								std::uint32_t flags) noexcept
{
	return create(context.fd(), entries, flags);
}

template <class Lock>
Result<BasicTransmitRing<Lock>> BasicTransmitRing<Lock>::create(int fd, std::uint32_t entries,
								std::uint32_t flags) noexcept
{
	treadle_ring_create args{};

	args.flags = flags;
	args.entries = entries;
	auto ring = detail::DescriptorRing::create(fd, TREADLE_IOC_TX_CREATE, args);
	if (!ring)
		return std::unexpected(ring.error());
	return BasicTransmitRing(fd, args.id, std::move(*ring));
}

template class BasicTransmitRing<NoLock>;
template class BasicTransmitRing<Mutex>;

} // namespace treadle
