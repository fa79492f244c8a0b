// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_HMEM_H
#define TREADLE_PROVIDER_HMEM_H

#include <compare>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>

#include <rdma/fi_trigger.h>

/* Memory as device interfaces see it: FI_HMEM_CUDA, FI_HMEM_ZE, and the processor's own. */
namespace treadle::fi
{

/* The device that writes a trigger variable. */
struct Xpu {
	explicit Xpu(const fi_trigger_xpu &xpu) noexcept;

	auto operator<=>(const Xpu &) const = default;

	fi_hmem_iface iface;
	int device; /* as fi_mr(3) numbers them */
};

/*
 * The address at which an XPU sees words of the process. It can write them while a copy of this
 * exists.
 */
using Seen = std::shared_ptr<std::uint64_t>;

/*
 * Makes whole pages of the process visible to an XPU that will write them. Returns -FI_EOPNOTSUPP
 * and logs why if it can't. May throw.
 */
std::expected<Seen, int> seen_by(const Xpu &xpu, std::uint64_t *words, std::size_t size);

} // namespace treadle::fi

#endif
