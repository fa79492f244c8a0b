// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "names/avset.h"

#include <algorithm>
#include <atomic>

namespace treadle::fi
{

namespace
{

/* Flags of collectives. They restrict nothing here: every set supports all collectives. */
constexpr std::uint64_t set_flags =
	FI_UNIVERSE | FI_BARRIER_SET | FI_BROADCAST_SET | FI_ALLTOALL_SET | FI_ALLREDUCE_SET |
	FI_ALLGATHER_SET | FI_REDUCE_SCATTER_SET | FI_REDUCE_SET | FI_SCATTER_SET | FI_GATHER_SET;

} // namespace

fi_ops_av_set AvSet::set_ops{
	.size = sizeof(fi_ops_av_set),
	.set_union = AvSet::unite,
	.intersect = AvSet::intersect,
	.diff = AvSet::subtract,
	.insert = AvSet::insert,
	.remove = AvSet::remove,
	.addr = AvSet::get_address,
};

fi_addr_t AvSet::new_address() noexcept
{
	static std::atomic<fi_addr_t> next{fi_addr_t{1} << 63};

	return next.fetch_add(1, std::memory_order_relaxed);
}

AvSet::AvSet(Av &av, void *context)
	: Object(context), av_(av), av_use_(av.users), address_(new_address())
{
	ops = &set_ops;
}

int AvSet::open(fid_av *f, fi_av_set_attr *attr, fid_av_set **out, void *context) noexcept
{
	if (!attr)
		return REFUSE(-FI_EINVAL, subsys, "av_set: needs a fi_av_set_attr");
	if (attr->flags & ~set_flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "av_set: flags 0x%" PRIx64, attr->flags);
	if (attr->comm_key_size)
		return REFUSE(-FI_EOPNOTSUPP, subsys, "av_set: there are no communication keys");
	return guard([&] {
		std::unique_ptr<AvSet> set(new AvSet(Av::of(f), context));
		const int rc = set->fill(*attr);
		if (!rc)
			*out = set.release();
		return rc;
	});
}

/* Adds the initial members. */
int AvSet::fill(const fi_av_set_attr &attr)
{
	const fi_addr_t start = attr.start_addr, end = attr.end_addr;

	if (attr.flags & FI_UNIVERSE) {
		members_ = av_.universe();
		return 0;
	}
	if (start == FI_ADDR_NOTAVAIL && end == FI_ADDR_NOTAVAIL)
		return attr.stride ?
			       REFUSE(-FI_EINVAL, subsys, "av_set: a stride without a range") :
			       0;
	if (!av_.is_table())
		return REFUSE(-FI_EINVAL, subsys, "av_set: a range needs FI_AV_TABLE");
	if (start > end || !attr.stride)
		return REFUSE(-FI_EINVAL, subsys,
			      "av_set: from %" PRIu64 " to %" PRIu64 ", stride %" PRIu64, start,
			      end, attr.stride);
	const fi_addr_t last = (end - start) / attr.stride,
			most = av_.domain().kernel().limits().max_av;
	if (last >= std::min<fi_addr_t>(attr.count ?: most, most))
		return REFUSE(-FI_EINVAL, subsys,
			      "av_set: %" PRIu64 " steps of %" PRIu64 " from %" PRIu64
			      ", more than count, or than an address vector has",
			      last, attr.stride, start);
	for (fi_addr_t i = 0; i <= last; ++i) {
		if (av_.find(start + i * attr.stride))
			members_.push_back(start + i * attr.stride);
	}
	return 0;
}

bool AvSet::has(fi_addr_t member) const noexcept
{
	return std::ranges::find(members_, member) != members_.end();
}

int AvSet::unite(fid_av_set *dst, const fid_av_set *src) noexcept
{
	AvSet &to = of(dst);
	const AvSet *const other = known(src);

	if (!other || &to.av_ != &other->av_)
		return REFUSE(-FI_EINVAL, subsys, "av_set_union: NULL, or of two address vectors");
	const AvSet &from = *other;
	if (&to == &from)
		return 0;
	const std::scoped_lock both(to.lock_, from.lock_);
	return guard([&] {
		to.members_.reserve(to.members_.size() + from.members_.size());
		for (const fi_addr_t member : from.members_) {
			if (!to.has(member))
				to.members_.push_back(member);
		}
		return 0;
	});
}

/* Keeps the members that are in the other set, or (common false) those that are not. */
int AvSet::keep(fid_av_set *dst, const fid_av_set *src, bool common) noexcept
{
	AvSet &to = of(dst);
	const AvSet *const other = known(src);

	if (!other || &to.av_ != &other->av_)
		return REFUSE(-FI_EINVAL, subsys, "av_set_%s: NULL, or of two address vectors",
			      common ? "intersect" : "diff");
	const AvSet &from = *other;
	if (&to == &from) {
		const std::lock_guard lock(to.lock_);
		if (!common)
			to.members_.clear();
		return 0;
	}
	const std::scoped_lock both(to.lock_, from.lock_);
	std::erase_if(to.members_, [&](fi_addr_t member) { return from.has(member) != common; });
	return 0;
}

int AvSet::intersect(fid_av_set *dst, const fid_av_set *src) noexcept
{
	return keep(dst, src, true);
}

int AvSet::subtract(fid_av_set *dst, const fid_av_set *src) noexcept
{
	return keep(dst, src, false);
}

int AvSet::insert(fid_av_set *f, fi_addr_t addr) noexcept
{
	AvSet &set = of(f);
	const std::lock_guard lock(set.lock_);

	if (set.has(addr) || !set.av_.find(addr))
		return REFUSE(-FI_EINVAL, subsys, "av_set_insert: %" PRIu64 ": %s", addr,
			      set.has(addr) ? "is a member" : "not in the address vector");
	return guard([&] {
		set.members_.push_back(addr);
		return 0;
	});
}

int AvSet::remove(fid_av_set *f, fi_addr_t addr) noexcept
{
	AvSet &set = of(f);
	const std::lock_guard lock(set.lock_);

	if (!std::erase(set.members_, addr))
		return REFUSE(-FI_EINVAL, subsys, "av_set_remove: %" PRIu64 ": no member", addr);
	return 0;
}

int AvSet::get_address(fid_av_set *f, fi_addr_t *addr) noexcept
{
	if (!addr)
		return REFUSE(-FI_EINVAL, subsys, "av_set_addr: nowhere to put it");
	*addr = of(f).address_;
	return 0;
}

} // namespace treadle::fi
