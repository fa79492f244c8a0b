// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "collective/group.h"

#include <algorithm>
#include <cstring>
#include <ranges>
#include <tuple>
#include <utility>

#include <arpa/inet.h>

#include "collective/query_collective.h"
#include "endpoint/port.h"
#include "names/avset.h"
#include "notify/wait.h"
#include "transfer/refusals.h"

namespace treadle::fi
{

namespace
{

/*
 * The most unfinished calls of a group. A member that is further ahead of the others gets
 * -FI_EAGAIN.
 */
constexpr std::size_t most_running = 1024;
constexpr int most_wait = 10'000; /* ms */

/* Any difference in the input changes about half of the bits. */
std::uint64_t mix(std::uint64_t sum, std::uint64_t value) noexcept
{
	std::uint64_t x = sum * 0x100000001b3 + value + 0x9e3779b97f4a7c15;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

/* Addresses of link-local scope count without it, as each machine numbers its own interfaces. */
std::uint64_t mix(std::uint64_t sum, const Address &address) noexcept
{
	std::uint64_t words[2];

	static_assert(sizeof(words) == sizeof(address.addr));
	std::memcpy(words, address.addr, sizeof(words));
	sum = mix(sum, std::uint64_t{address.family} << 16 | ntohs(address.port));
	return mix(mix(sum, words[0]), words[1]);
}

/* Identifies the members, in order, by their addresses that are the same in all processes. */
int identify(const Endpoint &endpoint, const AvSet &set, std::uint16_t own, Member &member,
	     std::uint64_t &sum)
{
	bool found = false;

	member.endpoint = endpoint.id();
	member.peers = set.members();
	sum = mix(0, member.peers.size());
	for (std::uint32_t rank = 0; rank < member.size(); ++rank) {
		const auto place = set.av().place(member.peers[rank]);
		if (!place)
			return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
				      "join: %" PRIu64 " was removed from the address vector",
				      member.peers[rank]);
		sum = mix(sum, place->address);
		if (place->here && place->address.port == own) {
			member.rank = rank;
			found = true;
		}
	}
	return found ? 0 :
		       REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "join: the endpoint is no member of the set");
}

/*
 * Cancels and frees an operation. If a kernel worker is held up for longer than `most_wait`, the
 * memory is leaked, because the worker may still write there.
 */
template <class T> void end(std::unique_ptr<T> &operation) noexcept
{
	const TimeLeft left(most_wait);
	int rc;

	operation->graph.cancel();
	do /* signals don't end the wait */
		rc = negative(operation->graph.wait(timeout_of(left.milliseconds())));
	while (rc == -EINTR);
	if (rc)
		std::ignore = operation.release();
}

} // namespace

/* --- groups of an endpoint -------------------------------------------------------------- */

std::unique_ptr<EndpointGroups> EndpointGroups::make()
{
	return std::make_unique<Groups>();
}

void Groups::add(Group &group)
{
	const std::lock_guard guard(lock_);

	groups_.emplace(group.fi_addr, &group);
}

void Groups::remove(Group &group) noexcept
{
	const std::lock_guard guard(lock_);

	groups_.erase(group.fi_addr);
}

Group *Groups::find(fi_addr_t address) noexcept
{
	const std::lock_guard guard(lock_);
	const auto found = groups_.find(address);

	return found == groups_.end() ? nullptr : found->second;
}

bool Groups::cancel(const void *context) noexcept
{
	const std::lock_guard guard(lock_);

	return std::ranges::any_of(groups_, [&](const auto &entry) {
		return entry.second->cancel(context);
	});
}

int Groups::begin(Group &group, Context &context)
{
	const std::lock_guard guard(lock_);
	const auto same = [&](const auto &join) { return join->members == group.members(); };

	std::erase_if(joins_, [](const auto &join) {
		return join->state == Join::State::over ||
		       (join->state == Join::State::left && !join->graph.running() &&
			join->graph.failed());
	});
	const auto left = std::ranges::find_if(joins_, [&](const auto &join) {
		return same(join) && join->state == Join::State::left;
	});
	if (left != joins_.end())
		return group.await(**left);
	auto join = std::make_unique<Join>(context, group.members());
	joins_.reserve(joins_.size() + 1); /* so that nothing can fail once it has begun */
	const auto after = std::ranges::find_if(joins_ | std::views::reverse, same);
	const int rc = group.begin(*join, after == joins_.rend() ? nullptr : after->get());
	if (rc)
		return rc;
	joins_.push_back(std::move(join));
	return group.await(*joins_.back());
}

