// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_EQ_H
#define TREADLE_PROVIDER_EQ_H

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include <rdma/fi_eq.h>

#include <treadle/event_queue.h>
#include <treadle/registrar.h>

#include "waitset.h"

namespace treadle::fi
{

/*
 * fi_eq(3). The kernel's queue has what happens to connections; what happens in
 * calls of this process, and what was read there but not from here, is kept in
 * events_, which grows as needed, so there is no overrun. A child after fork(2) has
 * the files of its parent's queue, too: it neither reads, writes nor changes them.
 */
class Eq final : public Object<Eq, fid_eq, FI_CLASS_EQ, FI_LOG_EQ>, public Waitable
{
	struct Event;

public:
	static int open(fid_fabric *fabric, fi_eq_attr *attr, fid_eq **out, void *context) noexcept;

	/* Adds an event. It may throw for want of memory. */
	void report(std::uint32_t event, const void *entry, std::size_t size);
	/* Events for which there is memory before that happens which they tell of: adding one of these can't fail. */
	class Reserve
	{
	public:
		explicit Reserve(std::size_t count) : events_(count) {}

	private:
		friend class Eq;

		std::list<Event> events_;
	};
	void report(Reserve &from, std::uint32_t event, const fi_eq_entry &entry) noexcept;
	void report(Reserve &from, const fi_eq_err_entry &error) noexcept;
	/* FI_MR_COMPLETE */
	void report(Reserve &from, ::fid &region) noexcept;

	/* A registration that is under way: FI_REG_MR. */
	class Pending : public Registration
	{
	public:
		using Registration::Registration;
		virtual ~Pending() = default;
		/* It is done, and may be deleted here. 0 or -errno, for owner's event. */
		virtual int finish(::fid *&owner) noexcept = 0;

	private:
		friend class Eq;

		std::list<Event>
			event_; /* to tell of it, since it has begun: then that can't fail */
	};
	/* For who reports registrations here, before they begin. */
	void prepare_registrations() noexcept;
	/* Whoever looks for events will find it done. 0, or -errno: it was not begun. */
	int begin(Pending &registration) noexcept;
	/* Takes what is done, as who reads events does, to whom they stay. */
	void take_finished() noexcept;
	/*
	 * Ends one that is under way, if that is not null, and takes back its owner's events. The queue can be used
	 * while this waits.
	 */
	void withdraw(const std::unique_ptr<Pending> &registration, const ::fid &owner) noexcept;

	/* Something that ends by itself: FI_JOIN_COMPLETE, or the error, of its owner. */
	class Joining
	{
	public:
		virtual ~Joining() = default;
		/* Has it ended? error: 0 or -errno. Under the lock of the queue. */
		virtual bool joined(int &error) noexcept = 0;
		/* Its file is not watched any more. */
		virtual void told() noexcept = 0;
		virtual ::fid &owner() noexcept = 0;
	};
	/* file: readable when it has ended, perhaps before this call. 0 or -errno. */
	int watch(Joining &joining, int file);
	/* No more, and takes back the event. */
	void unwatch(Joining &joining) noexcept;

	/*
	 * Whose events the kernel reports, while this lives. When it goes, its events
	 * go with it. hear: is told of each that is no error, under the lock of the queue; returns what
	 * answers a connection request. If it throws, the event is told again.
	 */
	class Source
	{
	public:
		using Hear = std::function<InfoPtr(const treadle_event &)>;

		Source() = default;
		Source(Eq &eq, ::fid &owner, Hear hear);
		Source(Source &&other) noexcept { *this = std::move(other); }
		Source &operator=(Source &&other) noexcept
		{
			std::swap(eq_, other.eq_);
			std::swap(number_, other.number_);
			return *this;
		}
		~Source();

		explicit operator bool() const noexcept { return eq_; }
		/* Lets the kernel report to the queue: 0 or -errno. */
		int bind(auto &endpoint) noexcept { return endpoint.bind(eq_->kernel_, number_); }

	private:
		Eq *eq_ = nullptr;
		std::uint64_t number_ = 0;
	};

	int try_wait() noexcept override;
	Result<int> wait_fd() noexcept override { return wake_.get(); }

