// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "notify/cq.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#include <poll.h>
#include <unistd.h>

#include "info/address.h"
#include "notify/wait.h"

namespace treadle::fi
{

namespace
{

constexpr std::uint32_t usual_entries = 1024;

/* --- entries: the fields of a completion in each format -------------------------------- */

template <class Entry> void fill(Entry &entry, const treadle_cqe &cqe) noexcept
{
	entry.op_context = reinterpret_cast<void *>(cqe.context);
	if constexpr (requires { entry.len; }) {
		entry.flags = cqe.flags;
		entry.len = cqe.len;
	}
	if constexpr (requires { entry.data; }) {
		entry.buf = reinterpret_cast<void *>(cqe.buf);
		entry.data = cqe.data;
	}
	if constexpr (requires { entry.tag; })
		entry.tag = cqe.tag;
}

/* The sender in a completion with EADDRNOTAVAIL. Clears the fields that hold it. */
Address take_sender(treadle_cqe &cqe) noexcept
{
	const Address address = sender_of(cqe);

	cqe.olen = (cqe.flags & FI_TAGGED ? cqe.buf : cqe.tag) = 0;
	return address;
}

/*
 * Stores error data in the caller's buffer or, without one, in `own`: fi_cq(3), err_data_size. The
 * queue must be locked: a second reader of errors replaces `own`, which the first one was lent.
 */
void fill_data(fi_cq_err_entry &entry, std::string data, std::string &own,
	       std::uint32_t api) noexcept
{
	/* err_data_size came with 1.5. */
	const bool sized = FI_VERSION_GE(api, FI_VERSION(1, 5));

	if (sized && entry.err_data_size && entry.err_data) {
		entry.err_data_size = std::min(entry.err_data_size, data.size());
		std::memcpy(entry.err_data, data.data(), entry.err_data_size);
		return;
	}
	own = std::move(data);
	entry.err_data = own.empty() ? nullptr : own.data();
	if (sized)
		entry.err_data_size = own.size();
}

/*
 * Sets src_addr, which newer versions have after err_data_size. It would be the authorization key
 * of the sender, and there are no such keys.
 */
void fill_later_fields(fi_cq_err_entry *entry, std::uint32_t api) noexcept
{
	constexpr fi_addr_t src_addr = FI_ADDR_NOTAVAIL;

	if (FI_VERSION_GE(api, FI_VERSION(1, 20)))
		std::memcpy(entry + 1, &src_addr, sizeof(src_addr));
}

void fill_error(fi_cq_err_entry &entry, const treadle_cqe &cqe) noexcept
{
	fill(entry, cqe);
	entry.flags &= ~TREADLE_CQ_ERR_DATA;
	entry.olen = cqe.olen;
	if (cqe.error == EDESTADDRREQ && cqe.flags & FI_RECV)
		entry.err = FI_EINVAL; /* FI_EADDRNOTAVAIL would mean FI_SOURCE_ERR, with data */
	else if (cqe.error == ENOTCONN)
		entry.err = FI_ENOTCONN; /* as posting_failed() does */
	else
		entry.err = -fabric_error(-static_cast<int>(cqe.error));
	entry.prov_errno = static_cast<int>(cqe.error);
}

std::int64_t now() noexcept
{
	return std::chrono::duration_cast<std::chrono::nanoseconds>(
		       std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

/* --- the queue ----------------------------------------------------------------------- */

template <class Lock> class CqOf final : public Cq
{
public:
	using Queue = BasicCompletionQueue<Lock>;

	CqOf(Domain &domain, fi_wait_obj wait_obj, fi_cq_format format, Queue queue,
	     void *context) noexcept
		: Cq(domain, wait_obj, context), queue_(std::move(queue))
	{
		ops = table(format);
	}

	static CqOf &of(fid_cq *cq) noexcept { return static_cast<CqOf &>(Cq::of(cq)); }

	CompletionQueueId id() const noexcept override { return queue_.id(); }

	int join(fid_wait *set) noexcept
	{
		return WaitSet::join(wait_obj_, set, *this, membership_);
	}

	bool has_entries() noexcept override
	{
		progress_.make();
		return queue_.ready();
	}
	std::uint32_t room() noexcept override { return queue_.room(); }
	std::error_code allow_local() noexcept override { return queue_.allow_local(); }
	detail::LocalQueue local() noexcept override { return queue_.local(); }
	void wake() noexcept override
	{
		if (!queue_.signal())
			membership_.taken();
	}
	int try_wait() noexcept override
	{
		progress_.stop(); /* the end of the caller's sleep is not told */
		return has_entries() || take_signal() ? -FI_EAGAIN : 0;
	}
	Result<int> wait_fd() noexcept override
	{
		progress_.stop();
		return queue_.fd();
	}

private:
	/*
	 * After fi_cq_signal, the file of an empty queue is readable until it is read. Reports and
	 * takes that.
	 */
	bool take_signal() noexcept
	{
		const bool none = wait_obj_ == FI_WAIT_NONE || wait_obj_ == FI_WAIT_UNSPEC;
		const auto fd = none ? Result<int>(-1) : queue_.fd();
		std::uint64_t unused;
		pollfd file{fd ? *fd : -1, POLLIN, 0};

		if (poll(&file, 1, 0) != 1)
			return false;
		(void)!::read(file.fd, &unused, sizeof(unused));
		membership_.taken();
		return true;
	}

	static std::uint32_t clamp(std::size_t count) noexcept
	{
		return static_cast<std::uint32_t>(
			std::min<std::size_t>(count, std::numeric_limits<int>::max()));
	}

	/* Errors stay in the queue until fi_cq_readerr. */
	template <class Entry, class Also>
	[[gnu::always_inline]] static ssize_t take(fid_cq *cq, void *buf, std::size_t count,
						   Also also) noexcept
	{
		if (of(cq).queue_.has_local())
			return take_local<Entry>(cq, buf, count, also);
		if (Progress *const progress = of(cq).progress_.any()) [[unlikely]]
			return make_and_take<Entry>(cq, buf, count, also, *progress);
		return take_from_kernel<Entry>(cq, buf, count, also);
	}
	/* When no local ones are left. */
	template <class Entry, class Also>
	[[gnu::noinline]] static ssize_t make_and_take(fid_cq *cq, void *buf, std::size_t count,
						       Also also, Progress &progress) noexcept
	{
		progress.make_progress();
		if (of(cq).queue_.has_local())
			return take_local<Entry>(cq, buf, count, also);
		return take_from_kernel<Entry>(cq, buf, count, also);
	}
	template <class Entry, class Also> static auto visitor(Entry *&out, Also &also) noexcept
	{
		return [&] [[gnu::always_inline]] (const treadle_cqe &cqe) {
			if (cqe.error) [[unlikely]]
				return false;
			fill(*out++, cqe);
			also(cqe);
			return true;
		};
	}
	template <class Entry, class Also>
	[[gnu::noinline]] static ssize_t take_from_kernel(fid_cq *cq, void *buf, std::size_t count,
							  Also also) noexcept
	{
		auto *out = static_cast<Entry *>(buf);
		const int taken = of(cq).queue_.consume_here(clamp(count), visitor(out, also));

		if (taken > 0) [[likely]]
			return taken;
		if (taken == -EAGAIN) [[likely]]
			return -FI_EAGAIN;
		return taken ? none(taken) : take_any<Entry>(cq, buf, count, also);
	}
	/* If the provider itself has completed operations: often those are the oldest. */
	template <class Entry, class Also>
	[[gnu::noinline]] static ssize_t take_local(fid_cq *cq, void *buf, std::size_t count,
						    Also also) noexcept
	{
		auto *out = static_cast<Entry *>(buf);
		const std::uint32_t taken = of(cq).queue_.consume_local(count, visitor(out, also));

		if (taken) [[likely]]
			return taken;
		return take_any<Entry>(cq, buf, count, also);
	}
	template <class Entry, class Also>
	[[gnu::noinline]] static ssize_t take_any(fid_cq *cq, void *buf, std::size_t count,
						  Also also) noexcept
	{
		if (!count) [[unlikely]]
			return look(cq);
		auto *out = static_cast<Entry *>(buf);
		const int taken =
			result_of(of(cq).queue_.consume(clamp(count), visitor(out, also)));

		if (taken > 0) [[likely]]
			return taken;
		return taken ? none(taken) : -FI_EAVAIL;
	}
	/*
	 * The result of a read that took nothing. Concurrent readers are logged once in a process,
	 * by the first queue that sees them.
	 */
	[[gnu::noinline]] static int none(int error) noexcept
	{
		static std::atomic_flag logged;

		if (error != -EBUSY)
			return error;
		if (!logged.test_and_set(std::memory_order_relaxed))
			REFUSE(-FI_EAGAIN, subsys,
			       "read: two threads read one queue at a time, which only "
			       "FI_THREAD_SAFE allows; completions may be read twice");
		return -FI_EAGAIN;
	}
	/* A read of no entries: checks whether there is one, and whether it is an error. */
	static ssize_t look(fid_cq *cq) noexcept
	{
		bool failed = false;
		const int taken = result_of(of(cq).queue_.consume(1, [&](const treadle_cqe &cqe) {
			failed = cqe.error;
			return false;
		}));

		return failed ? -FI_EAVAIL : none(taken);
	}

	template <class Entry>
	static ssize_t read(fid_cq *cq, void *buf, std::size_t count) noexcept
	{
		return take<Entry>(cq, buf, count, [](const treadle_cqe &) {});
	}
	template <class Entry>
	static ssize_t read_from(fid_cq *cq, void *buf, std::size_t count, fi_addr_t *src) noexcept
	{
		if (!src)
			return read<Entry>(cq, buf, count);
		return take<Entry>(cq, buf, count,
				   [&](const treadle_cqe &cqe) { *src++ = cqe.src; });
	}
	static ssize_t read_error(fid_cq *f, fi_cq_err_entry *buf, std::uint64_t) noexcept
	{
		CqOf &cq = of(f);
		int error = 0;

		if (!buf)
			return REFUSE(-FI_EINVAL, subsys, "readerr: NULL");
		cq.progress_.make();
		const int taken = result_of(cq.queue_.consume(1, [&](const treadle_cqe &first) {
			treadle_cqe cqe = first;
			std::string data;

			/* The error stays in the queue if there is no memory for its data. */
			error = guard([&] {
				if (cqe.error == EADDRNOTAVAIL &&
				    cqe.flags & (FI_RECV | FI_REMOTE_WRITE))
					data = encode(cq.domain_.addr_format(), take_sender(cqe));
				return 0;
			});
			if (!cqe.error || error)
				return false;
			fill_error(*buf, cqe);
			fill_data(*buf, std::move(data), cq.error_data_, cq.domain_.api());
			fill_later_fields(buf, cq.domain_.api());
			return true;
		}));

		if (taken <= 0)
			return error ?: none(taken ?: -FI_EAGAIN);
		return taken;
	}
	int sleep(Timeout timeout, std::uint32_t signals) noexcept
	{
		const ProgressList::Sleep sleeping(progress_);

		if (!sleeping)
			return -ENOMEM;
		return negative(queue_.wait(timeout, signals));
	}
	/* Ignores the condition, which is a hint (fi_cq(3)). The first completion ends the wait. */
	template <class Entry>
	static ssize_t wait_and_read_from(fid_cq *f, void *buf, std::size_t count, fi_addr_t *src,
					  const void *, int timeout) noexcept
	{
		CqOf &cq = of(f);
		const std::int64_t end = timeout < 0 ? 0 : now() + timeout_of(timeout).count();
		/* Later signals end this call, even if they come between two waits. */
		const std::uint32_t signals = cq.queue_.signals();

		if (cq.wait_obj_ == FI_WAIT_NONE)
			return REFUSE(-FI_EINVAL, subsys, "sread: was opened with FI_WAIT_NONE");
		for (;;) {
			const ssize_t n = read_from<Entry>(f, buf, count, src);
			if (n != -FI_EAGAIN)
				return n;
			const int rc =
				cq.sleep(timeout < 0 ? forever : Timeout(end - now()), signals);
			if (rc == -ECANCELED && cq.queue_.has_local())
				continue; /* perhaps it was for that: see wake */
			if (rc == -ETIMEDOUT || rc == -ECANCELED || rc == -EINTR)
				return -FI_EAGAIN; /* timeout, fi_cq_signal or a system signal */
			if (rc)
				return fabric_error(rc);
		}
	}
	template <class Entry>
	static ssize_t wait_and_read(fid_cq *cq, void *buf, std::size_t count,
				     const void *condition, int timeout) noexcept
	{
		return wait_and_read_from<Entry>(cq, buf, count, nullptr, condition, timeout);
	}
	static int signal(fid_cq *f) noexcept
	{
		CqOf &cq = of(f);

		if (cq.wait_obj_ == FI_WAIT_NONE)
			return REFUSE(-FI_EINVAL, subsys, "signal: was opened with FI_WAIT_NONE");
		const int rc = negative(cq.queue_.signal());
		if (!rc) /* another reader may take it meanwhile */
			cq.membership_.taken();
		return fabric_error(rc);
	}
	static const char *explain(fid_cq *, int error, const void *, char *buf,
				   std::size_t len) noexcept
	{
		const char *text = treadle::describe(error);

		if (buf && len)
			std::snprintf(buf, len, "%s", text);
		return text;
	}

	template <class Entry>
	static inline fi_ops_cq cq_ops{
		.size = sizeof(fi_ops_cq),
		.read = read<Entry>,
		.readfrom = read_from<Entry>,
		.readerr = read_error,
		.sread = wait_and_read<Entry>,
		.sreadfrom = wait_and_read_from<Entry>,
		.signal = signal,
		.strerror = explain,
	};

	static fi_ops_cq *table(fi_cq_format format) noexcept
	{
		switch (format) {
		case FI_CQ_FORMAT_MSG:
			return &cq_ops<fi_cq_msg_entry>;
		case FI_CQ_FORMAT_DATA:
			return &cq_ops<fi_cq_data_entry>;
		case FI_CQ_FORMAT_TAGGED:
			return &cq_ops<fi_cq_tagged_entry>;
		default: /* no format was asked for, so the smallest will do */
			return &cq_ops<fi_cq_entry>;
		}
	}

	Queue queue_;
	std::string
		error_data_; /* of the last error, lent to its reader until the next: fi_cq(3) */
};

template <class Lock>
int open_as(Domain &domain, const fi_cq_attr &attr, std::uint32_t entries, fid_cq **out,
	    void *context) noexcept
{
	auto queue = BasicCompletionQueue<Lock>::create(domain.kernel(), entries);

	if (!queue)
		return REFUSE(fabric_error(negative(queue.error())), Cq::subsys, "open: %u entries",
			      entries);
	return guard([&] {
		auto cq = std::make_unique<CqOf<Lock>>(domain, attr.wait_obj, attr.format,
						       std::move(*queue), context);
		const int rc = cq->join(attr.wait_set);
		if (!rc)
			*out = cq.release();
		return rc;
	});
}

} // namespace

int Cq::open(fid_domain *domain, fi_cq_attr *attr, fid_cq **out, void *context) noexcept
{
	static const fi_cq_attr usual{};
	const fi_cq_attr &asked = attr ? *attr : usual;
	Domain &in = Domain::of(domain);

	if (asked.flags & FI_PEER)
		return no_peer(subsys, "cq_open");
	if (asked.flags & ~FI_AFFINITY)
		return REFUSE(-FI_EBADFLAGS, subsys, "open: flags 0x%" PRIx64, asked.flags);
	if (!can_wait_on(asked.wait_obj))
		return REFUSE(-FI_ENOSYS, subsys, "open: wait_obj %d", asked.wait_obj);
	if (asked.format < FI_CQ_FORMAT_UNSPEC || asked.format > FI_CQ_FORMAT_TAGGED)
		return REFUSE(-FI_EINVAL, subsys, "open: format %d", asked.format);
	if (asked.wait_obj != FI_WAIT_NONE && asked.wait_cond != FI_CQ_COND_NONE &&
	    asked.wait_cond != FI_CQ_COND_THRESHOLD)
		return REFUSE(-FI_EINVAL, subsys, "open: wait_cond %d", asked.wait_cond);
	if (asked.size > in.kernel().limits().max_cq)
		return REFUSE(-FI_EINVAL, subsys, "open: %zu entries, at most %u", asked.size,
			      in.kernel().limits().max_cq);
	const auto entries = asked.size ? static_cast<std::uint32_t>(asked.size) :
					  std::min(usual_entries, in.kernel().limits().max_cq);
	return in.serialized() ? open_as<NoLock>(in, asked, entries, out, context) :
				 open_as<Mutex>(in, asked, entries, out, context);
}

int Cq::control(int command, void *arg) noexcept
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

} // namespace treadle::fi
