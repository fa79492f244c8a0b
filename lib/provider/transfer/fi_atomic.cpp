// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/port_of.h"
#include "transfer/query_atomic.h"

#include <algorithm>

namespace treadle::fi
{

namespace
{

/* The kernel and libfabric use the same numbers. */
static_assert(int{TREADLE_ATOMIC_MIN} == int{FI_MIN} &&
	      int{TREADLE_ATOMIC_READ} == int{FI_ATOMIC_READ} &&
	      int{TREADLE_ATOMIC_CSWAP} == int{FI_CSWAP} &&
	      int{TREADLE_ATOMIC_OPS} == int{FI_ATOMIC_OP_LAST});
static_assert(int{TREADLE_INT8} == int{FI_INT8} && int{TREADLE_FLOAT} == int{FI_FLOAT} &&
	      int{TREADLE_LONG_DOUBLE_COMPLEX} == int{FI_LONG_DOUBLE_COMPLEX} &&
	      int{TREADLE_UINT128} == int{FI_UINT128});

/* The size of elements in bytes. An overflow gives a size that is refused. */
std::uint64_t bytes(std::size_t count, int datatype) noexcept
{
	return std::min<std::size_t>(count, TREADLE_MAX_ATOMIC + 1) *
	       treadle_type_size(static_cast<std::uint32_t>(datatype));
}

struct Operands : Vector<treadle_iov, TREADLE_MAX_IOV> {
	Operands(const fi_ioc *ioc, std::size_t count, int datatype) noexcept
		: Vector(ioc, count, [=](const fi_ioc &from) {
			  return treadle_iov{address_of(from.addr), bytes(from.count, datatype)};
		  })
	{
	}
};

struct Targets : Vector<treadle_rma_iov, TREADLE_MAX_RMA_IOV> {
	Targets(const fi_rma_ioc *ioc, std::size_t count, int datatype) noexcept
		: Vector(ioc, count, [=](const fi_rma_ioc &from) {
			  return treadle_rma_iov{from.addr, bytes(from.count, datatype), from.key};
		  })
	{
	}
};

/* Do the numbers fit into a descriptor? The kernel checks their combination. */
bool known(int datatype, int op) noexcept
{
	if (datatype >= 0 && datatype < TREADLE_DATATYPES && op >= 0 && op < TREADLE_ATOMIC_OPS)
		return true;
	REFUSE(-FI_EOPNOTSUPP, FI_LOG_EP_DATA, "atomic: operation %d, type %d", op, datatype);
	return false;
}

Atomic atomic_for(int datatype, int op, const void *result = nullptr,
		  const void *compare = nullptr) noexcept
{
	return {static_cast<treadle_atomic_op>(op), static_cast<treadle_datatype>(datatype),
		address_of(result), address_of(compare)};
}

/* One integer of 8 bytes? */
constexpr bool is_word(std::size_t count, int datatype) noexcept
{
	return count == 1 && (datatype == FI_UINT64 || datatype == FI_INT64);
}

/* A read has no operands, whatever the caller passes. */
bool only_reads(std::uint8_t opcode, const fi_msg_atomic &msg) noexcept
{
	return opcode == TREADLE_OP_FETCH && msg.op == FI_ATOMIC_READ;
}

/*
 * Is there one target, and one buffer of each kind, all of the same length? Then one descriptor is
 * enough.
 */
[[gnu::always_inline]] inline bool has_one_of_each(std::uint8_t opcode, const fi_msg_atomic &msg,
						   const fi_msg_fetch &results,
						   const fi_msg_compare &compares) noexcept
{
	const auto one = [&msg](const fi_ioc *ioc, std::size_t count) {
		return count == 1 && ioc && ioc->count == msg.rma_iov->count;
	};

	return msg.rma_iov_count == 1 && msg.rma_iov &&
	       (only_reads(opcode, msg) || one(msg.msg_iov, msg.iov_count)) &&
	       bytes(msg.rma_iov->count, msg.datatype) <= TREADLE_MAX_ATOMIC &&
	       (opcode == TREADLE_OP_ATOMIC || one(results.msg_iov, results.iov_count)) &&
	       (opcode != TREADLE_OP_COMPARE || one(compares.msg_iov, compares.iov_count));
}

/*
 * Vectors and rare flags take a command. So does an operation that is refused, as that path logs
 * why.
 */
template <class P>
[[gnu::noinline]] ssize_t transfer_vectors(P &port, std::uint8_t opcode, const fi_msg_atomic &msg,
					   std::uint64_t flags, fi_msg_fetch results,
					   fi_msg_compare compares) noexcept
{
	return port.transmit(command_of(opcode, msg, results, compares), flags);
}

/* Atomics with vectors or a structure. */
template <class P>
[[gnu::always_inline]] inline ssize_t
transfer(P &port, std::uint8_t opcode, const fi_msg_atomic &msg, std::uint64_t flags,
	 const fi_msg_fetch &results = {}, const fi_msg_compare &compares = {}) noexcept
{
	if (!known(msg.datatype, msg.op))
		return port.refused(-FI_EOPNOTSUPP);
	if (!has_one_of_each(opcode, msg, results, compares) || port.needs_command(opcode, flags))
		[[unlikely]]
		return transfer_vectors(port, opcode, msg, flags, results, compares);
	return port.transmit_plain(
		rma_message(opcode, only_reads(opcode, msg) ? nullptr : msg.msg_iov->addr,
			    bytes(msg.rma_iov->count, msg.datatype), msg.addr, msg.rma_iov->addr,
			    msg.rma_iov->key, msg.context),
		atomic_for(msg.datatype, msg.op, results.msg_iov ? results.msg_iov->addr : nullptr,
			   compares.msg_iov ? compares.msg_iov->addr : nullptr),
		flags);
}

/* The calls of fi_atomic(3), for one lock type. FI_TRIGGER needs no special case. */
template <class Lock, Way Kind> struct AtomicCalls {
	using P = PortOf<Lock>;

	[[gnu::noinline, gnu::noclone]] /* write_word jumps there */
	static ssize_t
	write(fid_ep *ep, const void *buf, std::size_t count, void *, fi_addr_t dest,
	      std::uint64_t addr, std::uint64_t key, fi_datatype datatype, fi_op op,
	      void *context) noexcept
	{
		if (!known(datatype, op))
			return P::of(ep).refused(-FI_EOPNOTSUPP);
		return P::of(ep).template transmit<Kind>(rma_message(TREADLE_OP_ATOMIC, buf,
								     bytes(count, datatype), dest,
								     addr, key, context),
							 atomic_for(datatype, op));
	}
	template <bool Reported>
	static ssize_t write_word(fid_ep *ep, const void *buf, std::size_t count, void *desc,
				  fi_addr_t dest, std::uint64_t addr, std::uint64_t key,
				  fi_datatype datatype, fi_op op, void *context) noexcept
	{
		if (is_word(count, datatype) &&
		    P::of(ep).template execute_word<TREADLE_OP_ATOMIC, Reported>(
			    8, context, buf, dest, addr, key, atomic_for(datatype, op)))
			return 0;
		return write(ep, buf, count, desc, dest, addr, key, datatype, op, context);
	}
	static ssize_t writev(fid_ep *ep, const fi_ioc *iov, void **, std::size_t count,
			      fi_addr_t dest, std::uint64_t addr, std::uint64_t key,
			      fi_datatype datatype, fi_op op, void *context) noexcept
	{
		P &port = P::of(ep);
		const fi_rma_ioc target = one_target(iov, count, addr, key);
		return transfer(port, TREADLE_OP_ATOMIC,
				message(iov, count, dest, target, datatype, op, context),
				port.tx_op_flags());
	}
	static ssize_t writemsg(fid_ep *ep, const fi_msg_atomic *msg, std::uint64_t flags) noexcept
	{
		return transfer(P::of(ep), TREADLE_OP_ATOMIC, *msg, flags);
	}
	static ssize_t inject(fid_ep *ep, const void *buf, std::size_t count, fi_addr_t dest,
			      std::uint64_t addr, std::uint64_t key, fi_datatype datatype,
			      fi_op op) noexcept
	{
		if (!known(datatype, op))
			return P::of(ep).refused(-FI_EOPNOTSUPP);
		return P::of(ep).template inject<Kind>(rma_message(TREADLE_OP_ATOMIC, buf,
								   bytes(count, datatype), dest,
								   addr, key, ep->fid.context),
						       atomic_for(datatype, op));
	}

	[[gnu::noinline, gnu::noclone]] static ssize_t
	readwrite(fid_ep *ep, const void *buf, std::size_t count, void *, void *result, void *,
		  fi_addr_t dest, std::uint64_t addr, std::uint64_t key, fi_datatype datatype,
		  fi_op op, void *context) noexcept
	{
		if (!known(datatype, op))
			return P::of(ep).refused(-FI_EOPNOTSUPP);
		return P::of(ep).template transmit<Kind>(rma_message(TREADLE_OP_FETCH, buf,
								     bytes(count, datatype), dest,
								     addr, key, context),
							 atomic_for(datatype, op, result));
	}
	template <bool Reported>
	static ssize_t readwrite_word(fid_ep *ep, const void *buf, std::size_t count, void *desc,
				      void *result, void *result_desc, fi_addr_t dest,
				      std::uint64_t addr, std::uint64_t key, fi_datatype datatype,
				      fi_op op, void *context) noexcept
	{
		if (is_word(count, datatype) &&
		    P::of(ep).template execute_word<TREADLE_OP_FETCH, Reported>(
			    8, context, buf, dest, addr, key, atomic_for(datatype, op, result)))
			return 0;
		return readwrite(ep, buf, count, desc, result, result_desc, dest, addr, key,
				 datatype, op, context);
	}
	static ssize_t readwritev(fid_ep *ep, const fi_ioc *iov, void **, std::size_t count,
				  fi_ioc *resultv, void **, std::size_t result_count,
				  fi_addr_t dest, std::uint64_t addr, std::uint64_t key,
				  fi_datatype datatype, fi_op op, void *context) noexcept
	{
		P &port = P::of(ep);
		const fi_rma_ioc target = one_target(resultv, result_count, addr, key);
		return transfer(port, TREADLE_OP_FETCH,
				message(iov, count, dest, target, datatype, op, context),
				port.tx_op_flags(), {resultv, nullptr, result_count});
	}
	static ssize_t readwritemsg(fid_ep *ep, const fi_msg_atomic *msg, fi_ioc *resultv, void **,
				    std::size_t result_count, std::uint64_t flags) noexcept
	{
		return transfer(P::of(ep), TREADLE_OP_FETCH, *msg, flags,
				{resultv, nullptr, result_count});
	}

	static ssize_t compwrite(fid_ep *ep, const void *buf, std::size_t count, void *,
				 const void *compare, void *, void *result, void *, fi_addr_t dest,
				 std::uint64_t addr, std::uint64_t key, fi_datatype datatype,
				 fi_op op, void *context) noexcept
	{
		if (!known(datatype, op))
			return P::of(ep).refused(-FI_EOPNOTSUPP);
		return P::of(ep).template transmit<Kind>(rma_message(TREADLE_OP_COMPARE, buf,
								     bytes(count, datatype), dest,
								     addr, key, context),
							 atomic_for(datatype, op, result, compare));
	}
	static ssize_t compwritev(fid_ep *ep, const fi_ioc *iov, void **, std::size_t count,
				  const fi_ioc *comparev, void **, std::size_t compare_count,
				  fi_ioc *resultv, void **, std::size_t result_count,
				  fi_addr_t dest, std::uint64_t addr, std::uint64_t key,
				  fi_datatype datatype, fi_op op, void *context) noexcept
	{
		P &port = P::of(ep);
		const fi_rma_ioc target = one_target(iov, count, addr, key);
		return transfer(port, TREADLE_OP_COMPARE,
				message(iov, count, dest, target, datatype, op, context),
				port.tx_op_flags(), {resultv, nullptr, result_count},
				{comparev, nullptr, compare_count});
	}
	static ssize_t compwritemsg(fid_ep *ep, const fi_msg_atomic *msg, const fi_ioc *comparev,
				    void **, std::size_t compare_count, fi_ioc *resultv, void **,
				    std::size_t result_count, std::uint64_t flags) noexcept
	{
		return transfer(P::of(ep), TREADLE_OP_COMPARE, *msg, flags,
				{resultv, nullptr, result_count},
				{comparev, nullptr, compare_count});
	}

private:
	/* One target with as many elements as the operands have. */
	static fi_rma_ioc one_target(const fi_ioc *ioc, std::size_t count, std::uint64_t addr,
				     std::uint64_t key) noexcept
	{
		std::size_t elements = 0;

		for (std::size_t i = 0; ioc && i < count && i < TREADLE_MAX_IOV; ++i)
			elements += ioc[i].count;
		return {addr, elements, key};
	}
	static fi_msg_atomic message(const fi_ioc *iov, std::size_t count, fi_addr_t dest,
				     const fi_rma_ioc &target, fi_datatype datatype, fi_op op,
				     void *context) noexcept
	{
		fi_msg_atomic msg{};

		msg.msg_iov = iov;
		msg.iov_count = count;
		msg.addr = dest;
		msg.rma_iov = &target;
		msg.rma_iov_count = 1;
		msg.datatype = datatype;
		msg.op = op;
		msg.context = context;
		return msg;
	}
};

template <std::uint64_t Flags>
int valid(fid_ep *ep, fi_datatype datatype, fi_op op, std::size_t *count) noexcept
{
	fi_atomic_attr attr{};
	const int rc = query_atomic(Port::of(ep).endpoint().domain(), datatype, op, attr, Flags);

	if (!rc && count)
		*count = attr.count;
	return rc;
}

/* The command without context and flags. */
Command unflagged(const Message &m, const Atomic &a) noexcept
{
	const auto buffer = [&](std::uint64_t addr) {
		return bytes_of(reinterpret_cast<void *>(addr), m.len);
	};
	const auto operands = buffer(m.addr), compare = buffer(a.compare),
		   result = buffer(a.result);
	const Peer peer{m.peer};
	const Remote place{.addr = m.tag, .key = m.ignore};

	switch (m.opcode) {
	case TREADLE_OP_ATOMIC:
		return Command::atomic(a.op, a.type, operands, peer, place);
	case TREADLE_OP_FETCH:
		return Command::fetch(a.op, a.type, operands, result, peer, place);
	default:
		return Command::compare(a.op, a.type, operands, compare, result, peer, place);
	}
}

} // namespace

Command command_of(const Message &m, const Atomic &a) noexcept
{
	Command command = unflagged(m, a);

	return command.context(m.context).flags(m.flags);
}

CommandOrError command_of(std::uint8_t opcode, const fi_msg_atomic &msg,
			  const fi_msg_fetch &results, const fi_msg_compare &compares) noexcept
{
	if (!known(msg.datatype, msg.op))
		return std::unexpected(-FI_EOPNOTSUPP);
	const bool reads = only_reads(opcode, msg);
	const Operands operands(msg.msg_iov, reads ? 0 : msg.iov_count, msg.datatype);
	const Targets targets(msg.rma_iov, msg.rma_iov_count, msg.datatype);
	const Operands fetched(results.msg_iov, results.iov_count, msg.datatype);
	const Operands compared(compares.msg_iov, compares.iov_count, msg.datatype);

	if (operands.too_many() || targets.too_many() || fetched.too_many() ||
	    compared.too_many() || !msg.rma_iov_count)
		return std::unexpected(REFUSE(-FI_EINVAL, FI_LOG_EP_DATA,
					      "%s: at most %d buffers, and 1 to %d remote ranges",
					      name_of(opcode), TREADLE_MAX_IOV,
					      TREADLE_MAX_RMA_IOV));
	const std::uint64_t len = total(targets.span());
	/* Each was clipped, so they may differ now. */
	if (std::max({len, total(operands.span()), total(fetched.span()), total(compared.span())}) >
	    TREADLE_MAX_ATOMIC)
		return std::unexpected(REFUSE(-FI_EMSGSIZE, FI_LOG_EP_DATA, "%s: at most %d bytes",
					      name_of(opcode), TREADLE_MAX_ATOMIC));
	if ((!reads && total(operands.span()) != len) ||
	    (opcode != TREADLE_OP_ATOMIC && total(fetched.span()) != len) ||
	    (opcode == TREADLE_OP_COMPARE && total(compared.span()) != len))
		return std::unexpected(REFUSE(-FI_EINVAL, FI_LOG_EP_DATA,
					      "%s: vectors of different lengths", name_of(opcode)));
	Command command = command_of(rma_message(opcode, nullptr, 0, msg.addr, 0, 0, msg.context),
				     atomic_for(msg.datatype, msg.op));
	if (!reads)
		command.buffers(operands.span());
	command.ranges(targets.span());
	if (opcode != TREADLE_OP_ATOMIC)
		command.results(fetched.span(), compared.span());
	return command;
}

/* A query, so an unsupported combination is not logged. */
int query_atomic(const Domain &domain, int datatype, int op, fi_atomic_attr &attr,
		 std::uint64_t flags) noexcept
{
	const auto type = static_cast<std::uint32_t>(datatype);
	const auto operation = static_cast<std::uint32_t>(op);
	const treadle_query &kernel = domain.kernel().limits();
	const bool floats = kernel.features & TREADLE_FEATURE_ATOMIC_FP;
	auto opcode = TREADLE_OP_ATOMIC;
	if (flags & FI_COMPARE_ATOMIC)
		opcode = TREADLE_OP_COMPARE;
	else if (flags & FI_FETCH_ATOMIC)
		opcode = TREADLE_OP_FETCH;
	const bool compares = operation >= TREADLE_ATOMIC_CSWAP;
	const bool reads = operation == TREADLE_ATOMIC_READ;

	if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) ||
	    flags == (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC))
		return flags & FI_TAGGED ? -FI_EOPNOTSUPP : -FI_EINVAL;
	if (!(kernel.opcodes >> opcode & 1) || type >= TREADLE_DATATYPES ||
	    !(treadle_atomic_types(operation) >> type & 1) ||
	    (!floats && TREADLE_TYPES_FP >> type & 1) || compares != (flags == FI_COMPARE_ATOMIC) ||
	    (reads && flags != FI_FETCH_ATOMIC))
		return -FI_EOPNOTSUPP;
	attr.size = treadle_type_size(type);
	attr.count = TREADLE_MAX_ATOMIC / attr.size;
	return 0;
}

