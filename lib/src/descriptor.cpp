// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/detail/descriptor.h>

#include <algorithm>
#include <cstring>

namespace treadle::detail
{

namespace
{

/* Limits a count to one more than the most, which the post refuses. */
std::uint8_t count_of(std::size_t n, std::size_t most) noexcept
{
	return static_cast<std::uint8_t>(std::min(n, most + 1));
}

/* The same for vectors that must not be empty: the kernel would take 0 for 1. */
std::uint8_t some_of(std::size_t n, std::size_t most) noexcept
{
	return count_of(n ? n : most + 1, most);
}

/* A single element is in the descriptor. A vector that is too long has no slot. */
bool has_slot(std::size_t n, std::size_t most) noexcept
{
	return n > 1 && n <= most;
}

} // namespace

template <class Iov>
void Descriptor::put(std::uint32_t place, bool had, std::span<const Iov> iov, bool has) noexcept
{
	treadle_slot *at = vectors_ + place;

	if (has != had) {
		treadle_slot *from = at + (had ? 1 : 0);
		std::memmove(at + (has ? 1 : 0), from,
			     (vectors_ + vector_count_ - from) * sizeof(*at));
		vector_count_ += has ? 1 : -1;
	}
	if (has)
		std::memcpy(at->bytes, iov.data(), iov.size_bytes());
}

void Descriptor::put_buffers(std::span<const treadle_iov> iov) noexcept
{
	put(0, has_slot(desc_.iov_count, TREADLE_MAX_IOV), iov,
	    has_slot(iov.size(), TREADLE_MAX_IOV));
	desc_.iov_count = count_of(iov.size(), TREADLE_MAX_IOV);
	desc_.addr = iov.size() == 1 ? iov[0].addr : 0;
	/* An atomic that only reads has no operands, but a length: that of its results. */
	if (!iov.empty() || !(desc_.opcode == TREADLE_OP_FETCH))
		desc_.len = total(iov);
}

void Descriptor::put_ranges(std::span<const treadle_rma_iov> iov) noexcept
{
	put(has_slot(desc_.iov_count, TREADLE_MAX_IOV),
	    has_slot(desc_.rma_iov_count, TREADLE_MAX_RMA_IOV), iov,
	    has_slot(iov.size(), TREADLE_MAX_RMA_IOV));
	desc_.rma_iov_count = some_of(iov.size(), TREADLE_MAX_RMA_IOV);
	desc_.remote_addr = iov.size() == 1 ? iov[0].addr : 0;
	desc_.remote_key = iov.size() == 1 ? iov[0].key : 0;
	range_len_ = iov.size() == 1 ? std::min(iov[0].len, too_long) : as_data;
	/* A single range is in the first cache line; the count of others is in the second. */
	if (iov.size() != 1)
		desc_.flags |= TREADLE_F_EXT;
}

void Descriptor::put_results(std::span<const treadle_iov> results,
			     std::span<const treadle_iov> compares) noexcept
{
	const std::size_t count = std::max(results.size(), compares.size());
	const bool compare = desc_.opcode == TREADLE_OP_COMPARE;
	const std::uint32_t place =
		std::uint32_t{has_slot(desc_.iov_count, TREADLE_MAX_IOV)} +
		std::uint32_t{has_slot(desc_.rma_iov_count, TREADLE_MAX_RMA_IOV)};
	const bool had = has_slot(desc_.fetch_iov_count, TREADLE_MAX_IOV);
	const bool has = has_slot(count, TREADLE_MAX_IOV);
	treadle_iov full[TREADLE_MAX_IOV]{};

	desc_.fetch_iov_count = some_of(count, TREADLE_MAX_IOV);
	desc_.result = count == 1 && !results.empty() ? results[0].addr : 0;
	desc_.compare = count == 1 && !compares.empty() ? compares[0].addr : 0;
	result_len_ = count == 1 ? std::min<__u64>(total(results), too_long) : as_data;
	compare_len_ = count == 1 && compare ? std::min<__u64>(total(compares), too_long) : as_data;
	if (desc_.atomic_op == TREADLE_ATOMIC_READ && !compare)
		desc_.len = total(results);
	if (has)
		std::ranges::copy(results, full);
	put(place, had, std::span<const treadle_iov>(full), has);
	if (compare) {
		std::ranges::fill(full, treadle_iov{});
		if (has)
			std::ranges::copy(compares, full);
		put(place + (has ? 1 : 0), had, std::span<const treadle_iov>(full), has);
	}
	desc_.flags |= TREADLE_F_EXT;
}

} // namespace treadle::detail
