// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_LATER_H
#define TREADLE_TESTS_FI_LATER_H

#include <rdma/fi_domain.h>

/* Declarations of libfabric 2.x, repeated here. */

/* fi_ops_av */
struct LaterAvOps : fi_ops_av {
	int (*insert_auth_key)(fid_av *, const void *, std::size_t, fi_addr_t *, std::uint64_t);
	int (*lookup_auth_key)(fid_av *, fi_addr_t, void *, std::size_t *);
	int (*set_user_id)(fid_av *, fi_addr_t, fi_addr_t, std::uint64_t);
};

#endif
