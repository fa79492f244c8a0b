// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The command line of all tools: one table of options is parsed and printed by --help. A letter has
 * the same meaning in every tool that has it. Numbers may end in K, M or G (1024 to the power of 1,
 * 2, 3).
 *
 * Exit status: 0; 1 if an operation is impossible or has failed; 2 if the arguments are wrong.
 */
#ifndef TREADLE_TOOLS_CLI_H
#define TREADLE_TOOLS_CLI_H

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <getopt.h>
#include <unistd.h>

#include <treadle/ioctl.h>

namespace cli
{

/* An argument is wrong: exit status 2. */
struct Misuse : std::invalid_argument {
	using std::invalid_argument::invalid_argument;
};

/*
 * @letter: 0 for none; @argument: its name in --help, nullptr for none, "[=X]" if it is optional.
 */
struct Option {
	char letter;
	const char *name, *argument, *help;
	std::function<void(const char *)> set;
};

struct Tool {
	const char *name, *synopsis, *about;
	std::vector<Option> options;
	std::string after; /* the end of --help */
};

inline void usage(const Tool &tool, std::FILE *to)
{
	constexpr int column = 24;

	std::fprintf(to, "Usage: %s %s\n%s\n\n", tool.name, tool.synopsis, tool.about);
	for (const Option &o : tool.options) {
		std::string left = o.letter ? std::string("  -") + o.letter + ", --" : "      --";
		left += o.name;
		if (o.argument)
			left += (*o.argument == '[' ? "" : " ") + std::string(o.argument);
		std::string help = o.help;
		for (std::size_t at = 0; (at = help.find('\n', at)) != help.npos; at += column)
			help.replace(at, 1, '\n' + std::string(column, ' '));
		std::fprintf(to, "%-*s%s\n", column - 1, left.c_str(), (' ' + help).c_str());
	}
	std::fputs("  -h, --help            print this\n", to);
	if (!tool.after.empty())
		std::fprintf(to, "\n%s", tool.after.c_str());
}

/* Returns the words that are no options, in order. --help ends the program. */
inline std::vector<std::string> parse(const Tool &tool, int argc, char **argv)
{
	constexpr int first_long = 256;
	std::string letters = "h";
	std::vector<option> longs{{"help", no_argument, nullptr, 'h'}};

	for (std::size_t i = 0; i < tool.options.size(); i++) {
		const Option &o = tool.options[i];
		const int takes = !o.argument	     ? no_argument :
				  *o.argument == '[' ? optional_argument :
						       required_argument;
		longs.push_back({o.name, takes, nullptr, first_long + static_cast<int>(i)});
		if (o.letter)
			letters +=
				std::string(1, o.letter) + (takes == required_argument ? ":" : "");
	}
	longs.push_back({});
	for (int c; (c = getopt_long(argc, argv, letters.c_str(), longs.data(), nullptr)) != -1;) {
		if (c == 'h') {
			usage(tool, stdout);
			std::exit(0);
		}
		const Option *found = nullptr;
		for (std::size_t i = 0; i < tool.options.size(); i++)
			if (c == tool.options[i].letter || c == first_long + static_cast<int>(i))
				found = &tool.options[i];
		if (!found)
			throw Misuse("try --help");
		found->set(optarg);
	}
	return {argv + optind, argv + argc};
}

/* For a tool that takes only options. */
inline void parse_options(const Tool &tool, int argc, char **argv)
{
	const auto rest = parse(tool, argc, argv);

	if (!rest.empty())
		throw Misuse("what is " + rest.front() + "? try --help");
}

inline std::uint64_t number(const char *text, std::uint64_t least = 1,
			    std::uint64_t most = std::numeric_limits<std::uint64_t>::max())
{
	static const char units[] = "KMG";
	char *end;

	errno = 0;
	std::uint64_t value = std::strtoull(text, &end, 0);
	bool good = !errno && end != text && !std::strchr(text, '-');
	const char *const unit = *end ? std::strchr(units, *end & ~0x20) : nullptr;
	if (good && unit && *unit) {
		const auto bits = 10 * (unit - units + 1);
		good = value <= most >> bits;
		value <<= bits;
		end++;
	}
	if (!good || *end || value < least || value > most)
		throw Misuse(std::string(text) + " is no number from " + std::to_string(least) +
			     " to " + std::to_string(most));
	return value;
}

/* Checks that the device can be opened. Throws a message that says what to do. */
inline void need_device()
{
	const std::string device = TREADLE_DEVICE;
	const int fd = ::open(TREADLE_DEVICE, O_RDWR | O_CLOEXEC);
	const int error = errno;

	if (fd >= 0) {
		::close(fd);
		return;
	}
	if (error == ENOENT || error == ENXIO || error == ENODEV)
		throw std::runtime_error(
			"there is no " + device +
			": the module is not loaded (modprobe treadle, or insmod "
			"kernel/treadle.ko; `make vm CMD=…` runs a command where it is)");
	if (error == EACCES || error == EPERM)
		throw std::runtime_error(device +
					 " may not be opened: its mode is 0666 unless a udev "
					 "rule or the container says otherwise");
	throw std::runtime_error(device + ": " + std::generic_category().message(error));
}

/* Runs a tool's main(): turns exceptions into messages and exit status. */
template <class Main> int run(const char *name, Main main)
{
	std::signal(SIGPIPE, SIG_IGN);
	try {
		return main();
	} catch (const Misuse &e) {
		std::fprintf(stderr, "%s: %s\n", name, e.what());
		return 2;
	} catch (const std::exception &e) {
		std::fprintf(stderr, "%s: %s\n", name, e.what());
		return 1;
	}
}

} // namespace cli

#endif
