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

	if (asked.flags & ~(FI_WRITE | FI_AFFINITY))
		return REFUSE(-FI_EBADFLAGS, subsys, "flags: 0x%" PRIx64, asked.flags);
	if (!can_wait_on(asked.wait_obj))
		return REFUSE(-FI_ENOSYS, subsys, "wait_obj %d", asked.wait_obj);
	Fabric &on = Fabric::of(fabric);
	const auto kernel = on.kernel();
	if (!kernel)
		return REFUSE(kernel.error().negative(), subsys, "open: %s", TREADLE_DEVICE);
	auto queue = EventQueue::create(**kernel);
	if (!queue)
		return REFUSE(queue.error().negative(), subsys, "open");
	detail::UniqueFd own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (own.get() < 0)
		return REFUSE(-errno, subsys, "open: eventfd");
	detail::UniqueFd wake = either(own.get(), queue->file());
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

void Eq::add(Event event)
{
	const std::lock_guard guard(lock_);

	append(std::move(event));
}

void Eq::append(Event event)
{
	events_.push_back(std::move(event));
	update_own();
}

/* Appends the first event of `from`. */
void Eq::append(std::list<Event> &from) noexcept
{
	events_.splice(events_.end(), from, from.begin());
	update_own();
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
	std::erase_if(events_, [owner](const Event &e) { return e.owner == owner; });
	if (events_.empty())
		update_own();
}

void Eq::remove_first() noexcept
{
	events_.pop_front();
	if (events_.empty())
		update_own();
}

/* --- connections --------------------------------------------------------------------- */

Eq::Source::Source(Eq &eq, ::fid &owner, Hear hear)
{
	const std::lock_guard guard(eq.lock_);

	number_ = ++eq.last_source_;
	eq.sources_.emplace(number_, Registered{&owner, std::move(hear)});
	eq_ = &eq;
}

Eq::Source::~Source()
{
	if (!eq_)
		return;
	const std::lock_guard guard(eq_->lock_);
	const auto found = eq_->sources_.find(number_);
	const ::fid *const owner = found->second.owner;

	eq_->sources_.erase(found);
	eq_->drop_events_of(owner);
}

Eq::Event Eq::translate(const Registered &source, const treadle_event &event)
{
	const auto data = data_of(event);
	fi_eq_cm_entry entry{};

	if (event.event == TREADLE_EVENT_CONNREFUSED) {
		fi_eq_err_entry error{};
		error.fid = source.owner;
		error.context = source.owner->context;
		error.err = -fabric_error(-static_cast<int>(event.error));
		error.prov_errno = static_cast<int>(event.error);
		Event out(error);
		out.owner = source.owner;
		out.err_data.assign(data.begin(), data.end());
		return out;
	}
	Event out(event.event == TREADLE_EVENT_CONNREQ	 ? FI_CONNREQ :
		  event.event == TREADLE_EVENT_CONNECTED ? FI_CONNECTED :
							   FI_SHUTDOWN,
		  &entry, sizeof(entry));
	out.owner = source.owner;
	out.entry.insert(out.entry.end(), data.begin(), data.end());
	/* Last: without memory, the translation is repeated. */
	out.info = source.hear(event);
	entry.fid = source.owner;
	entry.info = out.info.get();
	std::memcpy(out.entry.data(), &entry, sizeof(entry));
	return out;
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
				next_.emplace_back().told = std::make_unique<treadle_event>();
			const int rc = kernel_.read(*next_.front().told);
			if (rc)
				return fabric_error(rc);
			events_.splice(events_.end(), next_);
			update_own();
		}
		Event &first = events_.front();
		if (!first.told)
			return 0;
		const auto found = sources_.find(first.told->context);
		if (found != sources_.end()) {
			first = translate(found->second, *first.told);
			return 0;
		}
		remove_first(); /* its source has closed meanwhile */
	}
}

/* --- registrations ------------------------------------------------------------------- */

void Eq::Event::tell(::fid &of, int error, std::uint32_t kind) noexcept
{
	fi_eq_entry done{};
	fi_eq_err_entry error_entry{};

	owner = &of;
	done.fid = error_entry.fid = &of;
	done.context = error_entry.context = of.context;
	error_entry.err = error_entry.prov_errno = -error;
	if (error)
		tell(error_entry);
	else
		tell(kind, done);
}

void Eq::Event::tell(std::uint32_t kind, const fi_eq_entry &done) noexcept
{
	static_assert(sizeof(done) <= sizeof(fi_eq_err_entry));
	event = kind;
	entry.assign(bytes(&done), bytes(&done) + sizeof(done));
}

void Eq::Event::tell(const fi_eq_err_entry &error) noexcept
{
	failed = true;
	entry.assign(bytes(&error), bytes(&error) + sizeof(error));
}

