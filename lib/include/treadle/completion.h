// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_COMPLETION_H
#define TREADLE_COMPLETION_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <treadle/address.h>
#include <treadle/peer.h>
#include <treadle/result.h>
#include <treadle/ring.h>

namespace treadle
{

/* How an operation ended: a value, a copy of the struct treadle_cqe that the kernel wrote. */
class Completion
{
public:
	Completion() noexcept : cqe_{} {}
	explicit Completion(const treadle_cqe &cqe) noexcept : cqe_(cqe) {}

	/* Why the operation failed; false: it succeeded. */
	std::error_code error() const noexcept { return from_errno(static_cast<int>(cqe_.error)); }
	/* Of the command. */
	std::uint64_t context() const noexcept { return cqe_.context; }
	/* TREADLE_CQ_*: which operation it was, and which of the fields below it has. */
	std::uint32_t flags() const noexcept { return cqe_.flags; }

	/* A receive: bytes that were placed; a peek: bytes of the message. */
	std::size_t size() const noexcept { return cqe_.len; }
	/* A receive with one buffer: what was placed there. */
	std::span<std::byte> received() const noexcept
	{
		return {reinterpret_cast<std::byte *>(cqe_.buf), cqe_.buf ? cqe_.len : 0};
	}
	/* TREADLE_ETRUNC: bytes that did not fit. */
	std::size_t cut() const noexcept { return cqe_.olen; }
	/* A tagged receive: the tag of the message. */
	std::uint64_t tag() const noexcept { return cqe_.tag; }
	/* Remote CQ data, if the peer has sent some. */
	std::optional<std::uint64_t> data() const noexcept
	{
		if (cqe_.flags & TREADLE_CQ_REMOTE_CQ_DATA)
			return cqe_.data;
		return std::nullopt;
	}
	/* The sender, with TREADLE_EP_SOURCE; Peer::any: it is not in the address vector. */
	Peer source() const noexcept { return Peer{cqe_.src}; }
	/* The sender's address, with EADDRNOTAVAIL and TREADLE_EP_SOURCE_ERR. */
	treadle_addr sender() const noexcept { return sender_of(cqe_); }

	const treadle_cqe &cqe() const noexcept { return cqe_; }

private:
	treadle_cqe cqe_;
};

} // namespace treadle

#endif
