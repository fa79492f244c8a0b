// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "work/work.h"

#include <mutex>
#include <optional>

#include "base/buffers.h"
#include "endpoint/desc_flags.h"
#include "endpoint/endpoint.h"
#include "endpoint/port.h"
#include "notify/cntr.h"
#include "transfer/refusals.h"

namespace treadle::fi
{

namespace
{

/* The same for an fid_ep of any kind. */
Endpoint *endpoint_of(const Domain &domain, fid_ep *ep) noexcept
{
	Port *const known = Port::known(ep);

	return known && &known->endpoint().domain() == &domain ? &known->endpoint() : nullptr;
}

/* What all kinds of transfers have in common. */
struct Transfer {
	fid_ep *ep;
	std::uint64_t flags;
	void *context;
	bool receives;
};

template <class Op> Transfer transfer_of(const Op &op, bool receives = false) noexcept
{
	return {op.ep, op.flags, op.msg.context, receives};
}

std::optional<Transfer> transfer_of(const fi_deferred_work &work) noexcept
{
	switch (work.op_type) {
	case FI_OP_SEND:
		return transfer_of(*work.op.msg);
	case FI_OP_RECV:
		return transfer_of(*work.op.msg, true);
	case FI_OP_TSEND:
		return transfer_of(*work.op.tagged);
	case FI_OP_TRECV:
		return transfer_of(*work.op.tagged, true);
	case FI_OP_READ:
	case FI_OP_WRITE:
		return transfer_of(*work.op.rma);
	case FI_OP_ATOMIC:
		return transfer_of(*work.op.atomic);
	case FI_OP_FETCH_ATOMIC:
		return transfer_of(*work.op.fetch_atomic);
	case FI_OP_COMPARE_ATOMIC:
		return transfer_of(*work.op.compare_atomic);
	default:
		return std::nullopt;
	}
}

CommandOrError command_of(Message message, const iovec *iov, std::size_t count) noexcept
{
	const Buffers buffers(iov, count);

	if (buffers.too_many())
		return std::unexpected(static_cast<int>(flags_refused(0, "QUEUE_WORK")));
	return fi::command_of(message).buffers(buffers.span());
}

CommandOrError command_of(std::uint8_t opcode, const fi_msg &m) noexcept
{
	return command_of({.opcode = opcode, .peer = m.addr}, m.msg_iov, m.iov_count);
}

CommandOrError command_of(std::uint8_t opcode, const fi_msg_tagged &m) noexcept
{
	return command_of({.opcode = opcode, .peer = m.addr, .tag = m.tag, .ignore = m.ignore},
			  m.msg_iov, m.iov_count);
}

/* The transfer without flags. data: for FI_REMOTE_CQ_DATA. */
CommandOrError command_of(const fi_deferred_work &work, std::uint64_t &data) noexcept
{
	data = 0;
	switch (work.op_type) {
	case FI_OP_SEND:
		data = work.op.msg->msg.data;
		return command_of(TREADLE_OP_SEND, work.op.msg->msg);
	case FI_OP_RECV:
		return command_of(TREADLE_OP_RECV, work.op.msg->msg);
	case FI_OP_TSEND:
		data = work.op.tagged->msg.data;
		return command_of(TREADLE_OP_TSEND, work.op.tagged->msg);
	case FI_OP_TRECV:
		return command_of(TREADLE_OP_TRECV, work.op.tagged->msg);
	case FI_OP_READ:
		return fi::command_of(TREADLE_OP_READ, work.op.rma->msg);
	case FI_OP_WRITE:
		data = work.op.rma->msg.data;
		return fi::command_of(TREADLE_OP_WRITE, work.op.rma->msg);
	case FI_OP_ATOMIC:
		return fi::command_of(TREADLE_OP_ATOMIC, work.op.atomic->msg);
	case FI_OP_FETCH_ATOMIC:
		return fi::command_of(TREADLE_OP_FETCH, work.op.fetch_atomic->msg,
				      work.op.fetch_atomic->fetch);
	default:
		return fi::command_of(TREADLE_OP_COMPARE, work.op.compare_atomic->msg,
				      work.op.compare_atomic->fetch,
				      work.op.compare_atomic->compare);
	}
}

/* The capabilities that the endpoint needs for the work. */
std::uint64_t caps_for(const fi_deferred_work &work) noexcept
{
	switch (work.op_type) {
	/* any kind of message: programs queue tagged ones with FI_MSG alone */
	case FI_OP_SEND:
	case FI_OP_TSEND:
		return FI_SEND;
	case FI_OP_RECV:
	case FI_OP_TRECV:
		return FI_RECV;
	case FI_OP_READ:
		return FI_RMA | FI_READ;
	case FI_OP_WRITE:
		return FI_RMA | FI_WRITE;
	case FI_OP_ATOMIC:
		return FI_ATOMIC | FI_WRITE;
	default:
		return FI_ATOMIC | FI_READ;
	}
}

CommandOrError counter_command(const Domain &domain, const fi_deferred_work &work) noexcept
{
	const fi_op_cntr &op = *work.op.cntr;
	Cntr *target = Cntr::known(domain, op.cntr);

	if (!target)
		return std::unexpected(REFUSE(-FI_EINVAL, FI_LOG_DOMAIN,
					      "QUEUE_WORK: op.cntr is no counter of this domain"));
	if (const int rc = target->give_to_kernel())
		return std::unexpected(rc);
	return (work.op_type == FI_OP_CNTR_SET ? Command::set(target->id(), op.value) :
						 Command::add(target->id(), op.value))
		.work();
}

/* Returns 0, or -errno if the endpoint can't do the work. */
int check_endpoint(const Domain &domain, const fi_deferred_work &work, const Transfer &op) noexcept
{
	const std::uint64_t needed = caps_for(work);
	std::uint64_t known =
		transmit_flags(needed & FI_ATOMIC ? TREADLE_OP_ATOMIC : TREADLE_OP_SEND);
	if (op.receives)
		known = receive_flags(work.op_type == FI_OP_RECV ? TREADLE_OP_RECV :
								   TREADLE_OP_TRECV) &
			~peek_flags;

	const Endpoint *named = endpoint_of(domain, op.ep);
	if (!named)
		return REFUSE(-FI_EINVAL, FI_LOG_DOMAIN,
			      "QUEUE_WORK: ep is no endpoint of this domain");
	const Endpoint &endpoint = *named;
	if (!endpoint.enabled())
		return REFUSE(-FI_EOPBADSTATE, FI_LOG_DOMAIN,
			      "QUEUE_WORK: the endpoint is not enabled");
	if (op.receives && endpoint.shares_rx())
		return REFUSE(-FI_ENOSYS, FI_LOG_DOMAIN,
			      "QUEUE_WORK: receives of a shared context are queued there");
	if (!endpoint.can_trigger())
		return REFUSE(-FI_EINVAL, FI_LOG_DOMAIN,
			      "QUEUE_WORK: the endpoint was opened without FI_TRIGGER");
	const std::uint64_t missing =
		needed & ~(op.receives ? endpoint.rx_caps() : endpoint.tx_caps());
	if (missing)
		return REFUSE(-FI_ENOSYS, FI_LOG_DOMAIN,
			      "QUEUE_WORK: the endpoint has no %s for this",
			      Text(missing, FI_TYPE_CAPS).c_str());
	/* these mean something, but not later */
	const std::uint64_t at_once =
		op.receives ? (work.op_type == FI_OP_TRECV ? peek_flags : 0) : FI_COMMIT_COMPLETE;
	if (op.flags & ~known & ~at_once)
		return static_cast<int>(flags_refused(op.flags & ~known, "QUEUE_WORK"));
	if (op.flags & at_once)
		return REFUSE(-FI_ENOSYS, FI_LOG_DOMAIN, "QUEUE_WORK: %s can't be deferred",
			      Text(op.flags & at_once, FI_TYPE_OP_FLAGS).c_str());
	return endpoint.id() == EndpointId{} ? no_receiver("QUEUE_WORK") : 0;
}

CommandOrError transfer_command(const Domain &domain, const fi_deferred_work &work,
				const Transfer &op) noexcept
{
	std::uint64_t data;

	if (const int rc = check_endpoint(domain, work, op))
		return std::unexpected(rc);
	Endpoint &endpoint = *endpoint_of(domain, op.ep);
	auto command = command_of(work, data);
	if (!command)
		return command;

	const std::uint64_t flags = flags_for(command->desc().opcode, op.flags);
	command->flags(
		desc_flags_of(flags & (op.receives ? FI_COMPLETION | FI_MULTI_RECV : ~FI_MORE)));
	if (flags & FI_MULTI_RECV)
		command->several(endpoint.min_multi_recv());
	else if (flags & FI_REMOTE_CQ_DATA)
		command->data(data);
	if (op.receives) {
		const std::lock_guard guard(endpoint.control_lock());
		if (!endpoint.directed())
			command->peer(Peer::any);
	}
	command->context(address_of(op.context)).on(endpoint.id()).work();
	return command;
}

bool counts(const fi_deferred_work &work) noexcept
{
	return work.op_type == FI_OP_CNTR_SET || work.op_type == FI_OP_CNTR_ADD;
}

} // namespace

CommandOrError command_of(const Domain &domain, const fi_deferred_work &work) noexcept
{
	if (!work.op.msg) /* every member of the union is a pointer */
		return std::unexpected(REFUSE(-FI_EINVAL, FI_LOG_DOMAIN, "QUEUE_WORK: op is NULL"));
	if (counts(work))
		return counter_command(domain, work);
	const auto op = transfer_of(work);
	if (op)
		return transfer_command(domain, work, *op);
	return std::unexpected(
		REFUSE(-FI_ENOSYS, FI_LOG_DOMAIN, "QUEUE_WORK: op_type %d", work.op_type));
}

fid_ep *endpoint_of(const fi_deferred_work &work) noexcept
{
	const auto op = transfer_of(work);

	return op ? op->ep : nullptr;
}

int queue_work(Domain &domain, const fi_deferred_work &work) noexcept
{
	Cntr *trigger = Cntr::known(domain, work.triggering_cntr);
	const Cntr *done = Cntr::known(domain, work.completion_cntr);

	if (!trigger)
		return REFUSE(-FI_EINVAL, FI_LOG_DOMAIN,
			      "QUEUE_WORK: triggering_cntr is no counter of this domain");
	if (work.completion_cntr && counts(work))
		return REFUSE(-FI_EINVAL, FI_LOG_DOMAIN,
			      "QUEUE_WORK: counter operations complete silently");
	if (work.completion_cntr && !done)
		return REFUSE(-FI_EINVAL, FI_LOG_DOMAIN,
			      "QUEUE_WORK: completion_cntr is no counter of this domain");
	auto command = command_of(domain, work);
	if (!command) /* an operation that is unsupported can't be deferred either */
		return command.error() == -FI_EOPNOTSUPP ? -FI_ENOSYS : command.error();
	if (const int rc = trigger->give_to_kernel())
		return rc;
	/* Its name is the address of `work`, which no other work has. */
	command->when(trigger->id(), work.threshold).work(address_of(&work));
	if (done)
		command->notify(done->id());
	if (fid_ep *const ep = endpoint_of(work)) /* what was triggered before is armed before */
		endpoint_of(domain, ep)->take_polled();
	const int rc = negative(domain.kernel().submit(*command));
	if (rc == -EOPNOTSUPP)
		return REFUSE(
			-FI_ENOSYS, FI_LOG_DOMAIN,
			"QUEUE_WORK: not for this endpoint, or no such operation on this type");
	return rc ? static_cast<int>(posting_failed(rc, "QUEUE_WORK")) : 0;
}

int cancel_work(Domain &domain, const fi_deferred_work &work) noexcept
{
	const Cntr *trigger = Cntr::known(domain, work.triggering_cntr);

	if (!trigger)
		return REFUSE(-FI_EINVAL, FI_LOG_DOMAIN,
			      "CANCEL_WORK: triggering_cntr is no counter of this domain");
	return fabric_error(
		negative(domain.kernel().cancel(trigger->id(), work.threshold, address_of(&work))));
}

int flush_work(Domain &domain, void *arg) noexcept
{
	if (!arg) {
		const auto flushed = domain.kernel().flush();
		return flushed ? 0 : fabric_error(negative(flushed.error()));
	}
	/*
	 * fi_trigger(3) does not say how the argument names a counter, so both structures are
	 * accepted. Each starts with an integer: fclass can be read from both.
	 */
	const Cntr *of =
		Cntr::known(domain, static_cast<::fid *>(arg)->fclass == FI_CLASS_CNTR ?
					    static_cast<fid_cntr *>(arg) :
					    static_cast<fi_deferred_work *>(arg)->triggering_cntr);
	return of ? of->flush() :
		    REFUSE(-FI_EINVAL, FI_LOG_DOMAIN, "FLUSH_WORK: no counter of this domain");
}

} // namespace treadle::fi
