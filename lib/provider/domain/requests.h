// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_REQUESTS_H
#define TREADLE_PROVIDER_REQUESTS_H

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <rdma/fabric.h>

#include <treadle/object.h>

#include "info/address.h"

namespace treadle::fi
{

class Pep;

/* What fi_info::handle may name; fi_endpoint(3) makes an endpoint of it. */
struct Handle {
	Pep *pep;
	RequestId request{}; /* none: the passive endpoint itself */
	Address peer{};	     /* the initiator of the request */
};

/*
 * The valid handles of a fabric: its passive endpoints, and their unanswered connection requests. A
 * handle from an application is looked up here before it is used. Thread-safe.
 */
class Requests
{
public:
	/* These may throw. */
	void insert(Pep &pep, ::fid &fid);
	::fid *insert(const Handle &request);

	std::optional<Handle> find(const ::fid *handle) noexcept;
	/* Forgets a request, unless another one has the same handle by now. */
	void forget(const ::fid *handle, RequestId request) noexcept;
	/* Forgets the requests of a passive endpoint; and with itself, the endpoint too. */
	void forget_all(const Pep &pep, bool itself) noexcept;

private:
	struct Entry {
		Handle handle;
		std::unique_ptr<::fid> fid; /* of a request */
	};
	std::mutex lock_;
	std::map<const ::fid *, Entry> entries_;
};

} // namespace treadle::fi

#endif
