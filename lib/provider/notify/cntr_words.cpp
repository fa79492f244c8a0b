// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "notify/cntr_words.h"

#include <tuple>

#include "base/provider.h"

namespace treadle::fi
{

namespace
{

/* Sets place to where the XPU finds words that it has. 0 or -FI_EBUSY. */
template <class Word>
int find(const DeviceWords::Lease &lease, const Xpu &xpu, Word *&place) noexcept
{
	if (lease.xpu() != xpu)
		return REFUSE(-FI_EBUSY, FI_LOG_CNTR, "the counter has a word for another device");
	place = lease.place();
	return 0;
}

int failed(std::error_code error, const char *what) noexcept
{
	return REFUSE(fabric_error(negative(error)), FI_LOG_CNTR, "%s", what);
}

int no_words(int error) noexcept
{
	return REFUSE(error == -ENOSPC ? -FI_ENOMEM : fabric_error(error), FI_LOG_CNTR,
		      "no word for a device");
}

} // namespace

int CntrWords::follow(Counter &counter, DeviceWords &words, const Xpu &xpu, std::uint64_t *&place)
{
	const std::lock_guard guard(lock_);

	if (!word_) {
		auto lease = words.take(xpu);

		if (!lease)
			return no_words(lease.error());
		if (const auto error = counter.follow(lease->cells().id(), lease->index()))
			return failed(error, "following a word");
		word_.emplace(std::move(*lease));
	}
	return find(*word_, xpu, place);
}

int CntrWords::copy(Counter &counter, DeviceWords &words, const Xpu &xpu,
		    const std::uint64_t *&place)
{
	const std::lock_guard guard(lock_);

	if (!copy_) {
		auto lease = words.take(xpu);

		if (!lease)
			return no_words(lease.error());
		if (const auto error = counter.copy_to(lease->cells().id(), lease->index()))
			return failed(error, "copying a counter");
		copy_.emplace(std::move(*lease));
	}
	return find(*copy_, xpu, place);
}

void CntrWords::pause(Counter &counter) noexcept
{
	const std::lock_guard guard(lock_);

	if (word_)
		std::ignore = counter.unfollow(word_->cells().id(), word_->index());
	if (copy_)
		std::ignore = counter.end_copy();
}

void CntrWords::resume(Counter &counter) noexcept
{
	const std::lock_guard guard(lock_);

	if (word_) {
		const std::uint64_t counted = word_->cells().done(word_->index());

		if (const auto error = counter.follow(word_->cells().id(), word_->index(), counted))
			std::ignore = failed(error, "close: the device's word counts no more");
	}
	if (copy_) {
		if (const auto error = counter.copy_to(copy_->cells().id(), copy_->index()))
			std::ignore = failed(error, "close: the device's copy has ended");
	}
}

} // namespace treadle::fi
