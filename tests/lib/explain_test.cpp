// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* treadlectl explain: says why a trigger has not fired. */

#include <cstdio>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node.h"

namespace
{

struct Told {
	std::string text;
	int status;

	bool has(const std::string &what) const { return text.find(what) != text.npos; }
};

Told explain(const std::string &options = "")
{
	const std::string command =
		"treadlectl explain " + options + " " + std::to_string(getpid()) + " 2>&1";
	std::FILE *const pipe = popen(command.c_str(), "r");
	Told told;
	char buf[4096];

	for (std::size_t n; (n = std::fread(buf, 1, sizeof(buf), pipe)) > 0;)
		told.text.append(buf, n);
	told.status = WEXITSTATUS(pclose(pipe));
	return told;
}

std::string str(auto id)
{
	return std::to_string(static_cast<std::uint32_t>(id));
}

class ExplainTest : public PairTest
{
protected:
	Counter c = must(Counter::create(a.context), "counter");
	Counter d = must(Counter::create(a.context), "counter");
	Counter e = must(Counter::create(a.context), "counter");
	std::uint64_t word = 1;

	Command send()
	{
		return Command::send(bytes_at(&word, 8), a_to_b).on(a.ep.id()).work().context(255);
	}
};

} // namespace

TEST_F(ExplainTest, follows_a_chain_to_where_it_is_stuck)
{
	ASSERT_EQ(c.add(1), ok);
	ASSERT_EQ(c.add_error(1), ok);
	ASSERT_EQ(a.context.submit(send().when(c.id(), 3).notify(d.id())), ok);
	ASSERT_EQ(a.context.submit(Command::add(e.id(), 1).work().when(d.id(), 1)), ok);

	const Told told = explain();
	EXPECT_EQ(told.status, 0);
	EXPECT_TRUE(told.has("2 commands are armed")) << told.text;
	EXPECT_TRUE(told.has("send of endpoint " + str(a.ep.id()) +
			     ", context 0xff\n  waits for counter " + str(c.id()) +
			     " to be 3: it is 2\n  then counts into counter " + str(d.id())))
		<< told.text;
	EXPECT_TRUE(told.has("counter add, context 0x0\n  waits for counter " + str(d.id()) +
			     " to be 1: it is 0\n  then counts into counter " + str(e.id()) +
			     "\n  counter " + str(d.id()) + " is counted by send of endpoint"))
		<< told.text;
	/* Both end at that counter. */
	const std::string stuck = "stuck at counter " + str(c.id()) +
				  ", which nothing armed counts: it waits for the process itself";
	EXPECT_TRUE(told.has(stuck)) << told.text;
	EXPECT_NE(told.text.find(stuck), told.text.rfind(stuck)) << told.text;
	EXPECT_FALSE(told.has("circle")) << told.text;
}

TEST_F(ExplainTest, knows_what_endpoints_count)
{
	ASSERT_EQ(a.context.submit(send().when(a.received.id(), 1)), ok);
	const Told told = explain();
	EXPECT_TRUE(told.has("stuck at counter " + str(a.received.id()) +
			     ", which nothing armed counts: it waits for receives of endpoint " +
			     str(a.ep.id())))
		<< told.text;
}

TEST_F(ExplainTest, shows_cells_and_circles)
{
	const TriggerCells cells = must(TriggerCells::create(a.context, 8), "cells");

	cells.write(4, 7);
	ASSERT_EQ(a.context.submit(send().when(cells.id(), 4, 9).notify(c.id())), ok);
	ASSERT_EQ(a.context.submit(Command::add(d.id(), 1).work().when(e.id(), 1)), ok);
	ASSERT_EQ(a.context.submit(Command::add(e.id(), 1).work().when(d.id(), 1)), ok);
	const Told told = explain();
	EXPECT_TRUE(told.has("waits for cell at 32 of " + str(cells.id()) + ": it is 7, not 9"))
		<< told.text;
	EXPECT_TRUE(told.has("waits for itself, too, in a circle")) << told.text;

	const Told dot = explain("--dot");
	EXPECT_EQ(dot.text.rfind("digraph treadle {\n", 0), 0u) << dot.text;
	EXPECT_TRUE(dot.text.ends_with("}\n")) << dot.text;
	EXPECT_TRUE(dot.has("label=\"counter " + str(c.id()) + "\\n0\"")) << dot.text;
	EXPECT_TRUE(dot.has("[label=\"is 9\"]")) << dot.text;
}

