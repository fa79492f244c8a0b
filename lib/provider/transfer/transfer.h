// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_TRANSFER_H
#define TREADLE_PROVIDER_TRANSFER_H

#include <array>
#include <optional>
#include <span>

#include <sys/uio.h>

#include <treadle/receive_ring.h>
#include <treadle/transmit_ring.h>

#include "base/buffers.h"
#include "endpoint/endpoint.h"
#include "endpoint/stx.h"
#include "transfer/trigger.h"

/* All variants of all transfers end here: each is one transmit or one receive. */
namespace treadle::fi
{

constexpr bool is_atomic(std::uint8_t opcode) noexcept
{
	return opcode == TREADLE_OP_ATOMIC || opcode == TREADLE_OP_FETCH ||
	       opcode == TREADLE_OP_COMPARE;
}

/* Flags that a call may have besides the defaults of its endpoint. */
constexpr std::uint64_t transmit_flags(std::uint8_t opcode) noexcept
{
	return tx_op_flags | FI_MORE | (is_atomic(opcode) ? 0 : FI_REMOTE_CQ_DATA);
}
inline constexpr std::uint64_t peek_flags = FI_PEEK | FI_CLAIM | FI_DISCARD;
constexpr std::uint64_t receive_flags(std::uint8_t opcode) noexcept
{
	return (rx_op_flags & ~FI_MULTI_RECV) | FI_MORE |
	       (opcode == TREADLE_OP_RECV ? FI_MULTI_RECV : peek_flags);
}

/* Rare flags of an operation as descriptor flags. */
constexpr std::uint32_t rare_desc_flags_of(std::uint64_t flags) noexcept
{
	const auto when = [flags](std::uint64_t flag, std::uint32_t desc_flag) {
		return flags & flag ? desc_flag : 0;
	};

	/* FI_INJECT: the doorbell copies the buffer, so it can't be put off */
	return (flags & FI_INJECT ? 0 : when(FI_MORE, TREADLE_F_MORE)) |
	       when(FI_FENCE, TREADLE_F_FENCE) | when(FI_REMOTE_CQ_DATA, TREADLE_F_REMOTE_CQ_DATA) |
	       when(FI_MATCH_COMPLETE, TREADLE_F_DELIVERY_COMPLETE) |
	       when(FI_MULTI_RECV, TREADLE_F_MULTI_RECV) | when(FI_PEEK, TREADLE_F_PEEK) |
	       when(FI_CLAIM, TREADLE_F_CLAIM) | when(FI_DISCARD, TREADLE_F_DISCARD);
}

/* Flags of an operation as descriptor flags: one shift for each usual flag. */
constexpr std::uint32_t desc_flags_of(std::uint64_t flags) noexcept
{
	constexpr std::uint64_t usual = FI_COMPLETION | FI_INJECT | FI_DELIVERY_COMPLETE;
	constexpr std::uint64_t silent = FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;
	const auto when = [flags](std::uint64_t flag, std::uint32_t desc_flag) {
		return static_cast<std::uint32_t>((flags & flag) / (flag / desc_flag));
	};
	const std::uint32_t desc_flags = when(FI_COMPLETION, TREADLE_F_COMPLETION) |
					 when(FI_INJECT, TREADLE_F_INJECT) |
					 when(FI_DELIVERY_COMPLETE, TREADLE_F_DELIVERY_COMPLETE);

	if (!(flags & ~(usual | silent))) [[likely]]
		return desc_flags;
	return desc_flags | rare_desc_flags_of(flags);
}

inline std::uint32_t Port::tx_desc_flags(std::uint64_t flags) const noexcept
{
	return desc_flags_of(flags) | tx_always_;
}

/* The flags that have a meaning for the operation: a read is never injected. */
constexpr std::uint64_t flags_for(std::uint8_t opcode, std::uint64_t flags) noexcept
{
	return opcode == TREADLE_OP_READ ? flags & ~(FI_INJECT | FI_REMOTE_CQ_DATA) : flags;
}

/* What RMA and atomics share. */
inline Message rma_message(std::uint8_t opcode, const void *buf, std::size_t len, fi_addr_t peer,
			   std::uint64_t addr, std::uint64_t key, const void *context) noexcept
{
	return {.opcode = opcode,
		.context = address_of(context),
		.addr = address_of(buf),
		.len = len,
		.peer = peer,
		.tag = addr,
		.ignore = key};
}

/* Makes a command of an atomic (fi_atomic.cpp). */
Command command_of(const Message &message, const Atomic &atomic) noexcept;

/*
 * Make commands without flags of a call with a structure, or return an error (fi_rma.cpp,
 * fi_atomic.cpp).
 */
CommandOrError command_of(std::uint8_t opcode, const fi_msg_rma &msg) noexcept;
CommandOrError command_of(std::uint8_t opcode, const fi_msg_atomic &msg,
			  const fi_msg_fetch &results = {},
			  const fi_msg_compare &compares = {}) noexcept;

/* flags: FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC, or neither. Fills in the answer of fi_query_atomic. */
int query_atomic(const Domain &domain, int datatype, int op, fi_atomic_attr &attr,
		 std::uint64_t flags) noexcept;

/*
 * Does the range wrap around? The kernel looks at a receive only when a message matches it, so an
 * impossible one is refused when it is posted.
 */
constexpr bool wraps(std::uint64_t addr, std::uint64_t len) noexcept
{
	return addr + len < addr;
}
bool wraps(std::span<const treadle_iov> buffers) noexcept;
ssize_t length_refused(const char *what) noexcept;

/* Converts the error of a post and logs it, unless the caller only has to try again later. */
ssize_t posting_failed(int error, const char *what) noexcept;
ssize_t flags_refused(std::uint64_t flags, const char *what) noexcept;
/* Refuses an armed receive or a peek at a shared context to which no endpoint is bound. */
int nobody_receives(const char *what) noexcept;
const char *name_of(std::uint8_t opcode) noexcept;

template <class Lock> class PortOf;

template <class Lock> class EndpointOf final : public Endpoint
{
public:
	EndpointOf(Domain &domain, InfoPtr info, std::optional<treadle::Endpoint> kernel)
		: Endpoint(domain, std::move(info), std::move(kernel))
	{
	}
	~EndpointOf() override
	{
		leave_shared_rx();
		groups.close();
		if (direct_)
			direct_->close();
		if (kernel_)
			kernel_->close();
	}

	BasicTransmitRing<Lock> *tx() noexcept
	{
		if (shared_tx_)
			return shared_tx_->ring<Lock>();
		return tx_ ? &*tx_ : nullptr;
	}
	BasicReceiveRing<Lock> *rx() noexcept { return rx_ ? &*rx_ : nullptr; }

	void flush() noexcept override
	{
		if (auto *ring = tx())
			static_cast<void>(ring->flush());
	}
	ssize_t tx_room() noexcept override
	{
		const ssize_t left =
			enabled() ? room(tx(), most_slots(tx_caps())) : -FI_EOPBADSTATE;
		return tx_cq_ ? std::min(left, ssize_t{tx_cq_->room()}) : left;
	}
	ssize_t rx_room() noexcept override
	{
		return enabled() ? room(rx(), most_slots(0)) : -FI_EOPBADSTATE;
	}

private:
	/*
	 * Slots of the largest operation: one, and one for each vector of buffers, ranges, results
	 * and comparands.
	 */
	static constexpr std::uint32_t most_slots(std::uint64_t caps) noexcept
	{
		if (caps & FI_ATOMIC && caps & FI_READ)
			return 5;
		return caps & (FI_RMA | FI_ATOMIC) ? 3 : 2;
	}
	/* A lower bound of the operations that fit. 0 without a ring of its own. */
	static ssize_t room(auto *ring, std::uint32_t slots) noexcept
	{
		return ring ? ssize_t{ring->room() / slots} : 0;
	}
	int make_rings(Bindings &bindings) override;
	Port *new_port(std::shared_ptr<Endpoint> self, void *context) override
	{
		return new PortOf<Lock>(std::move(self), context);
	}

	std::optional<BasicTransmitRing<Lock>> tx_;
	std::optional<BasicReceiveRing<Lock>> rx_;
};

template <class Lock> int EndpointOf<Lock>::make_rings(Bindings &bindings)
{
	const Context &context = domain().kernel();

	if (tx_caps() && !shares_tx()) {
		auto ring = BasicTransmitRing<Lock>::create(context, info().tx_attr->size);
		if (!ring)
			return ring.error().negative();
		bindings.tx = tx_.emplace(std::move(*ring)).id();
	}
	if (has_messages() && !shares_rx()) {
		auto ring = BasicReceiveRing<Lock>::create(context, info().rx_attr->size,
							   info().rx_attr->total_buffered_recv,
							   is_shared_rx() ? TREADLE_RX_SHARED : 0);
		if (!ring)
			return ring.error().negative();
		bindings.rx = rx_.emplace(std::move(*ring)).id();
	}
	return 0;
}

template <class Lock> class PortOf final : public Port
{
public:
	PortOf(std::shared_ptr<Endpoint> endpoint, void *context)
		: Port(std::move(endpoint), context)
	{
	}

	static PortOf &of(fid_ep *ep) noexcept { return static_cast<PortOf &>(Port::of(ep)); }

	/* Transmits one buffer with the port's default flags, and perhaps further TREADLE_F_*. */
	template <bool Special>
	ssize_t transmit(Message message, std::uint64_t flags = 0,
			 std::uint32_t desc_flags = 0) noexcept
	{
		if constexpr (Special)
			return transmit_as(message, tx_op_flags_ | flags);
		message.flags = tx_flags_ | desc_flags;
		if (message.opcode == TREADLE_OP_READ)
			message.flags &= ~TREADLE_F_INJECT;
		return sent(tx_->post(message), message.opcode);
	}
	template <bool Special> ssize_t receive(Message message) noexcept
	{
		if constexpr (Special) /* a tagged receive takes one message, whatever the flags */
			return receive_as(message, rx_op_flags_ & receive_flags(message.opcode));
		return receive_plain(message, rx_flags_);
	}

	/* The buffer is free at return, and a success is not reported. */
	template <bool Special>
	ssize_t inject(Message message, std::uint32_t desc_flags = 0) noexcept
	{
		message.flags = inject_flags_ | desc_flags;
		if constexpr (Special)
			return sent(post(message), message.opcode);
		return sent(tx_->post(message), message.opcode);
	}

	/* The same for atomics. */
	template <bool Special> ssize_t transmit(Message message, const Atomic &atomic) noexcept
	{
		if constexpr (Special)
			return transmit(message, atomic, tx_op_flags_);
		message.flags = tx_flags_;
		return sent(tx_->post(message, atomic), message.opcode);
	}
	template <bool Special> ssize_t inject(Message message, const Atomic &atomic) noexcept
	{
		message.flags = inject_flags_;
		if constexpr (Special) {
			Command command = command_of(message, atomic);
			if (shares_tx_)
				command.on(endpoint_->id());
			return sent(tx_->post(command), message.opcode);
		}
		return sent(tx_->post(message, atomic), message.opcode);
	}

	/* The same with any flags. */
	ssize_t transmit(Message message, const Atomic &atomic, std::uint64_t flags) noexcept
	{
		if (needs_command(message.opcode, flags)) [[unlikely]]
			return transmit_command(message, flags, atomic);
		return transmit_plain(message, atomic, flags);
	}

	/*
	 * Must the operation name its endpoint or have a condition? Also true if its flags will be
	 * refused. Otherwise an operation with one buffer is a plain message.
	 *
	 * A caller builds the message itself once it knows this: passing it to other functions
	 * would keep it in memory.
	 */
	bool needs_command(std::uint8_t opcode, std::uint64_t flags) const noexcept
	{
		return flags_for(opcode, flags) &
			       (~transmit_flags(opcode) | unheard_ | FI_TRIGGER) ||
		       shares_tx_;
	}
	[[gnu::always_inline]] ssize_t transmit_plain(Message message, std::uint64_t given) noexcept
	{
		const std::uint64_t flags = flags_for(message.opcode, given);

		message.flags = tx_desc_flags(flags);
		if (!(flags & FI_REMOTE_CQ_DATA))
			message.data = 0;
		return sent(tx_->post(message), message.opcode);
	}
	[[gnu::always_inline]] ssize_t transmit_plain(Message message, const Atomic &atomic,
						      std::uint64_t flags) noexcept
	{
		message.flags = tx_desc_flags(flags);
		return sent(tx_->post(message, atomic), message.opcode);
	}

	/* Transmits a command that only lacks flags. data: for FI_REMOTE_CQ_DATA */
	ssize_t transmit(Command &command, std::uint64_t given, std::uint64_t data = 0) noexcept
	{
		const std::uint8_t opcode = command.desc().opcode;
		const std::uint64_t flags = flags_for(opcode, given);
		const std::uint64_t unknown = flags & ~(transmit_flags(opcode) & ~unheard_);

		if (unknown) [[unlikely]]
			return refused(flags_refused(unknown, name_of(opcode)));
		command.flags(tx_desc_flags(flags));
		if (flags & FI_REMOTE_CQ_DATA)
			command.data(data);
		if (flags & FI_TRIGGER || shares_tx_)
			command.on(endpoint_->id());
		const auto post = [&] { return tx_->post(command); };
		return sent(flags & FI_TRIGGER ? post_triggered(command, *endpoint_, post) : post(),
			    opcode);
	}
	ssize_t transmit(CommandOrError &&command, std::uint64_t flags,
			 std::uint64_t data = 0) noexcept
	{
		return command ? transmit(*command, flags, data) : refused(command.error());
	}

	/* Any buffers and any flags. */
	[[gnu::always_inline]] ssize_t transmit(Message message, const iovec *iov,
						std::size_t count, std::uint64_t flags) noexcept
	{
		if (count != 1 || !iov || needs_command(message.opcode, flags)) [[unlikely]]
			return transmit_vector(message, iov, count, flags);
		message.addr = address_of(iov->iov_base);
		message.len = iov->iov_len;
		return transmit_plain(message, flags);
	}
	[[gnu::always_inline]] ssize_t receive(Message message, const iovec *iov, std::size_t count,
					       std::uint64_t flags) noexcept
	{
		if (count != 1 || !iov || flags & ~(FI_COMPLETION | FI_MORE)) [[unlikely]]
			return receive_vector(message, iov, count, flags);
		message.addr = address_of(iov->iov_base);
		message.len = iov->iov_len;
		return receive_plain(message, desc_flags_of(flags & FI_COMPLETION) | rx_always_);
	}

	std::uint64_t rx_op_flags() const noexcept { return rx_op_flags_; }

	/*
	 * The rest of a batch is not posted after a refusal, so what FI_MORE put off starts now
	 * (fi_msg(3) of 2.6). If it can't start yet, the next doorbell covers it.
	 */
	ssize_t refused(ssize_t error) noexcept
	{
		static_cast<void>(tx_->flush());
		return error;
	}

private:
	/* Not inlined, because a command is large. Arguments by value: see needs_command(). */
	[[gnu::noinline]] ssize_t transmit_command(Message message, std::uint64_t flags,
						   Atomic atomic) noexcept
	{
		Command command = command_of(message, atomic);
		return transmit(command, flags);
	}
	template <class... B>
	[[gnu::noinline]] ssize_t transmit_command(Message message, std::uint64_t flags,
						   const B &...buffers) noexcept
	{
		Command command = command_of(message);
		(command.buffers(buffers.span()), ...);
		return transmit(command, flags, message.data);
	}

	[[gnu::noinline]] ssize_t transmit_vector(Message message, const iovec *iov,
						  std::size_t count, std::uint64_t flags) noexcept
	{
		if (count == 1 && iov) {
			message.addr = address_of(iov->iov_base);
			message.len = iov->iov_len;
			return transmit_as(message, flags);
		}
		return transmit_as(message, flags, Buffers(iov, count));
	}
	[[gnu::noinline]] ssize_t receive_vector(Message message, const iovec *iov,
						 std::size_t count, std::uint64_t flags) noexcept
	{
		if (count == 1 && iov) {
			message.addr = address_of(iov->iov_base);
			message.len = iov->iov_len;
			return receive_as(message, flags);
		}
		return receive_as(message, flags, Buffers(iov, count));
	}
	[[gnu::always_inline]] ssize_t receive_plain(Message message,
						     std::uint32_t desc_flags) noexcept
	{
		if (wraps(message.addr, message.len)) [[unlikely]]
			return length_refused(name_of(message.opcode));
		message.flags = desc_flags;
		message.peer |= any_source_.load(std::memory_order_relaxed);
		return finish(rx_->post(message), message.opcode);
	}
	template <class... B>
	[[gnu::always_inline]] ssize_t transmit_as(Message message, std::uint64_t given,
						   const B &...buffers) noexcept
	{
		const std::uint64_t flags = flags_for(message.opcode, given);

		if ((buffers.too_many() || ...)) [[unlikely]]
			return refused(flags_refused(0, name_of(message.opcode)));
		if (needs_command(message.opcode, flags)) [[unlikely]]
			return transmit_command(message, flags, buffers...);
		message.flags = tx_desc_flags(flags);
		if (!(flags & FI_REMOTE_CQ_DATA))
			message.data = 0;
		return sent(tx_->post(message, buffers.span()...), message.opcode);
	}
	template <class... B>
	ssize_t receive_as(Message message, std::uint64_t flags, const B &...buffers) noexcept
	{
		const std::uint64_t unknown = flags & ~receive_flags(message.opcode);

		if (unknown || (buffers.too_many() || ...)) [[unlikely]]
			return flags_refused(unknown, name_of(message.opcode));
		if (sizeof...(buffers) ? (wraps(buffers.span()) || ...) :
					 wraps(message.addr, message.len)) [[unlikely]]
			return length_refused(name_of(message.opcode));
		message.flags = rx_desc_flags(flags);
		message.peer |= any_source_.load(std::memory_order_relaxed);
		if (flags & FI_MULTI_RECV) {
			if (sizeof...(buffers))
				return REFUSE(-FI_EINVAL, FI_LOG_EP_DATA,
					      "recv: FI_MULTI_RECV is for one buffer");
			message.data = endpoint_->min_multi_recv();
		}
		if (flags & FI_PEEK) {
			if (!endpoint_->queues_rx())
				return REFUSE(-FI_ENOCQ, FI_LOG_EP_DATA,
					      "trecvmsg: FI_PEEK without a completion queue");
			/* its completion is all that a peek is for */
			message.flags |= TREADLE_F_COMPLETION;
		}
		if (flags & (FI_TRIGGER | peek_flags)) {
			/*
			 * A receive ring holds only receives that are ready and may wait, so this
			 * one is submitted.
			 */
			const EndpointId id = endpoint_->id();
			if (id == EndpointId{})
				return nobody_receives(name_of(message.opcode));
			Command command = command_of(message).on(id);
			const auto post = [&] {
				return endpoint_->domain().kernel().submit(command);
			};
			(command.buffers(buffers.span()), ...);
			return finish(flags & FI_TRIGGER ?
					      post_triggered(command, *endpoint_, post) :
					      post(),
				      message.opcode);
		}
		return finish(rx_->post(message, buffers.span()...), message.opcode);
	}

	/* Posts to a ring that may be shared. */
	int post(const Message &message) noexcept
	{
		return shares_tx_ ? tx_->post(command_of(message).on(endpoint_->id())) :
				    tx_->post(message);
	}

	static ssize_t finish(int rc, std::uint8_t opcode) noexcept
	{
		return rc ? posting_failed(rc, name_of(opcode)) : 0;
	}
	ssize_t sent(int rc, std::uint8_t opcode) noexcept
	{
		return rc ? refused(finish(rc, opcode)) : 0;
	}

	void attach() noexcept override
	{
		auto &endpoint = static_cast<EndpointOf<Lock> &>(*endpoint_);

		tx_ = endpoint.tx();
		rx_ = endpoint.rx();
	}

	BasicTransmitRing<Lock> *tx_ = nullptr;
	BasicReceiveRing<Lock> *rx_ = nullptr;
};

/* A class with members that refuse, for the calls of all tables. */
template <int Error> struct Refusing {
	static constexpr Refuses<Error> recv{}, recvv{}, recvmsg{};
	static constexpr Refuses<Error> send{}, sendv{}, sendmsg{}, inject{}, senddata{},
		injectdata{};
	static constexpr Refuses<Error> read{}, readv{}, readmsg{};
	static constexpr Refuses<Error> write{}, writev{}, writemsg{}, writedata{};
	static constexpr Refuses<Error> readwrite{}, readwritev{}, readwritemsg{};
	static constexpr Refuses<Error> compwrite{}, compwritev{}, compwritemsg{};
};

/* Calls fill(C); the functions of class C behave as `calls` says. */
template <template <class, bool> class Live, class Fill>
void choose(bool serialized, Calls calls, Fill &&fill) noexcept
{
	switch (calls) {
	case Calls::absent:
		return fill(Refusing<-FI_ENOSYS>());
	case Calls::disabled:
		return fill(Refusing<-FI_EOPBADSTATE>());
	case Calls::untold:
		return fill(Refusing<-FI_ENOCQ>());
	case Calls::plain:
		return serialized ? fill(Live<NoLock, false>()) : fill(Live<Mutex, false>());
	case Calls::special:
		return serialized ? fill(Live<NoLock, true>()) : fill(Live<Mutex, true>());
	}
}

/* The table of fi_msg(3) or fi_tagged(3). Their members have the same names. */
template <template <class, bool> class Live, class Ops>
void choose_for(Ops &ops, bool serialized, Calls tx, Calls rx) noexcept
{
	ops.size = sizeof(ops);
	choose<Live>(serialized, rx, [&]<class C>(C) {
		ops.recv = C::recv;
		ops.recvv = C::recvv;
		ops.recvmsg = C::recvmsg;
	});
	choose<Live>(serialized, tx, [&]<class C>(C) {
		ops.send = C::send;
		ops.sendv = C::sendv;
		ops.sendmsg = C::sendmsg;
		ops.inject = C::inject;
		ops.senddata = C::senddata;
		ops.injectdata = C::injectdata;
	});
}

} // namespace treadle::fi

#endif
