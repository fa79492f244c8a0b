// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_REQUESTS_H
#define TREADLE_PROVIDER_REQUESTS_H

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <rdma/fabric.h>

#include <treadle/object.h>

#include "address.h"

namespace treadle::fi
{

class Pep;

/* What fi_info::handle may name, and fi_endpoint(3) makes an endpoint of. */
struct Handle {
	Pep *pep;
	RequestId request{}; /* none: the passive endpoint itself */
	Address peer{};	     /* who asked */
};

/*
 * The handles of a fabric that are good: its passive endpoints, and the
 * connections they were asked for and have not answered. What an application
 * hands in is looked up here before it is touched. Thread-safe.
 */
class Requests
{
public:
	/* These may throw. */
	void insert(Pep &pep, ::fid &fid);
	::fid *insert(const Handle &request);

	std::optional<Handle> find(const ::fid *handle) noexcept;
	/* Unless another request has come to lie there. */
	void forget(const ::fid *handle, RequestId request) noexcept;
	/* What it was asked for; and itself? */
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
