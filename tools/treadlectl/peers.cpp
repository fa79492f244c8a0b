// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* peers: the other nodes that this network namespace knows. Root also sees what waits there. */
#include <system_error>

#include <net/if.h>

#include <treadle/query.h>

#include "netlink.h"
#include "verbs.h"

namespace ctl
{

static std::string address_of(const Value &n)
{
	char name[IF_NAMESIZE];

	if (n["scope"].null())
		return n["address"].text();
	const auto scope = static_cast<unsigned>(n["scope"].count());
	return n["address"].text() + '%' +
	       (if_indextoname(scope, name) ? name : std::to_string(scope));
}

static Value value_of(const Value &n)
{
	static const char *const states[] = {"idle", "connecting", "up", "lost"};
	const std::uint64_t state = n["state"].count();
	Value node = Value::Fields{{"address", address_of(n)},
				   {"state", state < std::size(states) ? states[state] : "?"}};

	if (state != TREADLE_PEER_STATE_IDLE)
		node.set("state_s", n["state_ms"].number() / 1e3);
	if (!n["error"].null())
		node.set("error",
			 std::generic_category().message(static_cast<int>(n["error"].count())));
	if (n["credits"].null()) /* it is not for this user */
		return node;
	if (n["links"].count()) {
		node.set("silent_s", n["silent_ms"].number() / 1e3);
		node.set("round_trip_us", n["round_trip_ns"].number() / 1e3);
		node.set("sessions", n["sessions"].count());
		node.set("reconnects", n["links"].count() - n["sessions"].count());
		for (const char *name : {"sent", "resent", "received", "unacknowledged"})
			node.set(name, n[name].count());
	}
	for (const char *name : {"under_way", "queued", "credits", "executing"})
		node.set(name, n[name].count());
	return node;
}

static std::string sentences(const Value &n)
{
	const auto is = [&](const char *name) { return n[name].text(); };
	const std::string state = is("state");
	const Tone tone = state == "up" ? Tone::good : state == "idle" ? Tone::plain : Tone::bad;
	std::string out = is("address") + ": " + paint(state, tone, coloured());

	if (!n["state_s"].null())
		out += " for " + is("state_s") + " s";
	if (!n["error"].null())
		out += " (" + is("error") + ")";
	out += "\n";
	if (n["sent"].null() && !n["queued"].count())
		return out;
	if (!n["sent"].null())
		out += "  heard " + is("silent_s") + " s ago, round trip " + is("round_trip_us") +
		       " us; sessions: " + is("sessions") + ", reconnects: " + is("reconnects") +
		       "\n  frames: " + is("sent") + " sent, " + is("resent") + " resent, " +
		       is("received") + " received, " + is("unacknowledged") +
		       " not acknowledged\n";
	return out + "  commands: " + is("under_way") + " under way, " + is("queued") +
	       " queued, " + is("credits") + " credits; " + is("executing") +
	       " of the node executed here\n";
}

Value::List nodes(Netlink &netlink)
{
	Value::List nodes;

	for (const Value &node : netlink.dump(TREADLE_CMD_PEER_GET))
		nodes.push_back(value_of(node));
	return nodes;
}

int peers(int argc, char **argv)
{
	const Call call = parse(argc, argv);
	Netlink netlink;
	const Value::List all = nodes(netlink);
	bool counted = true;

	if (all.empty() &&
	    !(netlink.get(TREADLE_CMD_MODULE_GET)["features"].count() & TREADLE_FEATURE_REMOTE))
		throw std::runtime_error("no other node is reached: is treadle_rdma loaded?");
	for (const Value &node : all)
		counted &= !node["credits"].null();
	if (call.json) {
		print(Value::Fields{{"nodes", all}, {"complete", counted}}, true);
		return 0;
	}
	std::string out;
	for (const Value &node : all)
		out += sentences(node);
	if (all.empty())
		out = "no other node is known\n";
	write(out + (counted ? "" : "(root sees more)\n"));
	return 0;
}

} // namespace ctl
