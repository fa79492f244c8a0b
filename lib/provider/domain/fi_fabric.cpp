// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "domain/fabric.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "domain/domain.h"

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
