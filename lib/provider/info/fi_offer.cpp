// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "info/offer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <rdma/fi_endpoint.h>

#include "info/address.h"
#include "info/caps.h"

namespace treadle::fi
{

namespace
{

constexpr std::size_t most_contexts = 256; /* of one kind, of a scalable endpoint */

/* The protocol is provider-specific, so the top bit is set: fi_endpoint(3). */
constexpr std::uint32_t protocol = FI_PROV_SPECIFIC | 0x74726c; /* "trl" */
constexpr std::uint32_t protocol_version = 1;

} // namespace

bool one_node() noexcept
{
	int value = 0;

	return !fi_param_get_bool(&provider, "one_node", &value) && value;
}

std::uint32_t poll_idle(const treadle_query &kernel) noexcept
{
	int value = 0;

	if (!(kernel.features & TREADLE_FEATURE_TX_POLLED) ||
	    fi_param_get_int(&provider, "poll", &value) || value <= 0)
		return 0;
	return std::min<std::uint32_t>(static_cast<std::uint32_t>(value), TREADLE_MAX_IDLE);
}

bool has_type(const treadle_query &kernel, fi_ep_type type) noexcept
{
	switch (type) {
	case FI_EP_RDM:
		return true;
	case FI_EP_MSG:
		return kernel.features & TREADLE_FEATURE_MSG_EP;
	case FI_EP_DGRAM:
		return kernel.features & TREADLE_FEATURE_DGRAM_EP;
	default:
		return false;
	}
}

InfoPtr offer(const treadle_query &kernel, fi_ep_type type) noexcept
{
	InfoPtr info(dup_info(nullptr));
	const auto has = [&](treadle_opcode op) { return kernel.opcodes >> op & 1; };

	if (!info || !(info->fabric_attr->name = strdup(name)) ||
	    !(info->domain_attr->name = strdup(name)))
		return nullptr;
	info->fabric_attr->prov_version = version; /* libfabric sets the provider's name */

	info->caps = FI_LOCAL_COMM | FI_SEND | FI_RECV;
	if (one_node() || kernel.features & TREADLE_FEATURE_REMOTE)
		info->caps |= FI_REMOTE_COMM;
	if (type != FI_EP_MSG) /* messages of a connection have one source */
		info->caps |= FI_SOURCE | FI_SOURCE_ERR | FI_DIRECTED_RECV;
	if (has(TREADLE_OP_SEND) && has(TREADLE_OP_RECV))
		info->caps |= FI_MSG;
	if (has(TREADLE_OP_TSEND) && has(TREADLE_OP_TRECV))
		info->caps |= FI_TAGGED;
	const bool memory = type != FI_EP_DGRAM; /* datagrams only carry messages */
	if (memory && has(TREADLE_OP_READ) && has(TREADLE_OP_WRITE))
		info->caps |= FI_RMA;
	if (memory && has(TREADLE_OP_ATOMIC) && has(TREADLE_OP_FETCH) && has(TREADLE_OP_COMPARE))
		info->caps |= FI_ATOMIC;
	if (info->caps & (FI_RMA | FI_ATOMIC))
		info->caps |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT;
	/* Collectives use these, and endpoints without a connection. */
	if (type == FI_EP_RDM && info->caps & FI_TAGGED && info->caps & FI_ATOMIC &&
	    kernel.desc_flags & TREADLE_F_COLLECTIVE)
		info->caps |= FI_COLLECTIVE;
	if (kernel.features & TREADLE_FEATURE_TRIGGER)
		info->caps |= FI_TRIGGER;
	if (kernel.features & TREADLE_FEATURE_CELL)
		info->caps |= FI_XPU_TRIGGER;
	if (kernel.features & TREADLE_FEATURE_SHARED_AV)
		info->caps |= FI_SHARED_AV;
	if (kernel.features & TREADLE_FEATURE_AV_IDS && type != FI_EP_MSG)
		info->caps |= FI_AV_USER_ID;
	if (kernel.desc_flags & TREADLE_F_MULTI_RECV)
		info->caps |= FI_MULTI_RECV;
	if (kernel.desc_flags & TREADLE_F_FENCE)
		info->caps |= FI_FENCE;

	/* Operations to one peer never overtake each other: Documentation/send-path.rst. */
	constexpr std::uint64_t orders =
		FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAR | FI_ORDER_WAW |
		FI_ORDER_WAS | FI_ORDER_SAR | FI_ORDER_SAW | FI_ORDER_SAS | FI_ORDER_RMA_RAR |
		FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR |
		FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;

	fi_domain_attr &domain = *info->domain_attr;
	/*
	 * A context takes one object for a ring. An endpoint takes three: itself and two rings. At
	 * least a queue and a vector are shared by all.
	 */
	const std::size_t objects = kernel.max_objects - 1;
	const bool scalable = type != FI_EP_MSG && kernel.features & TREADLE_FEATURE_SCALABLE;
	domain.threading = FI_THREAD_SAFE;
	domain.control_progress = FI_PROGRESS_AUTO;
	domain.data_progress = FI_PROGRESS_AUTO;
	domain.resource_mgmt = FI_RM_ENABLED;
	domain.mr_key_size = sizeof(std::uint64_t);
	domain.cq_data_size = sizeof(std::uint64_t);
	domain.cq_cnt = objects;
	domain.cntr_cnt = objects;
	domain.mr_cnt = objects;
	domain.ep_cnt = (objects - 2) / 3;
	domain.tx_ctx_cnt = domain.ep_cnt;
	domain.rx_ctx_cnt = domain.ep_cnt;
	/*
	 * A context takes two objects. Half of all objects then suffice for as many contexts of
	 * either kind.
	 */
	domain.max_ep_tx_ctx = scalable ? std::min(most_contexts, objects / 8) : 1;
	domain.max_ep_rx_ctx = domain.max_ep_tx_ctx;
	if (scalable)
		info->caps |= FI_NAMED_RX_CTX;
	domain.max_ep_stx_ctx = domain.ep_cnt;
	domain.max_ep_srx_ctx = domain.ep_cnt;
	domain.mr_iov_limit = kernel.features & TREADLE_FEATURE_MR_IOV ? TREADLE_MAX_MR_IOV : 1;
	domain.max_err_data = std::max<std::size_t>(max_address, TREADLE_CM_DATA);
	domain.caps = info->caps & (FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV);
	if (kernel.features & TREADLE_FEATURE_AV_SET_ID)
		domain.caps |= info->caps & FI_AV_USER_ID;

	fi_ep_attr &ep = *info->ep_attr;
	ep.type = type;
	ep.protocol = protocol;
	ep.protocol_version = protocol_version;
	ep.max_msg_size = kernel.max_msg_size;
	/*
	 * A read, write or atomic starts once all earlier operations to the same peer have ended.
	 */
	ep.max_order_raw_size = ep.max_order_war_size = ep.max_order_waw_size = SIZE_MAX;
	ep.mem_tag_format = 0xaaaaaaaaaaaaaaaa; /* 64 bits in any fields */
	ep.tx_ctx_cnt = domain.max_ep_tx_ctx;
	ep.rx_ctx_cnt = domain.max_ep_rx_ctx;
	if (kernel.features & TREADLE_FEATURE_AUTH_KEY)
		ep.auth_key_size = domain.auth_key_size = kernel.max_auth_key;

	fi_tx_attr &tx = *info->tx_attr;
	tx.caps = info->caps & tx_caps;
	tx.op_flags = tx_op_flags & ~(info->caps & FI_FENCE ? 0 : FI_FENCE);
	tx.msg_order = orders;
	tx.inject_size = kernel.inject_size;
	tx.size = kernel.max_ring;
	tx.iov_limit = TREADLE_MAX_IOV;
	tx.rma_iov_limit = TREADLE_MAX_RMA_IOV;

	fi_rx_attr &rx = *info->rx_attr;
	rx.caps = info->caps & rx_caps;
	rx.op_flags = rx_op_flags & ~(info->caps & FI_MULTI_RECV ? 0 : FI_MULTI_RECV);
	rx.msg_order = orders;
	rx.total_buffered_recv = kernel.max_buffered;
	rx.size = kernel.max_ring;
	rx.iov_limit = TREADLE_MAX_IOV;
	if (type == FI_EP_DGRAM) {
		/* A datagram that finds no room is dropped, and no error is reported. */
		ep.max_msg_size = TREADLE_MAX_DGRAM;
		tx.op_flags &= ~(FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);
		tx.rma_iov_limit = 0;
		ep.max_order_raw_size = ep.max_order_war_size = ep.max_order_waw_size = 0;
	}
	return info;
}

} // namespace treadle::fi
