// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "base/provider.h"

#include <algorithm>

#include "domain/fabric.h"
#include "entry/get_info.h"

namespace treadle::fi
{

namespace
{

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
	fi_param_define(&treadle::fi::provider, "direct", FI_PARAM_BOOL,
			"Read and write memory of other processes of this node through windows, "
			"without system calls (default: yes)");
	fi_param_define(
		&treadle::fi::provider, "poll", FI_PARAM_INT,
		"A thread of the kernel looks at the transmit rings of endpoints, and sleeps "
		"after so many microseconds without a command (default: 0, none does)");
	return &treadle::fi::provider;
}
