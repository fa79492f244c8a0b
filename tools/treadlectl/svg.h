// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Pictures as SVG: shapes and text, in the order in which they are drawn. */
#ifndef TREADLE_TOOLS_TREADLECTL_SVG_H
#define TREADLE_TOOLS_TREADLECTL_SVG_H

#include <string>

namespace ctl
{

struct Point {
	double x, y;
};

class Svg
{
public:
	enum class Anchor { start, middle, end };

	/* colour: of SVG; dashes: "" or as stroke-dasharray */
	void line(Point from, Point to, const char *colour, const char *dashes = "");
	/* With a head at @to. */
	void arrow(Point from, Point to, const char *colour);
	/* The same, bent: it leaves and arrives vertically. */
	void curve(Point from, Point to, const char *colour);
	void box(Point corner, double width, double height, double round, const char *colour,
		 const char *fill);
	void diamond(Point middle, double width, double height, const char *colour,
		     const char *fill);
	/* @at: on the base line. Text may come from other processes. */
	void text(Point at, const std::string &text, Anchor anchor = Anchor::start,
		  const char *colour = "#222", bool bold = false);
	/* Small, and readable where it lies over a line. */
	void label(Point at, const std::string &text);
	/* All of it; whitespace around it is the caller's. */
	std::string picture(double width, double height, const std::string &title) const;

private:
	std::string body_;
};

/* About how wide a text is. */
double text_width(const std::string &text);

} // namespace ctl

#endif
