// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* info: what is loaded, and what it can do. */
#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <sys/utsname.h>

#include <treadle/context.h>
#include <treadle/ring.h>
#include <treadle/treadle.h>

#include "address.h"
#include "chain.h"
#include "verbs.h"

namespace ctl
{

static std::string line_of(const std::filesystem::path &path)
{
	std::ifstream file(path);
	std::string line;

	std::getline(file, line);
	return line;
}

/* A module, as sysfs has it; null if it is not loaded. */
static Value module_of(const std::string &name)
{
	const std::filesystem::path module = "/sys/module/" + name;
	std::error_code error;
	Value::Fields parameters;

	if (!std::filesystem::exists(module, error))
		return "not loaded";
	for (const auto &entry : std::filesystem::directory_iterator(module / "parameters", error))
		parameters.emplace_back(entry.path().filename(), line_of(entry.path()));
	std::ranges::sort(parameters, {}, &std::pair<std::string, Value>::first);
	return Value::Fields{{"version", line_of(module / "version")},
			     {"source_version", line_of(module / "srcversion")},
			     {"used_by", line_of(module / "refcnt")},
			     {"parameters", parameters}};
}

static Value bits(std::uint64_t set, std::initializer_list<const char *> names)
{
	Value::List list;
	std::size_t bit = 0;

	for (const char *name : names)
		if (set >> bit++ & 1)
			list.emplace_back(name);
	if (const std::uint64_t unknown = bit < 64 ? set >> bit : 0)
		list.emplace_back(std::to_string(std::popcount(unknown)) + " newer ones");
	return list;
}

static Value limits_of(const treadle_query &q)
{
	return Value::Fields{{"message", Value(q.max_msg_size, "B")},
			     {"inject", Value(q.inject_size, "B")},
			     {"objects", Value(q.max_objects, "of one context")},
			     {"ring", Value(q.max_ring, "entries")},
			     {"completion_queue", Value(q.max_cq, "entries")},
			     {"address_vector", Value(q.max_av, "peers")},
			     {"armed", Value(q.max_armed, "commands of one context")},
			     {"buffered", Value(q.max_buffered, "B of one receive ring")},
			     {"auth_key", Value(q.max_auth_key, "B")}};
}

int info(int argc, char **argv)
{
	const Call call = parse(argc, argv);
	utsname system{};
	uname(&system);
	cli::need_device();
	const auto query = treadle::Context::query();

	if (!query && query.error() == std::errc::protocol_error)
		throw std::runtime_error("module and library have different ABIs: install both of "
					 "one release, and load that module (modprobe -r treadle, "
					 "modprobe treadle)");
	if (!query)
		throw std::system_error(query.error(), TREADLE_DEVICE);
	Value::List operations;
	for (unsigned op = 0; op < 64; op++)
		if (query->opcodes >> op & 1)
			operations.emplace_back(name_of(op));
	print(Value::Fields{{"kernel", std::string(system.release) + " " + system.machine},
			    {"library", treadle::version()},
			    {"abi", query->abi_version},
			    {"node", query->node.family ? Value(address_of(query->node)) : Value()},
			    {"features", bits(query->features, {"triggers",
								"cells",
								"pinned regions",
								"authorization keys",
								"MSG endpoints",
								"DGRAM endpoints",
								"other nodes",
								"floating point atomics",
								"shared address vectors",
								"scalable endpoints",
								"regions of several ranges",
								"identifiers of peers",
								"counters of bytes",
								"changed identifiers of peers",
								"bit 14",
								"windows",
								"polled transmit rings",
								"dma-bufs",
								"lanes",
								"counters of devices"})},
			    {"operations", operations},
			    {"limits", limits_of(*query)},
			    {"treadle", module_of("treadle")},
			    {"treadle_rdma", module_of("treadle_rdma")}},
	      call.json);
	return 0;
}

} // namespace ctl
