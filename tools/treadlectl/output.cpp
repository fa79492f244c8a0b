// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "output.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include <unistd.h>

namespace ctl
{

/* --- values ----------------------------------------------------------------------- */

const Value &Value::operator[](std::string_view name) const
{
	static const Value none;

	if (const auto fields = as<Fields>())
		for (const auto &[key, value] : *fields)
			if (key == name)
				return value;
	return none;
}

void Value::set(std::string_view name, Value value)
{
	if (!as<Fields>())
		data_ = Fields();
	auto &fields = *as<Fields>();
	const auto found =
		std::ranges::find_if(fields, [&](const auto &f) { return f.first == name; });
	if (found != fields.end())
		found->second = std::move(value);
	else
		fields.emplace_back(name, std::move(value));
}

std::uint64_t Value::count() const
{
	const auto n = as<std::uint64_t>();
	return n ? *n : 0;
}

double Value::number() const
{
	const auto x = as<double>();
	return x ? *x : static_cast<double>(count());
}

const Value::List &Value::list() const
{
	static const List none;
	const auto list = as<List>();
	return list ? *list : none;
}

std::string bytes(double n)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	std::size_t unit = 0;
	char text[32];

	for (; n >= 1024 && unit + 1 < std::size(units); unit++)
		n /= 1024;
	std::snprintf(text, sizeof(text), "%.*f %s", n == std::floor(n) ? 0 : 1, n, units[unit]);
	return text;
}

/* The length of the character of UTF-8 that begins at @at; 0: there is none. */
static std::size_t character(const std::string &s, std::size_t at)
{
	const auto byte = [&](std::size_t i) {
		return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U;
	};
	const unsigned first = byte(at);
	const std::size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
	/* Not: too long a form, a surrogate, more than U+10FFFF. */
	if ((first >= 0x80 && first < 0xc2) || first > 0xf4 ||
	    (first == 0xe0 && byte(at + 1) < 0xa0) || (first == 0xed && byte(at + 1) > 0x9f) ||
	    (first == 0xf0 && byte(at + 1) < 0x90) || (first == 0xf4 && byte(at + 1) > 0x8f))
		return 0;
	for (std::size_t i = 1; i < length; i++)
		if ((byte(at + i) & 0xc0) != 0x80)
			return 0;
	return length;
}

/* Calls @each with the characters, and with an empty string for a byte that is of none. */
template <class Each> static void characters(const std::string &s, Each each)
{
	for (std::size_t at = 0, n; at < s.size(); at += std::max<std::size_t>(n, 1)) {
		n = character(s, at);
		each(s.substr(at, n));
	}
}

/* Is it a control character: of ASCII, or U+0080 to U+009F? */
static bool control(const std::string &c)
{
	const auto first = static_cast<unsigned char>(c[0]);
	return first < 0x20 || first == 0x7f ||
	       (first == 0xc2 && static_cast<unsigned char>(c[1]) < 0xa0);
}

static std::string harmless(const std::string &s)
{
	std::string out;
	characters(s, [&](const std::string &c) { out += c.empty() || control(c) ? "?" : c; });
	return out;
}

std::string Value::text() const
{
	char number[32];
	std::string text;

	if (null())
		return "-";
	if (const auto yes = as<bool>())
		return *yes ? "yes" : "no";
	if (const auto s = as<std::string>())
		return harmless(*s);
	if (const auto all = as<List>()) {
		for (const Value &one : *all)
			text += (text.empty() ? "" : ", ") + one.text();
		return text.empty() ? "none" : text;
	}
	if (const auto fields = as<Fields>()) {
		for (const auto &[name, value] : *fields)
			text += (text.empty() ? "" : ", ") + name + " " + value.text();
		return text;
	}
	if (*unit_ == 'B')
		return bytes(this->number()) + (unit_ + 1);
	if (const auto x = as<double>())
		std::snprintf(number, sizeof(number), "%.1f", *x);
	else
		std::snprintf(number, sizeof(number), "%llu",
			      static_cast<unsigned long long>(count()));
	return *unit_ ? std::string(number) + " " + unit_ : number;
}

/* --- JSON ------------------------------------------------------------------------- */

static std::string quoted(const std::string &s)
{
	std::string out = "\"";
	characters(s, [&](const std::string &c) {
		char code[8];
		if (c.empty()) {
			out += "\\ufffd";
		} else if (control(c)) {
			std::snprintf(code, sizeof(code), "\\u%04x",
				      static_cast<unsigned char>(c[c.size() - 1]));
			out += code;
		} else {
			out += c == "\"" || c == "\\" ? "\\" + c : c;
		}
	});
	return out + "\"";
}

