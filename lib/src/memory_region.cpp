// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/memory_region.h>

#include <utility>

#include <treadle/context.h>

#include "sys/device.h"

namespace treadle
{

Result<MemoryRegion> MemoryRegion::create(const Context &context, const void *addr, std::size_t len,
					  const Options &options) noexcept
{
	const treadle_iov iov{.addr = address_of(addr), .len = len};
	treadle_mr_create args{};

	args.flags = options.flags;
	args.access = options.access;
	args.iov_count = 1;
	args.iov = address_of(&iov);
	args.key = options.key;
	args.cntr = std::to_underlying(options.counter);
	args.ep = std::to_underlying(options.endpoint);
	args.auth_key = address_of(options.auth_key.data());
	args.auth_key_size = static_cast<std::uint32_t>(options.auth_key.size());
	if (const auto ok = sys::checked(context.fd(), TREADLE_IOC_MR_CREATE, args); !ok)
		return std::unexpected(ok.error());
	return MemoryRegion(context.fd(), args.id, args.key);
}

int MemoryRegion::bind(CounterId counter) noexcept
{
	treadle_mr_bind args{};

	args.mr = number();
	args.cntr = std::to_underlying(counter);
	return sys::call(fd(), TREADLE_IOC_MR_BIND, args);
}

int MemoryRegion::bind(EndpointId endpoint) noexcept
{
	treadle_mr_bind args{};

	args.mr = number();
	args.ep = std::to_underlying(endpoint);
	return sys::call(fd(), TREADLE_IOC_MR_BIND, args);
}

} // namespace treadle
