/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the libfabric provider can do that libfabric has no call for. C and C++;
 * nothing has to be linked. See fi_treadle(7).
 *
 *	struct fi_treadle_ops_domain *ops;
 *
 *	if (!fi_open_ops(&domain->fid, FI_TREADLE_DOMAIN_OPS_1, 0, (void **)&ops, NULL))
 *		ops->mr_regpinned(domain, &attr, 0, &mr);
 */
#ifndef TREADLE_FI_TREADLE_H
#define TREADLE_FI_TREADLE_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>
#include <treadle/ioctl.h>

#define FI_TREADLE_DOMAIN_OPS_1 "treadle_domain_ops_1"

/* size: what the provider knows of it; what lies beyond is not there. Each returns 0 or -FI_errno. */
struct fi_treadle_ops_domain {
	size_t size;
	/* Limits and capabilities of the kernel, for one domain: <treadle/ioctl.h>. */
	int (*query)(struct fid_domain *domain, struct treadle_query *limits);
	/*
	 * fi_mr_regattr of memory that stays where it is: no access ever waits for a page. It
	 * has to be mapped (-FI_EFAULT) and is charged to RLIMIT_MEMLOCK (-FI_ENOMEM).
	 * Unmapping any of it ends all access to the region (FI_EKEYREJECTED at the peer).
	 */
	int (*mr_regpinned)(struct fid_domain *domain, const struct fi_mr_attr *attr,
			    uint64_t flags, struct fid_mr **mr);
	/* The domain's open /dev/treadle, which stays the domain's. */
	int (*getfd)(struct fid_domain *domain, int *fd);
};

#endif
