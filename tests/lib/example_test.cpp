// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* The examples succeed, and print something. */

#include <cstdio>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace
{

class ExampleTest : public testing::TestWithParam<const char *>
{
};

TEST_P(ExampleTest, runs)
{
	FILE *out = popen((std::string("build/examples/") + GetParam() + " 2>&1").c_str(), "r");
	std::string said;
	char line[256];

	ASSERT_TRUE(out);
	while (std::fgets(line, sizeof(line), out))
		said += line;
	EXPECT_EQ(pclose(out), 0) << said;
	EXPECT_FALSE(said.empty());
}

constexpr const char *examples[] = {"armed_forward", "connection", "remote_memory", "tutorial"};

INSTANTIATE_TEST_SUITE_P(, ExampleTest, testing::ValuesIn(examples),
			 [](const auto &info) { return std::string(info.param); });

TEST(Examples, none_is_forgotten)
{
	std::size_t sources = 0;

	for (const auto &file : std::filesystem::directory_iterator("examples"))
		sources += file.path().extension() != ".h";
	EXPECT_EQ(sources, std::size(examples));
}

} // namespace