std::uint32_t Groups::new_id() noexcept
{
	const std::lock_guard guard(lock_);

	return ++last_id_ & 0x7fffffff;
}

void Groups::close() noexcept
{
	std::ranges::for_each(joins_, [](auto &join) { end(join); });
	joins_.clear();
}

/* --- joining ---------------------------------------------------------------------------- */

int Groups::join(Port &port, const void *addr, std::uint64_t flags, fid_mc **out,
		 void *context) noexcept
{
	constexpr fi_log_subsys subsys = Group::subsys;
	const Endpoint &endpoint = port.endpoint();
	const auto *asked = static_cast<const fi_collective_addr *>(addr);

	if (!(flags & FI_COLLECTIVE))
		return REFUSE(-FI_ENOSYS, subsys, "join: there are only collective groups");
	/*
	 * A member sends and receives. FI_SEND and FI_RECV together are allowed, but not just one
	 * of them.
	 */
	const std::uint64_t access = flags & (FI_SEND | FI_RECV);
	if (flags & ~(FI_COLLECTIVE | FI_SEND | FI_RECV) ||
	    (access && access != (FI_SEND | FI_RECV)))
		return REFUSE(-FI_EBADFLAGS, subsys, "join: flags 0x%" PRIx64, flags);
	if (!endpoint.collective_caps())
		return REFUSE(-FI_ENOSYS, subsys,
			      "join: the endpoint was not opened with FI_COLLECTIVE");
	if (!endpoint.enabled())
		return REFUSE(-FI_EOPBADSTATE, subsys, "join: the endpoint is not enabled");
	if (!endpoint.eq())
		return REFUSE(-FI_ENOEQ, subsys, "join: no event queue is bound");
	const AvSet *const named = asked ? AvSet::known(asked->set) : nullptr;
	if (!named)
		return REFUSE(-FI_EINVAL, subsys, "join: needs an AV set of %s", name);
	const AvSet &set = *named;
	if (&set.av() != endpoint.av())
		return REFUSE(-FI_EINVAL, subsys, "join: the set is of another address vector");
	if (asked->coll_addr != FI_ADDR_NOTAVAIL && asked->coll_addr != set.address() &&
	    !find(asked->coll_addr))
		return REFUSE(-FI_EINVAL, subsys,
			      "join: coll_addr is neither that of the set nor of a group");
	const int rc = guard([&] {
		Member member;
		std::uint64_t sum;
		int error = identify(endpoint, set, endpoint.port(), member, sum);
		if (error)
			return error;
		member.hellos.resize(member.size());
		member.hellos[member.rank] = {sum, new_id()};
		std::unique_ptr<Group> group(
			new Group(*this, port, *endpoint.eq(), std::move(member), context));
		/* The event may be read and the group closed as soon as joining has begun. */
		*out = group.get();
		error = begin(*group, endpoint.domain().kernel());
		if (!error)
			std::ignore = group.release();
		return error;
	});
	if (rc)
		*out = nullptr;
	return rc;
}

Group::Group(Groups &groups, Port &port, Eq &eq, Member member, void *context)
	: Object(context), groups_(groups), domain_(port.endpoint().domain()), eq_(eq),
	  port_use_(port.users), eq_use_(eq.users), member_(std::move(member))
{
	fi_addr = AvSet::new_address();
	groups_.add(*this);
}

/* Opens the file first: once other members may know of this one, that must not fail. */
int Group::begin(Join &join, const Join *after)
{
	const auto file = join.graph.fd();

	if (!file)
		return REFUSE(negative(file.error()), subsys, "join");
	build_join(join, member_);
	const int rc = negative(join.graph.launch(after ? &after->graph : nullptr));
	return rc ? REFUSE(fabric_error(rc), subsys, "join") : 0;
}

