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

using CommandOrError = std::expected<Command, int>; /* -FI_errno */

/* A message as a command, which can have a condition. */
Command command_of(const Message &message) noexcept;

/*
 * Adds the condition that the fi_triggered_context holds which the command has
 * as its context: what FI_TRIGGER means. 0 or -errno.
 */
int when_triggered(Command &command, const Endpoint &endpoint) noexcept;
/* It was not posted after that. */
void not_triggered(const Command &command, const Endpoint &endpoint) noexcept;

/* Both, around what posts it: 0 or -errno. */
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

/* Work without its condition and its counter; its endpoint, or null. */
CommandOrError command_of(const Domain &domain, const fi_deferred_work &work) noexcept;
fid_ep *endpoint_of(const fi_deferred_work &work) noexcept;

/* FI_QUEUE_WORK, FI_CANCEL_WORK, FI_FLUSH_WORK: of a counter (null: of all), or of what FI_FLUSH_WORK of a domain was
 * told: a fid_cntr, a fi_deferred_work with a triggering_cntr, or null. */
int queue_work(Domain &domain, const fi_deferred_work &work) noexcept;
int cancel_work(Domain &domain, const fi_deferred_work &work) noexcept;
int flush_work(Domain &domain, const Cntr *of) noexcept;
int flush_work_told(Domain &domain, void *arg) noexcept;

} // namespace treadle::fi

#endif
