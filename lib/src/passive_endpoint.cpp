// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/passive_endpoint.h>

#include <utility>

#include <treadle/context.h>
#include <treadle/message.h>

#include "sys/device.h"

namespace treadle
{

Result<PassiveEndpoint> PassiveEndpoint::create(const Context &context, const treadle_addr &address,
						std::span<const std::byte> auth_key) noexcept
{
	treadle_ep_create args{};

	args.type = TREADLE_EP_PASSIVE;
	args.addr = address;
	return make<PassiveEndpoint>(context, args, auth_key);
}

std::error_code PassiveEndpoint::listen(std::uint32_t backlog) noexcept
{
	treadle_listen args{};

	args.ep = number();
	args.backlog = backlog;
	return sys::checked(device(), TREADLE_IOC_LISTEN, args);
}

std::error_code PassiveEndpoint::reject(RequestId request, std::span<const std::byte> data) noexcept
{
	treadle_reject args{};

	args.ep = number();
	args.request = std::to_underlying(request);
	sys::give(data, args.data, args.data_size);
	return sys::checked(device(), TREADLE_IOC_REJECT, args);
}

} // namespace treadle
