// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The verbs of treadlectl. A verb is a function in a file of its name, a line in the table of
 * main.cpp, and a manual page.
 *
 * Exit status of each: 0, 1 if nothing can be shown (a sentence on standard error says why and what
 * to do), 2 if the arguments are wrong.
 */
#ifndef TREADLE_TOOLS_TREADLECTL_VERBS_H
#define TREADLE_TOOLS_TREADLECTL_VERBS_H

#include <string>
#include <vector>

#include "../cli.h"
#include "output.h"

namespace ctl
{

class Netlink;

/* argv[0] is "treadlectl VERB". */
int doctor(int argc, char **argv);
int explain(int argc, char **argv);
int info(int argc, char **argv);
int list(int argc, char **argv);
int metrics(int argc, char **argv);
int peers(int argc, char **argv);
int stat(int argc, char **argv);
int top(int argc, char **argv);
int trace(int argc, char **argv);

struct Verb {
	const char *name, *arguments, *help;
	int (*run)(int argc, char **argv);
};
extern const std::vector<Verb> verbs;

struct Call {
	bool json = false;
	std::vector<std::string> words; /* arguments that are no options */
};

/* Parses the command line of a verb: @options besides --json, and up to @most words. */
Call parse(int argc, char **argv, std::size_t most = 0, std::vector<cli::Option> options = {});

/* The other nodes that this network namespace knows. */
Value::List nodes(Netlink &netlink);

} // namespace ctl

#endif
