// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_DOMAIN_H
#define TREADLE_PROVIDER_DOMAIN_H

#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <rdma/fi_domain.h>
#include <rdma/fi_trigger.h>

#include <treadle/context.h>

#include "domain/fabric.h"
#include "domain/cells.h"
#include "domain/device_words.h"

namespace treadle::fi
{

class Eq;

/* fi_domain(3): one context of the kernel. */
class Domain : public Object<Domain, fid_domain, FI_CLASS_DOMAIN, FI_LOG_DOMAIN>
{
public:
	static int open(fid_fabric *fabric, fi_info *info, fid_domain **out,
			void *context) noexcept;

	~Domain() { Fabric::unregister_domain(this); }

	/* entry/domain_ops.cpp */
	int bind(::fid *other, std::uint64_t flags);
	/* fi_control(3): 0 or -FI_errno. arg: as the command wants it, and not null. May throw. */
	int control(int command, void *arg);
	int open_ops(const char *ops, std::uint64_t flags, void **out) noexcept;

	Fabric &fabric() const noexcept { return fabric_; }
	Context &kernel() noexcept { return kernel_; }
	const Context &kernel() const noexcept { return kernel_; }
	Cells &cells() noexcept { return cells_; }
	DeviceWords &words() noexcept { return words_; }

	/* The version of the fabric, for which the application was written. */
	std::uint32_t api() const noexcept { return fabric_.api_version; }
	std::uint32_t addr_format() const noexcept { return addr_format_; }
	fi_threading threading() const noexcept { return threading_; }
	fi_av_type av_type() const noexcept { return av_type_; }
	/* FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED */
	int mr_mode() const noexcept { return mr_mode_; }
	/* The queue that reports registrations; null: they are not reported. */
	Eq *mr_events() const noexcept { return mr_events_; }
	/*
	 * The default for endpoints without an event queue; null: none. FI_REG_MR adds
	 * registrations to the events of a queue.
	 */
	Eq *events() const noexcept { return events_.load() ?: mr_events_.load(); }
	/* FI_PROGRESS_MANUAL, for data */
	bool manual() const noexcept { return manual_; }
	/* FI_AV_USER_ID */
	bool user_ids() const noexcept { return user_ids_; }
	/* Was the domain opened for endpoints with FI_DIRECTED_RECV? */
	bool directed() const noexcept { return directed_; }
	/* With FI_XPU? */
	bool xpu() const noexcept { return xpu_; }
	/*
	 * Do calls for one object come from one thread at a time? shares: also if it shares
	 * contexts.
	 */
	bool serialized(bool shares = false) const noexcept
	{
		return shares ? threading_ == FI_THREAD_DOMAIN : serialized_;
	}
	/*
	 * With lanes the process copies from and to buffers, so none may have an address that only
	 * the kernel finds (mr_address). What comes first excludes the other: lanes of an endpoint,
	 * as long as it has the use, or such addresses, for good. False: it was excluded.
	 */
	bool use_lanes(Use &use) noexcept
	{
		use = Use(lanes_);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		if (allows_lanes())
			return true;
		use = Use();
		return false;
	}
	bool allows_lanes() const noexcept { return !has_buffers_.load(std::memory_order_relaxed); }
	bool show_buffers() noexcept
	{
		has_buffers_.store(true, std::memory_order_relaxed);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		return !lanes_.any();
	}
	/* Does the domain fit what this fi_info from fi_getinfo says of it? */
	bool suits(const fi_info &answer) const noexcept;
	std::span<const std::byte> auth_key() const noexcept { return auth_key_; }

private:
	Domain(Fabric &fabric, Context kernel, const fi_info &info, void *context);

	/* entry/domain_ops.cpp */
	static fi_ops_domain domain_ops;
	static fi_ops_mr *const mr_ops;

	Fabric &fabric_;
	Use fabric_use_;
	Context kernel_;
	Cells cells_{kernel_};
	DeviceWords words_{kernel_};
	Hooked hooked_{fid};
	std::uint32_t addr_format_;
	fi_threading threading_;
	fi_av_type av_type_;
	int mr_mode_;
	bool user_ids_, directed_, xpu_, manual_;
	bool serialized_;
	std::vector<std::byte> auth_key_;
	std::mutex bind_lock_; /* serializes bind() */
	std::atomic<Eq *> events_ = nullptr, mr_events_ = nullptr;
	Use events_use_, mr_events_use_;
	Users lanes_; /* endpoints */
	std::atomic<bool> has_buffers_ = false;
};

} // namespace treadle::fi

#endif
