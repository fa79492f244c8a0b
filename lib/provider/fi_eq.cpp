// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "eq.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "wait.h"

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

Eq::Eq(Fabric &fabric, const fi_eq_attr &attr, detail::UniqueFd wake, void *context)
	: Object(context), fabric_use_(fabric.users), wait_obj_(attr.wait_obj),
	  writable_(attr.flags & FI_WRITE), wake_(std::move(wake))
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
	detail::UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (wake.get() < 0)
		return REFUSE(-errno, subsys, "eventfd");
	return guard([&] {
		std::unique_ptr<Eq> eq(new Eq(Fabric::of(fabric), asked, std::move(wake), context));
		const int rc = WaitSet::join(asked.wait_obj, asked.wait_set, *eq, eq->membership_);
		if (!rc)
			*out = eq.release();
		return rc;
	});
}

void Eq::add(Event event)
{
	const std::lock_guard guard(lock_);
	const std::uint64_t one = 1;

	events_.push_back(std::move(event));
	if (events_.size() == 1)
		(void)!::write(wake_.get(), &one, sizeof(one));
}

void Eq::remove_first() noexcept
{
	std::uint64_t count;

	events_.pop_front();
	if (events_.empty())
		(void)!::read(wake_.get(), &count, sizeof(count));
}

void Eq::report(std::uint32_t event, const void *entry, std::size_t size)
{
	const auto *bytes = static_cast<const std::byte *>(entry);

	add({false, event, {bytes, bytes + size}});
}

void Eq::report(const fi_eq_err_entry &error)
{
	const auto *bytes = reinterpret_cast<const std::byte *>(&error);

	add({true, 0, {bytes, bytes + sizeof(error)}});
}

int Eq::try_wait() noexcept
{
	const std::lock_guard guard(lock_);

	return events_.empty() ? 0 : -FI_EAGAIN;
}

int Eq::control(int command, void *arg) noexcept
{
	switch (command) {
	case FI_GETWAIT:
	case FI_GETWAITOBJ:
		return tell_wait(command, arg, wait_obj_, subsys, [this] { return wait_fd(); });
	default:
		return Object::control(command, arg);
	}
}

ssize_t Eq::read(fid_eq *f, std::uint32_t *event, void *buf, std::size_t len,
		 std::uint64_t flags) noexcept
{
	Eq &eq = of(f);
	const std::lock_guard guard(eq.lock_);

	if (eq.events_.empty())
		return -FI_EAGAIN;
	const Event &first = eq.events_.front();
	const std::size_t size = first.entry.size();
	if (first.failed)
		return -FI_EAVAIL;
	if (len < size)
		return -FI_ETOOSMALL;
	*event = first.event;
	std::copy(first.entry.begin(), first.entry.end(), static_cast<std::byte *>(buf));
	if (!(flags & FI_PEEK))
		eq.remove_first();
	return static_cast<ssize_t>(size);
}

ssize_t Eq::read_error(fid_eq *f, fi_eq_err_entry *buf, std::uint64_t flags) noexcept
{
	Eq &eq = of(f);
	const std::lock_guard guard(eq.lock_);

	if (eq.events_.empty() || !eq.events_.front().failed)
		return -FI_EAGAIN;
	/* There is no data to any error: what the caller offers for it stays as it is. */
	void *const data = buf->err_data_size ? buf->err_data : nullptr;
	std::memcpy(buf, eq.events_.front().entry.data(), sizeof(*buf));
	buf->err_data = data;
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
	return guard([&]() -> ssize_t {
		eq.report(event, buf, len);
		return static_cast<ssize_t>(len);
	});
}

ssize_t Eq::wait_and_read(fid_eq *f, std::uint32_t *event, void *buf, std::size_t len, int timeout,
			  std::uint64_t flags) noexcept
{
	Eq &eq = of(f);
	pollfd wake{eq.wake_.get(), POLLIN, 0};

	if (eq.wait_obj_ == FI_WAIT_NONE)
		return REFUSE(-FI_EINVAL, subsys, "sread: was opened with FI_WAIT_NONE");
	for (;;) {
		const ssize_t rc = read(f, event, buf, len, flags);
		if (rc != -FI_EAGAIN)
			return rc;
		/* Somebody else may take the event first: then the time starts anew. */
		if (poll(&wake, 1, timeout) <= 0)
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

} // namespace treadle::fi