/* A chain from a counter that follows a cell is stuck at that cell. */
TEST_F(ExplainTest, shows_counters_that_follow_cells)
{
	const TriggerCells cells = must(TriggerCells::create(a.context, 8), "cells");

	ASSERT_EQ(c.follow(cells.id(), 2), ok);
	cells.write(2, 5);
	ASSERT_TRUE(reaches(c, 5));
	ASSERT_EQ(a.context.submit(send().when(c.id(), 9)), ok);
	const std::string cell =
		"cell at 16 of " + str(cells.id()) + ": it is 5, a total of which 5 is counted";
	const Told told = explain();
	EXPECT_TRUE(told.has("counter add, context 0x")) << told.text;
	EXPECT_TRUE(told.has("waits for " + cell + "\n  then counts into counter " + str(c.id())))
		<< told.text;
	EXPECT_TRUE(told.has("counter " + str(c.id()) + " is counted by counter add")) << told.text;
	EXPECT_TRUE(told.has("stuck at " + cell)) << told.text;
	EXPECT_TRUE(explain("--dot").has("[label=\"follows\"]"));
}

TEST_F(ExplainTest, what_has_fired_is_not_shown)
{
	ASSERT_EQ(a.context.submit(Command::add(d.id(), 1).work().when(c.id(), 1)), ok);
	ASSERT_EQ(c.add(1), ok);
	EXPECT_TRUE(reaches(d, 1));
	EXPECT_TRUE(explain().has(" 0 commands are armed"));
}

/* With any number of armed commands. */
TEST_F(ExplainTest, what_is_told_is_bounded)
{
	for (int i = 0; i < 5000; ++i)
		ASSERT_EQ(a.context.submit(Command::add(d.id(), 1).work().when(c.id(), 1 + i)), ok);
	const Told told = explain();
	EXPECT_TRUE(told.has("5000 commands are armed (some are not shown)")) << told.text;
	EXPECT_LT(told.text.size(), 20000u);
}

TEST_F(ExplainTest, only_for_who_may_trace_the_process)
{
	ASSERT_EQ(geteuid(), 0u) << "the virtual machine's user";
	const pid_t other = fork();
	if (other == 0) {
		const std::string parent = std::to_string(getppid());
		/* Another user, irrevocably, that owns nothing of this process. */
		if (setresuid(65534, 65534, 65534))
			_exit(99);
		execlp("treadlectl", "treadlectl", "explain", parent.c_str(), nullptr);
		_exit(98);
	}
	int status = -1;
	EXPECT_EQ(waitpid(other, &status, 0), other);
	EXPECT_EQ(WEXITSTATUS(status), 1);
}

/* The name that a container or a udev rule gives the device does not matter. */
TEST_F(ExplainTest, finds_a_device_under_another_name)
{
	const char *const name = "/tmp/another-treadle";
	struct stat device;

	ASSERT_EQ(stat(TREADLE_DEVICE, &device), 0);
	unlink(name);
	ASSERT_EQ(mknod(name, S_IFCHR | 0600, device.st_rdev), 0);
	const int fd = open(name, O_RDWR | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	const Told told = explain();
	EXPECT_EQ(told.status, 0) << told.text;
	EXPECT_TRUE(told.has(", file " + std::to_string(fd) + ": 0 commands are armed"))
		<< told.text;
	close(fd);
	unlink(name);
}

/* A passed file is found, with a note that its commands are not shown. */
TEST_F(ExplainTest, says_that_it_may_not_see_a_file_that_was_passed)
{
	ASSERT_EQ(a.context.submit(send().when(c.id(), 3)), ok);
	int line[2];
	ASSERT_EQ(pipe(line), 0);
	const pid_t other = fork();
	if (other == 0) {
		const std::string self = std::to_string(getpid());

		for (int fd = 3; fd < 100; ++fd)
			fcntl(fd, F_SETFD, 0);
		dup2(line[1], 1);
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
			_exit(99);
		execlp("treadlectl", "treadlectl", "explain", self.c_str(), nullptr);
		_exit(98);
	}
	close(line[1]);
	Told told;
	char buf[4096];
	for (ssize_t n; (n = read(line[0], buf, sizeof(buf))) > 0;)
		told.text.append(buf, static_cast<std::size_t>(n));
	close(line[0]);
	EXPECT_EQ(waitpid(other, &told.status, 0), other);
	EXPECT_EQ(WEXITSTATUS(told.status), 0) << told.text;
	EXPECT_TRUE(told.has("1 commands are armed\n  which are not shown")) << told.text;
	EXPECT_FALSE(told.has("waits for")) << told.text;
}
