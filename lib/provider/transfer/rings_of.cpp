// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/rings_of.h"

#include "transfer/port_of.h"

namespace treadle::fi
{

std::unique_ptr<Rings> Rings::make(bool serialized)
{
	if (serialized)
		return std::make_unique<RingsOf<NoLock>>();
	return std::make_unique<RingsOf<Mutex>>();
}

template <class Lock>
Port *RingsOf<Lock>::new_port(std::shared_ptr<Endpoint> endpoint, void *context)
{
	return new PortOf<Lock>(std::move(endpoint), context);
}

} // namespace treadle::fi
