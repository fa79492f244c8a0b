// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_QUERY_COLLECTIVE_H
#define TREADLE_PROVIDER_QUERY_COLLECTIVE_H

#include <cstddef>
#include <cstdint>

#include <rdma/fi_collective.h>

#include "domain/domain.h"

namespace treadle::fi
{

int query_collective(fid_domain *domain, fi_collective_op what, fi_collective_attr *attr,
		     std::uint64_t flags) noexcept;
/* Is such a collective possible? 0, or -errno. Fills in a fi_collective_attr. */
int check_collective(const Domain &domain, fi_collective_op what,
		     fi_collective_attr &attr) noexcept;

/* The most bytes of a reduction that a member contributes to each other member. */
inline constexpr std::size_t most_reduced = std::size_t{1} << 20;

constexpr bool reduces(fi_collective_op what) noexcept
{
	return what == FI_ALLREDUCE || what == FI_REDUCE || what == FI_REDUCE_SCATTER;
}

constexpr bool has_root(fi_collective_op what) noexcept
{
	return what == FI_BROADCAST || what == FI_REDUCE || what == FI_SCATTER || what == FI_GATHER;
}

} // namespace treadle::fi

#endif