void choose_calls(fi_ops_atomic &ops, bool serialized, Calls write, Calls fetch, bool can_ask,
		  Words words) noexcept
{
	static constexpr Refuses<-FI_ENOSYS> refuses;

	ops.size = sizeof(ops);
	choose<AtomicCalls>(serialized, write, [&]<class C>(C) {
		ops.write = C::write;
		ops.writev = C::writev;
		ops.writemsg = C::writemsg;
		ops.inject = C::inject;
	});
	choose<AtomicCalls>(serialized, fetch, [&]<class C>(C) {
		ops.readwrite = C::readwrite;
		ops.readwritev = C::readwritev;
		ops.readwritemsg = C::readwritemsg;
		ops.compwrite = C::compwrite;
		ops.compwritev = C::compwritev;
		ops.compwritemsg = C::compwritemsg;
	});
	using Plain = AtomicCalls<NoLock, Way::plain>;
	if (words != Words::none && write == Calls::plain)
		ops.write = words == Words::reported ? Plain::write_word<true> :
						       Plain::write_word<false>;
	if (words != Words::none && fetch == Calls::plain)
		ops.readwrite = words == Words::reported ? Plain::readwrite_word<true> :
							   Plain::readwrite_word<false>;
	ops.writevalid = refuses;
	ops.readwritevalid = refuses;
	ops.compwritevalid = refuses;
	if (can_ask) {
		ops.writevalid = valid<0>;
		ops.readwritevalid = valid<FI_FETCH_ATOMIC>;
		ops.compwritevalid = valid<FI_COMPARE_ATOMIC>;
	}
}

} // namespace treadle::fi
