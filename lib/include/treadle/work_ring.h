// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_WORK_RING_H
#define TREADLE_WORK_RING_H

#include <span>

#include <treadle/transmit_ring.h>

namespace treadle
{

/**
 * The ring of a context, for commands of no endpoint: deferred work, graphs, changes to counters.
 * Calls are those of BasicTransmitRing. Context::open has chosen whether they lock.
 */
class TREADLE_API WorkRing
{
public:
	virtual ~WorkRing() = default;

	/* Without vectors. */
	[[nodiscard]] virtual std::error_code post(const Message &message) noexcept = 0;
	[[nodiscard]] virtual std::error_code post(const Command &command) noexcept = 0;
	[[nodiscard]] virtual Posted post_all(std::span<const Command> commands) noexcept = 0;
};

} // namespace treadle

#endif
