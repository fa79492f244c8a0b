// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_CQ_H
#define TREADLE_PROVIDER_CQ_H

#include <atomic>

#include <rdma/fi_eq.h>

#include <treadle/completion_queue.h>

#include "domain/domain.h"
#include "notify/progress.h"
#include "notify/waitset.h"

namespace treadle::fi
{

/* fi_cq(3): the part that does not depend on the threading level. The rest is in fi_cq.cpp. */
class Cq : public Object<Cq, fid_cq, FI_CLASS_CQ, FI_LOG_CQ>, public Waitable
{
public:
	static int open(fid_domain *domain, fi_cq_attr *attr, fid_cq **out, void *context) noexcept;

	virtual ~Cq() = default;

	virtual CompletionQueueId id() const noexcept = 0;
	Domain &domain() const noexcept { return domain_; }

	virtual bool has_entries() noexcept = 0;
	virtual std::uint32_t room() noexcept = 0;
	/* For operations that this process executes itself: see BasicCompletionQueue. */
	virtual std::error_code allow_local() noexcept = 0;
	virtual detail::LocalQueue local() noexcept = 0;
	/* Ends the waits of threads: a completion was added that the kernel does not know. */
	virtual void wake() noexcept = 0;
	/* Endpoints that make progress when the queue is read. */
	ProgressList &progress() noexcept { return progress_; }

	int control(int command, void *arg) noexcept;
	int prepare_close() noexcept
	{
		membership_.leave();
		return 0;
	}

protected:
	Cq(Domain &domain, fi_wait_obj wait_obj, void *context) noexcept
		: Object(context), domain_(domain), domain_use_(domain.users), wait_obj_(wait_obj),
		  progress_(!domain.serialized(true))
	{
	}

	Domain &domain_;
	Use domain_use_;
	const fi_wait_obj wait_obj_;
	Membership membership_;
	ProgressList progress_;
};

} // namespace treadle::fi

#endif
