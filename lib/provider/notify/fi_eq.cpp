// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "notify/eq.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_cm.h>

#include "notify/wait.h"

namespace treadle::fi
{

fi_ops_eq Eq::eq_ops{
	.size = sizeof(fi_ops_eq),
	.read = Eq::read,
	.readerr = Eq::read_error,
	.write = Eq::write,
	.sread = Eq::wait_and_read,
	.strerror = Eq::explain,
};

namespace
{

/* An epoll file that is readable while one of two files is. */
detail::UniqueFd either(int a, int b) noexcept
{
	detail::UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
	epoll_event event{.events = EPOLLIN, .data = {}};

	for (const int fd : {a, b}) {
		if (epoll.get() < 0 || epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) < 0)
			return detail::UniqueFd();
	}
	return epoll;
}

} // namespace

Eq::Eq(Fabric &fabric, const fi_eq_attr &attr, EventQueue kernel, detail::UniqueFd own,
       detail::UniqueFd wake, void *context)
	: Object(context), fabric_use_(fabric.users), wait_obj_(attr.wait_obj),
	  writable_(attr.flags & FI_WRITE), api_(fabric.api_version), kernel_(std::move(kernel)),
	  own_(std::move(own)), wake_(std::move(wake))
{
	ops = &eq_ops;
}

int Eq::open(fid_fabric *fabric, fi_eq_attr *attr, fid_eq **out, void *context) noexcept
{
	static const fi_eq_attr usual{};
	const fi_eq_attr &asked = attr ? *attr : usual;

	if (asked.flags & FI_PEER)
		return no_peer(subsys, "eq_open");
	if (asked.flags & ~(FI_WRITE | FI_AFFINITY))
		return REFUSE(-FI_EBADFLAGS, subsys, "flags: 0x%" PRIx64, asked.flags);
	if (!can_wait_on(asked.wait_obj))
		return REFUSE(-FI_ENOSYS, subsys, "wait_obj %d", asked.wait_obj);
	Fabric &on = Fabric::of(fabric);
	const auto kernel = on.kernel();
	if (!kernel)
		return REFUSE(negative(kernel.error()), subsys, "open: %s", TREADLE_DEVICE);
	auto queue = EventQueue::create(**kernel);
	if (!queue)
		return REFUSE(negative(queue.error()), subsys, "open");
	detail::UniqueFd own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (own.get() < 0)
		return REFUSE(-errno, subsys, "open: eventfd");
	detail::UniqueFd wake = either(own.get(), *queue->fd());
	if (wake.get() < 0)
		return REFUSE(-errno, subsys, "open: epoll");
	return guard([&] {
		std::unique_ptr<Eq> eq(new Eq(on, asked, std::move(*queue), std::move(own),
					      std::move(wake), context));
		const int rc = WaitSet::join(asked.wait_obj, asked.wait_set, *eq, eq->membership_);
		if (!rc)
			*out = eq.release();
		return rc;
	});
}

void Eq::add(EqEvent event)
{
	const std::lock_guard guard(lock_);

	append(std::move(event));
}

void Eq::append(EqEvent event)
{
	events_.push_back(std::move(event));
	update_own();
}

/* Appends the first event of `from`. */
void Eq::append(std::list<EqEvent> &from) noexcept
{
	events_.splice(events_.end(), from, from.begin());
	update_own();
}

void Eq::append(::fid &owner, int error, std::uint32_t kind)
{
	EqEvent event;

	event.set(owner, error, kind);
	append(std::move(event));
}

/* Makes the eventfd readable while there are events, and only then. */
void Eq::update_own() noexcept
{
	const Uncanceled uncanceled;
	std::uint64_t count = 1;

	if (!is_ours())
		return;
	if (events_.empty())
		(void)!::read(own_.get(), &count, sizeof(count));
	else if (events_.size() == 1)
		(void)!::write(own_.get(), &count, sizeof(count));
}

