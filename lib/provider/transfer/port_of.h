// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_PORT_OF_H
#define TREADLE_PROVIDER_PORT_OF_H

#include <tuple>
#include <type_traits>

#include <sys/uio.h>

#include <treadle/receive_ring.h>
#include <treadle/transmit_ring.h>

#include "base/buffers.h"
#include "endpoint/port.h"
#include "transfer/call_tables.h"
#include "transfer/commands.h"
#include "transfer/direct.h"
#include "transfer/refusals.h"
#include "transfer/rings_of.h"
#include "transfer/trigger.h"

namespace treadle::fi
{

/* All variants of all transfers end here: each is one transmit or one receive. */
template <class Lock> class PortOf final : public Port
{
public:
	PortOf(std::shared_ptr<Endpoint> endpoint, void *context)
		: Port(std::move(endpoint), context)
	{
	}

	static PortOf &of(fid_ep *ep) noexcept { return static_cast<PortOf &>(Port::of(ep)); }

	/*
	 * Executes the usual RMA or atomic on a word itself: see Direct. False: it has to be
	 * posted. For functions of their own, which then jump to the plain call with the same
	 * arguments, so that nothing costs more where there are no windows.
	 */
	template <std::uint8_t Opcode, bool Reported, class... What>
	[[gnu::always_inline]] bool execute_word(std::uint64_t len, void *context,
						 const What &...what) noexcept
	{
		return len == 8 &&
		       direct_->execute_word<Opcode, Reported>(*tx_, address_of(context), what...);
	}

	/*
	 * The same for the usual message of a lane: see LaneSender::send_here. False: transmit, or
	 * inject, has to follow at once.
	 */
	[[gnu::always_inline]] bool send_word(Message message) noexcept
	{
		message.flags = tx_flags_;
		return lanes_out_->send_here<true>(*tx_, message);
	}
	[[gnu::always_inline]] bool inject_word(Message message) noexcept
	{
		message.flags = inject_flags_;
		return lanes_out_->send_here<true>(*tx_, message);
	}
	/* The same for the usual receive: see LaneReceiver::post_here. */
	[[gnu::always_inline]] bool receive_here(Message message) noexcept
	{
		message.flags = rx_flags_;
		message.peer |= any_source_.load(std::memory_order_relaxed);
		return !wraps(message.addr, message.len) && lanes_in_->post_here(message);
	}

	/* Transmits one buffer with the port's default flags, and perhaps further TREADLE_F_*. */
	template <Way Kind>
	[[gnu::always_inline]] ssize_t transmit(Message message, std::uint64_t flags = 0,
						std::uint32_t desc_flags = 0) noexcept
	{
		if constexpr (Kind == Way::special)
			return transmit_as(message, tx_op_flags_ | flags);
		message.flags = tx_flags_ | desc_flags;
		if (message.opcode == TREADLE_OP_READ)
			message.flags &= ~TREADLE_F_INJECT;
		return sent(post_plain<Kind>(message), message.opcode);
	}
	template <Way Kind> ssize_t receive(Message message) noexcept
	{
		/* a tagged receive takes one message, whatever the flags */
		if constexpr (Kind == Way::special)
			return receive_as(message, rx_op_flags_ & receive_flags(message.opcode));
		return receive_plain<Kind>(message, rx_flags_);
	}

	/* The buffer is free at return, and a success is not reported. */
	template <Way Kind>
	[[gnu::always_inline]] ssize_t inject(Message message,
					      std::uint32_t desc_flags = 0) noexcept
	{
		message.flags = inject_flags_ | desc_flags;
		if constexpr (Kind == Way::special)
			return sent(post(message), message.opcode);
		return sent(post_plain<Kind>(message), message.opcode);
	}

	/* The same for atomics. */
	template <Way Kind>
	[[gnu::always_inline]] ssize_t transmit(Message message, const Atomic &atomic) noexcept
	{
		if constexpr (Kind == Way::special)
			return transmit(message, atomic, tx_op_flags_);
		message.flags = tx_flags_;
		return sent(post_plain(message, atomic), message.opcode);
	}
	template <Way Kind>
	[[gnu::always_inline]] ssize_t inject(Message message, const Atomic &atomic) noexcept
	{
		message.flags = inject_flags_;
		if constexpr (Kind == Way::special) {
			Command command = command_of(message, atomic);
			if (shares_tx_)
				command.on(endpoint_->id());
			return sent(negative(tx_->post(command)), message.opcode);
		}
		return sent(post_plain(message, atomic), message.opcode);
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
			       (~transmit_flags(opcode) | absent_levels_ | FI_TRIGGER) ||
		       shares_tx_;
	}
	template <Way Kind = Way::plain>
	[[gnu::always_inline]] ssize_t transmit_plain(Message message, std::uint64_t given) noexcept
	{
		const std::uint64_t flags = flags_for(message.opcode, given);

		message.flags = tx_desc_flags(flags);
		if (!(flags & FI_REMOTE_CQ_DATA))
			message.data = 0;
		return sent(post_plain<Kind>(message), message.opcode);
	}
	[[gnu::always_inline]] ssize_t transmit_plain(Message message, const Atomic &atomic,
						      std::uint64_t flags) noexcept
	{
		message.flags = tx_desc_flags(flags);
		return sent(post_plain(message, atomic), message.opcode);
	}

	/* Transmits a command that only lacks flags. data: for FI_REMOTE_CQ_DATA */
	ssize_t transmit(Command &command, std::uint64_t given, std::uint64_t data = 0) noexcept
	{
		const std::uint8_t opcode = command.desc().opcode;
		const std::uint64_t flags = flags_for(opcode, given);
		const std::uint64_t unknown = flags & ~(transmit_flags(opcode) & ~absent_levels_);

		if (unknown) [[unlikely]]
			return refused(flags_refused(unknown, name_of(opcode)));
		command.flags(tx_desc_flags(flags));
		if (flags & FI_REMOTE_CQ_DATA)
			command.data(data);
		if (flags & FI_TRIGGER || shares_tx_)
			command.on(endpoint_->id());
		const auto post = [&] {
			if (command.desc().flags & TREADLE_F_COND_CELL && tx_->polled())
				[[unlikely]]
				return submit_triggered(command);
			return post_behind(opcode, command.desc().peer, command.slots(), command);
		};
		return sent(flags & FI_TRIGGER ? post_triggered(command, *endpoint_, post) : post(),
			    opcode);
	}
	ssize_t transmit(CommandOrError &&command, std::uint64_t flags,
			 std::uint64_t data = 0) noexcept
	{
		return command ? transmit(*command, flags, data) : refused(command.error());
	}

	/* Any buffers and any flags. */
	template <Way Kind = Way::plain>
	[[gnu::always_inline]] ssize_t transmit(Message message, const iovec *iov,
						std::size_t count, std::uint64_t flags) noexcept
	{
		if (count != 1 || !iov || needs_command(message.opcode, flags)) [[unlikely]]
			return transmit_vector(message, iov, count, flags);
		message.addr = address_of(iov->iov_base);
		message.len = iov->iov_len;
		return transmit_plain<Kind>(message, flags);
	}
	template <Way Kind>
	[[gnu::always_inline]] ssize_t receive(Message message, const iovec *iov, std::size_t count,
					       std::uint64_t flags) noexcept
	{
		if (count != 1 || !iov || flags & ~(FI_COMPLETION | FI_MORE)) [[unlikely]]
			return receive_vector(message, iov, count, flags);
		message.addr = address_of(iov->iov_base);
		message.len = iov->iov_len;
		return receive_plain<Kind>(message,
					   desc_flags_of(flags & FI_COMPLETION) | rx_always_);
	}

	std::uint64_t rx_op_flags() const noexcept { return rx_op_flags_; }

	/*
	 * The rest of a batch is not posted after a refusal, so what FI_MORE put off starts now
	 * (fi_msg(3) of 2.6). If it can't start yet, the next doorbell covers it.
	 */
	ssize_t refused(ssize_t error) noexcept
	{
		std::ignore = tx_->flush();
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
	template <Way Kind>
	[[gnu::always_inline]] ssize_t receive_plain(Message message,
						     std::uint32_t desc_flags) noexcept
	{
		if (wraps(message.addr, message.len)) [[unlikely]]
			return length_refused(name_of(message.opcode));
		message.flags = desc_flags;
		message.peer |= any_source_.load(std::memory_order_relaxed);
		if (Kind == Way::plain || !lanes_in_)
			return finish(negative(rx_->post(message)), message.opcode);
		return finish(lanes_in_->post(message), message.opcode);
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
		return sent(post_behind(message.opcode, message.peer, 2, message,
					buffers.span()...),
			    message.opcode);
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
				return no_receiver(name_of(message.opcode));
			if (lanes_in_ && flags & peek_flags) {
				const treadle_iov one{message.addr, message.len};
				const int rc = peek_lanes(message, one, buffers...);
				if (rc != LaneReceiver<Lock>::by_kernel)
					return finish(rc, message.opcode);
			}
			Command command = command_of(message).on(id);
			const auto post = [&] { return submit_triggered(command); };
			(command.buffers(buffers.span()), ...);
			return finish(flags & FI_TRIGGER ?
					      post_triggered(command, *endpoint_, post) :
					      submit(command),
				      message.opcode);
		}
		if (lanes_in_) [[unlikely]] {
			const treadle_iov one{message.addr, message.len};
			return finish(post_lanes(message, one, buffers...), message.opcode);
		}
		return finish(negative(rx_->post(message, buffers.span()...)), message.opcode);
	}

	int peek_lanes(const Message &message, const treadle_iov &one) noexcept
	{
		return lanes_in_->peek(message, {&one, 1});
	}
	int peek_lanes(const Message &message, const treadle_iov &, const Buffers &all) noexcept
	{
		return lanes_in_->peek(message, all.span());
	}
	int post_lanes(const Message &message, const treadle_iov &one) noexcept
	{
		return lanes_in_->post(message, {&one, 1});
	}
	int post_lanes(const Message &message, const treadle_iov &, const Buffers &all) noexcept
	{
		return lanes_in_->post(message, all.span());
	}

	/* Posts to the endpoint's own ring. RMA and atomics go through a window if there is one. */
	template <Way Kind> [[gnu::always_inline]] int post_plain(const Message &message) noexcept
	{
		if (message.opcode != TREADLE_OP_READ && message.opcode != TREADLE_OP_WRITE) {
			if (Kind == Way::plain || !lanes_out_)
				return negative(tx_->post(message));
			const std::lock_guard guard(*tx_);
			if (lanes_out_->send_here<false>(*tx_, message)) [[likely]]
				return 0;
			return send_locked(copy_of(message));
		}
		const std::lock_guard guard(*tx_);
		if (direct_ && direct_->looks() &&
		    direct_->execute(*tx_, message.opcode, message.flags, message.context,
				     message.addr, message.len, message.peer, message.tag,
				     message.ignore))
			return 0;
		return negative(tx_->post_locked(message));
	}
	[[gnu::always_inline]] int post_plain(const Message &message, const Atomic &atomic) noexcept
	{
		const std::lock_guard guard(*tx_);
		if (direct_ && direct_->looks() &&
		    direct_->execute(*tx_, message.flags, message.peer, message.ignore,
				     {.opcode = message.opcode,
				      .op = atomic.op,
				      .type = atomic.type,
				      .reported = !!(message.flags & TREADLE_F_COMPLETION),
				      .context = message.context,
				      .at = message.tag,
				      .len = message.len,
				      .operand = message.addr,
				      .compare = atomic.compare,
				      .result = atomic.result}))
			return 0;
		return negative(tx_->post_locked(message, atomic));
	}
	/* By fields: so the caller's own message stays in registers. */
	[[gnu::always_inline]] static Message copy_of(const Message &message) noexcept
	{
		return {.opcode = message.opcode,
			.flags = message.flags,
			.context = message.context,
			.addr = message.addr,
			.len = message.len,
			.peer = message.peer,
			.tag = message.tag,
			.ignore = message.ignore,
			.data = message.data};
	}
	/* By a lane if there is one. The transmit ring must be locked. */
	[[gnu::noinline]] int send_locked(const Message &message) noexcept
	{
		const int rc = lanes_out_->send(*tx_, message);

		return rc == LaneSender::by_ring ? negative(tx_->post_locked(message)) : rc;
	}
	/* Something that is no plain message: what lies in a lane goes first. */
	template <class... What>
	int post_behind(std::uint8_t opcode, std::uint64_t peer, std::uint32_t slots,
			const What &...what) noexcept
	{
		if (!lanes_out_ || !LaneSender::is_send(opcode)) [[likely]]
			return negative(tx_->post(what...));
		const std::lock_guard guard(*tx_);
		const int rc = lanes_out_->make_way(*tx_, peer, slots);

		return rc == LaneSender::by_ring ? negative(tx_->post_any_locked(what...)) : rc;
	}
	/*
	 * Triggered, and not through the endpoint's ring: a refusal is an error of the call, so a
	 * trigger cell can be given back. What was triggered before is armed before.
	 */
	[[gnu::noinline]] int submit_triggered(const Command &command) noexcept
	{
		endpoint_->take_polled();
		return submit(command);
	}
	int submit(const Command &command) noexcept
	{
		return negative(endpoint_->domain().kernel().submit(command));
	}
	/* Posts to a ring that may be shared. */
	int post(const Message &message) noexcept
	{
		if (lanes_out_ && LaneSender::is_send(message.opcode)) {
			const std::lock_guard guard(*tx_);
			return send_locked(message);
		}
		return negative(shares_tx_ ? tx_->post(command_of(message).on(endpoint_->id())) :
					     tx_->post(message));
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
		auto &rings = static_cast<RingsOf<Lock> &>(endpoint_->rings());

		tx_ = rings.tx();
		rx_ = rings.rx();
		direct_ = rings.direct();
		lanes_out_ = rings.lanes_out();
		lanes_in_ = rings.lanes_in();
	}
	void choose_transfers() noexcept override
	{
		constexpr bool serialized = std::is_same_v<Lock, NoLock>;
		const bool simple =
			serialized && direct_ && Direct::simple(tx_flags_ | inject_flags_);
		const auto reports =
			tx_flags_ & TREADLE_F_COMPLETION ? Words::reported : Words::silent;
		const auto words = simple ? reports : Words::none;
		const Lanes lanes{.out = lanes_out_ != nullptr, .in = lanes_in_ != nullptr};

		choose_calls(msg_ops_, serialized, tx_calls(FI_MSG | FI_SEND),
			     rx_calls(FI_MSG | FI_RECV), lanes);
		choose_calls(tagged_ops_, serialized, tx_calls(FI_TAGGED | FI_SEND),
			     rx_calls(FI_TAGGED | FI_RECV), lanes);
		choose_calls(rma_ops_, serialized, tx_calls(FI_RMA | FI_READ),
			     tx_calls(FI_RMA | FI_WRITE), words);
		choose_calls(atomic_ops_, serialized, tx_calls(FI_ATOMIC | FI_WRITE),
			     tx_calls(FI_ATOMIC | FI_READ), endpoint_->tx_caps() & FI_ATOMIC,
			     words);
	}

	BasicTransmitRing<Lock> *tx_ = nullptr;
	BasicReceiveRing<Lock> *rx_ = nullptr;
	Direct *direct_ = nullptr;
	LaneSender *lanes_out_ = nullptr;
	LaneReceiver<Lock> *lanes_in_ = nullptr;
};

} // namespace treadle::fi

#endif