int Group::await(Join &join)
{
	const auto file = join.graph.fd(); /* cannot fail: begin() has opened it */

	join.state = Join::State::owned;
	{
		const std::lock_guard guard(lock_);
		join_ = &join;
	}
	const int rc = eq_.watch(*this, *file);
	return rc ? REFUSE(fabric_error(rc), subsys, "join") : 0;
}

/*
 * Updates state_ once joining has ended: then the identifiers of the other members are known. lock_
 * must be held.
 */
void Group::finish_joining() noexcept
{
	if (state_ != State::joining || join_->graph.running())
		return;
	std::memcpy(member_.hellos.data(), join_->memory.data(), join_->memory.size());
	const auto agrees = [&](const Member::Hello &hello) {
		return hello.group == member_.hellos[member_.rank].group;
	};
	const bool good = !join_->graph.failed() && std::ranges::all_of(member_.hellos, agrees);
	if (!good)
		REFUSE(0, subsys, "join: %s",
		       join_->graph.failed() ? "a member has gone" : "members join other groups");
	member_.joining = false;
	state_ = good ? State::member : State::failed;
}

bool Group::joined(int &error) noexcept
{
	const std::lock_guard guard(lock_);

	finish_joining();
	error = state_ == State::failed ? -FI_ECONNABORTED : 0;
	return state_ != State::joining;
}

void Group::reported() noexcept
{
	const std::lock_guard guard(lock_);

	std::exchange(join_, nullptr)->state = Join::State::over; /* the join may be freed now */
}

/* --- calls ------------------------------------------------------------------------------ */

/* Returns an unused operation; null: there are too many. lock_ must be held. */
std::unique_ptr<Operation> Group::take_operation()
{
	if (idle_.empty()) {
		idle_.reserve(running_.size()); /* so that nothing can fail once some have moved */
		const auto ended = std::ranges::stable_partition(
			running_, [](const auto &operation) { return operation->graph.running(); });
		std::ranges::move(ended, std::back_inserter(idle_));
		running_.erase(ended.begin(), ended.end());
	}
	if (idle_.empty())
		return running_.size() < most_running ?
			       std::make_unique<Operation>(domain_.kernel()) :
			       nullptr;
	auto operation = std::move(idle_.back());
	idle_.pop_back();
	return operation;
}

ssize_t Group::start(const Collective &what)
{
	const std::lock_guard guard(lock_);
	std::uint32_t root = 0;

	finish_joining();
	if (state_ != State::member)
		return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_DATA, "collective: joining has %s",
			      state_ == State::failed ? "failed" : "not ended");
	if (has_root(what.what)) {
		const auto found = std::ranges::find(member_.peers, what.root);
		if (found == member_.peers.end())
			return REFUSE(-FI_EINVAL, FI_LOG_EP_DATA,
				      "collective: root_addr %" PRIu64 " is no member", what.root);
		root = static_cast<std::uint32_t>(found - member_.peers.begin());
	}
	std::size_t len;
	if (const int rc = check(what, root, len))
		return rc;
	running_.reserve(running_.size() + 1);
	auto operation = take_operation();
	if (!operation)
		return -FI_EAGAIN;
	operation->context = what.context;
	build(*operation, member_, calls_, what, root, len);
	const int rc = negative(operation->graph.launch());
	if (rc == -EAGAIN) /* no slots are free now; keep the operation for the next call */
		idle_.push_back(std::move(operation));
	else if (
		rc) /* free counters of idle operations, and in the next call those of ended ones */
		idle_.clear();
	if (rc)
		return posting_failed(rc, "collective");
	++calls_;
	running_.push_back(std::move(operation));
	return 0;
}

bool Group::cancel(const void *context) noexcept
{
	const std::lock_guard guard(lock_);
	const auto found = std::ranges::find_if(running_, [&](const auto &operation) {
		return operation->context == context && operation->graph.running();
	});

	if (found == running_.end())
		return false;
	(*found)->graph.cancel(); /* only one, even if several have this context: fi_endpoint(3) */
	return true;
}

/* --- the end ---------------------------------------------------------------------------- */

Group::~Group()
{
	groups_.remove(*this);
	eq_.unwatch(*this);
	if (join_) /* its end was not reported here, even if it has ended */
		join_->state = state_ == State::joining ? Join::State::left : Join::State::over;
	std::ranges::for_each(running_, [](auto &operation) { end(operation); });
}

} // namespace treadle::fi
