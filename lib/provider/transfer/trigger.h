// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_TRIGGER_H
#define TREADLE_PROVIDER_TRIGGER_H

#include <treadle/command.h>

/* fi_trigger(3) */
namespace treadle::fi
{

class Endpoint;

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

} // namespace treadle::fi

#endif
