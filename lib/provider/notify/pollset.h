// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_POLLSET_H
#define TREADLE_PROVIDER_POLLSET_H

#include <mutex>
#include <vector>

#include <rdma/fi_eq.h>

#include "domain/domain.h"

namespace treadle::fi
{

/* fi_poll(3): which of these queues and counters have something new? */
class PollSet : public Object<PollSet, fid_poll, FI_CLASS_POLL, FI_LOG_DOMAIN>
{
public:
	static int open(fid_domain *domain, fi_poll_attr *attr, fid_poll **out) noexcept;

	int prepare_close() noexcept;

private:
	struct Member {
		::fid *object;
		Use use;
		std::uint64_t changes = 0; /* of a counter, when it was last reported */

		bool has_changed() noexcept;
	};

	explicit PollSet(Domain &domain);

	static int poll(fid_poll *set, void **context, int count) noexcept;
	static int add(fid_poll *set, ::fid *object, std::uint64_t flags) noexcept;
	static int remove(fid_poll *set, ::fid *object, std::uint64_t flags) noexcept;
	std::vector<Member>::iterator find(const ::fid *object) noexcept;

	static fi_ops_poll poll_ops;

	Domain &domain_;
	Use domain_use_;
	std::mutex lock_;
	std::vector<Member> members_;
};

} // namespace treadle::fi

#endif
