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

#include "notify/eq_event.h"
#include "notify/waitset.h"

namespace treadle::fi
{

/*
 * fi_eq(3). The kernel's queue holds the events of connections. events_ holds events that calls of
 * this process make, and those fetched from the kernel but not read yet. It grows as needed, so it
 * can't overrun.
 *
 * A child after fork(2) has the files of its parent's queue, too. It neither reads, writes nor
 * changes them.
 */
class Eq final : public Object<Eq, fid_eq, FI_CLASS_EQ, FI_LOG_EQ>, public Waitable
{
public:
	static int open(fid_fabric *fabric, fi_eq_attr *attr, fid_eq **out, void *context) noexcept;

	/* Adds an event. May throw if there is no memory. */
	void report(std::uint32_t event, const void *entry, std::size_t size);
	/*
	 * Memory for events, allocated before the operation that they report. Reporting from it
	 * can't fail.
	 */
	class Reserve
	{
	public:
		explicit Reserve(std::size_t count) : events_(count) {}

	private:
		friend class Eq;

		std::list<EqEvent> events_;
	};
	void report(Reserve &from, std::uint32_t event, const fi_eq_entry &entry) noexcept;
	void report(Reserve &from, const fi_eq_err_entry &error) noexcept;
	/* FI_MR_COMPLETE */
	void report(Reserve &from, ::fid &region) noexcept;

	/* A registration in progress: FI_REG_MR. */
	class Pending : public Registration
	{
	public:
		using Registration::Registration;
		virtual ~Pending() = default;
		/*
		 * Takes the finished registration, which may be deleted here. Returns 0 or -errno
		 * for owner's event.
		 */
		virtual int finish(::fid *&owner) noexcept = 0;

	private:
		friend class Eq;

		std::list<EqEvent>
			event_; /* allocated when the registration began: reporting can't fail */
	};
	/* Prepares the queue for registrations. Call before the first begins. */
	void prepare_registrations() noexcept;
	/*
	 * Begins a registration; a reader of events will find its end. 0, or -errno: it was not
	 * begun.
	 */
	int begin(Pending &registration) noexcept;
	/*
	 * Takes finished registrations as a reader of events does. Their events stay for that
	 * reader.
	 */
	void take_finished() noexcept;
	/*
	 * Cancels `registration` if it is not null, waits for its end, and removes the events of
	 * `owner`. The queue can be used while this waits.
	 */
	void withdraw(const std::unique_ptr<Pending> &registration, const ::fid &owner) noexcept;

	/* A join in progress. It ends with FI_JOIN_COMPLETE for its owner, or an error. */
	class Joining
	{
	public:
		virtual ~Joining() = default;
		/* Has it ended? Sets error to 0 or -errno. The lock of the queue is held. */
		virtual bool joined(int &error) noexcept = 0;
		/* Its file is no longer watched. */
		virtual void reported() noexcept = 0;
		virtual ::fid &owner() noexcept = 0;
	};
	/*
	 * Watches a join. file becomes readable when it ends, perhaps before this call. 0 or
	 * -errno.
	 */
	int watch(Joining &joining, int file);
	/* Stops watching, and removes its event. */
	void unwatch(Joining &joining) noexcept;

	/*
	 * The kernel reports the events of an object here while its Source lives. Unread events go
	 * with the Source.
	 *
	 * on_event is called for each event that is no error, under the lock of the queue. It
	 * returns the fi_info that answers a connection request. If it throws, the event is
	 * reported again.
	 */
	class Source
	{
	public:
		using OnEvent = std::function<InfoPtr(const treadle_event &)>;

		Source() = default;
		Source(Eq &eq, ::fid &owner, OnEvent on_event);
		Source(Source &&other) noexcept { *this = std::move(other); }
		Source &operator=(Source &&other) noexcept
		{
			std::swap(eq_, other.eq_);
			std::swap(number_, other.number_);
			return *this;
		}
		~Source();

		explicit operator bool() const noexcept { return eq_; }
		/* Makes the kernel report to the queue: 0 or -errno. */
		int bind(auto &endpoint) noexcept
		{
			return negative(endpoint.bind(eq_->kernel_, number_));
		}

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
	struct Registered {
		::fid *owner;
		Source::OnEvent on_event;
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

	void add(EqEvent event);
	/* lock_ must be held */
	void append(EqEvent event);
	void append(std::list<EqEvent> &from) noexcept;
	bool is_ours() const noexcept { return getpid() == owner_; }
	int fetch();
	void take_registrations() noexcept;
	void take_joins();
	void append(::fid &owner, int error, std::uint32_t event);
	void drop_events_of(const ::fid *owner) noexcept;
	EqEvent translate(const Registered &source, const treadle_event &event);
	void update_own() noexcept;
	void remove_first() noexcept;

	static fi_ops_eq eq_ops;

	Use fabric_use_;
	const fi_wait_obj wait_obj_;
	const bool writable_;
	const std::uint32_t api_;
	EventQueue kernel_;
	detail::UniqueFd own_;	/* an eventfd, readable while events_ is not empty */
	detail::UniqueFd wake_; /* an epoll file: kernel_, own_ and the registrar */
	const pid_t owner_ = getpid();
	std::mutex lock_;
	std::list<EqEvent> events_;
	std::list<EqEvent> next_; /* memory for the next event taken from the kernel */
	std::map<std::uint64_t, Registered> sources_;
	std::uint64_t last_source_ = 0;
	std::vector<std::byte> err_data_; /* lent to the reader of the last error */
	std::optional<Registrar> registrar_;
	bool waiting_ = false; /* a thread waits for the registrar and takes what is done */
	std::condition_variable waited_;
	struct Watched {
		Joining *joining;
		int file;
	};
	std::vector<Watched> joins_;
	Membership membership_;
};

/* fi_bind of an object that takes one event queue and no flags; sets eq and use. */
int bind_eq(::fid *queue, std::uint64_t flags, fi_log_subsys subsys, std::atomic<Eq *> &eq,
	    Use &use) noexcept;

} // namespace treadle::fi

#endif
