// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/refusals.h"

#include "base/provider.h"

namespace treadle::fi
{

const char *name_of(std::uint8_t opcode) noexcept
{
	switch (opcode) {
	case TREADLE_OP_SEND:
		return "send";
	case TREADLE_OP_TSEND:
		return "tsend";
	case TREADLE_OP_RECV:
		return "recv";
	case TREADLE_OP_TRECV:
		return "trecv";
	case TREADLE_OP_READ:
		return "read";
	case TREADLE_OP_WRITE:
		return "write";
	case TREADLE_OP_ATOMIC:
		return "atomic";
	case TREADLE_OP_FETCH:
		return "fetch_atomic";
	case TREADLE_OP_COMPARE:
		return "compare_atomic";
	default:
		return "post";
	}
}

ssize_t posting_failed(int error, const char *what) noexcept
{
	/*
	 * Not logged: a full queue is normal, and so is the limit of armed commands until some have
	 * started.
	 */
	if (error == -EAGAIN || error == -ENOSPC)
		return -FI_EAGAIN;
	/* An endpoint with rings is enabled, so ENOTCONN means that it has no connection. */
	return REFUSE(error == -ENOTCONN ? -FI_ENOTCONN : fabric_error(error), FI_LOG_EP_DATA, "%s",
		      what);
}

int no_receiver(const char *what) noexcept
{
	return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_DATA,
		      "%s: no enabled endpoint receives at this shared context", what);
}

bool wraps(std::span<const treadle_iov> buffers) noexcept
{
	std::uint64_t sum = 0;

	for (const treadle_iov &buffer : buffers) {
		if (wraps(buffer.addr, buffer.len) || wraps(sum, buffer.len))
			return true;
		sum += buffer.len;
	}
	return false;
}

ssize_t length_refused(const char *what) noexcept
{
	return REFUSE(-FI_EINVAL, FI_LOG_EP_DATA,
		      "%s: a buffer ends behind the last address, or they have 2^64 bytes or more",
		      what);
}

ssize_t flags_refused(std::uint64_t flags, const char *what) noexcept
{
	if (!flags)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_DATA, "%s: more than %d buffers", what,
			      TREADLE_MAX_IOV);
	return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_DATA,
		      "%s: flags %s (0x%" PRIx64 ") are not supported", what,
		      Text(flags, FI_TYPE_OP_FLAGS).c_str(), flags);
}

} // namespace treadle::fi
