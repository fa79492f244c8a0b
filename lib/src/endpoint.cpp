// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/endpoint.h>

#include <utility>

#include <treadle/context.h>
#include <treadle/event_queue.h>
#include <treadle/message.h>

#include "sys/device.h"

namespace treadle
{

namespace detail
{

std::error_code Addressed::request(int device, treadle_ep_create &args,
				   std::span<const std::byte> auth_key) noexcept
{
	sys::give(auth_key, args.auth_key, args.auth_key_size);
	return sys::checked(device, TREADLE_IOC_EP_CREATE, args);
}

int Addressed::device_of(const Context &context) noexcept
{
	return context.device();
}

std::error_code Addressed::bind(const EventQueue &queue, std::uint64_t context) noexcept
{
	treadle_ep_eq args{};

	args.ep = number();
	args.eq_fd = *queue.fd();
	args.context = context;
	return sys::checked(device(), TREADLE_IOC_EP_EQ, args);
}

} // namespace detail

Result<Endpoint> Endpoint::create(const Context &context, const treadle_addr &address,
				  treadle_ep_type type,
				  std::span<const std::byte> auth_key) noexcept
{
	treadle_ep_create args{};

	args.type = type;
	args.addr = address;
	return make<Endpoint>(context, args, auth_key);
}

Result<Endpoint> Endpoint::create(const Context &context, RequestId request,
				  std::span<const std::byte> auth_key) noexcept
{
	treadle_ep_create args{};

	if (!std::to_underlying(request)) /* to the kernel 0 means: bind an address */
		return std::unexpected(from_errno(ENOENT));
	args.type = TREADLE_EP_MSG;
	args.request = std::to_underlying(request);
	return make<Endpoint>(context, args, auth_key);
}

Result<Endpoint> Endpoint::create_scalable(const Context &context, const treadle_addr &address,
					   treadle_ep_type type,
					   std::span<const std::byte> auth_key) noexcept
{
	treadle_ep_create args{};

	args.type = type;
	args.flags = TREADLE_EP_SCALABLE;
	args.addr = address;
	return make<Endpoint>(context, args, auth_key);
}

Result<Endpoint> Endpoint::transmit_context() const noexcept
{
	treadle_ep_create args{};

	args.flags = TREADLE_EP_TX_CONTEXT;
	args.parent = number();
	return make<Endpoint>(device(), args);
}

Result<Endpoint> Endpoint::receive_context(std::uint32_t index) const noexcept
{
	treadle_ep_create args{};

	args.flags = TREADLE_EP_RX_CONTEXT;
	args.parent = number();
	args.index = index;
	return make<Endpoint>(device(), args);
}

std::error_code Endpoint::enable(const Bindings &b) noexcept
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
	return sys::checked(device(), TREADLE_IOC_EP_ENABLE, args);
}

std::error_code Endpoint::cancel(std::uint64_t context, Side side) noexcept
{
	treadle_cancel args{};

	args.kind = TREADLE_CANCEL_OP;
	args.id = number();
	args.flags = std::to_underlying(side);
	args.context = context;
	return sys::checked(device(), TREADLE_IOC_CANCEL, args);
}

std::error_code Endpoint::connect(const treadle_addr &address,
				  std::span<const std::byte> data) noexcept
{
	treadle_connect args{};

	args.ep = number();
	args.addr = address;
	sys::give(data, args.data, args.data_size);
	return sys::checked(device(), TREADLE_IOC_CONNECT, args);
}

std::error_code Endpoint::accept(std::span<const std::byte> data) noexcept
{
	treadle_accept args{};

	args.ep = number();
	sys::give(data, args.data, args.data_size);
	return sys::checked(device(), TREADLE_IOC_ACCEPT, args);
}

std::error_code Endpoint::shutdown() noexcept
{
	treadle_shutdown args{};

	args.ep = number();
	return sys::checked(device(), TREADLE_IOC_SHUTDOWN, args);
}

} // namespace treadle
