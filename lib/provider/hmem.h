// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_HMEM_H
#define TREADLE_PROVIDER_HMEM_H

#include <compare>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>

#include <rdma/fi_trigger.h>

/* Memory as the interfaces of devices see it: FI_HMEM_CUDA, FI_HMEM_ZE, and the processor's own. */
namespace treadle::fi
{

/* What will write a trigger variable. */
struct Xpu {
	explicit Xpu(const fi_trigger_xpu &xpu) noexcept;

	auto operator<=>(const Xpu &) const = default;

	fi_hmem_iface iface;
	int device; /* as fi_mr(3) numbers them */
};

/* Where an XPU finds words of the process. It can write them for as long as one of these is there. */
using Seen = std::shared_ptr<std::uint64_t>;

/*
 * Whole pages of the process's, that an XPU is to write; or -FI_EOPNOTSUPP, and in the log why it cannot.
 * May throw.
 */
std::expected<Seen, int> seen_by(const Xpu &xpu, std::uint64_t *words, std::size_t size);

} // namespace treadle::fi

#endif
