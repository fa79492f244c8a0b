// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_REFUSES_H
#define TREADLE_PROVIDER_REFUSES_H

#include "base/provider.h"

namespace treadle::fi
{

/* A function of any signature that refuses with Error. */
template <int Error> struct Refuses {
	template <class R, class... A> using Function = R (*)(A...);
	template <class R, class... A> operator Function<R, A...>() const noexcept
	{
		return [](A...) -> R { return REFUSE(Error, FI_LOG_EP_DATA, "%s", reason()); };
	}
	static const char *reason() noexcept
	{
		switch (Error) {
		case -FI_EOPBADSTATE:
			return "the endpoint is not enabled";
		case -FI_ENOCQ:
			return "the endpoint has no queue or counter for this";
		default:
			return "the endpoint was not opened for this";
		}
	}
};
inline constexpr Refuses<-FI_ENOSYS> not_opened_for;

} // namespace treadle::fi

#endif
