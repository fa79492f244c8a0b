// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_FABRIC_H
#define TREADLE_PROVIDER_FABRIC_H

#include <mutex>
#include <optional>

#include <rdma/fi_domain.h>

#include <treadle/context.h>

#include "object.h"
#include "requests.h"

namespace treadle::fi
{

/* fi_fabric(3): all endpoints of a network namespace are on the one fabric that it has. */
class Fabric : public Object<Fabric, fid_fabric, FI_CLASS_FABRIC, FI_LOG_FABRIC>
{
public:
	static int open(fi_fabric_attr *attr, fid_fabric **out, void *context) noexcept;

	~Fabric();

	/* A context for what belongs to no domain: event queues and passive endpoints. */
	Result<const Context *> kernel() noexcept;

	Requests requests;

	/*
	 * fi_getinfo tells of instances that are open: are these, the one on the other (null
	 * is on any), and which are the first? It fills in what is null, with a domain that
	 * suits the answer, if there is one.
	 */
	static bool are_open(const fid_fabric *fabric, const fid_domain *domain) noexcept;
	static void first_open(fi_info &answer) noexcept;

	/* For domains, which register themselves. */
	static void register_domain(fid_domain *domain);
	static void unregister_domain(fid_domain *domain) noexcept;

private:
	explicit Fabric(void *context);

	std::mutex lock_;
	std::optional<Context> kernel_;
};

} // namespace treadle::fi

#endif
