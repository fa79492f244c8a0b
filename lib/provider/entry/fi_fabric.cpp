// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "domain/fabric.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "notify/cntr.h"
#include "notify/cq.h"
#include "domain/domain.h"
#include "notify/eq.h"
#include "connect/pep.h"

namespace treadle::fi
{

namespace
{

/* The open instances, oldest first. */
struct Instances {
	std::mutex lock;
	std::vector<fid_fabric *> fabrics;
	std::vector<fid_domain *> domains;
};
/*
 * Never destroyed: a static object of the program may close a fabric or domain after the
 * destructors of this library have run.
 */
alignas(Instances) std::byte place[sizeof(Instances)];
Instances &instances = *new (place) Instances;

fid_fabric *fabric_of(fid_domain *domain) noexcept
{
	return &Domain::of(domain).fabric();
}

template <class T> void forget(std::vector<T *> &list, T *instance) noexcept
{
	const std::lock_guard guard(instances.lock);

	list.erase(std::remove(list.begin(), list.end(), instance), list.end());
}

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
	return REFUSE(-FI_ENOSYS, FI_LOG_FABRIC, "fi_domain2: flags 0x%" PRIx64, flags);
}

fi_ops_fabric fabric_ops{
	.size = sizeof(fi_ops_fabric),
	.domain = opens<Domain::open>,
	.passive_ep = opens<Pep::open>,
	.eq_open = opens<Eq::open>,
	.wait_open = opens<WaitSet::open>,
	.trywait = try_wait,
	.domain2 = domain_with_flags,
};

} // namespace

Fabric::Fabric(void *context) : Object(context)
{
	const std::lock_guard guard(instances.lock);

	ops = &fabric_ops;
	instances.fabrics.push_back(this);
}

Fabric::~Fabric()
{
	forget(instances.fabrics, static_cast<fid_fabric *>(this));
}

int Fabric::open(fi_fabric_attr *attr, fid_fabric **out, void *context) noexcept
{
	if (!attr || !attr->name)
		return REFUSE(-FI_EINVAL, FI_LOG_FABRIC,
			      "fabric: needs a fi_fabric_attr with a name");
	if (std::strcmp(attr->name, name) != 0)
		return REFUSE(-FI_ENODATA, FI_LOG_FABRIC, "fabric \"%s\": it is called \"%s\"",
			      attr->name, name);
	return guard([&] {
		*out = new Fabric(context);
		return 0;
	});
}

Result<const Context *> Fabric::kernel() noexcept
{
	const std::lock_guard guard(lock_);

	if (!kernel_) {
		auto opened = Context::open();
		if (!opened)
			return std::unexpected(opened.error());
		kernel_.emplace(std::move(*opened));
	}
	return &*kernel_;
}

bool Fabric::are_open(const fid_fabric *fabric, const fid_domain *domain) noexcept
{
	const std::lock_guard guard(instances.lock);
	const auto in = [](const auto &list, const auto *instance) {
		return !instance || std::ranges::find(list, instance) != list.end();
	};

	return in(instances.fabrics, fabric) && in(instances.domains, domain) &&
	       (!fabric || !domain || fabric_of(const_cast<fid_domain *>(domain)) == fabric);
}

void Fabric::first_open(fi_info &answer) noexcept
{
	fid_fabric *&fabric = answer.fabric_attr->fabric;
	fid_domain *&domain = answer.domain_attr->domain;
	const std::lock_guard guard(instances.lock);

	if (!fabric && domain)
		fabric = fabric_of(domain);
	else if (!fabric && !instances.fabrics.empty())
		fabric = instances.fabrics.front();
	if (domain)
		return;
	const auto found = std::ranges::find_if(instances.domains, [&](fid_domain *d) {
		return fabric_of(d) == fabric && Domain::of(d).suits(answer);
	});
	if (found != instances.domains.end())
		domain = *found;
}

void Fabric::register_domain(fid_domain *domain)
{
	const std::lock_guard guard(instances.lock);

	instances.domains.push_back(domain);
}

void Fabric::unregister_domain(fid_domain *domain) noexcept
{
	forget(instances.domains, domain);
}

} // namespace treadle::fi
