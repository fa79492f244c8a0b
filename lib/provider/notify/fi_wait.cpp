// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "notify/waitset.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace treadle::fi
{

fi_ops_wait WaitSet::wait_ops{
	.size = sizeof(fi_ops_wait),
	.wait = WaitSet::wait,
};

Membership::Membership(WaitSet &set, Waitable &member) noexcept
	: set_(&set), member_(&member), use_(set.users)
{
}

void Membership::leave() noexcept
{
	if (set_)
		set_->remove(*member_);
	set_ = nullptr;
	use_ = {};
	signaller_.reset();
}

void Membership::taken() noexcept
{
	if (signaller_)
		signaller_->taken();
	if (set_)
		set_->taken();
}

WaitSet::WaitSet(Fabric &fabric, fi_wait_obj wait_obj, detail::UniqueFd epoll,
		 detail::UniqueFd taken)
	: Object(nullptr), fabric_use_(fabric.users), wait_obj_(wait_obj), epoll_(std::move(epoll)),
	  taken_(std::move(taken))
{
	ops = &wait_ops;
}

int WaitSet::open(fid_fabric *fabric, fi_wait_attr *attr, fid_wait **out) noexcept
{
	const fi_wait_obj object = attr ? attr->wait_obj : FI_WAIT_UNSPEC;

	if (attr && attr->flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "wait_open: flags 0x%" PRIx64, attr->flags);
	if (object == FI_WAIT_NONE || object == FI_WAIT_SET || !can_wait_on(object))
		return REFUSE(-FI_ENOSYS, subsys,
			      "wait_open: wait_obj %d: only UNSPEC, FD, POLLFD, "
			      "MUTEX_COND and YIELD",
			      object);
	detail::UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
	if (epoll.get() < 0)
		return REFUSE(-errno, subsys, "wait_open: epoll");
	detail::UniqueFd taken(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (taken.get() < 0)
		return REFUSE(-errno, subsys, "wait_open: eventfd");
	return guard([&] {
		std::unique_ptr<WaitSet> set(new WaitSet(Fabric::of(fabric), object,
							 std::move(epoll), std::move(taken)));
		const int rc = object == FI_WAIT_MUTEX_COND ?
				       Signaller::start(set->epoll_.get(), set->signaller_) :
				       0;
		if (rc)
			return REFUSE(rc, subsys, "wait_open: the thread for FI_WAIT_MUTEX_COND");
		*out = set.release();
		return 0;
	});
}

int WaitSet::join(fi_wait_obj object, fid_wait *set, Waitable &member,
		  Membership &membership) noexcept
{
	if (object == FI_WAIT_MUTEX_COND)
		return guard([&] { return signal(member, membership); });
	if (object != FI_WAIT_SET)
		return 0;
	WaitSet *const named = known(set);
	if (!named)
		return REFUSE(-FI_EINVAL, subsys, "FI_WAIT_SET: without a wait_set of %s", name);
	return guard([&] { return named->add(member, membership); });
}

int WaitSet::signal(Waitable &member, Membership &membership)
{
	const auto fd = member.wait_fd();
	const int rc = fd ? Signaller::start(*fd, membership.signaller_) : negative(fd.error());

	return rc ? REFUSE(fabric_error(rc), subsys, "FI_WAIT_MUTEX_COND: its thread") : 0;
}

int WaitSet::add(Waitable &member, Membership &membership)
{
	const std::lock_guard guard(lock_);
	const auto fd = member.wait_fd();

	if (!is_ours())
		return REFUSE(-FI_EPERM, subsys, "wait set: of the parent of this process");
	if (!fd)
		return REFUSE(fabric_error(negative(fd.error())), subsys, "wait set: no file");
	members_.reserve(members_.size() + 1);
	epoll_event event{.events = EPOLLIN, .data = {}};
	if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, *fd, &event) < 0)
		return REFUSE(-errno, subsys, "wait set: epoll");
	members_.push_back({&member, *fd});
	++changes_;
	membership = Membership(*this, member);
	return 0;
}