	int control(int command, void *arg) noexcept;
	int prepare_close() noexcept
	{
		membership_.leave();
		return 0;
	}

private:
	struct Event {
		Event(std::uint32_t event, const void *entry, std::size_t size)
			: event(event), entry(bytes(entry), bytes(entry) + size)
		{
		}
		explicit Event(const fi_eq_err_entry &error) : Event() { tell(error); }
		/* With room for what tell() puts there. */
		Event() { entry.reserve(sizeof(fi_eq_err_entry)); }
		void tell(::fid &of, int error, std::uint32_t kind) noexcept;
		void tell(std::uint32_t kind, const fi_eq_entry &done) noexcept;
		void tell(const fi_eq_err_entry &error) noexcept;
		static const std::byte *bytes(const void *p)
		{
			return static_cast<const std::byte *>(p);
		}

		bool failed = false;
		std::uint32_t event = 0;
		std::vector<std::byte> entry; /* or a fi_eq_err_entry */
		const ::fid *owner = nullptr; /* with whom it goes: of a Source, or a region */
		InfoPtr info;		      /* of a connection request, until it is read */
		std::vector<std::byte> err_data;
		/* What the kernel said, nothing else yet: there may be no memory for that now. */
		std::unique_ptr<treadle_event> told;

		bool about_connection() const noexcept
		{
			return owner && !failed && event != FI_MR_COMPLETE &&
			       event != FI_JOIN_COMPLETE;
		}
	};
	struct Registered {
		::fid *owner;
		Source::Hear hear;
	};

	Eq(Fabric &fabric, const fi_eq_attr &attr, EventQueue kernel, detail::UniqueFd own,
	   detail::UniqueFd wake, void *context);

	static ssize_t read(fid_eq *eq, std::uint32_t *event, void *buf, std::size_t len,
			    std::uint64_t flags) noexcept;
	static ssize_t read_error(fid_eq *eq, fi_eq_err_entry *buf, std::uint64_t flags) noexcept;
	static ssize_t write(fid_eq *eq, std::uint32_t event, const void *buf, std::size_t len,
			     std::uint64_t flags) noexcept;
	static ssize_t wait_and_read(fid_eq *eq, std::uint32_t *event, void *buf, std::size_t len,
				     int timeout, std::uint64_t flags) noexcept;
	static const char *explain(fid_eq *eq, int error, const void *data, char *buf,
				   std::size_t len) noexcept;

	void add(Event event);
	/* lock_ is held */
	void append(Event event);
	void append(std::list<Event> &from) noexcept;
	bool is_ours() const noexcept { return getpid() == owner_; }
	int fetch();
	void take_registrations() noexcept;
	void take_joins();
	void append(::fid &owner, int error, std::uint32_t event);
	void drop_events_of(const ::fid *owner) noexcept;
	Event translate(const Registered &source, const treadle_event &event);
	void update_own() noexcept;
	void remove_first() noexcept;

	static fi_ops_eq eq_ops;

	Use fabric_use_;
	const fi_wait_obj wait_obj_;
	const bool writable_;
	const std::uint32_t api_;
	EventQueue kernel_;
	detail::UniqueFd own_;	/* an eventfd, readable while there is something in events_ */
	detail::UniqueFd wake_; /* of epoll(7): both, and the registrar */
	const pid_t owner_ = getpid();
	std::mutex lock_;
	std::list<Event> events_;
	std::list<Event> next_; /* room to keep what is taken from the kernel next */
	std::map<std::uint64_t, Registered> sources_;
	std::uint64_t last_source_ = 0;
	std::vector<std::byte> err_data_; /* that the last error lent to its reader */
	std::optional<Registrar> registrar_;
	bool waiting_ = false; /* a thread waits for the registrar's file, and takes what is done */
	std::condition_variable waited_;
	struct Watched {
		Joining *joining;
		int file;
	};
	std::vector<Watched> joins_;
	Membership membership_;
};

/* fi_bind of an object that takes one event queue, and without flags: eq, use. */
int bind_eq(::fid *queue, std::uint64_t flags, fi_log_subsys subsys, std::atomic<Eq *> &eq,
	    Use &use) noexcept;

} // namespace treadle::fi

#endif
