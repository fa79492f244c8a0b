// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "trigger.h"

#include <optional>

#include "cntr.h"
#include "domain.h"
#include "endpoint.h"
#include "transfer.h"

namespace treadle::fi
{

namespace
{

constexpr auto subsys = FI_LOG_DOMAIN;

/* A counter of this domain; null: it isn't. */
Cntr *counter_of(const Domain &domain, fid_cntr *cntr) noexcept
{
	return cntr && &Cntr::of(cntr).domain() == &domain ? &Cntr::of(cntr) : nullptr;
}

/*
 * What a piece of work is called in the kernel. One whose success is reported
 * goes by the context that the report shall carry; else the work item itself,
 * which no other has.
 */
std::uint64_t name_of(const fi_deferred_work &work, std::uint64_t flags, void *context) noexcept
{
	return address_of(flags & FI_COMPLETION ? context : static_cast<const void *>(&work));
}

/* The parts that fi_op_msg and fi_op_tagged share, and how theirs are called in both. */
struct Operation {
	fid_ep *ep;
	const iovec *iov;
	std::size_t count;
	std::uint64_t flags;
	void *context;
	Message message;
};

Operation operation_of(std::uint8_t opcode, const fi_op_msg &op) noexcept
{
	const fi_msg &m = op.msg;
	const Message message{.opcode = opcode, .peer = m.addr, .data = m.data};

	return {op.ep, m.msg_iov, m.iov_count, op.flags, m.context, message};
}

Operation operation_of(std::uint8_t opcode, const fi_op_tagged &op) noexcept
{
	const fi_msg_tagged &m = op.msg;
	const Message message{
		.opcode = opcode, .peer = m.addr, .tag = m.tag, .ignore = m.ignore, .data = m.data};

	return {op.ep, m.msg_iov, m.iov_count, op.flags, m.context, message};
}

std::optional<Operation> operation_of(const fi_deferred_work &work) noexcept
{
	switch (work.op_type) {
	case FI_OP_SEND:
		return operation_of(TREADLE_OP_SEND, *work.op.msg);
	case FI_OP_RECV:
		return operation_of(TREADLE_OP_RECV, *work.op.msg);
	case FI_OP_TSEND:
		return operation_of(TREADLE_OP_TSEND, *work.op.tagged);
	case FI_OP_TRECV:
		return operation_of(TREADLE_OP_TRECV, *work.op.tagged);
	default:
		return std::nullopt;
	}
}

bool sends(const Operation &op) noexcept
{
	return op.message.opcode == TREADLE_OP_SEND || op.message.opcode == TREADLE_OP_TSEND;
}

int submit(Domain &domain, const Command &command) noexcept
{
	const int rc = domain.kernel().submit(command);

	return rc ? static_cast<int>(posting_failed(rc, "QUEUE_WORK")) : 0;
}

int queue_counter_work(Domain &domain, const fi_deferred_work &work, const Cntr &trigger) noexcept
{
	const fi_op_cntr &op = *work.op.cntr;
	const Cntr *target = counter_of(domain, op.cntr);

	if (!target)
		return REFUSE(-FI_EINVAL, subsys,
			      "QUEUE_WORK: op.cntr is no counter of this domain");
	if (work.completion_cntr)
		return REFUSE(-FI_EINVAL, subsys,
			      "QUEUE_WORK: counter operations complete silently");
	Command command = work.op_type == FI_OP_CNTR_SET ? Command::set(target->id(), op.value) :
							   Command::add(target->id(), op.value);
	command.context(name_of(work, 0, nullptr)).work().when(trigger.id(), work.threshold);
	return submit(domain, command);
}

int queue_message_work(Domain &domain, const fi_deferred_work &work, Operation op,
		       const Cntr &trigger) noexcept
{
	const std::uint64_t known =
		sends(op) ? transmit_flags : receive_flags(op.message.opcode) & ~peek_flags;
	const Cntr *done = counter_of(domain, work.completion_cntr);

	if (work.completion_cntr && !done)
		return REFUSE(-FI_EINVAL, subsys,
			      "QUEUE_WORK: completion_cntr is of another domain");
	if (!op.ep || &Port::of(op.ep).endpoint().domain() != &domain)
		return REFUSE(-FI_EINVAL, subsys, "QUEUE_WORK: the endpoint is of another domain");
	const Endpoint &endpoint = Port::of(op.ep).endpoint();
	if (!endpoint.enabled())
		return REFUSE(-FI_EOPBADSTATE, subsys, "QUEUE_WORK: the endpoint is not enabled");
	if (!((sends(op) ? endpoint.tx_caps() : endpoint.rx_caps()) & FI_TRIGGER))
		return REFUSE(-FI_EINVAL, subsys,
			      "QUEUE_WORK: the endpoint has no FI_TRIGGER for this");
	if (op.flags & ~known)
		return static_cast<int>(flags_refused(op.flags & ~known, "QUEUE_WORK"));
	const Buffers buffers(op.iov, op.count);
	if (buffers.too_many())
		return static_cast<int>(flags_refused(0, "QUEUE_WORK"));

	op.message.context = name_of(work, op.flags, op.context);
	op.message.flags =
		desc_flags_of(op.flags & (sends(op) ? ~FI_MORE : FI_COMPLETION | FI_MULTI_RECV));
	if (op.flags & FI_MULTI_RECV)
		op.message.data = endpoint.min_multi_recv();
	else if (!(op.flags & FI_REMOTE_CQ_DATA))
		op.message.data = 0;
	if (!sends(op) && !(endpoint.rx_caps() & FI_DIRECTED_RECV))
		op.message.peer = TREADLE_ADDR_ANY;
	Command command = command_of(op.message);
	command.buffers(buffers.span()).on(endpoint.id()).work().when(trigger.id(), work.threshold);
	if (done)
		command.notify(done->id());
	return submit(domain, command);
}

} // namespace

Command command_of(const Message &m) noexcept
{
	const auto *from = reinterpret_cast<const void *>(m.addr);
	auto *to = reinterpret_cast<void *>(m.addr);
	Command command = m.opcode == TREADLE_OP_SEND ?
				  Command::send(from, m.len, m.peer) :
			  m.opcode == TREADLE_OP_TSEND ?
				  Command::send_tagged(from, m.len, m.peer, m.tag) :
			  m.opcode == TREADLE_OP_RECV ?
				  Command::receive(to, m.len, m.peer) :
				  Command::receive_tagged(to, m.len, m.tag, m.ignore, m.peer);

	if (m.flags & TREADLE_F_REMOTE_CQ_DATA)
		command.data(m.data);
	if (m.flags & TREADLE_F_MULTI_RECV)
		command.several(m.data);
	return command.context(m.context).flags(m.flags);
}

int when_triggered(Command &command, const Endpoint &endpoint) noexcept
{
	const auto *trigger =
		reinterpret_cast<const fi_triggered_context *>(command.desc().context);

	if (!((endpoint.tx_caps() | endpoint.rx_caps()) & FI_TRIGGER) || !trigger)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_DATA,
			      "FI_TRIGGER: needs the capability and a fi_triggered_context");
	if (trigger->event_type != FI_TRIGGER_THRESHOLD)
		return REFUSE(-FI_ENOSYS, FI_LOG_EP_DATA,
			      "FI_TRIGGER: event_type %d: only thresholds", trigger->event_type);
	const Cntr *cntr = counter_of(endpoint.domain(), trigger->trigger.threshold.cntr);
	if (!cntr)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_DATA, "FI_TRIGGER: no counter of this domain");
	command.when(cntr->id(), trigger->trigger.threshold.threshold);
	return 0;
}

