// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/port_of.h"

namespace treadle::fi
{

namespace
{

struct Ranges : Vector<treadle_rma_iov, TREADLE_MAX_RMA_IOV> {
	Ranges(const fi_rma_iov *iov, std::size_t count) noexcept
		: Vector(iov, count, [](const fi_rma_iov &from) {
			  return treadle_rma_iov{from.addr, from.len, from.key};
		  })
	{
	}
};

/*
 * Is there one range, as long as the buffers? Then the first cache line of a descriptor is enough.
 */
bool has_one_range(const fi_msg_rma &msg) noexcept
{
	std::uint64_t len = 0;

	if (msg.rma_iov_count != 1 || !msg.rma_iov || msg.iov_count > TREADLE_MAX_IOV ||
	    (msg.iov_count && !msg.msg_iov))
		return false;
	for (std::size_t i = 0; i < msg.iov_count; ++i)
		len += msg.msg_iov[i].iov_len;
	return len == msg.rma_iov->len;
}

/* Several ranges take a command. So does an operation that is refused, as that path logs why. */
template <class P>
[[gnu::noinline]] ssize_t transfer_vectors(P &port, std::uint8_t opcode, const fi_msg_rma &msg,
					   std::uint64_t flags) noexcept
{
	if (!has_one_range(msg))
		return port.transmit(command_of(opcode, msg), flags, msg.data);
	Message message = rma_message(opcode, nullptr, 0, msg.addr, msg.rma_iov->addr,
				      msg.rma_iov->key, msg.context);
	message.data = msg.data;
	return port.transmit(message, msg.msg_iov, msg.iov_count, flags);
}

/* RMA with a structure. */
template <class P>
[[gnu::always_inline]] inline ssize_t transfer(P &port, std::uint8_t opcode, const fi_msg_rma &msg,
					       std::uint64_t flags) noexcept
{
	const iovec *here = msg.msg_iov;
	const fi_rma_iov *there = msg.rma_iov;

	if (msg.iov_count != 1 || msg.rma_iov_count != 1 || !here || !there ||
	    here->iov_len != there->len || port.needs_command(opcode, flags)) [[unlikely]]
		return transfer_vectors(port, opcode, msg, flags);
	Message message = rma_message(opcode, here->iov_base, here->iov_len, msg.addr, there->addr,
				      there->key, msg.context);
	message.data = msg.data;
	return port.transmit_plain(message, flags);
}

/* The calls of fi_rma(3), for one lock type; plain or special, see Calls. */
template <class Lock, Way Kind> struct RmaCalls {
	using P = PortOf<Lock>;

	[[gnu::noinline, gnu::noclone]] /* read_word jumps there */
	static ssize_t
	read(fid_ep *ep, void *buf, std::size_t len, void *, fi_addr_t src, std::uint64_t addr,
	     std::uint64_t key, void *context) noexcept
	{
		return P::of(ep).template transmit<Kind>(
			rma_message(TREADLE_OP_READ, buf, len, src, addr, key, context));
	}
	template <bool Reported>
	static ssize_t read_word(fid_ep *ep, void *buf, std::size_t len, void *desc, fi_addr_t src,
				 std::uint64_t addr, std::uint64_t key, void *context) noexcept
	{
		if (P::of(ep).template execute_word<TREADLE_OP_READ, Reported>(len, context, buf,
									       src, addr, key))
			return 0;
		return read(ep, buf, len, desc, src, addr, key, context);
	}
	static ssize_t readv(fid_ep *ep, const iovec *iov, void **, std::size_t count,
			     fi_addr_t src, std::uint64_t addr, std::uint64_t key,
			     void *context) noexcept
	{
		P &port = P::of(ep);
		return port.transmit(rma_message(TREADLE_OP_READ, nullptr, 0, src, addr, key,
						 context),
				     iov, count, port.tx_op_flags());
	}
	static ssize_t readmsg(fid_ep *ep, const fi_msg_rma *msg, std::uint64_t flags) noexcept
	{
		return transfer(P::of(ep), TREADLE_OP_READ, *msg, flags);
	}
	[[gnu::noinline, gnu::noclone]] static ssize_t
	write(fid_ep *ep, const void *buf, std::size_t len, void *, fi_addr_t dest,
	      std::uint64_t addr, std::uint64_t key, void *context) noexcept
	{
		return P::of(ep).template transmit<Kind>(
			rma_message(TREADLE_OP_WRITE, buf, len, dest, addr, key, context));
	}
	template <bool Reported>
	static ssize_t write_word(fid_ep *ep, const void *buf, std::size_t len, void *desc,
				  fi_addr_t dest, std::uint64_t addr, std::uint64_t key,
				  void *context) noexcept
	{
		if (P::of(ep).template execute_word<TREADLE_OP_WRITE, Reported>(len, context, buf,
										dest, addr, key))
			return 0;
		return write(ep, buf, len, desc, dest, addr, key, context);
	}
	static ssize_t writev(fid_ep *ep, const iovec *iov, void **, std::size_t count,
			      fi_addr_t dest, std::uint64_t addr, std::uint64_t key,
			      void *context) noexcept
	{
		P &port = P::of(ep);
		return port.transmit(rma_message(TREADLE_OP_WRITE, nullptr, 0, dest, addr, key,
						 context),
				     iov, count, port.tx_op_flags());
	}
	static ssize_t writemsg(fid_ep *ep, const fi_msg_rma *msg, std::uint64_t flags) noexcept
	{
		return transfer(P::of(ep), TREADLE_OP_WRITE, *msg, flags);
	}
	[[gnu::noinline, gnu::noclone]] static ssize_t inject(fid_ep *ep, const void *buf,
							      std::size_t len, fi_addr_t dest,
							      std::uint64_t addr,
							      std::uint64_t key) noexcept
	{
		return P::of(ep).template inject<Kind>(
			rma_message(TREADLE_OP_WRITE, buf, len, dest, addr, key, ep->fid.context));
	}
	static ssize_t inject_word(fid_ep *ep, const void *buf, std::size_t len, fi_addr_t dest,
				   std::uint64_t addr, std::uint64_t key) noexcept
	{
		if (P::of(ep).template execute_word<TREADLE_OP_WRITE, false>(len, nullptr, buf,
									     dest, addr, key))
			return 0;
		return inject(ep, buf, len, dest, addr, key);
	}
	static ssize_t writedata(fid_ep *ep, const void *buf, std::size_t len, void *,
				 std::uint64_t data, fi_addr_t dest, std::uint64_t addr,
				 std::uint64_t key, void *context) noexcept
	{
		Message message = rma_message(TREADLE_OP_WRITE, buf, len, dest, addr, key, context);
		message.data = data;
		return P::of(ep).template transmit<Kind>(message, FI_REMOTE_CQ_DATA,
							 TREADLE_F_REMOTE_CQ_DATA);
	}
	static ssize_t injectdata(fid_ep *ep, const void *buf, std::size_t len, std::uint64_t data,
				  fi_addr_t dest, std::uint64_t addr, std::uint64_t key) noexcept
	{
		Message message =
			rma_message(TREADLE_OP_WRITE, buf, len, dest, addr, key, ep->fid.context);
		message.data = data;
		return P::of(ep).template inject<Kind>(message, TREADLE_F_REMOTE_CQ_DATA);
	}
};

} // namespace

CommandOrError command_of(std::uint8_t opcode, const fi_msg_rma &msg) noexcept
{
	const Buffers buffers(msg.msg_iov, msg.iov_count);
	const Ranges ranges(msg.rma_iov, msg.rma_iov_count);

	if (buffers.too_many() || ranges.too_many() || !msg.rma_iov_count)
		return std::unexpected(
			REFUSE(-FI_EINVAL, FI_LOG_EP_DATA,
			       "%s: %zu buffers and %zu remote ranges, not up to %d and %d",
			       name_of(opcode), msg.iov_count, msg.rma_iov_count, TREADLE_MAX_IOV,
			       TREADLE_MAX_RMA_IOV));
	if (total(buffers.span()) != total(ranges.span()))
		return std::unexpected(REFUSE(
			-FI_EINVAL, FI_LOG_EP_DATA, "%s: %" PRIu64 " bytes here, %" PRIu64 " there",
			name_of(opcode), total(buffers.span()), total(ranges.span())));
	Command command = opcode == TREADLE_OP_READ ? Command::read({}, Peer{msg.addr}, {}) :
						      Command::write({}, Peer{msg.addr}, {});
	return command.buffers(buffers.span())
		.ranges(ranges.span())
		.context(address_of(msg.context));
}

void choose_calls(fi_ops_rma &ops, bool serialized, Calls read, Calls write, Words words) noexcept
{
	ops.size = sizeof(ops);
	choose<RmaCalls>(serialized, read, [&]<class C>(C) {
		ops.read = C::read;
		ops.readv = C::readv;
		ops.readmsg = C::readmsg;
	});
	choose<RmaCalls>(serialized, write, [&]<class C>(C) {
		ops.write = C::write;
		ops.writev = C::writev;
		ops.writemsg = C::writemsg;
		ops.inject = C::inject;
		ops.writedata = C::writedata;
		ops.injectdata = C::injectdata;
	});
	using Plain = RmaCalls<NoLock, Way::plain>;
	if (words != Words::none && read == Calls::plain)
		ops.read =
			words == Words::reported ? Plain::read_word<true> : Plain::read_word<false>;
	if (words != Words::none && write == Calls::plain) {
		ops.write = words == Words::reported ? Plain::write_word<true> :
						       Plain::write_word<false>;
		ops.inject = Plain::inject_word;
	}
}

} // namespace treadle::fi
