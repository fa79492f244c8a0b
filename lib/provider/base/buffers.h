// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_BUFFERS_H
#define TREADLE_PROVIDER_BUFFERS_H

#include <array>
#include <cstddef>
#include <span>

#include <sys/uio.h>

#include <treadle/message.h>
#include <treadle/ring.h>

namespace treadle::fi
{

/* A vector of one operation, as kernel structures. */
template <class Iov, std::size_t Most> class Vector
{
public:
	template <class From, class Translate>
	Vector(const From *iov, std::size_t count, Translate translate) noexcept : count_(count)
	{
		if (!iov && count) /* NULL has no elements */
			count_ = Most + 1;
		for (std::size_t i = 0; iov && i < count && i < Most; ++i)
			iov_[i] = translate(iov[i]);
	}
	bool too_many() const noexcept { return count_ > Most; }
	std::span<const Iov> span() const noexcept { return {iov_.data(), count_}; }

private:
	std::array<Iov, Most> iov_;
	std::size_t count_;
};

struct Buffers : Vector<treadle_iov, TREADLE_MAX_IOV> {
	Buffers(const iovec *iov, std::size_t count) noexcept
		: Vector(iov, count, [](const iovec &from) {
			  return treadle_iov{address_of(from.iov_base), from.iov_len};
		  })
	{
	}
};

} // namespace treadle::fi

#endif
