// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_COMPARISON_H
#define TREADLE_PROVIDER_COMPARISON_H

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "base/provider.h"

namespace treadle::fi
{

/* Compares attributes one by one, and logs the one that differs. */
class Comparison
{
public:
	Comparison(const char *call, fi_log_level level) noexcept : call_(call), level_(level) {}

	bool at_most(const char *what, std::uint64_t asked, std::uint64_t offered) const
	{
		if (asked <= offered)
			return true;
		return refuse("%s: %" PRIu64 " asked, at most %" PRIu64 " offered", what, asked,
			      offered);
	}
	bool within(const char *what, std::uint64_t asked, std::uint64_t offered,
		    fi_type type) const
	{
		const std::uint64_t excess = asked & ~offered;
		if (!excess)
			return true;
		return refuse("%s: %s (0x%" PRIx64 ") asked, not offered", what,
			      Text(excess, type).c_str(), excess);
	}
	bool same(const char *what, const char *asked, const char *offered) const
	{
		if (!asked || !std::strcmp(asked, offered))
			return true;
		return refuse("%s: \"%s\" asked, it is \"%s\"", what, asked, offered);
	}
	/* Zero asks for nothing in particular and always agrees. */
	template <class T>
	bool one_of(const char *what, T asked, std::initializer_list<T> offered) const
	{
		if (!asked || std::find(offered.begin(), offered.end(), asked) != offered.end())
			return true;
		return refuse("%s: %" PRIu64 " asked, not offered", what, std::uint64_t{asked});
	}
	bool refuse(const char *fmt, ...) const __attribute__((format(printf, 2, 3)))
	{
		char text[1024];
		va_list args;

		va_start(args, fmt);
		std::vsnprintf(text, sizeof(text), fmt, args);
		va_end(args);
		FI_LOG(&provider, level_, FI_LOG_CORE, "%s: %s\n", call_, text);
		return false;
	}

private:
	const char *call_;
	fi_log_level level_;
};

} // namespace treadle::fi

#endif
