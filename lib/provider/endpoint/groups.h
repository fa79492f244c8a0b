// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_GROUPS_H
#define TREADLE_PROVIDER_GROUPS_H

#include <cstdint>
#include <memory>

#include <rdma/fi_collective.h>

#include "endpoint/calls.h"

namespace treadle::fi
{

class Port;

/* FI_COLLECTIVE of an endpoint: the groups that it is a member of. collective/ implements this. */
class EndpointGroups
{
public:
	static std::unique_ptr<EndpointGroups> make(); /* may throw */

	virtual ~EndpointGroups() = default;

	/* fi_join_collective(3) */
	virtual int join(Port &port, const void *addr, std::uint64_t flags, fid_mc **out,
			 void *context) noexcept = 0;
	/* Cancels the operations with this context. Returns whether there were any. */
	virtual bool cancel(const void *context) noexcept = 0;
	/* Ends the joins that closed groups have left. The endpoint is closing. */
	virtual void close() noexcept = 0;
	virtual void choose_calls(fi_ops_collective &ops, Calls calls) const noexcept = 0;
};

} // namespace treadle::fi

#endif