void WaitSet::remove(Waitable &member) noexcept
{
	const std::lock_guard guard(lock_);
	const auto found = std::find_if(members_.begin(), members_.end(),
					[&](const Member &m) { return m.object == &member; });

	if (is_ours())
		epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->fd, nullptr);
	members_.erase(found);
	++changes_;
}

/* Asks all members, because asking a counter arms its file for the next change. */
int WaitSet::try_wait() noexcept
{
	const std::lock_guard guard(lock_);
	int rc = 0;

	if (!is_ours())
		return REFUSE(-FI_EPERM, subsys, "wait: of the parent of this process");
	for (const Member &member : members_)
		rc = member.object->try_wait() ?: rc;
	return rc;
}

/* One call of fi_wait. */
class WaitSet::Waiter
{
public:
	explicit Waiter(WaitSet &set) noexcept : set_(set)
	{
		const std::lock_guard guard(set_.waiters_lock_);

		++set_.waiters_;
		since_ = set_.takings_;
	}
	Waiter(const Waiter &) = delete;
	Waiter &operator=(const Waiter &) = delete;
	~Waiter()
	{
		const std::lock_guard guard(set_.waiters_lock_);
		std::uint64_t unused;

		--set_.waiters_;
		if (since_ != set_.takings_ && !--set_.late_)
			(void)!::read(set_.taken_.get(), &unused, sizeof(unused));
	}
	bool is_late() const noexcept
	{
		const std::lock_guard guard(set_.waiters_lock_);

		return since_ != set_.takings_;
	}

private:
	WaitSet &set_;
	std::uint64_t since_;
};

void WaitSet::taken() noexcept
{
	const std::lock_guard guard(waiters_lock_);
	const std::uint64_t one = 1;

	++takings_;
	late_ = waiters_;
	if (late_)
		(void)!write(taken_.get(), &one, sizeof(one));
	if (signaller_)
		signaller_->taken();
}

int WaitSet::wait(fid_wait *f, int timeout) noexcept
{
	WaitSet &set = of(f);
	const TimeLeft left(timeout);
	const Uncanceled uncanceled;
	const Waiter waiter(set);
	pollfd ready[] = {{set.epoll_.get(), POLLIN, 0}, {set.taken_.get(), POLLIN, 0}};

	for (;;) {
		const int rc = set.try_wait();
		if (rc)
			return rc == -FI_EAGAIN ? 0 : rc;
		if (waiter.is_late())
			return 0;
		/*
		 * not epoll_wait(2), which io_uring's work in this thread interrupts as a signal
		 * does
		 */
		const int n = poll(ready, std::size(ready), left.milliseconds());
		if (n <= 0 && !waiter.is_late())
			return n ? -errno : -FI_ETIMEDOUT;
		/* loop: a file may be readable although its member has nothing new */
	}
}

int WaitSet::list_files(struct fi_wait_pollfd &list) noexcept
{
	const std::lock_guard guard(lock_);
	const std::size_t room = std::exchange(list.nfds, members_.size());

	list.change_index = changes_;
	if (room && !list.fd)
		return REFUSE(-FI_EINVAL, subsys, "GETWAIT: nowhere to put %zu files", room);
	if (room < members_.size())
		return too_small(subsys, "GETWAIT", room, members_.size());
	std::transform(members_.begin(), members_.end(), list.fd, [](const Member &m) {
		return pollfd{m.fd, POLLIN, 0};
	});
	return 0;
}

int WaitSet::control(int command, void *arg) noexcept
{
	switch (command) {
	case FI_GETWAIT:
		if (wait_obj_ == FI_WAIT_POLLFD)
			return list_files(*static_cast<struct fi_wait_pollfd *>(arg));
		[[fallthrough]];
	case FI_GETWAITOBJ:
		return get_wait(command, arg, wait_obj_, subsys, signaller_.get(),
				[this] { return Result<int>(epoll_.get()); });
	default:
		return Object::control(command, arg);
	}
}

} // namespace treadle::fi
