// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_CNTR_H
#define TREADLE_PROVIDER_CNTR_H

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include <rdma/fi_eq.h>

#include <treadle/counter.h>

#include "domain/domain.h"
#include "notify/cntr_words.h"
#include "notify/local_count.h"
#include "notify/progress.h"
#include "notify/waitset.h"

namespace treadle::fi
{

/* fi_cntr(3) */
class Cntr final : public Object<Cntr, fid_cntr, FI_CLASS_CNTR, FI_LOG_CNTR>, public Waitable
{
public:
	static int open(fid_domain *domain, fi_cntr_attr *attr, fid_cntr **out,
			void *context) noexcept;

	using Object::known;
	/* The counter if it is one of this domain, else null. */
	static Cntr *known(const Domain &domain, fid_cntr *cntr) noexcept
	{
		Cntr *const found = known(cntr);

		return found && &found->domain() == &domain ? found : nullptr;
	}

	CounterId id() const noexcept { return counter_.id(); }
	Domain &domain() const noexcept { return domain_; }

	const Counter &counter() const noexcept { return counter_; }
	Counter &counter() noexcept { return counter_; }

	/* Endpoints that make progress when the counter is read. */
	ProgressList &progress() noexcept { return progress_; }
	/* For operations that this process executes itself. */
	LocalCount &local() noexcept { return local_; }
	/* What an operation of len bytes adds. */
	std::uint64_t step(std::uint64_t len) const noexcept { return bytes_ ? len : 1; }
	/*
	 * Lets the kernel count all from now on, because a command is to be armed here, or a file
	 * to be polled. 0 or -FI_errno.
	 */
	int give_to_kernel() noexcept;
	/* fi_treadle(7), cntr_word and cntr_copy: for this XPU. May throw. */
	int word(const Xpu &xpu, std::uint64_t *&place);
	int copy(const Xpu &xpu, const std::uint64_t *&place);
	/* See Counter::changes. */
	std::uint64_t changes() noexcept
	{
		progress_.make();
		return counter_.changes() + local_.total();
	}

	int try_wait() noexcept override;
	Result<int> wait_fd() noexcept override;

	/*
	 * A reference for each region that counts here. It keeps the kernel's counter if the
	 * application closes the fid_cntr before the region, as MPICH does. May throw.
	 */
	using Kept = std::shared_ptr<std::optional<Counter>>;
	const Kept &keep()
	{
		const std::lock_guard guard(kept_lock_);

		if (!kept_)
			kept_ = std::make_shared<std::optional<Counter>>();
		return kept_;
	}

	/* FI_FLUSH_WORK: waits until no command that it started is under way. 0 or -errno. */
	int flush() const noexcept;

	int control(int command, void *arg) noexcept;
	int prepare_close() noexcept;

private:
	Cntr(Domain &domain, Counter counter, bool bytes, fi_wait_obj wait_obj,
	     void *context) noexcept;

	std::uint64_t value() const noexcept { return local_.sum(counter_); }
	int give_to_devices() noexcept;
	/* Adds what was counted here to the kernel's count. 0 or -errno. */
	int move() noexcept;

	static std::uint64_t read(fid_cntr *cntr) noexcept
	{
		of(cntr).progress_.make();
		return of(cntr).value();
	}
	static int set(fid_cntr *cntr, std::uint64_t value) noexcept;
	static std::uint64_t read_error(fid_cntr *cntr) noexcept;
	template <std::error_code (Counter::*Change)(std::uint64_t) noexcept>
	static int change(fid_cntr *cntr, std::uint64_t value) noexcept;
	static int add_error(fid_cntr *cntr, std::uint64_t value) noexcept;
	static int set_error(fid_cntr *cntr, std::uint64_t value) noexcept;
	static int wait(fid_cntr *cntr, std::uint64_t threshold, int timeout) noexcept;

	std::unique_lock<std::mutex> lock_errors()
	{
		std::unique_lock lock(error_lock_, std::defer_lock);

		if (!domain_.serialized(true))
			lock.lock();
		return lock;
	}

	static fi_ops_cntr cntr_ops;

	Domain &domain_;
	Use domain_use_;
	Hooked hooked_{fid};
	const fi_wait_obj wait_obj_;
	const bool bytes_; /* counts bytes */
	Counter counter_;
	LocalCount local_;
	ProgressList progress_;
	/* changes() when try_wait last reported a change. */
	std::atomic<std::uint64_t> seen_{0};
	/* The error count that the application knows. */
	std::atomic<std::uint64_t> known_error_{0};
	std::mutex error_lock_; /* for calls that change the error count, if threads may race */
	Membership membership_;
	std::mutex kept_lock_;
	Kept kept_;
	CntrWords words_;
};

} // namespace treadle::fi

#endif
