// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "notify/cntr.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include <unistd.h>

#include "base/later.h"
#include "notify/wait.h"

namespace treadle::fi
{

template <std::error_code (Counter::*Change)(std::uint64_t) noexcept>
int Cntr::change(fid_cntr *cntr, std::uint64_t value) noexcept
{
	return fabric_error(negative((of(cntr).counter_.*Change)(value)));
}

/* What this process has counted itself is replaced, too. */
int Cntr::set(fid_cntr *cntr, std::uint64_t value) noexcept
{
	Cntr &self = of(cntr);
	const detail::Handoff::Sleeper none_counts(self.local_.handoff());

	return fabric_error(negative(
		self.local_.move([&](std::uint64_t) { return self.counter_.set(value); })));
}

int Cntr::move() noexcept
{
	if (local_.all_moved()) [[likely]]
		return 0;
	return negative(
		local_.move([&](std::uint64_t n) { return n ? counter_.add(n) : from_errno(0); }));
}

int Cntr::give_to_kernel() noexcept
{
	local_.handoff().stop();
	const int rc = move();
	return rc ? REFUSE(fabric_error(rc), subsys, "counting by the kernel") : 0;
}

Result<int> Cntr::wait_fd() noexcept
{
	progress_.stop();
	local_.handoff().stop();
	if (const int rc = move())
		return std::unexpected(from_errno(-rc));
	return counter_.fd();
}

void LocalCount::wait_for_move() noexcept
{
	std::this_thread::sleep_for(std::chrono::microseconds(20));
}

std::uint64_t Cntr::read_error(fid_cntr *cntr) noexcept
{
	Cntr &self = of(cntr);

	self.progress_.make();
	const std::uint64_t error = self.counter_.error();

	self.known_error_.store(error, std::memory_order_relaxed);
	return error;
}

/*
 * A caller that sets or adds errors knows them. One call at a time: the known count is compared
 * with the count before.
 */
int Cntr::set_error(fid_cntr *cntr, std::uint64_t value) noexcept
{
	Cntr &self = of(cntr);
	const auto guard = self.lock_errors();
	const int rc = change<&Counter::set_error>(cntr, value);

	if (!rc)
		self.known_error_.store(value, std::memory_order_relaxed);
	return rc;
}

/*
 * Keeps known_error_ if an operation's error was not read yet: the caller doesn't know that one. A
 * wait in progress ends.
 */
int Cntr::add_error(fid_cntr *cntr, std::uint64_t value) noexcept
{
	Cntr &self = of(cntr);
	const auto guard = self.lock_errors();
	std::uint64_t before = self.counter_.error();
	const int rc = change<&Counter::add_error>(cntr, value);

	if (!rc)
		self.known_error_.compare_exchange_strong(before, before + value,
							  std::memory_order_relaxed);
	return rc;
}

fi_ops_cntr Cntr::cntr_ops{
	.size = sizeof(fi_ops_cntr),
	.read = Cntr::read,
	.readerr = Cntr::read_error,
	.add = Cntr::change<&Counter::add>,
	.set = Cntr::set,
	.wait = Cntr::wait,
	.adderr = Cntr::add_error,
	.seterr = Cntr::set_error,
};

Cntr::Cntr(Domain &domain, Counter counter, bool bytes, fi_wait_obj wait_obj,
	   void *context) noexcept
	: Object(context), domain_(domain), domain_use_(domain.users), wait_obj_(wait_obj),
	  bytes_(bytes), counter_(std::move(counter)), progress_(!domain.serialized(true))
{
	ops = &cntr_ops;
}

int Cntr::open(fid_domain *domain, fi_cntr_attr *attr, fid_cntr **out, void *context) noexcept
{
	static const fi_cntr_attr usual{};
	const fi_cntr_attr &asked = attr ? *attr : usual;
	Domain &in = Domain::of(domain);

	const bool bytes = asked.events == later::FI_CNTR_EVENTS_BYTES;

	if (!bytes && asked.events != FI_CNTR_EVENTS_COMP)
		return REFUSE(-FI_ENOSYS, subsys, "events %d", asked.events);
	if (bytes && !(in.kernel().limits().features & TREADLE_FEATURE_CNTR_BYTES))
		return REFUSE(-FI_ENOSYS, subsys, "FI_CNTR_EVENTS_BYTES: the module counts none");
	if (asked.flags & FI_PEER)
		return no_peer(subsys, "cntr_open");
	if (asked.flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "flags: 0x%" PRIx64, asked.flags);
	if (!can_wait_on(asked.wait_obj))
		return REFUSE(-FI_ENOSYS, subsys, "wait_obj %d", asked.wait_obj);
	auto counter = Counter::create(in.kernel(),
				       bytes ? Counter::Unit::bytes : Counter::Unit::operations);
	if (!counter)
		return REFUSE(fabric_error(negative(counter.error())), subsys, "open");
	return guard([&] {
		std::unique_ptr<Cntr> cntr(
			new Cntr(in, std::move(*counter), bytes, asked.wait_obj, context));
		const int rc =
			WaitSet::join(asked.wait_obj, asked.wait_set, *cntr, cntr->membership_);
		if (!rc)
			*out = cntr.release();
		return rc;
	});
}

int Cntr::word(const Xpu &xpu, std::uint64_t *&place)
{
	const int rc = give_to_devices();

	return rc ? rc : words_.follow(counter_, domain_.words(), xpu, place);
}

int Cntr::copy(const Xpu &xpu, const std::uint64_t *&place)
{
	const int rc = give_to_devices();

	return rc ? rc : words_.copy(counter_, domain_.words(), xpu, place);
}

/* What this process counts itself would be neither in the copy nor in the order of the word. */
int Cntr::give_to_devices() noexcept
{
	if (!(domain_.kernel().limits().features & TREADLE_FEATURE_CNTR_CELL))
		return REFUSE(-FI_EOPNOTSUPP, subsys, "words for devices: the module has none");
	return give_to_kernel();
}

int Cntr::prepare_close() noexcept
{
	words_.pause(counter_);
	int rc = negative(counter_.close());

	if (rc == -EBUSY && kept_.use_count() > 1) { /* the last region that uses it closes it */
		kept_->emplace(std::move(counter_));
		rc = 0;
	}
	if (rc) {
		words_.resume(counter_);
		return REFUSE(fabric_error(rc), subsys, "close: armed or bound");
	}
	membership_.leave();
	return 0;
}

/*
 * The file reports changes, whether or not a reader has seen them yet. So the file is emptied
 * first, and then the counter is compared with what was reported. Each change is then either
 * reported here or keeps the file readable.
 */
int Cntr::try_wait() noexcept
{
	const auto fd = wait_fd();
	std::uint64_t unused;

	if (!fd)
		return REFUSE(fabric_error(negative(fd.error())), subsys, "trywait");
	if (::read(*fd, &unused, sizeof(unused)) < 0) /* fails in a child */
		return REFUSE(fabric_error(-errno), subsys, "trywait");
	const std::uint64_t now = changes();
	if (seen_.exchange(now, std::memory_order_relaxed) == now)
		return 0;
	membership_.taken();
	return -FI_EAGAIN;
}

int Cntr::flush() const noexcept
{
	const auto flushed = domain_.kernel().flush(id());

	return flushed ? 0 : fabric_error(negative(flushed.error()));
}

int Cntr::control(int command, void *arg) noexcept
{
	switch (command) {
	case FI_GETWAIT:
	case FI_GETWAITOBJ:
		return get_wait(command, arg, wait_obj_, subsys, membership_.signaller(),
				[this] { return wait_fd(); });
	case FI_GETOPSFLAG: /* counters have no flags */
		*static_cast<std::uint64_t *>(arg) = 0;
		return 0;
	case FI_SETOPSFLAG:
		if (*static_cast<std::uint64_t *>(arg) == 0)
			return 0;
		return REFUSE(-FI_EBADFLAGS, subsys, "SETOPSFLAG: counters have none");
	case FI_FLUSH_WORK:
		return flush();
	default:
		return Object::control(command, arg);
	}
}

/*
 * Works with any wait object: programs call this on counters opened with FI_WAIT_NONE, and no
 * preparation is needed.
 *
 * A changed error count ends the wait, even if it changed before the call. Most operations have
 * failed when their post returns, so the caller would miss those errors otherwise.
 */
int Cntr::wait(fid_cntr *cntr, std::uint64_t threshold, int timeout) noexcept
{
	Cntr &self = of(cntr);
	const Counter &counter = self.counter_;
	const std::uint64_t known = self.known_error_.load(std::memory_order_relaxed);
	const TimeLeft left(timeout);
	std::optional<detail::Handoff::Sleeper> sleeper;
	int rc;

	self.progress_.make();
	if (self.value() >= threshold)
		return 0;
	const ProgressList::Sleep sleeping(self.progress_);
	if (!sleeping)
		return -FI_ENOMEM;
	sleeper.emplace(self.local_.handoff());
	if ((rc = self.move()))
		return fabric_error(rc);
	/*
	 * "Until an error or timeout occurs": a signal is neither, and programs treat any result
	 * but 0 as fatal.
	 */
	do
		rc = negative(counter.wait(threshold, known, timeout_of(left.milliseconds())));
	while (rc == -EINTR);
	if (self.value() >= threshold)
		return 0;
	const std::uint64_t error = counter.error();
	/* Also if rc is 0: a count ended the wait and was set back since, which is no success. */
	if (error != known || !rc) {
		self.known_error_.store(error, std::memory_order_relaxed);
		return -FI_EAVAIL;
	}
	return rc == -EAGAIN ? -FI_ETIMEDOUT : fabric_error(rc);
}

} // namespace treadle::fi
