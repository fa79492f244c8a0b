// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* metrics: the statistics in the text format of OpenMetrics 1.0, for Prometheus and others. */
#include <cinttypes>

#include <treadle/treadle.h>

#include "openmetrics.h"
#include "statistics.h"
#include "verbs.h"

namespace ctl
{

static void add_counters(OpenMetrics &out, const Value &counters)
{
	const Value all = named(counters);
	const auto labels = [](const Value &kind) {
		return Labels{{"kind", kind["kind"].text()},
			      {"direction", kind["direction"].text()}};
	};

	out.family("treadle_operations", "counter", "Operations that have ended without error");
	for (const Value &kind : all["traffic"].list())
		out.sample("_total", labels(kind), kind["messages"].number());
	out.family("treadle_transferred_bytes", "counter", "Bytes of these operations", "bytes");
	for (const Value &kind : all["traffic"].list())
		out.sample("_total", labels(kind), kind["bytes"].number());
	out.family("treadle_errors", "counter", "Operations that have failed");
	for (const Value &failure : all["failures"].list())
		out.sample("_total", {{"errno", failure["errno"].text()}},
			   failure["count"].number());
	for (const Counted &one : counted) {
		const std::string name = std::string("treadle_") + one.name;
		if (name == "treadle_worker_ns") {
			out.family("treadle_worker_seconds", "counter", one.help, "seconds");
			out.sample("_total", {}, all[one.name].number() / 1e9);
			continue;
		}
		out.family(name, one.gauge ? "gauge" : "counter", one.help);
		out.sample(one.gauge ? "" : "_total", {}, all[one.name].number());
	}
}

/* One family after the other, as the format has it. */
static void add_peers(OpenMetrics &out, const Value::List &peers)
{
	static const struct {
		const char *field, *name, *type, *help, *unit;
		double factor;
	} families[] = {{"round_trip_us", "treadle_peer_round_trip_seconds", "gauge",
			 "A frame and its answer, smoothed", "seconds", 1e-6},
			{"sent", "treadle_peer_sent_frames", "counter", "Frames sent", "frames", 1},
			{"resent", "treadle_peer_resent_frames", "counter",
			 "Frames sent again after a connection was lost", "frames", 1},
			{"received", "treadle_peer_received_frames", "counter", "Frames received",
			 "frames", 1},
			{"links", "treadle_peer_connections", "counter",
			 "Connections, one after the other", "connections", 1},
			{"queued", "treadle_peer_queued_commands", "gauge",
			 "Commands that wait until they can be sent", "commands", 1}};

	if (peers.empty())
		return;
	out.family("treadle_peer_up", "gauge", "Is the node reached?");
	for (const Value &peer : peers)
		out.sample("", {{"address", peer["address"].text()}}, peer["state"].text() == "up");
	for (const auto &family : families) {
		out.family(family.name, family.type, family.help, family.unit);
		for (const Value &peer : peers)
			if (!peer[family.field].null())
				out.sample(*family.type == 'c' ? "_total" : "",
					   {{"address", peer["address"].text()}},
					   peer[family.field].number() * family.factor);
	}
}

int metrics(int argc, char **argv)
{
	const Call call = parse(argc, argv);
	Netlink netlink;
	const Value module = netlink.get(TREADLE_CMD_MODULE_GET);
	const Value::List peers = nodes(netlink);

	if (call.json) {
		Value all = module;
		all.set("counters", named(module["counters"]));
		all.set("peers", peers);
		print(all, true);
		return 0;
	}
	OpenMetrics out;
	out.family("treadle_module", "info", "The module that is loaded");
	out.sample("_info", {{"version", module["version"].text()}}, 1);
	out.family("treadle_contexts", "gauge", "Open contexts");
	out.sample("", {}, module["contexts"].number());
	add_counters(out, module["counters"]);
	add_peers(out, peers);
	write(out.text());
	return 0;
}

} // namespace ctl
