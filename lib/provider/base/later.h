// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_LATER_H
#define TREADLE_PROVIDER_LATER_H

#include <cstddef>
#include <cstdint>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

/*
 * Values of libfabric 2.x that are missing in the 1.17 headers of this build: those of
 * include/rdma/ in libfabric 2.6.0. libfabric only adds values and never changes them.
 */
namespace treadle::fi::later
{

/* fabric.h */
inline constexpr std::uint64_t FI_RESCAN = std::uint64_t{1} << 35;
inline constexpr std::uint32_t FI_SOCKADDR_IP = FI_ADDR_CXI + 2; /* either of _IN and _IN6 */
inline constexpr std::size_t FI_AV_AUTH_KEY = SIZE_MAX;
inline constexpr auto FI_PROGRESS_CONTROL_UNIFIED =
	static_cast<fi_progress>(FI_PROGRESS_MANUAL + 1);

/* fi_eq.h */
inline constexpr auto FI_CNTR_EVENTS_BYTES = static_cast<fi_cntr_events>(FI_CNTR_EVENTS_COMP + 1);

/* fi_endpoint.h; FI_OPT_ENDPOINT */
inline constexpr int FI_OPT_MAX_MSG_SIZE = FI_OPT_XPU_TRIGGER + 3;
inline constexpr int FI_OPT_MAX_TAGGED_SIZE = FI_OPT_XPU_TRIGGER + 4;
inline constexpr int FI_OPT_MAX_RMA_SIZE = FI_OPT_XPU_TRIGGER + 5;
inline constexpr int FI_OPT_MAX_ATOMIC_SIZE = FI_OPT_XPU_TRIGGER + 6;
inline constexpr int FI_OPT_INJECT_MSG_SIZE = FI_OPT_XPU_TRIGGER + 7;
inline constexpr int FI_OPT_INJECT_TAGGED_SIZE = FI_OPT_XPU_TRIGGER + 8;
inline constexpr int FI_OPT_INJECT_RMA_SIZE = FI_OPT_XPU_TRIGGER + 9;
inline constexpr int FI_OPT_INJECT_ATOMIC_SIZE = FI_OPT_XPU_TRIGGER + 10;

/* fi_domain.h */
inline constexpr std::uint64_t FI_MR_DMABUF = std::uint64_t{1} << 40;
/* Where fi_mr_attr has mr_iov, with FI_MR_DMABUF. */
struct fi_mr_dmabuf {
	int fd;
	std::uint64_t offset;
	std::size_t len;
	void *base_addr;
};

/* fi_domain.h: later calls of fi_ops_av. Its `size` says that they are there. */
struct ops_av {
	fi_ops_av first;
	int (*insert_auth_key)(fid_av *av, const void *key, std::size_t size, fi_addr_t *out,
			       std::uint64_t flags);
	int (*lookup_auth_key)(fid_av *av, fi_addr_t index, void *key, std::size_t *size);
	int (*set_user_id)(fid_av *av, fi_addr_t index, fi_addr_t id, std::uint64_t flags);
};
static_assert(sizeof(fi_ops_av) == offsetof(fi_ops_av, av_set) + sizeof(void *));

} // namespace treadle::fi::later

#endif
