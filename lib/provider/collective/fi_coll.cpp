// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The calls of fi_collective(3): their arguments are validated here and passed to Group::start. */
#include <limits>

#include "base/refuses.h"
#include "collective/group.h"
#include "collective/query_collective.h"
#include "endpoint/port.h"
#include "transfer/query_atomic.h"
#include "transfer/refusals.h"

namespace treadle::fi
{

namespace
{

/* Each member has its own port. */
constexpr std::size_t most_members = std::numeric_limits<std::uint16_t>::max();

/* Flags of a call. FI_MORE has no effect, as every call rings one doorbell. */
constexpr std::uint64_t known_flags = FI_COMPLETION | FI_MORE | completion_levels;

bool overlap(const void *a, std::size_t a_len, const void *b, std::size_t b_len) noexcept
{
	return address_of(a) < address_of(b) + b_len && address_of(b) < address_of(a) + a_len;
}

/* How many times `count` elements a call uses in each buffer; depends on being the root. */
struct Uses {
	std::size_t buf, result;
};

Uses uses_of(const Collective &call, std::size_t members, bool is_root) noexcept
{
	switch (call.what) {
	case FI_BARRIER:
		return {0, 0};
	case FI_BROADCAST:
		return {0, 1};
	case FI_ALLTOALL:
		return {members, members};
	case FI_ALLGATHER:
		return {1, members};
	case FI_REDUCE_SCATTER:
		return {members, 1};
	case FI_REDUCE:
		return {1, is_root ? std::size_t{1} : 0};
	case FI_SCATTER:
		return {is_root ? members : 0, 1};
	case FI_GATHER:
		return {1, is_root ? members : 0};
	default:
		return {1, 1};
	}
}

/*
 * May buf and result overlap? buf may be its own place in result, or lie where other members' data
 * arrives later. result may be its own place in buf if buf is cut up (FI_SCATTER).
 *
 * len: of one member's part; at: offset of this member's part.
 */
bool may_be_one(const Collective &call, std::size_t len, std::size_t at) noexcept
{
	if (call.what == FI_SCATTER)
		return call.result == static_cast<const std::byte *>(call.buf) + at;
	if (call.what == FI_ALLREDUCE || call.what == FI_REDUCE)
		at = 0;
	else if (call.what != FI_ALLGATHER && call.what != FI_GATHER)
		return false;
	const auto *own = static_cast<const std::byte *>(call.result) + at;
	return call.buf == own || !overlap(call.buf, len, own, len);
}

} // namespace

int check_collective(const Domain &domain, fi_collective_op what, fi_collective_attr &attr) noexcept
{
	const auto op = static_cast<std::uint32_t>(attr.op);

	attr.max_members = most_members;
	if (what == FI_BARRIER) {
		attr.datatype_attr = {};
		return 0;
	}
	if (what < FI_BARRIER || what > FI_GATHER)
		return -FI_EOPNOTSUPP;
	const int rc =
		query_atomic(domain, attr.datatype, reduces(what) ? attr.op : FI_ATOMIC_WRITE,
			     attr.datatype_attr, 0);
	/* "If applicable": collectives that only move data have no operation. */
	if (rc || (reduces(what) && op > FI_BXOR))
		return -FI_EOPNOTSUPP;
	attr.datatype_attr.count =
		(reduces(what) ? most_reduced : domain.kernel().limits().max_msg_size) /
		attr.datatype_attr.size;
	return 0;
}

int query_collective(fid_domain *domain, fi_collective_op what, fi_collective_attr *attr,
		     std::uint64_t flags) noexcept
{
	if (!attr || attr->mode)
		return REFUSE(-FI_EINVAL, FI_LOG_DOMAIN,
			      "query_collective: needs a fi_collective_attr whose mode is 0");
	/* FI_REDUCE with FI_SCATTER is the old form of FI_REDUCE_SCATTER. */
	const bool asks_for_slices = flags == std::uint64_t{FI_SCATTER} && what == FI_REDUCE;
	if (flags && !asks_for_slices && !(flags == FI_SCATTER && what == FI_REDUCE_SCATTER))
		return REFUSE(-FI_EBADFLAGS, FI_LOG_DOMAIN, "query_collective: flags 0x%" PRIx64,
			      flags);
	return check_collective(Domain::of(domain), asks_for_slices ? FI_REDUCE_SCATTER : what,
				*attr);
}

/*
 * Validates the buffers of a call. A wrong pointer would otherwise only fail in the middle of the
 * collective.
 */
int Group::check(const Collective &call, std::uint32_t root, std::size_t &len) const
{
	fi_collective_attr attr{};

	attr.op = static_cast<fi_op>(call.op);
	attr.datatype = static_cast<fi_datatype>(call.datatype);
	if (check_collective(domain_, call.what, attr))
		return REFUSE(-FI_EOPNOTSUPP, subsys, "collective %d: operation %d, type %d",
			      call.what, call.op, call.datatype);
	len = call.count * attr.datatype_attr.size;
	if (call.what == FI_BARRIER)
		return 0;
	if (!call.count)
		return REFUSE(-FI_EINVAL, subsys, "collective %d: of no elements", call.what);
	if (call.count > attr.datatype_attr.count)
		return REFUSE(-FI_EMSGSIZE, subsys, "collective %d: %zu elements, at most %zu",
			      call.what, call.count, attr.datatype_attr.count);
	const Uses uses = uses_of(call, member_.size(), member_.rank == root);
	if ((uses.buf && !call.buf) || (uses.result && !call.result))
		return REFUSE(-FI_EINVAL, subsys, "collective %d: no %s", call.what,
			      uses.buf && !call.buf ? "buf" : "result");
	if (uses.buf && !may_be_one(call, len, member_.rank * len) &&
	    overlap(call.buf, uses.buf * len, call.result, uses.result * len))
		return REFUSE(-FI_EINVAL, subsys, "collective %d: buf and result overlap",
			      call.what);
	if (reduces(call.what) && uses.result &&
	    address_of(call.result) % treadle_type_align(static_cast<std::uint32_t>(call.datatype)))
		return REFUSE(-FI_EINVAL, subsys, "collective %d: result is not aligned",
			      call.what);
	return 0;
}

namespace
{

ssize_t start(fid_ep *ep, fi_addr_t address, Collective call) noexcept
{
	Port &port = Port::of(ep);
	Group *const group = Groups::of(port.endpoint()).find(address);

	port.endpoint().flush();
	if (call.flags & ~known_flags)
		return flags_refused(call.flags & ~known_flags, "collective");
	if (!group)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_DATA, "collective: 0x%" PRIx64 " is no group",
			      address);
	call.flags = port.tx_desc_flags(call.flags);
	return guard([&] { return group->start(call); });
}

struct CollectiveCalls {
	static ssize_t barrier(fid_ep *ep, fi_addr_t group, void *context) noexcept
	{
		/* FI_TRIGGER is passed on so that it is refused: the call would start at once. */
		return barrier2(ep, group, Port::of(ep).tx_op_flags() & (known_flags | FI_TRIGGER),
				context);
	}
	static ssize_t barrier2(fid_ep *ep, fi_addr_t group, std::uint64_t flags,
				void *context) noexcept
	{
		return start(ep, group, {.what = FI_BARRIER, .flags = flags, .context = context});
	}
	static ssize_t broadcast(fid_ep *ep, void *buf, std::size_t count, void *, fi_addr_t group,
				 fi_addr_t root, fi_datatype type, std::uint64_t flags,
				 void *context) noexcept
	{
		return start(ep, group,
			     {FI_BROADCAST, nullptr, buf, count, type, FI_NOOP, root, flags,
			      context});
	}
	template <fi_collective_op What>
	static ssize_t among_all(fid_ep *ep, const void *buf, std::size_t count, void *,
				 void *result, void *, fi_addr_t group, fi_datatype type,
				 std::uint64_t flags, void *context) noexcept
	{
		return start(ep, group,
			     {What, buf, result, count, type, FI_NOOP, FI_ADDR_NOTAVAIL, flags,
			      context});
	}
	template <fi_collective_op What>
	static ssize_t reduce_for_all(fid_ep *ep, const void *buf, std::size_t count, void *,
				      void *result, void *, fi_addr_t group, fi_datatype type,
				      fi_op op, std::uint64_t flags, void *context) noexcept
	{
		return start(ep, group,
			     {What, buf, result, count, type, op, FI_ADDR_NOTAVAIL, flags,
			      context});
	}
	static ssize_t reduce(fid_ep *ep, const void *buf, std::size_t count, void *, void *result,
			      void *, fi_addr_t group, fi_addr_t root, fi_datatype type, fi_op op,
			      std::uint64_t flags, void *context) noexcept
	{
		return start(ep, group,
			     {FI_REDUCE, buf, result, count, type, op, root, flags, context});
	}
	template <fi_collective_op What>
	static ssize_t with_root(fid_ep *ep, const void *buf, std::size_t count, void *,
				 void *result, void *, fi_addr_t group, fi_addr_t root,
				 fi_datatype type, std::uint64_t flags, void *context) noexcept
	{
		return start(ep, group,
			     {What, buf, result, count, type, FI_NOOP, root, flags, context});
	}
};

template <int Error> fi_ops_collective refusing_ops() noexcept
{
	constexpr Refuses<Error> refuses;

	return {.size = sizeof(fi_ops_collective),
		.barrier = refuses,
		.broadcast = refuses,
		.alltoall = refuses,
		.allreduce = refuses,
		.allgather = refuses,
		.reduce_scatter = refuses,
		.reduce = refuses,
		.scatter = refuses,
		.gather = refuses,
		.msg = refuses,
		.barrier2 = refuses};
}

} // namespace

