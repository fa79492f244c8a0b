// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Events in words. */
#include <cerrno>
#include <system_error>

#include "sequence.h"

namespace ctl
{

/* "": the event does not name the context. */
static std::string place(const Event &e, const Owners &owners, const char *ctx, const char *ep)
{
	const auto owner = owners.find(e[ctx]);
	const std::string endpoint = e[ep] ? "endpoint " + e.text(ep) + " of " : "";

	if (!e[ctx])
		return "";
	return endpoint + (owner == owners.end() ? "context " + e.text(ctx) : owner->second);
}

static std::string from(const Event &e, const Owners &owners)
{
	std::string name = place(e, owners, "ctx", "ep");

	if (!name.empty() || !e["port"])
		return name;
	return "port " + e.text("port") + (e["host"] ? " of node " + e.text("host") : "");
}

static std::string to(const Event &e, const Owners &owners)
{
	return place(e, owners, "peer_ctx", "peer_ep");
}

static std::string length(const Event &e)
{
	return e.text("len") + (e["len"] == 1 ? " byte" : " bytes");
}

static std::string tag(const Event &e)
{
	return e["tag"] ? ", tag " + e.text("tag") : "";
}

static std::string failure(const Event &e)
{
	return std::generic_category().message(-e.error());
}

static std::string posted(const Event &e, const Owners &owners)
{
	const std::string &op = e.text("op");
	std::string text = op;

	if (e["len"] || op == "send" || op == "tsend")
		text += " of " + length(e);
	text += tag(e) + (e.error() ? " refused" : " posted") + " by " + from(e, owners);
	if (e["to_port"])
		text += ", to port " + e.text("to_port") +
			(e["to_host"] ? " of node " + e.text("to_host") : "");
	return text + ", context " + e.text("context") + (e.error() ? ": " + failure(e) : "");
}

static std::string completed(const Event &e, const Owners &owners)
{
	const bool receives = e.text("op") == "recv" || e.text("op") == "trecv";

	return e.text("op") + (e.error() ? " failed" : " completed") + " for " +
	       (receives ? to(e, owners) : from(e, owners)) + ", context " + e.text("context") +
	       (e.error() ? ": " + failure(e) : "");
}

static std::string copied(const Event &e)
{
	if (e.error() == -EAGAIN)
		return "copy stops: a worker goes on";
	return e.error() ? "copy failed: " + failure(e) : "copy ends";
}

std::string in_words(const Event &e, const Owners &owners)
{
	const std::string &name = e.name;
	const std::string session = ", session " + e.text("session");

	if (name == "post")
		return posted(e, owners);
	if (name == "arm")
		return e.text("op") + " armed: waits for " + e.text("cond") + " to reach " +
		       e.text("threshold");
	if (name == "fire")
		return e.text("op") + " fires: " + e.text("cond") + " has reached " +
		       e.text("threshold") + (e.error() ? "; it is skipped: " + failure(e) : "");
	if (name == "match")
		return "message of " + length(e) + tag(e) +
		       (e["waited"] ? ", which has waited," : "") + " meets a receive for " +
		       e.text("recv_len") + " of " + to(e, owners) + ", context " +
		       e.text("context");
	if (name == "keep")
		return "no receive: a copy of " + length(e) + tag(e) + " waits at " + to(e, owners);
	if (name == "park")
		return "no receive: the sender keeps " + length(e) + tag(e) + " for " +
		       to(e, owners);
	if (name == "copy_begin")
		return "copy of " + length(e) +
		       (e["done"] ? ", from " + e.text("done") + " on," : "") + " begins" +
		       (e["worker"] ? ", in a worker" : "");
	if (name == "copy_end")
		return copied(e);
	if (name == "page_wait")
		return "a page of " + place(e, owners, "ctx", "") + " is missing, at " +
		       e.text("addr") + (e["write"] ? ", to write" : ", to read");
	if (name == "complete")
		return completed(e, owners);
	if (name == "remote_send")
		return e.text("op") + " goes to port " + e.text("to_port") + " of node " +
		       e.text("to_host") + session + ", reference " + e.text("reference");
	if (name == "remote_arrive")
		return e.text("op") + " of " + length(e) + " has come from node " + e.text("host") +
		       session + ", reference " + e.text("reference");
	if (name == "connect") {
		const std::string peer = to(e, owners);
		return "connection of " + from(e, owners) + (peer.empty() ? "" : " with " + peer) +
		       ": " + e.text("what") + (e.error() ? " (" + failure(e) + ")" : "");
	}
	const std::string node = "node " + e.text("host");
	const std::string why = e.error() ? ": " + failure(e) : "";
	if (name == "peer_up")
		return node + " is up" + session;
	if (name == "peer_down")
		return node + " is lost" + session + why;
	if (name == "link_down")
		return "the link to " + node + " is lost" + session + why;
	if (name == "reconnect")
		return node + " is connected again" + session;
	return name;
}

bool is_wait(const Event &e)
{
	return e.name == "keep" || e.name == "park" || e.name == "page_wait" || e.name == "arm" ||
	       (e.name == "copy_end" && e.error() == -EAGAIN);
}

bool is_failure(const Event &e)
{
	return e.error() && !is_wait(e);
}

} // namespace ctl
