// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_getopt and fi_setopt of endpoints: fi_endpoint(3). */
#include "endpoint/options.h"

#include <algorithm>

#include "base/later.h"
#include "endpoint/port.h"
#include "endpoint/xpu.h"

namespace treadle::fi
{

namespace
{

/*
 * Options that are sizes of transfers: the capability needed, and the value. Returns false for
 * other options.
 */
bool get_size(const fi_info &info, int option, std::uint64_t &needed, std::size_t &answer) noexcept
{
	const std::size_t most = info.ep_attr->max_msg_size, inject = info.tx_attr->inject_size;
	const std::size_t most_atomic = std::min<std::size_t>(most, TREADLE_MAX_ATOMIC);
	const struct {
		int option;
		std::uint64_t cap;
		std::size_t size;
	} sizes[] = {
		{later::FI_OPT_MAX_MSG_SIZE, FI_MSG, most},
		{later::FI_OPT_MAX_TAGGED_SIZE, FI_TAGGED, most},
		{later::FI_OPT_MAX_RMA_SIZE, FI_RMA, most},
		{later::FI_OPT_MAX_ATOMIC_SIZE, FI_ATOMIC, most_atomic},
		{later::FI_OPT_INJECT_MSG_SIZE, FI_MSG, inject},
		{later::FI_OPT_INJECT_TAGGED_SIZE, FI_TAGGED, inject},
		{later::FI_OPT_INJECT_RMA_SIZE, FI_RMA, inject},
		{later::FI_OPT_INJECT_ATOMIC_SIZE, FI_ATOMIC, std::min(inject, most_atomic)},
	};
	const auto *found =
		std::ranges::find(sizes, option, &std::decay_t<decltype(*sizes)>::option);

	if (found == std::end(sizes))
		return false;
	needed = found->cap;
	answer = found->size;
	return true;
}

} // namespace

int get_option(fid_t f, int level, int option, void *value, std::size_t *size) noexcept
{
	const Endpoint &endpoint = Port::of(f).endpoint();
	const fi_info &info = endpoint.info();
	std::uint64_t needed;
	std::size_t answer;

	if (level != FI_OPT_ENDPOINT)
		return REFUSE(-FI_ENOPROTOOPT, FI_LOG_EP_CTRL, "getopt: level %d", level);
	if (!value || !size)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "getopt: NULL");
	switch (option) {
	case FI_OPT_TX_SIZE:
		answer = info.tx_attr->size;
		break;
	case FI_OPT_RX_SIZE:
		answer = info.rx_attr->size;
		break;
	case FI_OPT_CM_DATA_SIZE:
		if (!endpoint.connected())
			return REFUSE(-FI_ENOPROTOOPT, FI_LOG_EP_CTRL,
				      "getopt: CM_DATA_SIZE: no FI_EP_MSG");
		answer = TREADLE_CM_DATA;
		break;
	case FI_OPT_MIN_MULTI_RECV:
		answer = endpoint.min_multi_recv();
		break;
	case FI_OPT_FI_HMEM_P2P:
		if (*size < sizeof(int))
			return too_small(FI_LOG_EP_CTRL, "getopt", *size, sizeof(int));
		*size = sizeof(int);
		*static_cast<int *>(value) = endpoint.hmem_p2p;
		return 0;
	case FI_OPT_XPU_TRIGGER:
		return xpu_variables(endpoint, value, size);
	default:
		if (!get_size(info, option, needed, answer))
			return REFUSE(-FI_ENOPROTOOPT, FI_LOG_EP_CTRL, "getopt: option %d", option);
		if (needed & ~(endpoint.tx_caps() | endpoint.rx_caps()))
			return REFUSE(-FI_ENOPROTOOPT, FI_LOG_EP_CTRL,
				      "getopt: option %d: the endpoint has no %s", option,
				      Text(needed, FI_TYPE_CAPS).c_str());
	}
	if (*size < sizeof(answer))
		return too_small(FI_LOG_EP_CTRL, "getopt", *size, sizeof(answer));
	*size = sizeof(answer);
	*static_cast<std::size_t *>(value) = answer;
	return 0;
}

namespace
{

/* Device memory is not supported at all, so transfers between devices never happen. */
int set_p2p(Endpoint &endpoint, const void *value, std::size_t size) noexcept
{
	if (size != sizeof(int))
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "setopt: a value of %zu bytes", size);
	switch (*static_cast<const int *>(value)) {
	case FI_HMEM_P2P_ENABLED: /* "may be used" */
	case FI_HMEM_P2P_PREFERRED:
	case FI_HMEM_P2P_DISABLED:
		endpoint.hmem_p2p = *static_cast<const int *>(value);
		return 0;
	case FI_HMEM_P2P_REQUIRED:
		return REFUSE(-FI_EOPNOTSUPP, FI_LOG_EP_CTRL,
			      "setopt: HMEM_P2P: there is none to be required");
	default:
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "setopt: HMEM_P2P: %d",
			      *static_cast<const int *>(value));
	}
}

} // namespace

int set_option(fid_t f, int level, int option, const void *value, std::size_t size) noexcept
{
	if (!value)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "setopt: NULL");
	if (level == FI_OPT_ENDPOINT && option == FI_OPT_FI_HMEM_P2P)
		return set_p2p(Port::of(f).endpoint(), value, size);
	if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV)
		return REFUSE(-FI_ENOPROTOOPT, FI_LOG_EP_CTRL,
			      "setopt: level %d, option %d: only FI_OPT_MIN_MULTI_RECV can be set",
			      level, option);
	if (size != sizeof(std::size_t))
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "setopt: a value of %zu bytes", size);
	Port::of(f).endpoint().set_min_multi_recv(*static_cast<const std::size_t *>(value));
	return 0;
}

} // namespace treadle::fi
