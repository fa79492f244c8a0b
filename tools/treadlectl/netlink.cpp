// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <system_error>

#include <arpa/inet.h>
#include <linux/genetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../cli.h"

namespace ctl
{

/* --- what attributes mean --------------------------------------------------------- */

using Bytes = std::span<const std::byte>;

namespace
{

enum class As { number, text, flag, address, tree, trees };

/* An attribute of a set. Those of a newer module are not shown. */
struct Attribute {
	unsigned type;
	const char *name;
	As as = As::number;
	const std::vector<Attribute> *inner = nullptr;
	const char *unit = "";
};

using Set = std::vector<Attribute>;

} // namespace

static const Set traffic = {{TREADLE_A_TRAFFIC_KIND, "kind"},
			    {TREADLE_A_TRAFFIC_DIRECTION, "direction"},
			    {TREADLE_A_TRAFFIC_MESSAGES, "messages"},
			    {TREADLE_A_TRAFFIC_BYTES, "bytes", {}, {}, "B"}};
static const Set failure = {{TREADLE_A_FAILURE_ERRNO, "errno"}, {TREADLE_A_FAILURE_COUNT, "count"}};
static const Set counters = {{TREADLE_A_COUNTERS_TRAFFIC, "traffic", As::trees, &traffic},
			     {TREADLE_A_COUNTERS_FAILURE, "failures", As::trees, &failure},
			     {TREADLE_A_COUNTERS_DOORBELLS, "doorbells"},
			     {TREADLE_A_COUNTERS_COMMANDS, "commands"},
			     {TREADLE_A_COUNTERS_UNEXPECTED, "unexpected"},
			     {TREADLE_A_COUNTERS_KEPT, "kept"},
			     {TREADLE_A_COUNTERS_PARKED, "parked"},
			     {TREADLE_A_COUNTERS_PARKED_NOW, "parked_now"},
			     {TREADLE_A_COUNTERS_PARKED_MOST, "parked_most"},
			     {TREADLE_A_COUNTERS_RETRIED, "retried"},
			     {TREADLE_A_COUNTERS_ARMED, "armed"},
			     {TREADLE_A_COUNTERS_ARMED_NOW, "armed_now"},
			     {TREADLE_A_COUNTERS_FIRED, "fired"},
			     {TREADLE_A_COUNTERS_CANCELED, "canceled"},
			     {TREADLE_A_COUNTERS_LATE_PAGES, "late_pages"},
			     {TREADLE_A_COUNTERS_COPIES_CALLER, "copies_caller"},
			     {TREADLE_A_COUNTERS_COPIES_WORKER, "copies_worker"},
			     {TREADLE_A_COUNTERS_LOCAL, "local"},
			     {TREADLE_A_COUNTERS_REMOTE, "remote"},
			     {TREADLE_A_COUNTERS_WORKER_NS, "worker_ns"}};
static const Set module_set = {{TREADLE_A_MODULE_VERSION, "version", As::text},
			       {TREADLE_A_MODULE_ABI_VERSION, "abi_version"},
			       {TREADLE_A_MODULE_FEATURES, "features"},
			       {TREADLE_A_MODULE_CONTEXTS, "contexts"},
			       {TREADLE_A_MODULE_COUNTERS, "counters", As::tree, &counters}};
static const Set context = {{TREADLE_A_CONTEXT_ID, "id"},
			    {TREADLE_A_CONTEXT_PID, "pid"},
			    {TREADLE_A_CONTEXT_UID, "uid"},
			    {TREADLE_A_CONTEXT_OBJECTS, "objects"},
			    {TREADLE_A_CONTEXT_ENDPOINTS, "endpoints"},
			    {TREADLE_A_CONTEXT_COUNTERS, "counters", As::tree, &counters}};
static const Set endpoint = {{TREADLE_A_ENDPOINT_CONTEXT, "context"},
			     {TREADLE_A_ENDPOINT_ID, "id"},
			     {TREADLE_A_ENDPOINT_PID, "pid"},
			     {TREADLE_A_ENDPOINT_UID, "uid"},
			     {TREADLE_A_ENDPOINT_TYPE, "type"},
			     {TREADLE_A_ENDPOINT_ROLE, "role"},
			     {TREADLE_A_ENDPOINT_INDEX, "index"},
			     {TREADLE_A_ENDPOINT_PARENT, "parent"},
			     {TREADLE_A_ENDPOINT_ENABLED, "enabled", As::flag},
			     {TREADLE_A_ENDPOINT_PORT, "port"},
			     {TREADLE_A_ENDPOINT_IPV4, "address", As::address},
			     {TREADLE_A_ENDPOINT_IPV6, "address", As::address},
			     {TREADLE_A_ENDPOINT_SCOPE, "scope"},
			     {TREADLE_A_ENDPOINT_TX, "tx"},
			     {TREADLE_A_ENDPOINT_TX_DEPTH, "tx_depth"},
			     {TREADLE_A_ENDPOINT_TX_QUEUED, "tx_queued"},
			     {TREADLE_A_ENDPOINT_RX, "rx"},
			     {TREADLE_A_ENDPOINT_RX_DEPTH, "rx_depth"},
			     {TREADLE_A_ENDPOINT_RX_QUEUED, "rx_queued"},
			     {TREADLE_A_ENDPOINT_RX_POSTED, "rx_posted"},
			     {TREADLE_A_ENDPOINT_RX_WAITING, "rx_waiting"},
			     {TREADLE_A_ENDPOINT_BUFFERED, "buffered", {}, {}, "B"},
			     {TREADLE_A_ENDPOINT_BUFFERED_MAX, "buffered_max", {}, {}, "B"},
			     {TREADLE_A_ENDPOINT_COUNTERS, "counters", As::tree, &counters},
			     {TREADLE_A_ENDPOINT_TX_IDLE, "tx_idle", {}, {}, "us"},
			     {TREADLE_A_ENDPOINT_TX_ASLEEP, "tx_asleep", As::flag}};
static const Set region = {{TREADLE_A_REGION_CONTEXT, "context"},
			   {TREADLE_A_REGION_ID, "id"},
			   {TREADLE_A_REGION_PID, "pid"},
			   {TREADLE_A_REGION_UID, "uid"},
			   {TREADLE_A_REGION_LENGTH, "length", {}, {}, "B"},
			   {TREADLE_A_REGION_RANGES, "ranges"},
			   {TREADLE_A_REGION_ACCESS, "access"},
			   {TREADLE_A_REGION_FLAGS, "flags"},
			   {TREADLE_A_REGION_PINNED, "pinned", {}, {}, "pages"},
			   {TREADLE_A_REGION_REVOKED, "revoked", As::flag},
			   {TREADLE_A_REGION_ENDPOINT, "endpoint"},
			   {TREADLE_A_REGION_COUNTERS, "counters", As::tree, &counters}};
static const Set window = {{TREADLE_A_WINDOW_CONTEXT, "context"},
			   {TREADLE_A_WINDOW_ID, "id"},
			   {TREADLE_A_WINDOW_PID, "pid"},
			   {TREADLE_A_WINDOW_UID, "uid"},
			   {TREADLE_A_WINDOW_ENDPOINT, "endpoint"},
			   {TREADLE_A_WINDOW_ADDR, "addr"},
			   {TREADLE_A_WINDOW_LENGTH, "length", {}, {}, "B"},
			   {TREADLE_A_WINDOW_ACCESS, "access"},
			   {TREADLE_A_WINDOW_PAGES, "pages"},
			   {TREADLE_A_WINDOW_PRESENT, "present", {}, {}, "pages"},
			   {TREADLE_A_WINDOW_TAKEN, "taken"},
			   {TREADLE_A_WINDOW_CLOSED, "closed", As::flag}};
static const Set lane = {{TREADLE_A_LANE_CONTEXT, "context"},
			 {TREADLE_A_LANE_ID, "id"},
			 {TREADLE_A_LANE_PID, "pid"},
			 {TREADLE_A_LANE_UID, "uid"},
			 {TREADLE_A_LANE_DIRECTION, "direction"},
			 {TREADLE_A_LANE_ENDPOINT, "endpoint"},
			 {TREADLE_A_LANE_RX, "rx"},
			 {TREADLE_A_LANE_PORT, "port"},
			 {TREADLE_A_LANE_WAITING, "waiting"},
			 {TREADLE_A_LANE_OPEN, "open", As::flag},
			 {TREADLE_A_LANE_CLOSED, "closed", As::flag}};
static const Set peer = {{TREADLE_A_PEER_NUMBER, "number"},
			 {TREADLE_A_PEER_IPV4, "address", As::address},
			 {TREADLE_A_PEER_IPV6, "address", As::address},
			 {TREADLE_A_PEER_SCOPE, "scope"},
			 {TREADLE_A_PEER_STATE, "state"},
			 {TREADLE_A_PEER_ERROR, "error"},
			 {TREADLE_A_PEER_STATE_MS, "state_ms"},
			 {TREADLE_A_PEER_EXECUTING, "executing"},
			 {TREADLE_A_PEER_SILENT_MS, "silent_ms"},
			 {TREADLE_A_PEER_ROUND_TRIP_NS, "round_trip_ns"},
			 {TREADLE_A_PEER_SENT, "sent"},
			 {TREADLE_A_PEER_RESENT, "resent"},
			 {TREADLE_A_PEER_RECEIVED, "received"},
			 {TREADLE_A_PEER_LINKS, "links"},
			 {TREADLE_A_PEER_SESSIONS, "sessions"},
			 {TREADLE_A_PEER_UNACKNOWLEDGED, "unacknowledged"},
			 {TREADLE_A_PEER_CREDITS, "credits"},
			 {TREADLE_A_PEER_UNDER_WAY, "under_way"},
			 {TREADLE_A_PEER_QUEUED, "queued"}};

const std::vector<Counted> counted = {
	{"doorbells", "Doorbells of transmit rings", false},
	{"commands", "Commands that these have taken", false},
	{"unexpected", "Messages that came before their receive", false},
	{"kept", "Unexpected messages that were copied, so that their sender went on", false},
	{"parked", "Messages that stayed with their sender until a receive came", false},
	{"parked_now", "Messages that wait for a receive at their sender now", true},
	{"parked_most", "The most that have waited at the same time", true},
	{"retried", "Doorbells that the caller had to repeat", false},
	{"armed", "Commands that were armed", false},
	{"armed_now", "Commands that are armed now", true},
	{"fired", "Armed commands that have fired", false},
	{"canceled", "Commands and receives that were canceled", false},
	{"late_pages", "Copies that had to wait for a page", false},
	{"copies_caller", "Messages and RMA that the initiator has copied itself", false},
	{"copies_worker", "Messages and RMA that a worker has gone on with", false},
	{"local", "Operations to peers on this machine", false},
	{"remote", "Operations to peers on other nodes", false},
	{"worker_ns", "Time that workers have run", false}};

/* --- reading ---------------------------------------------------------------------- */

template <class T> static T load(Bytes from)
{
	T value{};
	std::memcpy(&value, from.data(), std::min(sizeof(T), from.size()));
	return value;
}

/* Calls @each with type and payload of the attributes. What is cut short ends the list. */
template <class Each> static void attributes(Bytes from, Each each)
{
	while (from.size() >= sizeof(nlattr)) {
		const auto head = load<nlattr>(from);
		if (head.nla_len < sizeof(nlattr) || head.nla_len > from.size())
			return;
		each(head.nla_type & NLA_TYPE_MASK,
		     from.subspan(sizeof(nlattr), head.nla_len - sizeof(nlattr)));
		from = from.subspan(std::min<std::size_t>(NLA_ALIGN(head.nla_len), from.size()));
	}
}

static std::string text_of(Bytes from)
{
	const auto chars = reinterpret_cast<const char *>(from.data());
	return {chars, strnlen(chars, from.size())};
}

static Value number_of(Bytes from, const char *unit)
{
	switch (from.size()) {
	case 1:
		return Value(load<std::uint8_t>(from), unit);
	case 2:
		return Value(load<std::uint16_t>(from), unit);
	case 4:
		return Value(load<std::uint32_t>(from), unit);
	case 8:
		return Value(load<std::uint64_t>(from), unit);
	default:
		return {};
	}
}

static Value address_of(Bytes from)
{
	char text[INET6_ADDRSTRLEN] = "";

	inet_ntop(from.size() == 4 ? AF_INET : AF_INET6, from.data(), text, sizeof(text));
	return text;
}

static Value tree_of(Bytes from, const Set &set)
{
	Value::Fields fields;

	fields.reserve(set.size());
	attributes(from, [&](unsigned type, Bytes payload) {
		const auto found = std::ranges::find(set, type, &Attribute::type);
		if (found == set.end())
			return;
		const Attribute &a = *found;
		switch (a.as) {
		case As::number:
			fields.emplace_back(a.name, number_of(payload, a.unit));
			break;
		case As::text:
			fields.emplace_back(a.name, text_of(payload));
			break;
		case As::flag:
			fields.emplace_back(a.name, true);
			break;
		case As::address:
			if (payload.size() == 4 || payload.size() == 16)
				fields.emplace_back(a.name, address_of(payload));
			break;
		case As::tree:
			fields.emplace_back(a.name, tree_of(payload, *a.inner));
			break;
		case As::trees:
			if (fields.empty() || fields.back().first != a.name)
				fields.emplace_back(a.name, Value::List());
			fields.back().second.as<Value::List>()->push_back(
				tree_of(payload, *a.inner));
			break;
		}
	});
	return fields;
}

/* --- the socket ------------------------------------------------------------------- */

/*
 * Sends a request with one attribute at most, and calls @each with what follows the header of each
 * answer. Returns 0 or an errno.
 */
template <class Each>
static int exchange(int fd, std::uint16_t family, std::uint8_t cmd, bool dump,
		    std::uint32_t sequence, const std::string &name, Each each)
{
	struct {
		nlmsghdr head;
		genlmsghdr generic;
		nlattr attribute;
		char text[GENL_NAMSIZ];
	} request{};
	std::vector<std::byte> buffer(1 << 16);

	request.head = {NLMSG_LENGTH(GENL_HDRLEN), family, NLM_F_REQUEST, sequence, 0};
	request.head.nlmsg_flags |= dump ? NLM_F_DUMP : 0;
	request.generic = {cmd, 1, 0};
	if (!name.empty()) {
		request.attribute = {static_cast<std::uint16_t>(NLA_HDRLEN + name.size() + 1),
				     CTRL_ATTR_FAMILY_NAME};
		name.copy(request.text, sizeof(request.text) - 1);
		request.head.nlmsg_len += NLA_ALIGN(request.attribute.nla_len);
	}
	if (send(fd, &request, request.head.nlmsg_len, 0) < 0)
		return errno;
	for (;;) {
		const ssize_t n = recv(fd, buffer.data(), buffer.size(), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : EPIPE;
		for (Bytes left(buffer.data(), static_cast<std::size_t>(n));
		     left.size() >= NLMSG_HDRLEN;) {
			const auto head = load<nlmsghdr>(left);
			if (head.nlmsg_len < NLMSG_HDRLEN || head.nlmsg_len > left.size())
				return EPROTO;
			const Bytes body =
				left.subspan(NLMSG_HDRLEN, head.nlmsg_len - NLMSG_HDRLEN);
			left = left.subspan(
				std::min<std::size_t>(NLMSG_ALIGN(head.nlmsg_len), left.size()));
			if (head.nlmsg_seq != sequence)
				continue;
			if (head.nlmsg_type == NLMSG_ERROR || head.nlmsg_type == NLMSG_DONE)
				return -load<std::int32_t>(body);
			if (head.nlmsg_type == family && body.size() >= GENL_HDRLEN)
				each(body.subspan(GENL_HDRLEN));
			if (!dump)
				return 0;
		}
	}
}

Netlink::Netlink() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC))
{
	if (fd_.get() < 0)
		throw std::system_error(errno, std::generic_category(), "generic netlink");
	const int error = exchange(fd_.get(), GENL_ID_CTRL, CTRL_CMD_GETFAMILY, false, ++sequence_,
				   TREADLE_FAMILY_NAME, [&](Bytes body) {
					   attributes(body, [&](unsigned type, Bytes payload) {
						   if (type == CTRL_ATTR_FAMILY_ID)
							   family_ = load<std::uint16_t>(payload);
					   });
				   });
	if (error == ENOENT) {
		std::error_code ignored;
		if (!std::filesystem::exists("/sys/module/treadle", ignored))
			cli::need_device();
		throw std::runtime_error("the module that is loaded has no statistics: it is older "
					 "than this tool (modprobe -r treadle, modprobe treadle)");
	}
	if (error || !family_)
		throw std::system_error(error ? error : EPROTO, std::generic_category(),
					"generic netlink");
}

Value::List Netlink::request(std::uint8_t cmd, bool dump)
{
	static const Set *const sets[] = {nullptr, &module_set, &context, &endpoint,
					  &region, &window,	&lane,	  &peer};
	Value::List answers;
	const int error = exchange(fd_.get(), family_, cmd, dump, ++sequence_, "", [&](Bytes body) {
		answers.push_back(tree_of(body, *sets[cmd]));
	});

	if (error == ENOTSUP || error == EOPNOTSUPP)
		throw std::runtime_error("the module that is loaded is older than this tool "
					 "(modprobe -r treadle, modprobe treadle)");
	if (error)
		throw std::system_error(error, std::generic_category(), "treadle's statistics");
	if (!dump && answers.empty())
		answers.emplace_back();
	return answers;
}

} // namespace ctl
