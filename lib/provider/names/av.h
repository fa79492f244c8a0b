// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_AV_H
#define TREADLE_PROVIDER_AV_H

#include <atomic>
#include <span>
#include <vector>

#include <treadle/address_vector.h>

#include "info/address.h"
#include "domain/domain.h"
#include "notify/eq.h"
#include "base/later.h"

namespace treadle::fi
{

/* fi_av(3). Maps and tables are the same here: a fi_addr_t is an index. */
class Av : public Object<Av, fid_av, FI_CLASS_AV, FI_LOG_AV>
{
public:
	static int open(fid_domain *domain, fi_av_attr *attr, fid_av **out, void *context) noexcept;

	AddressVectorId id() const noexcept { return kernel_.id(); }
	Domain &domain() const noexcept { return domain_; }

	/* The address of a peer, if there is one at this index. */
	Result<Address> find(fi_addr_t index) const noexcept { return kernel_.lookup(Peer{index}); }
	/* The same address in processes of all nodes; is the peer here? */
	Result<AddressVector::Place> place(fi_addr_t index) const noexcept
	{
		return kernel_.place(Peer{index});
	}
	/*
	 * How often peers were removed: an index may stand for another peer then. Null: other
	 * processes remove peers, too.
	 */
	const std::atomic<std::uint32_t> *removals() const noexcept
	{
		return shared_ ? nullptr : &removals_;
	}
	/* How often peers were inserted, removed or named. */
	const std::atomic<std::uint32_t> *changes() const noexcept { return &changes_; }
	/* Do completions name peers by identifiers? */
	bool has_ids() const noexcept { return ids_ != Ids::none; }
	/* FI_AV_TABLE, or a type that behaves the same. */
	bool is_table() const noexcept { return table_; }
	/* All indices. Of a shared vector only those that continue the ones inserted here. */
	std::vector<fi_addr_t> universe() const;

	int bind(::fid *other, std::uint64_t flags);
	int prepare_close() noexcept;

private:
	/*
	 * What completions call a peer: its index, the identifier of the insertion, or that of
	 * set_user_id.
	 */
	enum class Ids { none, inserted, set };

	Av(Domain &domain, AddressVector kernel, bool asynchronous, Ids ids, void *context);

	static int insert(fid_av *av, const void *addr, std::size_t count, fi_addr_t *out,
			  std::uint64_t flags, void *context) noexcept;
	static int insert_service(fid_av *av, const char *node, const char *service, fi_addr_t *out,
				  std::uint64_t flags, void *context) noexcept;
	static int insert_symmetric(fid_av *av, const char *node, std::size_t nodes,
				    const char *service, std::size_t services, fi_addr_t *out,
				    std::uint64_t flags, void *context) noexcept;
	static int remove(fid_av *av, fi_addr_t *indices, std::size_t count,
			  std::uint64_t flags) noexcept;
	static int look_up(fid_av *av, fi_addr_t index, void *addr, std::size_t *size) noexcept;
	static int set_user_id(fid_av *av, fi_addr_t index, fi_addr_t id,
			       std::uint64_t flags) noexcept;
	static const char *describe(fid_av *av, const void *addr, char *buf,
				    std::size_t *len) noexcept;

	/* map_addr: the addresses of the first `count` entries, the same in every process. */
	fi_addr_t *map(std::size_t count);

	void note(fi_addr_t index) noexcept;

	/*
	 * All variants of insertion end here. A family of 0 marks an address that could not be
	 * read.
	 */
	int insert(std::span<const Address> addresses, fi_addr_t *out, std::uint64_t flags,
		   void *context);
	Eq::Reserve reserve_events(std::size_t failed, std::vector<fi_addr_t> &indices);
	void report(Eq::Reserve &events, std::span<const int> errors, std::size_t inserted,
		    void *context) noexcept;

	static later::ops_av av_ops;

	Domain &domain_;
	Use domain_use_;
	AddressVector kernel_;
	const bool asynchronous_;
	const Ids ids_;
	bool table_ = true;
	bool shared_ = false; /* has a name */
	std::atomic<std::uint32_t> removals_{0}, changes_{0};
	std::atomic<fi_addr_t> end_{0}; /* one past the last index inserted here */
	std::vector<fi_addr_t> map_;
	std::atomic<Eq *> eq_ = nullptr;
	Use eq_use_;
};

} // namespace treadle::fi

#endif
