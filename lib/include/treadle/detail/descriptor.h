// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_DETAIL_DESCRIPTOR_H
#define TREADLE_DETAIL_DESCRIPTOR_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <treadle/message.h>
#include <treadle/result.h>

namespace treadle::detail
{

/* What a Command consists of: a descriptor, and the slots behind it, one for each vector. */
class TREADLE_API Descriptor
{
public:
	/* Copies only the vectors that exist: most commands have none, and room for 512 bytes. */
	Descriptor(const Descriptor &other) noexcept
		: desc_(other.desc_), range_len_(other.range_len_), result_len_(other.result_len_),
		  compare_len_(other.compare_len_), vector_count_(other.vector_count_)
	{
		std::copy_n(other.vectors_, vector_count_, vectors_);
	}
	Descriptor &operator=(const Descriptor &other) noexcept
	{
		if (this == &other)
			return *this;
		desc_ = other.desc_;
		range_len_ = other.range_len_;
		result_len_ = other.result_len_;
		compare_len_ = other.compare_len_;
		vector_count_ = other.vector_count_;
		std::copy_n(other.vectors_, vector_count_, vectors_);
		return *this;
	}

	const treadle_desc &desc() const noexcept { return desc_; }
	/* The slots behind the descriptor, in order. */
	std::span<const treadle_slot> vectors() const noexcept { return {vectors_, vector_count_}; }
	std::uint32_t slots() const noexcept { return 1 + vector_count_; }
	/*
	 * False: a single buffer or range does not have the length of the data, or a vector is too
	 * long. The kernel can't see that, so the post says EINVAL.
	 */
	bool whole() const noexcept
	{
		const auto fits = [&](std::uint64_t len) {
			return len == as_data || len == desc_.len;
		};

		return desc_.iov_count <= TREADLE_MAX_IOV &&
		       desc_.rma_iov_count <= TREADLE_MAX_RMA_IOV &&
		       desc_.fetch_iov_count <= TREADLE_MAX_IOV && fits(range_len_) &&
		       fits(result_len_) && fits(compare_len_);
	}

protected:
	Descriptor(std::uint8_t opcode, std::uint64_t peer) noexcept
	{
		desc_.opcode = opcode;
		desc_.peer = peer;
	}

	/* Each replaces the vector of before: see Command. */
	void put_buffers(std::span<const treadle_iov> iov) noexcept;
	void put_ranges(std::span<const treadle_rma_iov> iov) noexcept;
	void put_results(std::span<const treadle_iov> results,
			 std::span<const treadle_iov> compares) noexcept;

	static constexpr std::uint64_t as_data = UINT64_MAX;

	treadle_desc desc_{};
	/* Lengths of single ranges, results and comparands, if they were given. */
	std::uint64_t range_len_ = as_data, result_len_ = as_data, compare_len_ = as_data;

private:
	static constexpr __u64 too_long = UINT64_MAX - 1;

	/* Puts a vector into its place among the slots, or removes its slot. */
	template <class Iov>
	void put(std::uint32_t place, bool had, std::span<const Iov> iov, bool has) noexcept;

	std::uint32_t vector_count_ = 0;
	treadle_slot vectors_[4]; /* buffers, remote ranges, results, comparands */
};

} // namespace treadle::detail

#endif