void Eq::drop_events_of(const ::fid *owner) noexcept
{
	std::erase_if(events_, [owner](const EqEvent &e) { return e.owner == owner; });
	if (events_.empty())
		update_own();
}

void Eq::remove_first() noexcept
{
	events_.pop_front();
	if (events_.empty())
		update_own();
}

/*
 * Makes sure that the next event is in events_: 0; -FI_EAGAIN if there is none; -FI_EPERM in a
 * child.
 */
int Eq::fetch()
{
	if (!is_ours())
		return REFUSE(-FI_EPERM, subsys, "read: of the parent of this process");
	take_registrations();
	take_joins();
	for (;;) {
		if (events_.empty()) {
			if (next_.empty())
				next_.emplace_back().raw = std::make_unique<treadle_event>();
			const int rc = negative(kernel_.read(*next_.front().raw));
			if (rc)
				return fabric_error(rc);
			events_.splice(events_.end(), next_);
			update_own();
		}
		EqEvent &first = events_.front();
		if (!first.raw)
			return 0;
		const auto found = sources_.find(first.raw->context);
		if (found != sources_.end()) {
			first = translate(found->second, *first.raw);
			return 0;
		}
		remove_first(); /* its source has closed meanwhile */
	}
}

/* --- calls --------------------------------------------------------------------------- */

void Eq::report(std::uint32_t event, const void *entry, std::size_t size)
{
	add(EqEvent(event, entry, size));
}

void Eq::report(Reserve &from, std::uint32_t event, const fi_eq_entry &entry) noexcept
{
	const std::lock_guard guard(lock_);

	from.events_.front().set(event, entry);
	append(from.events_);
}

void Eq::report(Reserve &from, const fi_eq_err_entry &error) noexcept
{
	const std::lock_guard guard(lock_);

	from.events_.front().set(error);
	append(from.events_);
}

int Eq::try_wait() noexcept
{
	return guard([&] {
		const std::lock_guard guard(lock_);
		const int rc = fetch();

		return rc == -FI_EAGAIN ? 0 : rc ?: -FI_EAGAIN;
	});
}

int Eq::control(int command, void *arg) noexcept
{
	switch (command) {
	case FI_GETWAIT:
	case FI_GETWAITOBJ:
		return get_wait(command, arg, wait_obj_, subsys, membership_.signaller(),
				[this] { return wait_fd(); });
	default:
		return Object::control(command, arg);
	}
}

ssize_t Eq::read(fid_eq *f, std::uint32_t *event, void *buf, std::size_t len,
		 std::uint64_t flags) noexcept
{
	Eq &eq = of(f);

	if (flags & ~FI_PEEK)
		return REFUSE(-FI_EBADFLAGS, subsys, "read: flags 0x%" PRIx64, flags);
	const std::lock_guard guard(eq.lock_);
	const int rc = fi::guard([&] { return eq.fetch(); });
	if (rc)
		return rc;
	EqEvent &first = eq.events_.front();
	std::size_t size = first.entry.size();
	if (first.failed)
		return -FI_EAVAIL;
	/* Data of a peer that doesn't fit the buffer is cut off. */
	if (first.about_connection() && len >= sizeof(fi_eq_cm_entry))
		size = std::min(size, len);
	if (!buf) { /* report only its kind; a request could not be answered then */
		if (first.info && !(flags & FI_PEEK))
			return REFUSE(-FI_ETOOSMALL, subsys,
				      "read: a request for a connection, and no buffer for it");
		size = 0;
	}
	if (len < size)
		return too_small(subsys, "read", len, size);
	if (event)
		*event = first.event;
	std::copy_n(first.entry.begin(), size, static_cast<std::byte *>(buf));
	if (!(flags & FI_PEEK)) {
		std::ignore = first.info.release(); /* belongs to the reader now */
		eq.remove_first();
	}
	return static_cast<ssize_t>(size);
}

