// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_EQ_H
#define TREADLE_PROVIDER_EQ_H

#include <deque>
#include <mutex>
#include <vector>

#include <rdma/fi_eq.h>

#include <treadle/detail/fd.h>

#include "waitset.h"

namespace treadle::fi
{

/*
 * fi_eq(3). Nothing in the kernel: all that this provider reports here happens
 * in calls of the same process. It grows as needed, so there is no overrun.
 */
class Eq final : public Object<Eq, fid_eq, FI_CLASS_EQ, FI_LOG_EQ>, public Waitable
{
public:
	static int open(fid_fabric *fabric, fi_eq_attr *attr, fid_eq **out, void *context) noexcept;

	/* Adds an event, or an error. They may throw for want of memory. */
	void report(std::uint32_t event, const void *entry, std::size_t size);
	void report(const fi_eq_err_entry &error);

	int try_wait() noexcept override;
	Result<int> wait_fd() noexcept override { return wake_.get(); }

	int control(int command, void *arg) noexcept;
	int prepare_close() noexcept
	{
		membership_ = {};
		return 0;
	}

private:
	struct Event {
		bool failed;
		std::uint32_t event;
		std::vector<std::byte> entry; /* or a fi_eq_err_entry */
	};

	Eq(Fabric &fabric, const fi_eq_attr &attr, detail::UniqueFd wake, void *context);

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
	void remove_first() noexcept; /* lock_ is held */

	static fi_ops_eq eq_ops;

	Use fabric_use_;
	const fi_wait_obj wait_obj_;
	const bool writable_;
	detail::UniqueFd wake_; /* an eventfd, readable while there are events */
	std::mutex lock_;
	std::deque<Event> events_;
	Membership membership_;
};

} // namespace treadle::fi

#endif
