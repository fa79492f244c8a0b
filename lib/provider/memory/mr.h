// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_MR_H
#define TREADLE_PROVIDER_MR_H

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include <treadle/memory_region.h>

#include "notify/cntr.h"
#include "domain/domain.h"
#include "notify/eq.h"

namespace treadle::fi
{

/*
 * fi_mr(3). A region that is registered in the background has no kernel_ until a thread takes the
 * finished registration; never, if that fails.
 *
 * That thread writes kernel_, then registered_, then the key. fi_mr_key reads the key without a
 * lock, so a reader that sees the key also sees the others.
 */
class Mr : public Object<Mr, fid_mr, FI_CLASS_MR, FI_LOG_MR>
{
public:
	static fi_ops_mr ops;
	/* fi_treadle.h: regattr of memory that is pinned */
	static int reg_pinned(fid_domain *domain, const fi_mr_attr *attr, std::uint64_t flags,
			      fid_mr **out) noexcept;

	/* fi_treadle.h: where operations of this process find a dma-buf */
	static int address(fid_mr *mr, std::uint64_t *address) noexcept;

	int bind(::fid *other, std::uint64_t flags);
	int control(int command, void *arg) noexcept;
	int prepare_close() noexcept;

private:
	class Request;

	Mr(Domain &domain, void *context) noexcept;

	static int reg(::fid *domain, const void *buf, std::size_t len, std::uint64_t access,
		       std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr **out,
		       void *context) noexcept;
	static int regv(::fid *domain, const iovec *iov, std::size_t count, std::uint64_t access,
			std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr **out,
			void *context) noexcept;
	static int regattr(::fid *domain, const fi_mr_attr *attr, std::uint64_t flags,
			   fid_mr **out) noexcept;
	/* All variants of registration end here. */
	static int reg(Domain &domain, const fi_mr_attr &attr, std::uint64_t flags, bool pinned,
		       fid_mr **out) noexcept;

	int register_now() noexcept;
	/* Null if it is not registered, yet or at all; logs why. */
	MemoryRegion *registered(const char *call) noexcept;
	int raw_attr(const struct fi_mr_raw_attr &attr) noexcept;

	Domain &domain_;
	Use domain_use_;
	Cntr::Kept cntr_;		  /* destroyed after kernel_, which is bound to it */
	std::vector<std::byte> auth_key_; /* the kernel reads it during a registration */
	Eq *const events_;		  /* null: registrations are not reported */
	std::uint64_t base_ = 0;	  /* the address of its first byte for peers */
	std::unique_ptr<Eq::Pending> pending_;
	std::optional<MemoryRegion> kernel_;
	std::atomic<MemoryRegion *> registered_ = nullptr; /* &kernel_, once it is there */
};

} // namespace treadle::fi

#endif
