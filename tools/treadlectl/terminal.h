// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* A terminal for a full screen: keys one by one, and what was there before comes back. */
#ifndef TREADLE_TOOLS_TREADLECTL_TERMINAL_H
#define TREADLE_TOOLS_TREADLECTL_TERMINAL_H

#include <chrono>
#include <string>
#include <vector>

#include <termios.h>

namespace ctl
{

class Terminal
{
public:
	/* Throws a sentence if standard input and output are no terminal. */
	Terminal();
	~Terminal();
	Terminal(const Terminal &) = delete;

	std::size_t rows() const;
	std::size_t columns() const;
	/* Shows the lines that fit, cut at the right. The one with number @heads is inverse. */
	void show(const std::vector<std::string> &lines, std::size_t heads) const;
	/* Waits for a key: returns it, '\0' after that time or a new size, 'q' if it is to end. */
	char key(std::chrono::milliseconds most) const;

private:
	termios before_;
};

} // namespace ctl

#endif
