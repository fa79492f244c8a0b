// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_WORK_H
#define TREADLE_PROVIDER_WORK_H

#include <rdma/fi_trigger.h>

#include "transfer/commands.h"

/* fi_trigger(3), "DEFERRED WORK QUEUES" */
namespace treadle::fi
{

class Domain;

/* The command of the work, without condition and counter; and its endpoint, or null. */
CommandOrError command_of(const Domain &domain, const fi_deferred_work &work) noexcept;
fid_ep *endpoint_of(const fi_deferred_work &work) noexcept;

/*
 * FI_QUEUE_WORK, FI_CANCEL_WORK, FI_FLUSH_WORK of a domain. arg: a fid_cntr, a fi_deferred_work
 * with a triggering_cntr, or null for all counters.
 */
int queue_work(Domain &domain, const fi_deferred_work &work) noexcept;
int cancel_work(Domain &domain, const fi_deferred_work &work) noexcept;
int flush_work(Domain &domain, void *arg) noexcept;

} // namespace treadle::fi

#endif
