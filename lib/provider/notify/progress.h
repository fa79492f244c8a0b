// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_PROGRESS_H
#define TREADLE_PROVIDER_PROGRESS_H

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <treadle/threading.h>

namespace treadle::fi
{

/* What makes progress only when the application calls: FI_PROGRESS_MANUAL. */
class Progress
{
public:
	virtual void make_progress() noexcept = 0;
	/*
	 * A thread is about to sleep: the kernel makes all progress until end_sleep. False: no
	 * memory, and the thread must not sleep.
	 */
	virtual bool begin_sleep() noexcept = 0;
	virtual void end_sleep() noexcept = 0;
	/* The kernel makes all progress from now on. */
	virtual void stop() noexcept = 0;

protected:
	~Progress() = default;
};

/*
 * The progress that a queue or a counter makes when it is read. Most have none: then all of this
 * costs one test.
 *
 * Lock order: this, then the locks of those that make progress.
 */
class ProgressList
{
public:
	/* locks: several threads may call at once. */
	explicit ProgressList(bool locks) noexcept : locks_(locks) {}

	/* May throw. */
	void add(Progress &progress);
	void remove(Progress &progress) noexcept;

	/* What makes all of it, or null. */
	Progress *any() const noexcept { return any_.load(std::memory_order_relaxed); }
	[[gnu::always_inline]] void make() noexcept
	{
		if (Progress *const what = any()) [[unlikely]]
			what->make_progress();
	}
	/*
	 * The application may sleep at any time from now on, without saying so. Either this sees
	 * what is added, or add sees it.
	 */
	void stop() noexcept
	{
		if (!stopped_.exchange(true) && any_)
			stop_all();
	}

	/* A thread may sleep as long as this lives. False: it must not. */
	class Sleep
	{
	public:
		explicit Sleep(ProgressList &list) noexcept : list_(list)
		{
			list.sleepers_.fetch_add(1);
			began_ = list.any_;
			may_ = !began_ || list.begin_sleep();
		}
		Sleep(const Sleep &) = delete;
		Sleep &operator=(const Sleep &) = delete;
		~Sleep()
		{
			if (began_)
				list_.end_sleep();
			list_.sleepers_.fetch_sub(1);
		}
		explicit operator bool() const noexcept { return may_; }

	private:
		ProgressList &list_;
		bool began_, may_;
	};

private:
	/* All of several, or what needs the lock. */
	class All final : public Progress
	{
	public:
		explicit All(ProgressList &list) noexcept : list_(list) {}
		void make_progress() noexcept override { list_.make_all(); }
		bool begin_sleep() noexcept override { return true; }
		void end_sleep() noexcept override {}
		void stop() noexcept override {}

	private:
		ProgressList &list_;
	};

	void choose() noexcept;
	std::unique_lock<Mutex> locked() noexcept
	{
		std::unique_lock lock(lock_, std::defer_lock);

		if (locks_)
			lock.lock();
		return lock;
	}
	void make_all() noexcept;
	void stop_all() noexcept;
	bool begin_sleep() noexcept;
	void end_sleep() noexcept;

	Mutex lock_;
	const bool locks_;
	All all_{*this};
	std::atomic<Progress *> any_ = nullptr; /* the only member, or all; null: there is none */
	std::atomic<bool> stopped_ = false;
	std::atomic<std::uint32_t> sleepers_ = 0;
	std::vector<Progress *> members_;
};

} // namespace treadle::fi

#endif
