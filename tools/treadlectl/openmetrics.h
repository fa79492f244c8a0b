// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The text format of OpenMetrics 1.0. */
#ifndef TREADLE_TOOLS_TREADLECTL_OPENMETRICS_H
#define TREADLE_TOOLS_TREADLECTL_OPENMETRICS_H

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace ctl
{

using Labels = std::vector<std::pair<std::string, std::string>>;

class OpenMetrics
{
public:
	/* What follows belongs to this family, up to the next one. A unit ends its name. */
	void family(const std::string &name, const std::string &type, const std::string &help,
		    const std::string &unit = "")
	{
		name_ = name;
		text_ += "# TYPE " + name + " " + type + "\n";
		if (!unit.empty())
			text_ += "# UNIT " + name + " " + unit + "\n";
		text_ += "# HELP " + name + " " + escaped(help) + "\n";
	}
	void sample(const std::string &suffix, const Labels &labels, double value)
	{
		char number[40];
		std::string in;

		for (const auto &[name, label] : labels)
			in += (in.empty() ? "" : ",") + name + "=\"" + escaped(label) + "\"";
		std::snprintf(number, sizeof(number), "%.17g", value);
		text_ += name_ + suffix + (in.empty() ? "" : "{" + in + "}") + " " + number + "\n";
	}
	std::string text() const { return text_ + "# EOF\n"; }

private:
	static std::string escaped(const std::string &raw)
	{
		std::string out;

		for (const char c : raw)
			out += c == '\n' ? "\\n" :
			       c == '"'	 ? "\\\"" :
			       c == '\\' ? "\\\\" :
					   std::string(1, c);
		return out;
	}

	std::string text_, name_;
};

} // namespace ctl

#endif