void Eq::append(::fid &owner, int error, std::uint32_t kind)
{
	Event event;

	event.tell(owner, error, kind);
	append(std::move(event));
}

void Eq::report(Reserve &from, ::fid &region) noexcept
{
	const std::lock_guard guard(lock_);

	from.events_.front().tell(region, 0, FI_MR_COMPLETE);
	append(from.events_);
}

void Eq::prepare_registrations() noexcept
{
	const std::lock_guard guard(lock_);
	epoll_event event{.events = EPOLLIN, .data = {}};

	if (registrar_ || !is_ours())
		return;
	auto registrar = Registrar::create();
	int rc = registrar ? 0 : registrar.error().negative();
	if (!rc && epoll_ctl(wake_.get(), EPOLL_CTL_ADD, registrar->file(), &event) < 0)
		rc = -errno;
	if (rc)
		REFUSE(rc, subsys, "no io_uring, so memory is registered by the calling thread");
	else
		registrar_ = std::move(*registrar);
}

/*
 * Holds the lock under which its event is read, so that the event is not read before the caller
 * knows the region.
 */
int Eq::begin(Pending &registration) noexcept
{
	const std::lock_guard guard(lock_);

	return !registrar_ ? -ENOSYS : fi::guard([&] {
		registration.event_.emplace_back();
		return registrar_->begin(registration);
	});
}

void Eq::take_registrations() noexcept
{
	while (Registration *const next = registrar_ && !waiting_ ? registrar_->next() : nullptr) {
		Pending &done = *static_cast<Pending *>(next);
		std::list<Event> event(std::move(done.event_));
		::fid *owner;
		const int rc = done.finish(owner);

		event.front().tell(*owner, rc, FI_MR_COMPLETE);
		append(event);
	}
}

void Eq::take_finished() noexcept
{
	const std::lock_guard guard(lock_);

	if (is_ours())
		take_registrations();
}

void Eq::withdraw(const std::unique_ptr<Pending> &registration, const ::fid &owner) noexcept
{
	std::unique_lock guard(lock_);

	if (registrar_ && registration && is_ours())
		registrar_->cancel(*registration);
	/* One thread at a time waits for the file, so that no other takes its wakeup. */
	while (registrar_ && registration && is_ours()) {
		if (waiting_) {
			waited_.wait(guard);
			continue;
		}
		pollfd done{registrar_->file(), POLLIN, 0};
		waiting_ = true;
		guard.unlock();
		poll(&done, 1, -1);
		guard.lock();
		waiting_ = false;
		take_registrations();
		waited_.notify_all();
	}
	drop_events_of(&owner);
}

/* --- joins ---------------------------------------------------------------------------- */

int Eq::watch(Joining &joining, int file)
{
	const std::lock_guard guard(lock_);
	epoll_event event{.events = EPOLLIN, .data = {}};

	if (!is_ours())
		return -EPERM;
	joins_.reserve(joins_.size() + 1);
	if (epoll_ctl(wake_.get(), EPOLL_CTL_ADD, file, &event) < 0)
		return -errno;
	joins_.push_back({&joining, file});
	return 0;
}

void Eq::take_joins()
{
	for (auto it = joins_.begin(); it != joins_.end();) {
		int error = 0;

		if (!it->joining->joined(error)) {
			++it;
			continue;
		}
		append(it->joining->owner(), error, FI_JOIN_COMPLETE);
		epoll_ctl(wake_.get(), EPOLL_CTL_DEL, it->file, nullptr);
		it->joining->reported();
		it = joins_.erase(it);
	}
}

void Eq::unwatch(Joining &joining) noexcept
{
	const std::lock_guard guard(lock_);

	for (const Watched &watched : joins_) {
		if (watched.joining == &joining && is_ours())
			epoll_ctl(wake_.get(), EPOLL_CTL_DEL, watched.file, nullptr);
	}
	std::erase_if(joins_, [&](const Watched &w) { return w.joining == &joining; });
	drop_events_of(&joining.owner());
}

/* --- calls --------------------------------------------------------------------------- */

void Eq::report(std::uint32_t event, const void *entry, std::size_t size)
{
	add(Event(event, entry, size));
}

void Eq::report(Reserve &from, std::uint32_t event, const fi_eq_entry &entry) noexcept
{
	const std::lock_guard guard(lock_);

	from.events_.front().tell(event, entry);
	append(from.events_);
}

void Eq::report(Reserve &from, const fi_eq_err_entry &error) noexcept
{
	const std::lock_guard guard(lock_);

	from.events_.front().tell(error);
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
		return tell_wait(command, arg, wait_obj_, subsys, membership_.signaller(),
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
	Event &first = eq.events_.front();
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
	const Event &first = eq.events_.front();
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
