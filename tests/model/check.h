// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Is there an order of all events in which the model gives the same results?
 *
 * A history is right if there is one order of its calls, of the firing of its commands, and of
 * their counts, that the model can follow step by step. Each call lies between its beginning and
 * its end, and has its result. At the end nothing is left over: what has completed has fired,
 * nothing else has (of processes that live), and nothing that is ready is still armed.
 *
 * The order of commands on one counter is known, unless they reach another process: these start in
 * order, but may take longer. A process that was killed fires nothing once it is gone; it is not
 * known what it fired before.
 *
 * Repeating commands have no completions: their counts, and the thresholds at which they were
 * canceled, show how often they have run.
 */
#ifndef TREADLE_TESTS_MODEL_CHECK_H
#define TREADLE_TESTS_MODEL_CHECK_H

#include "history.h"

namespace model
{

struct Verdict {
	bool right;
	std::string why; /* the reason if it is not right */
	bool open;	 /* the search took too long: neither right nor wrong */
	Word steps;	 /* steps that were tried */
	Word rounds = 0; /* rounds of repeating commands, in the order that was found */
};

Verdict check(const History &history);

} // namespace model

#endif
