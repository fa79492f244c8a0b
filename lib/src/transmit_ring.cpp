// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/transmit_ring.h>

#include <algorithm>
#include <cerrno>

#include <treadle/context.h>

namespace treadle
{

template <class Lock>
Result<BasicTransmitRing<Lock>>
BasicTransmitRing<Lock>::create(const Context &context, std::uint32_t entries, std::uint32_t flags,
				std::uint32_t idle) noexcept
{
	return create(context.device(), entries, flags, idle);
}

template <class Lock>
Result<BasicTransmitRing<Lock>> BasicTransmitRing<Lock>::create(int device, std::uint32_t entries,
								std::uint32_t flags,
								std::uint32_t idle) noexcept
{
	treadle_ring_create args{};

	args.flags = flags;
	args.entries = entries;
	args.idle = idle;
	auto ring = detail::DescriptorRing::create(device, TREADLE_IOC_TX_CREATE, args);
	if (!ring)
		return std::unexpected(ring.error());
	return BasicTransmitRing(device, args.id, std::move(*ring));
}

/*
 * A count less than pending_: a signal arrived, or a later command was refused. An error: that of
 * the first command that was not counted, which is consumed. Only the error of the last command is
 * returned: the posts of the others have returned 0 already. For the same reason EAGAIN leaves
 * these in the ring; the last one, behind them, is taken back, and its caller posts it again.
 * EPERM: this is a child after fork, where the kernel takes no command.
 */
template <class Lock> int BasicTransmitRing<Lock>::ring_on(int rc, std::uint32_t slots) noexcept
{
	for (;; rc = this->doorbell()) {
		if (rc == -EPERM) {
			ring_.abandon();
			pending_ = 0;
			return rc;
		}
		if (rc == -EAGAIN && (pending_ > 1 || !slots)) {
			if (slots) {
				ring_.retract(slots);
				--pending_;
			}
			return -EAGAIN;
		}
		pending_ -= rc < 0 ? 1 : rc;
		if (rc == 0 || pending_ <= 0) {
			pending_ = 0;
			return std::min(rc, 0);
		}
	}
}

/*
 * The doorbell takes all commands, those of other posts, too. Refusals are completions. An error
 * that can't be one (the command names no enabled endpoint) is returned if it is found here.
 */
template <class Lock> int BasicTransmitRing<Lock>::ring_polled() noexcept
{
	const int rc = this->doorbell();

	if (rc == -EPERM) /* a child after fork */
		ring_.abandon();
	return rc == -EAGAIN || rc == -EINTR ? 0 : std::min(rc, 0);
}

template <class Lock> std::error_code BasicTransmitRing<Lock>::rang(int result) noexcept
{
	const std::lock_guard guard(lock_);

	/* After EAGAIN the first command that was not taken is still there. */
	if (result != -EAGAIN)
		pending_ = std::max(pending_ - (result < 0 ? 1 : result), 0);
	if (result == -EPERM) {
		ring_.abandon();
		pending_ = 0;
	}
	return detail::status(result);
}

/* Commands that no doorbell has taken are the last ones in the ring: take them back. */
template <class Lock>
void BasicTransmitRing<Lock>::take_back(std::span<const Command> posted) noexcept
{
	std::uint32_t slots = 0;

	for (const Command &command : posted.last(static_cast<std::size_t>(pending_)))
		slots += command.slots();
	ring_.retract(slots);
	pending_ = 0;
}

template <class Lock>
Posted BasicTransmitRing<Lock>::drain(std::span<const Command> posted) noexcept
{
	while (pending_ > 0) {
		const int rc = this->doorbell();

		if (rc == -EPERM)
			return {0, detail::status(ring_on(rc, 0))};
		pending_ -= rc < 0 ? 1 : rc ?: pending_;
		if (rc < 0) {
			const auto behind = static_cast<std::size_t>(pending_);

			take_back(posted);
			return {posted.size() - behind - 1, detail::status(rc)};
		}
	}
	return {posted.size(), from_errno(0)};
}

template <class Lock>
Posted BasicTransmitRing<Lock>::post_all(std::span<const Command> commands) noexcept
{
	const std::lock_guard guard(lock_);

	if (ring_.polled()) {
		for (std::size_t i = 0; i < commands.size(); ++i)
			if (const int rc = put_polled(commands[i]))
				return {i, detail::status(rc)};
		return {commands.size(), from_errno(0)};
	}
	if (pending_)
		ring(0);
	if (pending_)
		return {0, from_errno(EAGAIN)};
	for (std::size_t i = 0; i < commands.size(); ++i) {
		int rc = ring_.put(commands[i]);

		if (rc && pending_) {
			if (const Posted before = drain(commands.first(i)); before.error)
				return before;
			rc = ring_.put(commands[i]);
		}
		if (rc)
			return {i, detail::status(rc)};
		++pending_;
	}
	return drain(commands);
}

template class BasicTransmitRing<NoLock>;
template class BasicTransmitRing<Mutex>;

} // namespace treadle
