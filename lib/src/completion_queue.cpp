// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/completion_queue.h>

#include <treadle/context.h>

namespace treadle
{

template <class Lock>
Result<BasicCompletionQueue<Lock>>
BasicCompletionQueue<Lock>::create(const Context &context, std::uint32_t entries) noexcept
{
	treadle_cq_create args{};

	args.entries = entries;
	auto ring = detail::CompletionRing::create(context.device(), args);
	if (!ring)
		return std::unexpected(ring.error());
	return BasicCompletionQueue(context.device(), args.id, std::move(*ring));
}

template <class Lock> int BasicCompletionQueue<Lock>::refill_by_doorbell() noexcept
{
	if (const int rc = this->doorbell(); rc < 0)
		return rc;
	return ring_.tail() == ring_.head() ? -EAGAIN : 1;
}

template class BasicCompletionQueue<NoLock>;
template class BasicCompletionQueue<Mutex>;

} // namespace treadle
