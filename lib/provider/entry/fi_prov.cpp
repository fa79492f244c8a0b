// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "base/provider.h"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include <dlfcn.h>

#include "info/info.h"
#include "domain/fabric.h"

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

void cleanup() noexcept {}

} // namespace

fi_provider provider{
	.version = version,
	.fi_version = FI_VERSION(1, 17),
	.context = {},
	.name = name,
	.getinfo = get_info,
	.fabric = opens<Fabric::open>,
	.cleanup = cleanup,
};

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

/*
 * libfabric refuses a provider with a newer fi_version than its own. Within 2.x, as from 1.17 to
 * 2.0, structures grow at their end and values are added. This provider refuses unknown values and
 * sets unknown fields to 0, so it claims the version of the library that loads it.
 */
extern "C" FI_EXT_INI
{
	treadle::fi::provider.fi_version =
		std::min<std::uint32_t>(fi_version(), FI_VERSION(2, 0xffff));
	fi_param_define(
		&treadle::fi::provider, "one_node", FI_PARAM_BOOL,
		"All peers are on this node, so FI_REMOTE_COMM may be offered (default: no)");
	return &treadle::fi::provider;
}
