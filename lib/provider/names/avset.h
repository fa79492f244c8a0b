// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_AVSET_H
#define TREADLE_PROVIDER_AVSET_H

#include <mutex>
#include <vector>

#include <rdma/fi_collective.h>

#include "names/av.h"

namespace treadle::fi
{

/*
 * fi_av_set(3): indices of an address vector, in an order of their own. The kernel does not know
 * sets. A group has the members that its set had when joining began.
 */
class AvSet : public Object<AvSet, fid_av_set, FI_CLASS_AV_SET, FI_LOG_AV>
{
public:
	static int open(fid_av *av, fi_av_set_attr *attr, fid_av_set **out, void *context) noexcept;
	static const AvSet *known(const fid_av_set *set) noexcept
	{
		return Object::known(const_cast<fid_av_set *>(set));
	}

	Av &av() const noexcept { return av_; }
	std::vector<fi_addr_t> members() const
	{
		const std::lock_guard guard(lock_);

		return members_;
	}
	fi_addr_t address() const noexcept { return address_; }

	/* A new name for a set or a group, different from all others and from every peer. */
	static fi_addr_t new_address() noexcept;

private:
	AvSet(Av &av, void *context);

	int fill(const fi_av_set_attr &attr);
	/* lock_ must be held */
	bool has(fi_addr_t member) const noexcept;

	static int unite(fid_av_set *dst, const fid_av_set *src) noexcept;
	static int keep(fid_av_set *dst, const fid_av_set *src, bool common) noexcept;
	static int intersect(fid_av_set *dst, const fid_av_set *src) noexcept;
	static int subtract(fid_av_set *dst, const fid_av_set *src) noexcept;
	static int insert(fid_av_set *set, fi_addr_t addr) noexcept;
	static int remove(fid_av_set *set, fi_addr_t addr) noexcept;
	static int get_address(fid_av_set *set, fi_addr_t *addr) noexcept;

	static fi_ops_av_set set_ops;

	Av &av_;
	Use av_use_;
	mutable std::mutex lock_;
	std::vector<fi_addr_t> members_;
	const fi_addr_t address_;
};

} // namespace treadle::fi

#endif
