// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_TRIGGER_H
#define TREADLE_PROVIDER_TRIGGER_H

#include <expected>

#include <rdma/fi_trigger.h>

#include <treadle/command.h>
#include <treadle/ring.h>

/* fi_trigger(3) */
namespace treadle::fi
{

class Cntr;
class Domain;
class Endpoint;

using CommandOrError = std::expected<Command, int>; /* int: -FI_errno */

/* Makes a command of a message, as only a command can have a condition. */
Command command_of(const Message &message) noexcept;

/*
 * FI_TRIGGER: adds the condition of the fi_triggered_context that is the command's context. 0 or
 * -errno.
 */
int when_triggered(Command &command, const Endpoint &endpoint) noexcept;
/* Undoes when_triggered(), if the command was not posted. */
void not_triggered(const Command &command, const Endpoint &endpoint) noexcept;

/* Calls when_triggered(), then post(), and undoes the first if the second fails: 0 or -errno. */
template <class Post>
int post_triggered(Command &command, const Endpoint &endpoint, Post &&post) noexcept
{
	int rc = when_triggered(command, endpoint);

	if (!rc) {
		rc = post();
		if (rc)
			not_triggered(command, endpoint);
	}
	return rc;
}

/* The command of the work, without condition and counter; and its endpoint, or null. */
CommandOrError command_of(const Domain &domain, const fi_deferred_work &work) noexcept;
fid_ep *endpoint_of(const fi_deferred_work &work) noexcept;

/*
 * FI_QUEUE_WORK, FI_CANCEL_WORK, FI_FLUSH_WORK. flush_work flushes a counter (null: all).
 * flush_work_told takes the argument of FI_FLUSH_WORK of a domain: a fid_cntr, a fi_deferred_work
 * with a triggering_cntr, or null.
 */
int queue_work(Domain &domain, const fi_deferred_work &work) noexcept;
int cancel_work(Domain &domain, const fi_deferred_work &work) noexcept;
int flush_work(Domain &domain, const Cntr *of) noexcept;
int flush_work_told(Domain &domain, void *arg) noexcept;

} // namespace treadle::fi

#endif