int queue_work(Domain &domain, const fi_deferred_work &work) noexcept
{
	const Cntr *trigger = counter_of(domain, work.triggering_cntr);

	if (!trigger)
		return REFUSE(-FI_EINVAL, subsys,
			      "QUEUE_WORK: triggering_cntr is no counter of this domain");
	if (work.op_type == FI_OP_CNTR_SET || work.op_type == FI_OP_CNTR_ADD)
		return queue_counter_work(domain, work, *trigger);
	const auto op = operation_of(work);
	if (!op)
		return REFUSE(-FI_ENOSYS, subsys, "QUEUE_WORK: op_type %d", work.op_type);
	return queue_message_work(domain, work, *op, *trigger);
}

int cancel_work(Domain &domain, const fi_deferred_work &work) noexcept
{
	const Cntr *trigger = counter_of(domain, work.triggering_cntr);
	const auto op = operation_of(work);

	if (!trigger)
		return REFUSE(-FI_EINVAL, subsys,
			      "CANCEL_WORK: triggering_cntr is no counter of this domain");
	return fabric_error(domain.kernel().cancel(trigger->id(), work.threshold,
						   name_of(work, op ? op->flags : 0,
							   op ? op->context : nullptr)));
}

int flush_work(Domain &domain, fid_cntr *cntr) noexcept
{
	const Cntr *of = counter_of(domain, cntr);

	if (cntr && !of)
		return REFUSE(-FI_EINVAL, subsys, "FLUSH_WORK: no counter of this domain");
	const auto flushed = domain.kernel().flush(of ? of->id() : CounterId{});
	return flushed ? 0 : fabric_error(flushed.error().negative());
}

} // namespace treadle::fi
