// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* list: what there is now. Text has the most important columns, JSON all that the module says. */
#include <treadle/ioctl.h>

#include "statistics.h"
#include "verbs.h"

namespace ctl
{

static Value::List with_names(Value::List rows, Names &names)
{
	for (Value &row : rows) {
		row.set("process", names.process(row["pid"].count()));
		row.set("user", names.user(row["uid"].count()));
	}
	return rows;
}

static Value::List with_totals(Value::List rows, Names &names)
{
	rows = with_names(std::move(rows), names);
	for (Value &row : rows) {
		const Value counters = named(row["counters"]);
		const Totals t = totals_of(row["counters"]);
		row.set("out", t[messages_out]);
		row.set("in", t[messages_in]);
		row.set("parked", t[parked_now]);
		row.set("armed", t[armed_now]);
		row.set("errors", t[errors]);
		row.set("counters", counters);
	}
	return rows;
}

static Value::List endpoints_of(Netlink &netlink, Names &names)
{
	static const char *const types[] = {"?", "RDM", "MSG", "DGRAM", "passive"};
	Value::List rows = with_totals(netlink.dump(TREADLE_CMD_ENDPOINT_GET), names);

	for (Value &row : rows) {
		const auto type = row["type"].count(), role = row["role"].count();
		const auto depth = [&](const char *used, const char *most) {
			return row[most].null() ? Value() :
						  Value(row[used].text() + "/" + row[most].text());
		};
		std::string name = type < std::size(types) ? types[type] : "?";

		name += role & TREADLE_EP_SCALABLE   ? " scalable" :
			role & TREADLE_EP_TX_CONTEXT ? " tx context" :
			role & TREADLE_EP_RX_CONTEXT ? " rx context" :
						       "";
		row.set("type", name);
		row.set("tx_used", depth("tx_queued", "tx_depth"));
		row.set("rx_used", depth("rx_queued", "rx_depth"));
		row.set("polled", row["tx_idle"].null()	 ? Value() :
				  row["tx_asleep"].yes() ? Value("asleep") :
							   Value("awake"));
	}
	return rows;
}

static Value::List windows_of(Netlink &netlink, Names &names)
{
	Value::List rows = with_names(netlink.dump(TREADLE_CMD_WINDOW_GET), names);

	for (Value &row : rows) {
		row.set("filled", row["present"].text() + "/" + row["pages"].text());
		row.set("may",
			row["access"].count() & TREADLE_ACCESS_REMOTE_WRITE ? "write" : "read");
	}
	return rows;
}

static Value::List lanes_of(Netlink &netlink, Names &names)
{
	Value::List rows = with_names(netlink.dump(TREADLE_CMD_LANE_GET), names);

	for (Value &row : rows) {
		row.set("way", row["direction"].count() == TREADLE_DIRECTION_IN ? "in" : "out");
		row.set("state", row["closed"].yes() ? "closed" :
				 row["open"].yes()   ? "open" :
						       "by the kernel");
	}
	return rows;
}

int list(int argc, char **argv)
{
	const Call call = parse(argc, argv, 1);
	const std::string what = call.words.empty() ? "" : call.words[0];
	Value all;

	if (!what.empty() && what != "contexts" && what != "endpoints" && what != "regions" &&
	    what != "windows" && what != "lanes")
		throw cli::Misuse(
			"list contexts, endpoints, regions, windows or lanes; try --help");
	Netlink netlink;
	Names names;
	const auto add = [&](const char *name, Value::List rows,
			     std::initializer_list<const char *> columns) {
		if (call.json)
			all.set(name, std::move(rows));
		else if (rows.empty())
			all.set(name, "none");
		else
			all.set(name, select(rows, columns));
	};
	if (what.empty() || what == "contexts")
		add("contexts", with_totals(netlink.dump(TREADLE_CMD_CONTEXT_GET), names),
		    {"id", "pid", "process", "user", "objects", "endpoints", "out", "in", "parked",
		     "armed", "errors"});
	if (what.empty() || what == "endpoints")
		add("endpoints", endpoints_of(netlink, names),
		    {"context", "id", "pid", "process", "user", "type", "port", "tx_used", "polled",
		     "rx_used", "rx_posted", "rx_waiting", "buffered", "address"});
	if (what == "regions")
		add("regions", with_totals(netlink.dump(TREADLE_CMD_REGION_GET), names),
		    {"context", "id", "pid", "process", "user", "length", "ranges", "pinned",
		     "revoked", "endpoint"});
	if (what == "windows")
		add("windows", windows_of(netlink, names),
		    {"context", "id", "pid", "process", "user", "endpoint", "length", "may",
		     "filled", "taken", "closed"});
	if (what == "lanes")
		add("lanes", lanes_of(netlink, names),
		    {"context", "id", "pid", "process", "user", "way", "endpoint", "rx", "port",
		     "waiting", "state"});
	print(all, call.json);
	return 0;
}

} // namespace ctl
