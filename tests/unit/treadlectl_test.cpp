// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* What treadlectl prints, and how it reads the rules of a firewall. */

#include "../../tools/treadlectl/child.cpp"
#include "../../tools/treadlectl/firewall.cpp"
#include "../../tools/treadlectl/openmetrics.h"
#include "../../tools/treadlectl/output.cpp"

using namespace ctl;

TEST(Output, JsonEscapesWhatOtherProcessesHaveChosen)
{
	EXPECT_EQ(json(Value::Fields{{"a\"b", "x\\\n\033"}, {"n", 5U}, {"none", Value()}}),
		  "{\"a\\\"b\": \"x\\\\\\u000a\\u001b\", \"n\": 5, \"none\": null}");
	/* A lone byte, too long a form, a surrogate, and a character that is cut short. */
	EXPECT_EQ(json("\xff\xc0\xaf\xed\xa0\x80"),
		  "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
	EXPECT_EQ(json("\xe2\x82"), "\"\\ufffd\\ufffd\"");
	EXPECT_EQ(json("\u20ac\u0085"), "\"\u20ac\\u0085\"");
	EXPECT_EQ(json(Value::List{true, 0.5, Value(1.0 / 0.0)}), "[true, 0.5, null]");
}

TEST(Output, TextObeysNoTerminal)
{
	EXPECT_EQ(Value("a\033[2Jb\n\x9b").text(), "a?[2Jb??");
	EXPECT_EQ(Value("\u20ac").text(), "\u20ac");
}

TEST(Output, TablesAreAligned)
{
	const Value::List rows{Value::Fields{{"name", "\u20ac"}, {"bytes", Value(5U)}},
			       Value::Fields{{"name", "long"}, {"bytes", Value(1000U)}}};

	EXPECT_EQ(text(rows, false), "NAME  BYTES\n\u20ac         5\nlong   1000\n");
}

TEST(Output, FieldsAreAlignedAndLongTextIsWrapped)
{
	const std::string word(30, 'x');
	const Value value = Value::Fields{{"a", 1U},
					  {"longer", word + " " + word + " " + word},
					  {"in", Value::Fields{{"b", true}}}};

	EXPECT_EQ(text(value, false), "a       1\nlonger  " + word + " " + word + "\n        " +
					      word + "\nin\n  b  yes\n");
}

TEST(Output, BytesHaveTheLargestUnit)
{
	EXPECT_EQ(bytes(0), "0 B");
	EXPECT_EQ(bytes(1536), "1.5 KiB");
	EXPECT_EQ(Value(std::uint64_t{64} << 20, "B").text(), "64 MiB");
	EXPECT_EQ(Value(~std::uint64_t{0}, "B/s").text(), "16384 PiB/s");
}

TEST(OpenMetrics, EscapesLabels)
{
	OpenMetrics out;

	out.family("a", "counter", "b");
	out.sample("_total", {{"x", "\"\\\n"}}, 1);
	EXPECT_EQ(out.text(),
		  "# TYPE a counter\n# HELP a b\na_total{x=\"\\\"\\\\\\n\"} 1\n# EOF\n");
}

static bool nft_closes(const std::string &policy, const std::string &rules)
{
	return judge_nft(
		       "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority "
		       "filter; policy " +
		       policy + ";\n" + rules + "\t}\n}\n")
		       .port == Verdict::closed;
}

TEST(Firewall, ReadsRulesOfNft)
{
	EXPECT_FALSE(nft_closes("accept", ""));
	EXPECT_TRUE(nft_closes("drop", ""));
	EXPECT_TRUE(nft_closes("drop", "\t\ttcp dport 4791 accept\n"));
	EXPECT_FALSE(nft_closes("drop", "\t\tudp dport 4791 accept\n"));
	EXPECT_FALSE(nft_closes("drop", "\t\tudp dport { 53, 4000-5000 } accept\n"));
	EXPECT_TRUE(nft_closes("drop", "\t\tudp dport { 53, 67 } accept\n"));
	EXPECT_TRUE(nft_closes("accept", "\t\tudp dport 4791 counter packets 0 bytes 0 drop\n"));
	EXPECT_TRUE(nft_closes("accept", "\t\tiif \"lo\" accept\n\t\tdrop\n"));
	EXPECT_EQ(judge_nft("").port, Verdict::open);
}

TEST(Firewall, ReadsRulesOfIptables)
{
	const auto closes = [](const char *rules) {
		return judge_iptables(rules).port == Verdict::closed;
	};

	EXPECT_FALSE(closes("-P INPUT ACCEPT\n"));
	EXPECT_TRUE(closes("-P INPUT DROP\n-A INPUT -p tcp -m tcp --dport 4791 -j ACCEPT\n"));
	EXPECT_FALSE(closes("-P INPUT DROP\n-A INPUT -p udp -m udp --dport 4700:4800 -j ACCEPT\n"));
	EXPECT_TRUE(closes("-P INPUT ACCEPT\n-A INPUT -p udp -m udp --dport 4791 -j REJECT "
			   "--reject-with icmp-port-unreachable\n"));
	EXPECT_TRUE(closes("-P INPUT ACCEPT\n-A INPUT -i lo -j ACCEPT\n-A INPUT -j DROP\n"));
	EXPECT_FALSE(closes(
		"-P INPUT ACCEPT\n-A INPUT -p udp -m udp --dport 4791 -j ACCEPT\n-A INPUT -j DROP\n"));
}

/* A provider or a tool that hangs ends with its time. */
TEST(Child, IsKilledAfterItsTime)
{
	EXPECT_FALSE(run_program({"sleep", "1000"}, 1));
	const auto told = run_program({"echo", "a word"});
	ASSERT_TRUE(told);
	EXPECT_EQ(told->text, "a word\n");
	EXPECT_EQ(told->status, 0);
	EXPECT_EQ(run_program({"no such program"})->status, 127);
}
