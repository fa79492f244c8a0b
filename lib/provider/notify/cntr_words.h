// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_CNTR_WORDS_H
#define TREADLE_PROVIDER_CNTR_WORDS_H

#include <mutex>
#include <optional>

#include <treadle/counter.h>

#include "domain/device_words.h"

namespace treadle::fi
{

/*
 * What devices have of a counter: a word to add by, and a copy to poll (fi_treadle(7)). Calls
 * return 0 or -FI_errno. Thread-safe.
 */
class CntrWords
{
public:
	/* The address of the word for this XPU. -FI_EBUSY: another XPU has it. May throw. */
	int follow(Counter &counter, DeviceWords &words, const Xpu &xpu, std::uint64_t *&place);
	/* The same of the copy. */
	int copy(Counter &counter, DeviceWords &words, const Xpu &xpu, const std::uint64_t *&place);

	/* The counter is to be closed: lets the kernel have neither. */
	void pause(Counter &counter) noexcept;
	/* It was not closed: both go on, and nothing that was stored meanwhile is lost. */
	void resume(Counter &counter) noexcept;

private:
	std::mutex lock_;
	std::optional<DeviceWords::Lease> word_, copy_;
};

} // namespace treadle::fi

#endif
