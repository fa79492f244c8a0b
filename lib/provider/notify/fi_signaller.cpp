// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "notify/signaller.h"

#include <cerrno>
#include <csignal>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace treadle::fi
{

namespace
{

enum : std::uint32_t { something_came, shall_stop };

int watch(int epoll, int file, std::uint32_t events, std::uint32_t what) noexcept
{
	epoll_event event{.events = events, .data = {.u32 = what}};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event);
}

} // namespace

Signaller::Signaller(detail::UniqueFd epoll, detail::UniqueFd stop, detail::UniqueFd taken) noexcept
	: epoll_(std::move(epoll)), stop_(std::move(stop)), taken_(std::move(taken))
{
}

int Signaller::start(int file, std::unique_ptr<Signaller> &out)
{
	detail::UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
	if (epoll.get() < 0)
		return -errno;
	detail::UniqueFd stop(eventfd(0, EFD_CLOEXEC));
	if (stop.get() < 0)
		return -errno;
	detail::UniqueFd taken(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (taken.get() < 0)
		return -errno;
	sigset_t all, before;

	/* Edge-triggered: the thread reads neither file, and sees each change once. */
	if (watch(epoll.get(), file, EPOLLIN | EPOLLET, something_came) < 0 ||
	    watch(epoll.get(), taken.get(), EPOLLIN | EPOLLET, something_came) < 0 ||
	    watch(epoll.get(), stop.get(), EPOLLIN, shall_stop) < 0)
		return -errno;
	std::unique_ptr<Signaller> self(
		new Signaller(std::move(epoll), std::move(stop), std::move(taken)));
	sigfillset(&all); /* signals go to the application's threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int error = pthread_create(&self->thread_, nullptr, run, self.get());
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	if (error) /* EAGAIN: no memory for the stack, or too many threads */
		return error == EAGAIN ? -ENOMEM : -error;
	self->owner_ = getpid();
	out = std::move(self);
	return 0;
}

Signaller::~Signaller()
{
	const std::uint64_t one = 1;

	if (owner_ != getpid())
		return;
	(void)!write(stop_.get(), &one, sizeof(one));
	pthread_join(thread_, nullptr);
}

void Signaller::taken() noexcept
{
	const std::uint64_t one = 1;

	(void)!write(taken_.get(), &one, sizeof(one));
}

void *Signaller::run(void *arg) noexcept
{
	auto &self = *static_cast<Signaller *>(arg);
	epoll_event event;

	for (;;) {
		if (epoll_wait(self.epoll_.get(), &event, 1, -1) != 1)
			continue; /* interrupted, by a debugger for example */
		if (event.data.u32 == shall_stop)
			return nullptr;
		pthread_mutex_lock(&self.mutex_);
		pthread_cond_broadcast(&self.cond_);
		pthread_mutex_unlock(&self.mutex_);
	}
}

} // namespace treadle::fi
