// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_OBJECT_H
#define TREADLE_PROVIDER_OBJECT_H

#include <atomic>
#include <cstdint>
#include <utility>

#include "provider.h"

/* What every fid has in common: its struct fi_ops, and who keeps it from being closed. */
namespace treadle::fi
{

class Users
{
public:
	bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

private:
	friend class Use;
	std::atomic<std::uint32_t> count_{0};
};

/* Somebody's use of an object. While there is one, fi_close says -FI_EBUSY. */
class Use
{
public:
	Use() = default;
	explicit Use(Users &users) noexcept : users_(&users)
	{
		users_->count_.fetch_add(1, std::memory_order_relaxed);
	}
	Use(Use &&other) noexcept : users_(std::exchange(other.users_, nullptr)) {}
	Use &operator=(Use &&other) noexcept
	{
		std::swap(users_, other.users_);
		return *this;
	}
	~Use()
	{
		if (users_)
			users_->count_.fetch_sub(1, std::memory_order_release);
	}

private:
	Users *users_ = nullptr;
};

/* Does this command of fi_control read or write what its argument points to? */
constexpr bool needs_argument(int command) noexcept
{
	switch (command) {
	case FI_GETOPSFLAG:
	case FI_SETOPSFLAG:
	case FI_ALIAS:
	case FI_GETWAIT:
	case FI_GETWAITOBJ:
	case FI_BACKLOG:
	case FI_GET_RAW_MR:
	case FI_MAP_RAW_MR:
	case FI_QUEUE_WORK:
	case FI_CANCEL_WORK:
		return true;
	default:
		return false;
	}
}

/*
 * The base of a class T that is a Fid, say a struct fid_cq. T may have members
 *
 *	int bind(fid *other, std::uint64_t flags);
 *	int control(int command, void *arg);
 *	int open_ops(const char *ops, std::uint64_t flags, void **out);
 *	int prepare_close();	0, or -errno: it can't be closed
 */
template <class T, class Fid, std::size_t Class, fi_log_subsys Subsys> class Object : public Fid
{
public:
	static constexpr fi_log_subsys subsys = Subsys;

	Object(const Object &) = delete;
	Object &operator=(const Object &) = delete;

	/* A fid is the first member of whatever it is the fid of; f is never null. */
	static T &of(::fid *f) noexcept { return of(reinterpret_cast<Fid *>(f)); }
	static T &of(Fid *f) noexcept { return static_cast<T &>(*f); }

	Users users;

protected:
	explicit Object(void *context) noexcept : Fid{}
	{
		this->fid.fclass = Class;
		this->fid.context = context;
		this->fid.ops = &fid_ops;
	}
	~Object() = default;

	int bind(::fid *other, std::uint64_t) noexcept
	{
		return REFUSE(-FI_ENOSYS, Subsys, "bind: not to an object of class %zu",
			      other->fclass);
	}
	int control(int command, void *) noexcept
	{
		return REFUSE(-FI_ENOSYS, Subsys, "control: command %d is not supported", command);
	}
	int open_ops(const char *ops, std::uint64_t, void **) noexcept
	{
		return REFUSE(-FI_ENOSYS, Subsys, "open_ops: there are none called \"%s\"", ops);
	}
	int prepare_close() noexcept { return 0; }

private:
	static int fid_close(::fid *f) noexcept
	{
		T &self = of(f);
		const Uncanceled uncanceled;

		if (self.users.any())
			return REFUSE(-FI_EBUSY, Subsys, "close: still in use");
		const int rc = self.prepare_close();
		if (rc)
			return rc;
		delete &self;
		return 0;
	}
	static int fid_bind(::fid *f, ::fid *other, std::uint64_t flags) noexcept
	{
		if (!other)
			return REFUSE(-FI_EINVAL, Subsys, "bind: to nothing");
		return guard([&] { return of(f).bind(other, flags); });
	}
	static int fid_control(::fid *f, int command, void *arg) noexcept
	{
		if (!arg && needs_argument(command))
			return REFUSE(-FI_EINVAL, Subsys, "control: command %d needs an argument",
				      command);
		return guard([&] { return of(f).control(command, arg); });
	}
	static int fid_open_ops(::fid *f, const char *ops, std::uint64_t flags, void **out,
				void *) noexcept
	{
		if (!ops || !out)
			return REFUSE(-FI_EINVAL, Subsys, "open_ops: NULL");
		return of(f).open_ops(ops, flags, out);
	}

	static inline fi_ops fid_ops{
		.size = sizeof(fi_ops),
		.close = fid_close,
		.bind = fid_bind,
		.control = fid_control,
		.ops_open = fid_open_ops,
		.tostr = nullptr,
		.ops_set = nullptr,
	};
};

} // namespace treadle::fi

#endif
