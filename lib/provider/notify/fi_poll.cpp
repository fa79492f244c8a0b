// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "notify/pollset.h"

#include <algorithm>

#include "notify/cntr.h"
#include "notify/cq.h"

namespace treadle::fi
{

fi_ops_poll PollSet::poll_ops{
	.size = sizeof(fi_ops_poll),
	.poll = PollSet::poll,
	.poll_add = PollSet::add,
	.poll_del = PollSet::remove,
};

PollSet::PollSet(Domain &domain) : Object(nullptr), domain_(domain), domain_use_(domain.users)
{
	ops = &poll_ops;
}

int PollSet::open(fid_domain *domain, fi_poll_attr *attr, fid_poll **out) noexcept
{
	if (attr && attr->flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "poll_open: flags 0x%" PRIx64, attr->flags);
	return guard([&] {
		*out = new PollSet(Domain::of(domain));
		return 0;
	});
}

int PollSet::prepare_close() noexcept
{
	if (!members_.empty())
		return REFUSE(-FI_EBUSY, subsys, "close: the poll set is not empty");
	return 0;
}

std::vector<PollSet::Member>::iterator PollSet::find(const ::fid *object) noexcept
{
	return std::find_if(members_.begin(), members_.end(),
			    [object](const Member &m) { return m.object == object; });
}

int PollSet::add(fid_poll *f, ::fid *object, std::uint64_t flags) noexcept
{
	PollSet &set = of(f);

	Cq *const cq = Cq::known(object);
	Cntr *const cntr = cq ? nullptr : Cntr::known(object);
	if (flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "poll_add: flags 0x%" PRIx64, flags);
	if (!cq && !cntr)
		return REFUSE(-FI_EINVAL, subsys, "poll_add: NULL, or no queue or counter of %s",
			      name);
	if (&(cq ? cq->domain() : cntr->domain()) != &set.domain_)
		return REFUSE(-FI_EDOMAIN, subsys, "poll_add: of another domain");
	return guard([&] {
		const std::lock_guard guard(set.lock_);
		/* A queue of both directions is added only once. */
		if (set.find(object) == set.members_.end())
			set.members_.push_back({object, Use(cq ? cq->users : cntr->users)});
		return 0;
	});
}

int PollSet::remove(fid_poll *f, ::fid *object, std::uint64_t flags) noexcept
{
	PollSet &set = of(f);
	const std::lock_guard guard(set.lock_);
	const auto found = set.find(object);

	if (flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "poll_del: flags 0x%" PRIx64, flags);
	if (found == set.members_.end())
		return REFUSE(-FI_EINVAL, subsys, "poll_del: is not in the set");
	set.members_.erase(found);
	return 0;
}

bool PollSet::Member::has_changed() noexcept
{
	if (object->fclass == FI_CLASS_CQ)
		return Cq::of(object).has_entries();
	const std::uint64_t was = std::exchange(changes, Cntr::of(object).changes());
	return changes != was;
}

int PollSet::poll(fid_poll *f, void **context, int count) noexcept
{
	PollSet &set = of(f);
	const std::lock_guard guard(set.lock_);
	int n = 0;

	if (count > 0 && !context)
		return REFUSE(-FI_EINVAL, subsys, "poll: nowhere to put %d contexts", count);

	const auto rest = std::find_if(set.members_.begin(), set.members_.end(), [&](Member &m) {
		if (n < count && m.has_changed())
			context[n++] = m.object->context;
		return n >= count;
	});
	/* Members that were not asked for want of room come first in the next call. */
	if (rest != set.members_.end())
		std::rotate(set.members_.begin(), rest + 1, set.members_.end());
	return n;
}

} // namespace treadle::fi