ssize_t Eq::read_error(fid_eq *f, fi_eq_err_entry *buf, std::uint64_t flags) noexcept
{
	Eq &eq = of(f);

	if (!buf)
		return REFUSE(-FI_EINVAL, subsys, "readerr: NULL");
	if (flags & ~FI_PEEK)
		return REFUSE(-FI_EBADFLAGS, subsys, "readerr: flags 0x%" PRIx64, flags);
	const std::lock_guard guard(eq.lock_);

	/* The error stays if there is no memory for its data. */
	const int rc = fi::guard([&] {
		const int error = eq.fetch();
		if (error || !eq.events_.front().failed)
			return error ?: -FI_EAGAIN;
		eq.err_data_ = eq.events_.front().err_data;
		return 0;
	});
	if (rc)
		return rc;
	const EqEvent &first = eq.events_.front();
	void *const room = buf->err_data;
	const std::size_t size = buf->err_data_size;
	std::memcpy(buf, first.entry.data(), sizeof(*buf));
	if (!size || !room || FI_VERSION_LT(eq.api_, FI_VERSION(1, 5))) {
		/* The lent data stays until the next error is read. */
		buf->err_data = eq.err_data_.empty() ? nullptr : eq.err_data_.data();
		buf->err_data_size = eq.err_data_.size();
	} else {
		buf->err_data = room;
		buf->err_data_size = std::min(size, eq.err_data_.size());
		std::copy_n(eq.err_data_.begin(), buf->err_data_size,
			    static_cast<std::byte *>(room));
	}
	if (!(flags & FI_PEEK))
		eq.remove_first();
	return sizeof(*buf);
}

ssize_t Eq::write(fid_eq *f, std::uint32_t event, const void *buf, std::size_t len,
		  std::uint64_t flags) noexcept
{
	Eq &eq = of(f);

	if (!eq.writable_)
		return REFUSE(-FI_EINVAL, subsys, "write: was not opened with FI_WRITE");
	if (flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "write: flags 0x%" PRIx64, flags);
	if (len && !buf)
		return REFUSE(-FI_EINVAL, subsys, "write: %zu bytes at NULL", len);
	if (!eq.is_ours())
		return REFUSE(-FI_EPERM, subsys, "write: of the parent of this process");
	return guard([&]() -> ssize_t {
		eq.report(event, buf, len);
		return static_cast<ssize_t>(len);
	});
}

ssize_t Eq::wait_and_read(fid_eq *f, std::uint32_t *event, void *buf, std::size_t len, int timeout,
			  std::uint64_t flags) noexcept
{
	Eq &eq = of(f);
	const TimeLeft left(timeout);
	const Uncanceled uncanceled;
	pollfd wake{eq.wake_.get(), POLLIN, 0};

	if (eq.wait_obj_ == FI_WAIT_NONE)
		return REFUSE(-FI_EINVAL, subsys, "sread: was opened with FI_WAIT_NONE");
	for (;;) {
		const ssize_t rc = read(f, event, buf, len, flags);
		if (rc != -FI_EAGAIN)
			return rc;
		/* Another thread may take the event first; then wait for the rest of the time. */
		if (poll(&wake, 1, left.milliseconds()) <= 0)
			return -FI_EAGAIN; /* timeout, or a signal */
	}
}

const char *Eq::explain(fid_eq *, int error, const void *, char *buf, std::size_t len) noexcept
{
	const char *text = fi_strerror(error);

	if (buf && len)
		std::snprintf(buf, len, "%s", text);
	return text;
}

int bind_eq(::fid *queue, std::uint64_t flags, fi_log_subsys subsys, std::atomic<Eq *> &eq,
	    Use &use) noexcept
{
	Eq *const known = Eq::known(queue);
	Eq *none = nullptr;

	if (!known)
		return REFUSE(-FI_EINVAL, subsys, "bind: only to an event queue of %s", name);
	if (flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "bind: flags 0x%" PRIx64, flags);
	if (!eq.compare_exchange_strong(none, known))
		return REFUSE(-FI_EINVAL, subsys, "bind: has an event queue");
	use = Use(known->users);
	return 0;
}

} // namespace treadle::fi
