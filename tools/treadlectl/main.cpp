// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* treadlectl: looks at treadle from outside */
#include <cstdio>
#include <string>

#include <treadle/treadle.h>

#include "verbs.h"

namespace ctl
{

const std::vector<Verb> verbs = {
	{"doctor", "", "why treadle does not work here, and what to do", doctor},
	{"explain", "[--dot | --svg] PID | --all",
	 "what is armed, what it waits for, where that is stuck", explain},
	{"info", "", "versions, features, limits and parameters", info},
	{"list", "[contexts | endpoints | regions]",
	 "what there is: processes, users, ports, queues", list},
	{"metrics", "", "statistics in the text format of OpenMetrics", metrics},
	{"peers", "", "other nodes: state, round trip, frames, what waits", peers},
	{"stat", "[PID]", "what was counted, or rates (--interval)", stat},
	{"top", "", "processes and what they do, on a screen that is refreshed", top},
	{"trace", "PID", "what a process does, message by message, in words or as SVG", trace},
};

static const Verb *find(const std::string &name)
{
	for (const Verb &verb : verbs)
		if (verb.name == name)
			return &verb;
	return nullptr;
}

Call parse(int argc, char **argv, std::size_t most, std::vector<cli::Option> options)
{
	const std::string name = argv[0];
	const Verb &verb = *find(name.substr(name.find(' ') + 1));
	const std::string synopsis = "[OPTION]... " + std::string(verb.arguments);
	Call call;

	options.push_back(
		{0, "json", nullptr, "print JSON", [&](const char *) { call.json = true; }});
	call.words = cli::parse({argv[0], synopsis.c_str(), verb.help, std::move(options),
				 "treadlectl-" + std::string(verb.name) + "(1) has more.\n"},
				argc, argv);
	if (call.words.size() > most)
		throw cli::Misuse("what is " + call.words[most] + "? try --help");
	return call;
}

static void help()
{
	std::string out = "Usage: treadlectl VERB [OPTION]...\nLooks at treadle from outside.\n\n";

	for (const Verb &verb : verbs) {
		std::string left = verb.name;
		left.resize(10, ' ');
		out += "  " + left + verb.help + "\n";
	}
	write(out + "\n"
		    "  -h, --help     print this; of a verb: its options\n"
		    "  -V, --version  print the version\n\n"
		    "Each verb takes --json. treadlectl(1) has more.\n");
}

static int run(int argc, char **argv)
{
	const std::string word = argc > 1 ? argv[1] : "";

	if (word == "-h" || word == "--help") {
		help();
		return 0;
	}
	if (word == "-V" || word == "--version") {
		write(std::string("treadlectl ") + treadle::version() + "\n");
		return 0;
	}
	const Verb *const verb = find(word);
	if (!verb)
		throw cli::Misuse(word.empty() ? "a verb is missing; try --help" :
						 "there is no verb " + word + "; try --help");
	std::string name = "treadlectl " + word;
	argv[1] = name.data();
	return verb->run(argc - 1, argv + 1);
}

} // namespace ctl

int main(int argc, char **argv)
{
	return cli::run("treadlectl", [&] { return ctl::run(argc, argv); });
}
