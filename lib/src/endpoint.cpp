// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/endpoint.h>

#include <utility>

#include <treadle/context.h>

#include "sys/device.h"

namespace treadle
{

Result<Endpoint> Endpoint::create(const Context &context, const treadle_addr &address,
				  treadle_ep_type type,
				  std::span<const std::byte> auth_key) noexcept
{
	treadle_ep_create args{};

	args.type = type;
	args.addr = address;
	args.auth_key = address_of(auth_key.data());
	args.auth_key_size = static_cast<std::uint32_t>(auth_key.size());
	if (const auto ok = sys::checked(context.fd(), TREADLE_IOC_EP_CREATE, args); !ok)
		return std::unexpected(ok.error());
	return Endpoint(context.fd(), args.id, args.addr);
}

int Endpoint::enable(const Bindings &b) noexcept
{
	treadle_ep_enable args{};

	args.ep = number();
	args.flags = b.flags;
	args.tx = std::to_underlying(b.tx);
	args.rx = std::to_underlying(b.rx);
	args.av = std::to_underlying(b.av);
	args.tx_cq = std::to_underlying(b.tx_cq);
	args.rx_cq = std::to_underlying(b.rx_cq);
	args.cntr_send = std::to_underlying(b.send);
	args.cntr_recv = std::to_underlying(b.recv);
	args.cntr_read = std::to_underlying(b.read);
	args.cntr_write = std::to_underlying(b.write);
	args.cntr_remote_read = std::to_underlying(b.remote_read);
	args.cntr_remote_write = std::to_underlying(b.remote_write);
	return sys::call(fd(), TREADLE_IOC_EP_ENABLE, args);
}

int Endpoint::cancel(std::uint64_t context) noexcept
{
	treadle_cancel args{};

	args.kind = TREADLE_CANCEL_OP;
	args.id = number();
	args.context = context;
	return sys::call(fd(), TREADLE_IOC_CANCEL, args);
}

} // namespace treadle
