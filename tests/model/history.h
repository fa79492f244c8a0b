// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What is known of a run: the calls of each actor, their times, and their results. */
#ifndef TREADLE_TESTS_MODEL_HISTORY_H
#define TREADLE_TESTS_MODEL_HISTORY_H

#include <string>
#include <vector>

#include "model.h"

namespace model
{

enum class Kind : std::uint8_t { arm, add, set, cancel, flush, flush_all, read, kill };

/* A call. A call that begins after this one ended comes after it. */
struct Op {
	Kind kind = Kind::read;
	bool error = false; /* add, set, read: the count of errors */
	bool last = false;  /* cancel: what is ready has fired long ago; read: and has counted */
	bool rests = false; /* cancel of a repeating command: on the counter that it rests on */
	int target = 0;	    /* arm, cancel: a command; flush_all, kill: a process; else a counter */
	Word value = 0;	    /* add, set; cancel of a repeating command: its threshold */
	Word result = 0; /* cancel: 1, or 0 if there was none; flush: the number; read: the value */
	Word begin = 0;
	Word end = 0;		/* 0: it never returned, and may have happened or not */
	std::uint32_t seen = 0; /* completions of its process that were there when it began */
};

struct Completion {
	int command = 0;
	bool failed = false;
};

struct History {
	std::vector<int> counters; /* the process of each counter */
	std::vector<Command> commands;
	std::vector<std::vector<Op>> actors;		  /* the calls of each actor, in order */
	std::vector<std::vector<Completion>> completions; /* of each process, in order */

	int process_of(int command) const { return counters[commands[command].counter]; }
};

std::string text_of(const History &history);

} // namespace model

#endif
