// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_FABRIC_H
#define TREADLE_PROVIDER_FABRIC_H

#include <mutex>
#include <optional>

#include <rdma/fi_domain.h>

#include <treadle/context.h>

#include "base/object.h"
#include "domain/requests.h"

namespace treadle::fi
{

/* fi_fabric(3). Each network namespace has one fabric, and all its endpoints are on it. */
class Fabric : public Object<Fabric, fid_fabric, FI_CLASS_FABRIC, FI_LOG_FABRIC>
{
public:
	static int open(fi_fabric_attr *attr, fid_fabric **out, void *context) noexcept;

	~Fabric();

	/* The context of event queues and passive endpoints, which belong to no domain. */
	Result<const Context *> kernel() noexcept;

	Requests requests;

	/*
	 * For fi_getinfo: are these instances open, the domain on the fabric? A null domain or
	 * fabric matches any. The other call finds the first open ones: it fills in what is null,
	 * with a domain that suits the answer, if there is one.
	 */
	static bool are_open(const fid_fabric *fabric, const fid_domain *domain) noexcept;
	static void first_open(fi_info &answer) noexcept;

	/* Domains register themselves by these. */
	static void register_domain(fid_domain *domain);
	static void unregister_domain(fid_domain *domain) noexcept;

private:
	explicit Fabric(void *context);

	static fi_ops_fabric fabric_ops; /* entry/fabric_ops.cpp */

	std::mutex lock_;
	std::optional<Context> kernel_;
};

} // namespace treadle::fi

#endif
