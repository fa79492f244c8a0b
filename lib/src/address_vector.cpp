// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/address_vector.h>

#include <cerrno>

#include <arpa/inet.h>

#include <treadle/context.h>

#include "sys/device.h"

namespace treadle
{

Result<AddressVector> AddressVector::make(const Context &context, std::uint32_t flags,
					  std::string_view name, std::uint32_t expected,
					  std::uint32_t context_bits) noexcept
{
	treadle_av_create args{};

	args.flags = flags;
	args.count = expected;
	args.rx_ctx_bits = context_bits;
	args.name = name.empty() ? 0 : address_of(name.data());
	args.name_size = sys::clamped(name.size());
	if (const auto error = sys::checked(context.device(), TREADLE_IOC_AV_CREATE, args))
		return std::unexpected(error);
	return AddressVector(context.device(), args.id);
}

Result<AddressVector> AddressVector::create(const Context &context, std::uint32_t expected,
					    std::uint32_t context_bits) noexcept
{
	return make(context, 0, {}, expected, context_bits);
}

Result<AddressVector> AddressVector::create_with_ids(const Context &context, std::uint32_t expected,
						     std::uint32_t context_bits) noexcept
{
	return make(context, TREADLE_AV_IDS, {}, expected, context_bits);
}

Result<AddressVector> AddressVector::open(const Context &context, std::string_view name,
					  Access access, std::uint32_t expected,
					  std::uint32_t context_bits) noexcept
{
	if (name.empty())
		return std::unexpected(from_errno(EINVAL));
	return make(context, access == Access::read ? TREADLE_AV_READ : 0, name, expected,
		    context_bits);
}

AddressVector::Inserted AddressVector::insert(std::span<const treadle_addr> addresses,
					      std::uint64_t *indices,
					      const std::uint64_t *ids) noexcept
{
	treadle_av_insert args{};

	args.av = number();
	args.count = sys::clamped(addresses.size());
	args.addrs = address_of(addresses.data());
	args.out = address_of(indices);
	args.ids = address_of(ids);
	const int rc = sys::call(device(), TREADLE_IOC_AV_INSERT, args);
	/* After these errors the kernel has not read or written args: a child, an older module. */
	const bool seen = rc != -EPERM && rc != -E2BIG && rc != -ENOTTY;
	return {.count = seen ? args.count : 0, .error = detail::status(rc)};
}

Result<Peer> AddressVector::insert(const treadle_addr &address) noexcept
{
	std::uint64_t index = TREADLE_ADDR_ANY;
	const auto [count, failed] = insert({&address, 1}, &index);

	if (failed)
		return std::unexpected(failed);
	if (!count)
		return std::unexpected(from_errno(EADDRNOTAVAIL));
	return Peer{index};
}

std::error_code AddressVector::remove(std::span<const std::uint64_t> indices) noexcept
{
	treadle_av_remove args{};

	args.av = number();
	args.count = sys::clamped(indices.size());
	args.indices = address_of(indices.data());
	return sys::checked(device(), TREADLE_IOC_AV_REMOVE, args);
}

std::error_code AddressVector::remove(Peer peer) noexcept
{
	const std::uint64_t index = std::to_underlying(peer);

	return remove({&index, 1});
}

std::error_code AddressVector::set_id(Peer peer, std::uint64_t id) noexcept
{
	treadle_av_set_id args{};

	args.av = number();
	args.index = std::to_underlying(peer);
	args.id = id;
	return sys::checked(device(), TREADLE_IOC_AV_SET_ID, args);
}

Result<treadle_av_lookup> AddressVector::look_up(Peer peer) const noexcept
{
	treadle_av_lookup args{};

	args.av = number();
	args.index = std::to_underlying(peer);
	if (const auto error = sys::checked(device(), TREADLE_IOC_AV_LOOKUP, args))
		return std::unexpected(error);
	return args;
}

Result<treadle_addr> AddressVector::lookup(Peer peer) const noexcept
{
	const auto found = look_up(peer);

	return found ? Result<treadle_addr>(found->addr) : std::unexpected(found.error());
}

Result<AddressVector::Place> AddressVector::place(Peer peer) const noexcept
{
	const auto found = look_up(peer);

	if (!found)
		return std::unexpected(found.error());
	if (!found->common.family) /* an older module, which reaches no other node */
		return Place{loopback(ntohs(found->addr.port)), true};
	return Place{found->common, (found->flags & TREADLE_PEER_HERE) != 0};
}

} // namespace treadle
