// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "terminal.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "output.h"

namespace ctl
{

static volatile std::sig_atomic_t ended;

Terminal::Terminal()
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before_))
		throw std::runtime_error("top needs a terminal: \"stat --interval\" prints lines");
	struct sigaction end {
	}, size{};
	end.sa_handler = [](int) { ended = 1; };
	size.sa_handler = [](int) {}; /* it only ends poll(2) */
	for (const int signal : {SIGINT, SIGTERM, SIGHUP})
		sigaction(signal, &end, nullptr);
	sigaction(SIGWINCH, &size, nullptr);
	termios raw = before_;
	raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
	write("\033[?1049h\033[?25l"); /* another screen, without a cursor */
}

Terminal::~Terminal()
{
	static const char restore[] = "\033[?25h\033[?1049l";

	[[maybe_unused]] const ssize_t n = ::write(STDOUT_FILENO, restore, sizeof(restore) - 1);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

static winsize size()
{
	winsize size{};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
		size = {24, 80, 0, 0};
	return size;
}

std::size_t Terminal::rows() const
{
	return size().ws_row;
}

std::size_t Terminal::columns() const
{
	return size().ws_col;
}

/* The first @columns characters of UTF-8. */
static std::string cut(const std::string &line, std::size_t columns)
{
	std::size_t at = 0;

	for (; at < line.size(); at++)
		if ((static_cast<unsigned char>(line[at]) & 0xc0) != 0x80 && !columns--)
			break;
	return line.substr(0, at);
}

void Terminal::show(const std::vector<std::string> &lines, std::size_t heads) const
{
	const std::size_t most = std::min(lines.size(), rows());
	std::string out = "\033[H";

	for (std::size_t i = 0; i < most; i++) {
		std::string line = cut(lines[i], columns());
		const std::size_t pad = columns() - std::min(columns(), width(line));
		if (i == heads && coloured())
			line.insert(0, "\033[7m").append(pad, ' ').append("\033[m");
		out.append(line).append("\033[K").append(i + 1 < most ? "\r\n" : "");
	}
	write(out + "\033[J");
}

char Terminal::key(std::chrono::milliseconds most) const
{
	pollfd in{STDIN_FILENO, POLLIN, 0};
	char c = 0;

	if (poll(&in, 1, static_cast<int>(most.count())) > 0 && read(STDIN_FILENO, &c, 1) != 1)
		return 'q';		  /* the terminal has gone */
	return ended || c == 3 ? 'q' : c; /* 3: Ctrl-C */
}

} // namespace ctl
