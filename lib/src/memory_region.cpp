// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/memory_region.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include <treadle/context.h>
#include <treadle/detail/memcheck.h>
#include <treadle/registration.h>

#include "sys/device.h"

namespace treadle
{

Registration::Registration(const Context &context, std::span<const treadle_iov> ranges,
			   const MemoryRegion::Options &options) noexcept
	: device_(context.device()), result_(-ENOENT)
{
	args_.size = sizeof(args_);
	args_.flags = options.flags;
	args_.access = options.access;
	args_.iov_count = static_cast<std::uint32_t>(
		std::min<std::size_t>(ranges.size(), std::numeric_limits<std::uint32_t>::max()));
	args_.iov = address_of(ranges_.data());
	args_.key = options.key;
	args_.cntr = std::to_underlying(options.counter);
	args_.ep = std::to_underlying(options.endpoint);
	args_.fd = options.dmabuf;
	args_.base = options.base;
	sys::give(options.auth_key, args_.auth_key, args_.auth_key_size);
	const auto known = ranges.first(std::min(ranges.size(), ranges_.size()));
	std::ranges::copy(known, ranges_.begin());
	if (options.access & TREADLE_ACCESS_REMOTE_WRITE && !(options.flags & TREADLE_MR_DMABUF))
		detail::will_be_written(known);
}

void Registration::run() noexcept
{
	result_ = sys::ioctl(device_, TREADLE_IOC_MR_CREATE, &args_);
}

Result<MemoryRegion> Registration::result() noexcept
{
	if (result_ == -ECANCELED && !canceled_)
		run();
	if (const int rc = std::exchange(result_, -ENOENT); rc < 0)
		return std::unexpected(from_errno(-rc));
	return MemoryRegion(device_, args_.id, args_.key, args_.addr);
}

Result<MemoryRegion> MemoryRegion::create(const Context &context,
					  std::span<const treadle_iov> ranges,
					  const Options &options) noexcept
{
	Registration registration(context, ranges, options);

	registration.run();
	return registration.result();
}

Result<MemoryRegion> MemoryRegion::create(const Context &context, std::span<const std::byte> memory,
					  const Options &options) noexcept
{
	const treadle_iov range{.addr = address_of(memory.data()), .len = memory.size()};

	return create(context, std::span<const treadle_iov>(&range, 1), options);
}

std::error_code MemoryRegion::bind(CounterId counter) noexcept
{
	treadle_mr_bind args{};

	args.mr = number();
	args.cntr = std::to_underlying(counter);
	return sys::checked(device(), TREADLE_IOC_MR_BIND, args);
}

std::error_code MemoryRegion::bind(EndpointId endpoint) noexcept
{
	treadle_mr_bind args{};

	args.mr = number();
	args.ep = std::to_underlying(endpoint);
	return sys::checked(device(), TREADLE_IOC_MR_BIND, args);
}

} // namespace treadle
