// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_WAITSET_H
#define TREADLE_PROVIDER_WAITSET_H

#include <mutex>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include <rdma/fi_eq.h>

#include <treadle/detail/fd.h>

#include "domain/fabric.h"
#include "notify/wait.h"

namespace treadle::fi
{

class WaitSet;

/* Membership in a wait set, or a Signaller, for as long as this lives. */
class Membership
{
public:
	Membership() = default;
	Membership(WaitSet &set, Waitable &member) noexcept;
	Membership(Membership &&other) noexcept { *this = std::move(other); }
	Membership &operator=(Membership &&other) noexcept
	{
		std::swap(set_, other.set_);
		std::swap(member_, other.member_);
		std::swap(use_, other.use_);
		std::swap(signaller_, other.signaller_);
		return *this;
	}
	~Membership() { leave(); }
	/* Leaves the set. Waits while the set asks its members. */
	void leave() noexcept;

	Signaller *signaller() const noexcept { return signaller_.get(); }
	/* The caller has read the file's event, which other waits for it would miss otherwise. */
	void taken() noexcept;

private:
	friend class WaitSet;
	WaitSet *set_ = nullptr;
	Waitable *member_ = nullptr;
	Use use_;
	std::unique_ptr<Signaller> signaller_;
};

/*
 * fi_poll(3): one epoll(7) file for the files of all members. An object opened with FI_WAIT_SET
 * joins, and keeps the set from being closed.
 *
 * A child after fork(2) has the file, too, and leaves it as it is.
 */
class WaitSet : public Object<WaitSet, fid_wait, FI_CLASS_WAIT, FI_LOG_FABRIC>
{
public:
	static int open(fid_fabric *fabric, fi_wait_attr *attr, fid_wait **out) noexcept;

	/*
	 * Joins for an object opened with FI_WAIT_SET or FI_WAIT_MUTEX_COND; does nothing for
	 * others. 0 or -errno.
	 */
	static int join(fi_wait_obj object, fid_wait *set, Waitable &member,
			Membership &membership) noexcept;

	/* May a caller block on the file? 0 or -FI_EAGAIN; -FI_EPERM in a child. */
	int try_wait() noexcept;
	/* Called by a member: ends every wait that has begun. */
	void taken() noexcept;

	int control(int command, void *arg) noexcept;

private:
	friend class Membership;
	class Waiter;
	WaitSet(Fabric &fabric, fi_wait_obj wait_obj, detail::UniqueFd epoll,
		detail::UniqueFd taken);

	static int signal(Waitable &member, Membership &membership);
	int add(Waitable &member, Membership &membership);
	void remove(Waitable &member) noexcept;
	int list_files(struct fi_wait_pollfd &list) noexcept;
	bool is_ours() const noexcept { return getpid() == owner_; }

	static int wait(fid_wait *set, int timeout) noexcept;

	static fi_ops_wait wait_ops;

	struct Member {
		Waitable *object;
		int fd;
	};
	Use fabric_use_;
	const fi_wait_obj wait_obj_;
	detail::UniqueFd epoll_;
	const pid_t owner_ = getpid();
	std::unique_ptr<Signaller> signaller_;
	std::mutex lock_;
	std::vector<Member> members_;
	std::uint64_t changes_ = 0;
	/*
	 * The number of waits, and of those that began before a thread last took an event that they
	 * may wait for. While there are any of the latter, the file taken_ is readable.
	 */
	std::mutex waiters_lock_; /* taken inside lock_ */
	detail::UniqueFd taken_;
	std::uint64_t takings_ = 0;
	unsigned int waiters_ = 0, late_ = 0;
};

} // namespace treadle::fi

#endif