std::string json(const Value &value)
{
	std::string out;
	const char *comma = "";

	if (const auto list = value.as<Value::List>()) {
		for (const Value &one : *list)
			out += std::exchange(comma, ", ") + json(one);
		return "[" + out + "]";
	}
	if (const auto fields = value.as<Value::Fields>()) {
		for (const auto &[name, one] : *fields)
			out += std::exchange(comma, ", ") + quoted(name) + ": " + json(one);
		return "{" + out + "}";
	}
	if (const auto s = value.as<std::string>())
		return quoted(*s);
	if (const auto yes = value.as<bool>())
		return *yes ? "true" : "false";
	if (const auto x = value.as<double>()) {
		char number[40];
		std::snprintf(number, sizeof(number), "%.9g", *x);
		return std::isfinite(*x) ? number : "null"; /* JSON has no infinity */
	}
	return value.null() ? "null" : std::to_string(value.count());
}

/* --- text ------------------------------------------------------------------------- */

bool coloured()
{
	const char *const no = std::getenv("NO_COLOR");
	const char *const terminal = std::getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && terminal &&
	       std::string_view(terminal) != "dumb";
}

std::string paint(const std::string &text, Tone tone, bool colour)
{
	static const char *const codes[] = {"", "1", "32", "33", "1;31"};

	if (!colour || tone == Tone::plain)
		return text;
	return "\033[" + std::string(codes[static_cast<int>(tone)]) + "m" + text + "\033[m";
}

std::size_t width(const std::string &text)
{
	return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) {
		return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
	}));
}

static std::string upper(std::string name)
{
	for (char &c : name)
		c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
	return name;
}

std::string wrapped(const std::string &text, std::size_t column)
{
	std::string out, word;
	std::size_t at = column;

	for (std::istringstream in(text); in >> word; at += width(word)) {
		if (out.empty())
			;
		else if (at + 1 + width(word) >= 80)
			out += "\n" + std::string(at = column, ' ');
		else
			out += " ", at++;
		out += word;
	}
	return out;
}

static bool is_table(const Value &value)
{
	return !value.list().empty() && value.list().front().as<Value::Fields>();
}

static void add_table(std::string &out, const Value::List &rows, const std::string &indent,
		      bool colour)
{
	std::vector<std::string> names;
	std::vector<std::size_t> widths;
	std::vector<bool> right;

	for (const Value &row : rows)
		if (const auto fields = row.as<Value::Fields>())
			for (const auto &[name, value] : *fields)
				if (std::ranges::find(names, name) == names.end())
					names.push_back(name);
	for (const auto &name : names) {
		widths.push_back(width(name));
		right.push_back(false);
		for (const Value &row : rows) {
			widths.back() = std::max(widths.back(), width(row[name].text()));
			right.back() = right.back() || row[name].numeric();
		}
	}
	const auto add = [&](std::size_t i, const std::string &text, Tone tone) {
		const std::string space(widths[i] - width(text), ' ');
		const bool last = i + 1 == names.size();
		out += i ? "  " : indent;
		out += (right[i] ? space : "") + paint(text, tone, colour);
		out += last ? "\n" : right[i] ? "" : space;
	};
	for (std::size_t i = 0; i < names.size(); i++)
		add(i, upper(names[i]), Tone::strong);
	for (const Value &row : rows)
		for (std::size_t i = 0; i < names.size(); i++)
			add(i, row[names[i]].text(), row[names[i]].tone());
}

static void add(std::string &out, const Value &value, const std::string &indent, bool colour)
{
	const auto fields = value.as<Value::Fields>();
	std::size_t column = 0;

	if (is_table(value))
		return add_table(out, value.list(), indent, colour);
	if (!fields) {
		out += indent + paint(value.text(), value.tone(), colour) + "\n";
		return;
	}
	const auto nested = [](const Value &v) { return v.as<Value::Fields>() || is_table(v); };
	for (const auto &[name, one] : *fields)
		if (!nested(one))
			column = std::max(column, width(name) + 2);
	for (const auto &[name, one] : *fields) {
		if (nested(one)) {
			out += indent + paint(name, Tone::strong, colour) + "\n";
			add(out, one, indent + "  ", colour);
		} else {
			out += indent + name + std::string(column - width(name), ' ') +
			       paint(wrapped(one.text(), indent.size() + column), one.tone(),
				     colour) +
			       "\n";
		}
	}
}

std::string text(const Value &value, bool colour)
{
	std::string out;
	add(out, value, "", colour);
	return out;
}

void write(const std::string &text)
{
	if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout))
		throw std::system_error(errno, std::generic_category(), "standard output");
}

} // namespace ctl
