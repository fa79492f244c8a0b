// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Marks buffers that the kernel will write as defined, for memcheck: detail/memcheck.h. */
#include <cstdint>

#include <treadle/detail/memcheck.h>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND				    0
#define VALGRIND_MAKE_MEM_DEFINED_IF_ADDRESSABLE(addr, len) ((void)(addr), (void)(len))
#endif

namespace treadle::detail
{

const bool on_memcheck = [] { return RUNNING_ON_VALGRIND != 0; }();

namespace
{

/* memcheck looks at each byte, so a region of all addresses would take too long. */
constexpr std::uint64_t most = std::uint64_t{1} << 30;

void mark(std::uint64_t addr, std::uint64_t len) noexcept
{
	if (len <= most)
		VALGRIND_MAKE_MEM_DEFINED_IF_ADDRESSABLE(addr, len);
}

bool takes_data(std::uint8_t opcode) noexcept
{
	return opcode == TREADLE_OP_RECV || opcode == TREADLE_OP_TRECV || opcode == TREADLE_OP_READ;
}

bool takes_results(std::uint8_t opcode) noexcept
{
	return opcode == TREADLE_OP_FETCH || opcode == TREADLE_OP_COMPARE;
}

} // namespace

void mark_defined(std::span<const treadle_iov> buffers) noexcept
{
	for (const treadle_iov &buffer : buffers)
		mark(buffer.addr, buffer.len);
}

/* Vectors are in slots of their own: buffers, remote ranges, results, comparands. */
void mark_defined(const treadle_desc &desc, const treadle_slot *vectors) noexcept
{
	if (takes_data(desc.opcode) && desc.iov_count > 1)
		mark_defined(std::span(vectors->iov, desc.iov_count));
	else if (takes_data(desc.opcode))
		mark(desc.addr, desc.iov_count ? desc.len : 0);
	if (!takes_results(desc.opcode) || !(desc.flags & TREADLE_F_EXT))
		return;
	vectors += (desc.iov_count > 1) + (desc.rma_iov_count > 1);
	if (desc.fetch_iov_count > 1)
		mark_defined(std::span(vectors->iov, desc.fetch_iov_count));
	else
		mark(desc.result, desc.len);
}

} // namespace treadle::detail
