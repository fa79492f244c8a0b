// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_OBJECT_H
#define TREADLE_PROVIDER_OBJECT_H

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/provider.h"

/* What every fid has in common: its struct fi_ops, and the users that keep it open. */
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

/* A use of an object. While there is one, fi_close returns -FI_EBUSY. */
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

/*
 * A hooking provider (FI_HOOK) passes its own fid as the context of an object that it opens here.
 * The application knows only that fid and may name it in a structure, which is passed on unchanged.
 * Each object that can be named so has one of these.
 */
class Hooked
{
public:
	explicit Hooked(::fid &ours); /* may throw */
	Hooked(const Hooked &) = delete;
	Hooked &operator=(const Hooked &) = delete;
	~Hooked();

	/*
	 * The first object of this table and of the class of `theirs` that was opened for `theirs`;
	 * or null.
	 */
	static ::fid *find(const ::fid *theirs, const fi_ops *table) noexcept;

private:
	::fid &ours_;
	const void *const context_; /* a copy, as the application may change fid.context */
};

/* A call that returns an object by a pointer; refused if the pointer is null. */
template <auto Call> struct Opens;
template <class... A, int (*Call)(A...) noexcept> struct Opens<Call> {
	static int call(A... a) noexcept
	{
		if ((lacks_place(a) || ...))
			return REFUSE(-FI_EINVAL, FI_LOG_CORE, "nowhere to put what is opened");
		return Call(a...);
	}

private:
	template <class T> static bool lacks_place(T) noexcept { return false; }
	template <class Fid>
	requires std::is_same_v<decltype(Fid::fid), ::fid>
	static bool lacks_place(Fid **out) noexcept { return !out; }
};
template <auto Call> inline constexpr auto opens = Opens<Call>::call;

/* Does this fi_control command access what its argument points to? */
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
	case FI_REFRESH:
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

	/* A fid is the first member of its object; f is never null. */
	static T &of(::fid *f) noexcept { return of(reinterpret_cast<Fid *>(f)); }
	static T &of(Fid *f) noexcept { return static_cast<T &>(*f); }

	/*
	 * The object that an application names in a call. Returns null for NULL, another class, or
	 * an object of another provider.
	 */
	static T *known(::fid *f) noexcept
	{
		if (!f || f->ops == &fid_ops)
			return f ? &of(f) : nullptr;
		::fid *const hooked = Hooked::find(f, &fid_ops);
		return hooked ? &of(hooked) : nullptr;
	}
	static T *known(Fid *f) noexcept { return known(reinterpret_cast<::fid *>(f)); }

	/* fi_bind: refuses this kind of object. */
	static int not_bound_to(const ::fid &other) noexcept
	{
		return REFUSE(-FI_EINVAL, Subsys,
			      "bind: not to an object of class %zu of this provider, "
			      "or to one of another",
			      other.fclass);
	}

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
	static int fid_set_ops(::fid *, const char *ops, std::uint64_t, void *, void *) noexcept
	{
		return REFUSE(-FI_ENOSYS, Subsys, "set_ops: \"%s\": there are none to be set",
			      ops ? ops : "");
	}
	static int fid_tostr(const ::fid *, char *, std::size_t) noexcept
	{
		return REFUSE(-FI_ENOSYS, Subsys, "tostr: is not supported");
	}

	static inline fi_ops fid_ops{
		.size = sizeof(fi_ops),
		.close = fid_close,
		.bind = fid_bind,
		.control = fid_control,
		.ops_open = fid_open_ops,
		.tostr = fid_tostr,
		.ops_set = fid_set_ops,
	};
};

} // namespace treadle::fi

#endif
