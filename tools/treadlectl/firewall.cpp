// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "firewall.h"

#include <cctype>
#include <sstream>

#include "child.h"

namespace ctl
{

constexpr unsigned port = 4791;

/* Is the port in a text such as "4791", "{ 22, 4700-4800 }" or "4700:4800"? */
static bool covers(const std::string &text)
{
	for (std::size_t at = 0; at < text.size();) {
		if (!std::isdigit(static_cast<unsigned char>(text[at]))) {
			at++;
			continue;
		}
		std::size_t used = 0;
		const auto number = [&] {
			unsigned n = 0;
			for (;
			     at < text.size() && std::isdigit(static_cast<unsigned char>(text[at]));
			     at++, used++)
				n = n > 65535 ? n : n * 10 + static_cast<unsigned>(text[at] - '0');
			return n;
		};
		const unsigned first = number();
		unsigned last = first;
		if (at + 1 < text.size() && (text[at] == '-' || text[at] == ':') &&
		    std::isdigit(static_cast<unsigned char>(text[at + 1]))) {
			at++;
			last = number();
		}
		if (first <= port && port <= last)
			return true;
	}
	return false;
}

/* What follows a word, up to the end of a word or of a set in braces. Empty: there is no such. */
static std::string after(const std::string &rule, const std::string &word)
{
	const auto at = rule.find(word + " ");
	if (at == rule.npos)
		return "";
	const auto begin = at + word.size() + 1;
	return rule.substr(begin, rule[begin] == '{' ? rule.find('}', begin) - begin :
						       rule.find(' ', begin) - begin);
}

Verdict judge_nft(const std::string &rules)
{
	std::istringstream lines(rules);
	std::string chain;
	bool input = false, drops = false, decided = false;

	const auto closes = [&] { return input && drops && !decided; };
	for (std::string line; std::getline(lines, line);) {
		line.erase(0, line.find_first_not_of(" \t"));
		if (line.starts_with("chain ")) {
			chain = line.substr(6, line.find(' ', 6) - 6);
			input = drops = decided = false;
		} else if (line.starts_with("type filter hook input")) {
			input = true;
			drops = line.find("policy drop") != line.npos;
		} else if (line.starts_with("}")) {
			if (closes())
				return {Verdict::closed, "chain " + chain + " drops by its policy"};
			input = false;
		} else if (input && !decided) {
			const bool bad =
				line.find("drop") != line.npos || line.find("reject") != line.npos;
			const std::string ports = after(line, "dport");
			if (line.find("tcp dport") != line.npos)
				continue;
			if (ports.empty()) { /* a rule for all: only a bare one */
				if (line == "drop" || line.starts_with("reject"))
					drops = true;
				decided |= line == "accept";
			} else if (covers(ports)) {
				if (bad)
					return {Verdict::closed, std::string("chain ")
									 .append(chain)
									 .append(": ")
									 .append(line)};
				decided |= line.find("accept") != line.npos;
			}
		}
	}
	return {Verdict::open, ""};
}

Verdict judge_iptables(const std::string &rules)
{
	std::istringstream lines(rules);
	bool drops = false;
	std::string why = "the policy of INPUT is DROP";

	for (std::string line; std::getline(lines, line);) {
		if (line == "-P INPUT DROP")
			drops = true;
		if (!line.starts_with("-A INPUT"))
			continue;
		const bool bad = line.ends_with("DROP") || line.find("-j REJECT") != line.npos;
		const std::string protocol = after(line, "-p"),
				  ports = after(line, "--dport") + after(line, "--dports");
		if (!protocol.empty() && protocol != "udp" && protocol != "all")
			continue;
		if (line == "-A INPUT -j ACCEPT")
			return {Verdict::open, ""};
		if (line == "-A INPUT -j DROP" || line.starts_with("-A INPUT -j REJECT"))
			return {Verdict::closed, line};
		if (!covers(ports))
			continue;
		if (bad)
			return {Verdict::closed, line};
		if (line.ends_with("ACCEPT"))
			return {Verdict::open, ""};
	}
	return drops ? Verdict{Verdict::closed, why} : Verdict{Verdict::open, ""};
}

Verdict firewall_verdict()
{
	Verdict verdict{Verdict::unknown, ""};
	bool tool = false;

	const auto ask = [&](const std::vector<std::string> &argv,
			     Verdict (*judge)(const std::string &)) {
		const auto told = run_program(argv);
		tool |= !told || told->status != 127;
		if (told && told->status == 0 && verdict.port != Verdict::closed)
			verdict = judge(told->text);
	};
	ask({"nft", "list", "ruleset"}, judge_nft);
	ask({"iptables", "-S"}, judge_iptables);
	if (!tool)
		verdict.why = ": neither nft nor iptables is installed";
	return verdict;
}

} // namespace ctl
