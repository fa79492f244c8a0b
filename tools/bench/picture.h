// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Draws the table with gnuplot: a panel for each operation, a line for each provider. */
#pragma once

#include <set>

#include "report.h"

namespace bench
{

struct ClosePipe {
	void operator()(std::FILE *pipe) const { pclose(pipe); }
};

/* The rows of one panel and one provider. */
inline std::vector<const Row *> line_of(const std::vector<Row> &rows, const std::string &operation,
					const std::string &provider)
{
	std::vector<const Row *> line;

	for (const Row &row : rows)
		if (row.status == Answer::Status::done && row.job.op.name == operation &&
		    row.job.provider == provider)
			line.push_back(&row);
	return line;
}

/* The distinct values, in the order of their first occurrence. */
template <class Get> std::vector<std::string> distinct(const std::vector<Row> &rows, Get get)
{
	std::vector<std::string> found;

	for (const Row &row : rows)
		if (std::find(found.begin(), found.end(), get(row)) == found.end())
			found.push_back(get(row));
	return found;
}

inline void draw(std::FILE *gnuplot, const std::vector<Row> &rows, const std::string &file)
{
	const auto operations =
		distinct(rows, [](const Row &r) { return std::string(r.job.op.name); });
	const auto providers = distinct(rows, [](const Row &r) { return r.job.provider; });
	std::vector<std::string> panels;
	std::set<size_t> sizes;

	for (const Row &row : rows)
		sizes.insert(row.job.size);
	for (const auto &operation : operations)
		for (size_t i = 0; i < providers.size(); i++) {
			const auto line = line_of(rows, operation, providers[i]);
			if (line.empty())
				continue;
			if (panels.empty() || panels.back() != operation)
				panels.push_back(operation);
			std::fprintf(gnuplot, "$data_%zu_%zu << END\n", panels.size(), i);
			for (const Row *row : line)
				std::fprintf(gnuplot, "%zu %g %g %g\n", row->job.size,
					     row->ns.median / 1e3, row->ns.lower / 1e3,
					     row->ns.upper / 1e3);
			std::fprintf(gnuplot, "END\n");
		}
	if (panels.empty())
		throw std::runtime_error("nothing to draw");

	const size_t columns = std::min<size_t>(panels.size(), 3);
	const size_t lines = (panels.size() + columns - 1) / columns;
	std::fprintf(gnuplot,
		     "set terminal svg noenhanced size %zu,%zu font 'sans,12' background 'white'\n"
		     "set output '%s'\n"
		     "set multiplot layout %zu,%zu title 'microseconds per message, %s'\n"
		     "set logscale xy\nset grid\nset key left top\nset xrange [%g:%g]\nset xtics (",
		     columns * 360, lines * 320 + 40, file.c_str(), lines, columns,
		     rows.front().job.two ? "two processes" : "both ends in one thread",
		     *sizes.begin() / 2.0, *sizes.rbegin() * 2.0);
	for (const char *separator = ""; size_t size : sizes) {
		std::fprintf(gnuplot, "%s'%s' %zu", separator, size_name(size).c_str(), size);
		separator = ", ";
	}
	std::fprintf(gnuplot, ")\n");
	for (size_t panel = 0; panel < panels.size(); panel++) {
		std::fprintf(gnuplot, "set title '%s'\nplot ", panels[panel].c_str());
		for (const char *separator = ""; size_t i : {0, 1, 2, 3, 4, 5, 6, 7}) {
			if (i >= providers.size() ||
			    line_of(rows, panels[panel], providers[i]).empty())
				continue;
			std::fprintf(gnuplot,
				     "%s$data_%zu_%zu with yerrorlines linetype %zu pointtype 7 "
				     "pointsize 0.4 title '%s'",
				     separator, panel + 1, i, i + 1, providers[i].c_str());
			separator = ", ";
		}
		std::fprintf(gnuplot, "\n");
	}
}

inline void write_svg(const std::vector<Row> &rows, const std::string &file)
{
	std::unique_ptr<std::FILE, ClosePipe> gnuplot(popen("gnuplot", "w"));

	if (!gnuplot)
		throw Failure("gnuplot", errno);
	draw(gnuplot.get(), rows, file);
	if (pclose(gnuplot.release()))
		throw std::runtime_error("gnuplot could not draw " + file);
}

} // namespace bench
