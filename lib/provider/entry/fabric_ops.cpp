// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The calls of a fabric: what it opens, and fi_trywait. */
#include "connect/pep.h"
#include "domain/domain.h"
#include "domain/fabric.h"
#include "notify/cntr.h"
#include "notify/cq.h"
#include "notify/eq.h"
#include "notify/waitset.h"

namespace treadle::fi
{

namespace
{

int try_wait_one(fid *object) noexcept
{
	if (Eq *const eq = Eq::known(object))
		return eq->try_wait();
	if (Cq *const cq = Cq::known(object))
		return cq->try_wait();
	if (Cntr *const cntr = Cntr::known(object))
		return cntr->try_wait();
	if (WaitSet *const set = WaitSet::known(object))
		return set->try_wait();
	return REFUSE(-FI_EINVAL, FI_LOG_FABRIC,
		      "trywait: NULL, or no queue, counter or wait set of %s", name);
}

int try_wait(fid_fabric *, fid **objects, int count) noexcept
{
	const Uncanceled uncanceled;

	if (count > 0 && !objects)
		return REFUSE(-FI_EINVAL, FI_LOG_FABRIC, "trywait: NULL");
	for (int i = 0; i < count; ++i) {
		const int rc = try_wait_one(objects[i]);
		if (rc)
			return rc;
	}
	return 0;
}

/* Refused: no flag is supported, and libfabric calls fi_domain() if there are none. */
int domain_with_flags(fid_fabric *, fi_info *, fid_domain **, std::uint64_t flags, void *) noexcept
{
	if (flags & FI_PEER)
		return no_peer(FI_LOG_FABRIC, "fi_domain2");
	return REFUSE(-FI_ENOSYS, FI_LOG_FABRIC, "fi_domain2: flags 0x%" PRIx64, flags);
}

} // namespace

fi_ops_fabric Fabric::fabric_ops{
	.size = sizeof(fi_ops_fabric),
	.domain = opens<Domain::open>,
	.passive_ep = opens<Pep::open>,
	.eq_open = opens<Eq::open>,
	.wait_open = opens<WaitSet::open>,
	.trywait = try_wait,
	.domain2 = domain_with_flags,
};

} // namespace treadle::fi
