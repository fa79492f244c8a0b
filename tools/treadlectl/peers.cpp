// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* peers: the other nodes that this network namespace knows. Root also sees what waits there. */
#include <system_error>

#include <treadle/context.h>

#include "address.h"
#include "verbs.h"

namespace ctl
{

static Value value_of(const treadle_next_node &n)
{
	static const char *const states[] = {"idle", "connecting", "up", "lost"};
	Value node = Value::Fields{{"address", address_of(n.addr)},
				   {"state", n.state < std::size(states) ? states[n.state] : "?"}};

	if (n.state != TREADLE_NODE_IDLE)
		node.set("state_s", static_cast<double>(n.state_ms) / 1e3);
	if (n.error)
		node.set("error", std::generic_category().message(static_cast<int>(n.error)));
	if (!(n.flags & TREADLE_NODE_COUNTED))
		return node;
	if (n.links) {
		node.set("silent_s", static_cast<double>(n.silent_ms) / 1e3);
		node.set("round_trip_us", static_cast<double>(n.round_trip_ns) / 1e3);
		node.set("sessions", n.sessions);
		node.set("reconnects", n.links - n.sessions);
		node.set("sent", n.sent);
		node.set("resent", n.resent);
		node.set("received", n.received);
		node.set("unacknowledged", n.unacknowledged);
	}
	node.set("under_way", n.under_way);
	node.set("queued", n.queued);
	node.set("credits", n.credits);
	node.set("executing", n.executing);
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

Value::List nodes()
{
	cli::need_device();
	const auto context = treadle::Context::open();
	Value::List nodes;

	if (!context)
		throw std::system_error(context.error(), TREADLE_DEVICE);
	for (std::uint32_t number = 0;;) {
		const auto node = context->next_node(number);

		if (!node && node.error() == std::errc::no_such_file_or_directory)
			break;
		if (!node)
			throw std::system_error(node.error(), "other nodes");
		nodes.push_back(value_of(*node));
		number = node->number;
	}
	return nodes;
}

int peers(int argc, char **argv)
{
	const Call call = parse(argc, argv);
	const Value::List all = nodes();
	const auto query = treadle::Context::query();
	bool counted = true;

	if (all.empty() && query && !(query->features & TREADLE_FEATURE_REMOTE))
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
