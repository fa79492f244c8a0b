// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "base/provider.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include <dlfcn.h>

namespace treadle::fi
{

namespace
{

/* The newest version of a libfabric symbol in this process. */
template <class F> F *newest(const char *symbol, F *linked) noexcept
{
	void *found = dlsym(RTLD_DEFAULT, symbol);

	return found ? reinterpret_cast<F *>(found) : linked;
}

} // namespace

fi_info *dup_info(const fi_info *info) noexcept
{
	static const auto dup = newest("fi_dupinfo", ::fi_dupinfo);

	return dup(info);
}

void free_info(fi_info *info) noexcept
{
	static const auto free = newest("fi_freeinfo", ::fi_freeinfo);

	free(info);
}

int log_refusal(int error, fi_log_subsys subsys, const char *func, int line, const char *fmt, ...)
{
	char text[1024];
	va_list args;

	if (fi_log_enabled(&provider, FI_LOG_WARN, subsys)) {
		va_start(args, fmt);
		std::vsnprintf(text, sizeof(text), fmt, args);
		va_end(args);
		fi_log(&provider, FI_LOG_WARN, subsys, func, line, "%s: %s\n", text,
		       fi_strerror(-error));
	}
	return error;
}

bool direct_wanted() noexcept
{
	int value = 1;

	return fi_param_get_bool(&provider, "direct", &value) || value;
}

int fabric_error(int error) noexcept
{
	switch (-error) {
	case ENOTCONN: /* not enabled yet */
	case EISCONN:
		return -FI_EOPBADSTATE;
	case EDESTADDRREQ: /* no such entry in the address vector */
		return -FI_EADDRNOTAVAIL;
	case EEXIST: /* memory key in use: fi_mr(3) */
		return -FI_ENOKEY;
	default:
		return error;
	}
}

} // namespace treadle::fi
