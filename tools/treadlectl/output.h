// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What a verb shows: a tree of values, which is printed as JSON, or as text for people. Text of a
 * tree is made here, unless the verb has sentences of its own.
 *
 * Both have the same names. JSON has plain numbers, text has units. Strings may come from other
 * processes: neither form passes on what a terminal would obey.
 */
#ifndef TREADLE_TOOLS_TREADLECTL_OUTPUT_H
#define TREADLE_TOOLS_TREADLECTL_OUTPUT_H

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ctl
{

enum class Tone { plain, strong, good, warning, bad };

class Value
{
public:
	using List = std::vector<Value>;
	using Fields = std::vector<std::pair<std::string, Value>>;

	Value() = default; /* null: not known */
	Value(bool yes) : data_(yes) {}
	/* unit: as text shows it. "B": bytes, shown as KiB, MiB, … */
	Value(std::unsigned_integral auto n,
	      const char *unit = "") requires(!std::same_as<decltype(n), bool>)
		: data_(static_cast<std::uint64_t>(n)), unit_(unit)
	{
	}
	Value(double x, const char *unit = "") : data_(x), unit_(unit) {}
	Value(std::string text, Tone tone = Tone::plain) : data_(std::move(text)), tone_(tone) {}
	Value(const char *text, Tone tone = Tone::plain) : Value(std::string(text), tone) {}
	Value(List list) : data_(std::move(list)) {}
	Value(Fields fields) : data_(std::move(fields)) {}

	template <class T> const T *as() const { return std::get_if<T>(&data_); }
	template <class T> T *as() { return std::get_if<T>(&data_); }
	bool null() const { return as<std::monostate>(); }
	/* Of fields: the one with this name, or null. */
	const Value &operator[](std::string_view name) const;
	/* Of fields: replaces one, or adds it. */
	void set(std::string_view name, Value value);
	bool yes() const { return as<bool>() && *as<bool>(); }
	/* The number, or 0. */
	std::uint64_t count() const;
	double number() const;
	/* The elements; none if it is no list. */
	const List &list() const;
	/* A single value as text, without colour. */
	std::string text() const;
	Tone tone() const { return tone_; }
	bool numeric() const { return as<std::uint64_t>() || as<double>(); }
	bool single() const { return !as<List>() && !as<Fields>(); }

private:
	std::variant<std::monostate, bool, std::uint64_t, double, std::string, List, Fields> data_;
	const char *unit_ = "";
	Tone tone_ = Tone::plain;
};

/* Does standard output show colours: a terminal, and NO_COLOR is not set? */
bool coloured();
std::string paint(const std::string &text, Tone tone, bool colour);
/* Columns on a terminal. */
std::size_t width(const std::string &text);
/* Breaks a text between words so that it ends before column 80, if it begins at @column. */
std::string wrapped(const std::string &text, std::size_t column);
/* Bytes with the largest unit that leaves 1 or more. */
std::string bytes(double n);

std::string json(const Value &value);
/* Fields as aligned lines, a list of fields as a table with a line of headings. */
std::string text(const Value &value, bool colour);
/* Writes to standard output at once. Throws if that is impossible. */
void write(const std::string &text);
inline void print(const Value &value, bool as_json)
{
	write(as_json ? json(value) + "\n" : text(value, coloured()));
}

} // namespace ctl

#endif