void Groups::choose_calls(fi_ops_collective &ops, Calls calls) const noexcept
{
	switch (calls) {
	case Calls::absent:
		ops = refusing_ops<-FI_ENOSYS>();
		return;
	case Calls::disabled:
		ops = refusing_ops<-FI_EOPBADSTATE>();
		return;
	case Calls::unreported:
		ops = refusing_ops<-FI_ENOCQ>();
		return;
	default:
		ops = {.size = sizeof(ops),
		       .barrier = CollectiveCalls::barrier,
		       .broadcast = CollectiveCalls::broadcast,
		       .alltoall = CollectiveCalls::among_all<FI_ALLTOALL>,
		       .allreduce = CollectiveCalls::reduce_for_all<FI_ALLREDUCE>,
		       .allgather = CollectiveCalls::among_all<FI_ALLGATHER>,
		       .reduce_scatter = CollectiveCalls::reduce_for_all<FI_REDUCE_SCATTER>,
		       .reduce = CollectiveCalls::reduce,
		       .scatter = CollectiveCalls::with_root<FI_SCATTER>,
		       .gather = CollectiveCalls::with_root<FI_GATHER>,
		       .msg = Refuses<-FI_ENOSYS>(), /* libfabric has no call that leads there */
		       .barrier2 = CollectiveCalls::barrier2};
	}
}

} // namespace treadle::fi
