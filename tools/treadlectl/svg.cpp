// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "svg.h"

#include <cstdio>

#include "output.h"

namespace ctl
{

constexpr double font = 12;

static std::string number(double x)
{
	char text[32];

	std::snprintf(text, sizeof(text), "%.1f", x);
	return text;
}

static std::string escaped(const std::string &text)
{
	std::string out;

	for (const char c : text)
		switch (c) {
		case '&':
			out += "&amp;";
			break;
		case '<':
			out += "&lt;";
			break;
		case '>':
			out += "&gt;";
			break;
		case '"':
			out += "&quot;";
			break;
		default:
			out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
		}
	return out;
}

static std::string attribute(const char *name, const std::string &value)
{
	return std::string(" ") + name + "=\"" + value + "\"";
}

void Svg::line(Point from, Point to, const char *colour, const char *dashes)
{
	body_ += "<line" + attribute("x1", number(from.x)) + attribute("y1", number(from.y)) +
		 attribute("x2", number(to.x)) + attribute("y2", number(to.y)) +
		 attribute("stroke", colour) +
		 (*dashes ? attribute("stroke-dasharray", dashes) : "") + "/>\n";
}

void Svg::arrow(Point from, Point to, const char *colour)
{
	body_ += "<path" +
		 attribute("d", "M" + number(from.x) + " " + number(from.y) + "L" + number(to.x) +
					" " + number(to.y)) +
		 attribute("stroke", colour) + attribute("color", colour) +
		 " fill=\"none\" stroke-width=\"1.5\" marker-end=\"url(#head)\"/>\n";
}

void Svg::curve(Point from, Point to, const char *colour)
{
	const double middle = (from.y + to.y) / 2;

	body_ += "<path" +
		 attribute("d", "M" + number(from.x) + " " + number(from.y) + "C" + number(from.x) +
					" " + number(middle) + " " + number(to.x) + " " +
					number(middle) + " " + number(to.x) + " " + number(to.y)) +
		 attribute("stroke", colour) + attribute("color", colour) +
		 " fill=\"none\" stroke-width=\"1.5\" marker-end=\"url(#head)\"/>\n";
}

void Svg::box(Point corner, double width, double height, double round, const char *colour,
	      const char *fill)
{
	body_ += "<rect" + attribute("x", number(corner.x)) + attribute("y", number(corner.y)) +
		 attribute("width", number(width)) + attribute("height", number(height)) +
		 attribute("rx", number(round)) + attribute("stroke", colour) +
		 attribute("fill", fill) + "/>\n";
}

void Svg::diamond(Point middle, double width, double height, const char *colour, const char *fill)
{
	const auto at = [](double x, double y) { return number(x) + "," + number(y) + " "; };

	body_ += "<polygon" +
		 attribute("points", at(middle.x - width / 2, middle.y) +
					     at(middle.x, middle.y - height / 2) +
					     at(middle.x + width / 2, middle.y) +
					     at(middle.x, middle.y + height / 2)) +
		 attribute("stroke", colour) + attribute("fill", fill) + "/>\n";
}

void Svg::text(Point at, const std::string &text, Anchor anchor, const char *colour, bool bold)
{
	static const char *const anchors[] = {"start", "middle", "end"};

	body_ += "<text" + attribute("x", number(at.x)) + attribute("y", number(at.y)) +
		 attribute("text-anchor", anchors[static_cast<int>(anchor)]) +
		 attribute("fill", colour) + (bold ? " font-weight=\"bold\"" : "") + ">" +
		 escaped(text) + "</text>\n";
}

void Svg::label(Point at, const std::string &text)
{
	body_ += "<text" + attribute("x", number(at.x)) + attribute("y", number(at.y)) +
		 " fill=\"#555\" stroke=\"white\" stroke-width=\"4\" paint-order=\"stroke\">" +
		 escaped(text) + "</text>\n";
}

std::string Svg::picture(double width, double height, const std::string &title) const
{
	return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	       "<svg xmlns=\"http://www.w3.org/2000/svg\"" +
	       attribute("width", number(width)) + attribute("height", number(height)) +
	       attribute("viewBox", "0 0 " + number(width) + " " + number(height)) +
	       attribute("font-family", "sans-serif") + attribute("font-size", number(font)) +
	       ">\n<title>" + escaped(title) +
	       "</title>\n<defs><marker id=\"head\" viewBox=\"0 0 10 10\" refX=\"10\" refY=\"5\" "
	       "markerWidth=\"9\" markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" "
	       "orient=\"auto\"><path d=\"M0 0L10 5L0 10z\" fill=\"#444\"/></marker></defs>\n"
	       "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
	       body_ + "</svg>\n";
}

double text_width(const std::string &text)
{
	return 0.58 * font * static_cast<double>(width(text));
}

} // namespace ctl
