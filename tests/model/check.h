// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Is there an order of all that happened in which the model does the same?
 *
 * A history is right if its calls, the firing of its commands and what those count can be put into
 * one order, in which each call lies between its beginning and its end, that the model follows
 * step by step with the same results, and at whose end nothing is left over: what has completed
 * has fired, nothing else has (of those who lived on), and nothing that is ready is still armed.
 *
 * Order is known of what fires on one counter, unless it reaches another process: that is started in order,
 * too, but may take longer. Of a process that was killed it is known that nothing fires
 * any more once it is gone, but not all that fired before.
 *
 * Commands that repeat are silent: how often they have run is known by what they have counted, and by the thresholds at
 * which they were canceled.
 */
#ifndef TREADLE_TESTS_MODEL_CHECK_H
#define TREADLE_TESTS_MODEL_CHECK_H

#include "history.h"

namespace model
{

struct Verdict {
	bool right;
	std::string why; /* it is not */
	bool open;	 /* there was no time to find out: neither right nor wrong */
	Word steps;	 /* that were tried */
	Word rounds = 0; /* that those have run which repeat, in the order that was found */
};

Verdict check(const History &history);

} // namespace model

#endif
