// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_QUERY_ATOMIC_H
#define TREADLE_PROVIDER_QUERY_ATOMIC_H

#include <cstdint>

#include <rdma/fi_atomic.h>

#include "domain/domain.h"

namespace treadle::fi
{

/* flags: FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC, or neither. Fills in the answer of fi_query_atomic. */
int query_atomic(const Domain &domain, int datatype, int op, fi_atomic_attr &attr,
		 std::uint64_t flags) noexcept;

} // namespace treadle::fi

#endif
