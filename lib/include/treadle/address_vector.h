// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_ADDRESS_VECTOR_H
#define TREADLE_ADDRESS_VECTOR_H

#include <span>
#include <string_view>
#include <utility>

#include <treadle/address.h>
#include <treadle/object.h>
#include <treadle/peer.h>

namespace treadle
{

class Context;

/**
 * The peers of endpoints, by index: fi_av(3).
 *
 * Threads: everything may be called from any thread at any time.
 */
class TREADLE_API AddressVector : public Object<AddressVectorId>
{
public:
	/*
	 * expected: number of peers, a hint, at most limits().max_av (ENOSPC). context_bits: upper
	 * bits of a peer's index that name a receive context of a scalable endpoint, see
	 * with_context(); EINVAL: more than TREADLE_RX_CTX_BITS.
	 */
	[[nodiscard]] static Result<AddressVector> create(const Context &context,
							  std::uint32_t expected = 0,
							  std::uint32_t context_bits = 0) noexcept;
	/* The same, for peers that can have identifiers: see insert. */
	[[nodiscard]] static Result<AddressVector>
	create_with_ids(const Context &context, std::uint32_t expected = 0,
			std::uint32_t context_bits = 0) noexcept;
	/*
	 * A vector that all processes of this user share by its name, of 1 to TREADLE_AV_NAME
	 * bytes. Indices mean the same in all of them. The vector exists as long as one of them has
	 * it. Access::read: it must exist (ENOENT), and insert and remove don't change it
	 * (EACCES). All openers have the same context_bits (EINVAL).
	 */
	enum class Access { write, read };
	[[nodiscard]] static Result<AddressVector>
	open(const Context &context, std::string_view name, Access access = Access::write,
	     std::uint32_t expected = 0, std::uint32_t context_bits = 0) noexcept;

	/* One of the peer's receive contexts; bits: those of the vector, not 0. */
	static constexpr Peer with_context(Peer peer, std::uint64_t context,
					   unsigned int bits) noexcept
	{
		return Peer{context << (64 - bits) | std::to_underlying(peer)};
	}

	struct Inserted {
		std::uint32_t count;   /* so many were inserted, and stay, also after an error */
		std::error_code error; /* what ended the call */
	};

	/*
	 * Inserts many at once. An index is the value of a Peer. indices, if not null, has room for
	 * as many as addresses, and gets the index of each. A malformed address, or one of an
	 * unknown family, is skipped; its index is TREADLE_ADDR_ANY. An address that is there
	 * already gets a second index.
	 *
	 * ids, if not null: identifiers that completions name the peers by, instead of the index
	 * (EINVAL: the vector was created without); TREADLE_ADDR_ANY: completions name no source.
	 *
	 * ENOSPC, ENOMEM, EINTR, EFAULT; EACCES: opened for reading.
	 */
	[[nodiscard]] Inserted insert(std::span<const treadle_addr> addresses,
				      std::uint64_t *indices = nullptr,
				      const std::uint64_t *ids = nullptr) noexcept;

	/* Inserts one address. EADDRNOTAVAIL: it is of an unknown family. */
	[[nodiscard]] Result<Peer> insert(const treadle_addr &address) noexcept;

	/*
	 * ENOENT: an entry did not exist; the others are removed. EACCES: opened for reading.
	 * EFAULT, EINTR: the entries before the error are removed.
	 */
	[[nodiscard]] std::error_code remove(std::span<const std::uint64_t> indices) noexcept;
	[[nodiscard]] std::error_code remove(Peer peer) noexcept;

	/*
	 * Sets the identifier that completions name a peer by from now on. EINVAL: the vector was
	 * created without identifiers; ENOENT: no such entry; EINTR.
	 */
	[[nodiscard]] std::error_code set_id(Peer peer, std::uint64_t id) noexcept;

	/* ENOENT: no such entry. */
	[[nodiscard]] Result<treadle_addr> lookup(Peer peer) const noexcept;

	/*
	 * address: that of the peer's node, with the peer's port. Processes of all nodes get the
	 * same one, however they have named the peer. here: the peer is of this machine. ENOENT.
	 */
	struct Place {
		treadle_addr address;
		bool here;
	};
	[[nodiscard]] Result<Place> place(Peer peer) const noexcept;

private:
	using Object::Object;
	Result<treadle_av_lookup> look_up(Peer peer) const noexcept;
	static Result<AddressVector> make(const Context &context, std::uint32_t flags,
					  std::string_view name, std::uint32_t expected,
					  std::uint32_t context_bits) noexcept;
};

} // namespace treadle

#endif
