// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_REGISTRAR_H
#define TREADLE_REGISTRAR_H

#include <cerrno>
#include <memory>
#include <new>

#include <unistd.h>

#include <treadle/uring.h>

namespace treadle
{

/**
 * Registers memory in the background, as pinning takes time.
 *
 * It works by an io_uring of its own, in threads of the kernel. A child after fork(2) can't use
 * that of its parent. Programs that have an io_uring use prep_register instead. It needs liburing.
 *
 * Threads: by one thread at a time.
 */
class Registrar
{
public:
	/* ENOSYS, EPERM: this process can't use io_uring. ENOMEM, EMFILE, ENFILE. */
	[[nodiscard]] static Result<Registrar> create() noexcept
	{
		io_uring uring;

		/* EAGAIN: a map of the ring would be locked, as in Mapping::create. */
		if (const int rc = io_uring_queue_init(entries, &uring, 0); rc < 0)
			return std::unexpected(from_errno(rc == -EAGAIN ? ENOMEM : -rc));
		std::unique_ptr<Ring> ring(new (std::nothrow) Ring{.uring = uring});
		if (!ring) {
			io_uring_queue_exit(&uring);
			return std::unexpected(from_errno(ENOMEM));
		}
		io_uring_probe *const probe = io_uring_get_probe_ring(&ring->uring);
		const bool works = probe && io_uring_opcode_supported(probe, IORING_OP_URING_CMD);
		io_uring_free_probe(probe);
		if (!works)
			return std::unexpected(from_errno(ENOSYS));
		return Registrar(std::move(ring));
	}

	/*
	 * The destructor cancels registrations that are under way, and waits for them, as the
	 * kernel writes to each Registration: they must live until then. Their result() is
	 * available afterwards.
	 */

	/* An error: it has not begun. */
	[[nodiscard]] std::error_code begin(Registration &registration) noexcept
	{
		io_uring_sqe *const sqe = ring_->entry();

		if (!sqe)
			return from_errno(EPERM);
		prep_register(sqe, registration);
		io_uring_sqe_set_data(sqe, &registration);
		const std::error_code failed = ring_->submit();
		ring_->under_way += !failed;
		return failed;
	}

	/* A registration that is done, or null. */
	Registration *next() noexcept
	{
		io_uring *const uring = &ring_->uring;
		io_uring_cqe *cqe;

		while ((io_uring_cq_ready(uring) || io_uring_cq_has_overflow(uring)) &&
		       ring_->is_ours() && io_uring_peek_cqe(uring, &cqe) == 0) {
			if (Registration *const done = ring_->take(cqe))
				return done;
		}
		return nullptr;
	}

	/* Asks a registration to end early; next() returns it in any case. */
	void cancel(Registration &registration) noexcept
	{
		registration.cancel();
		io_uring_sqe *const sqe = ring_->entry();
		if (!sqe)
			return;
		io_uring_prep_cancel(sqe, &registration, 0);
		io_uring_sqe_set_data(sqe, nullptr);
		std::ignore = ring_->submit(); /* if that fails, the registration takes its time */
	}

	/* Blocks until next() returns one. EINTR; EPERM: after fork. */
	[[nodiscard]] std::error_code wait() noexcept
	{
		io_uring_cqe *cqe;

		if (!ring_->is_ours())
			return from_errno(EPERM);
		for (;;) {
			const int rc = io_uring_wait_cqe(&ring_->uring, &cqe);

			if (rc || io_uring_cqe_get_data(cqe))
				return detail::status(rc);
			ring_->take(cqe); /* the answer to a cancel: next() would return null */
		}
	}

	/*
	 * For poll(2): readable when a registration is done, or a cancel was answered: then next()
	 * may be null. The registrar owns it. Never an error.
	 */
	[[nodiscard]] Result<int> fd() const noexcept { return ring_->uring.ring_fd; }

private:
	static constexpr unsigned int entries = 32; /* each is submitted at once */

	struct Ring {
		io_uring uring{};
		/* An entry that the kernel did not take, or null. It stays, to be filled again. */
		io_uring_sqe *left = nullptr;
		pid_t owner = getpid();
		unsigned int under_way = 0; /* registrations */

		~Ring()
		{
			if (is_ours())
				end_all();
			io_uring_queue_exit(&uring);
		}

		/* A child shares the memory of the ring, and must not take its parent's entries. */
		bool is_ours() const noexcept { return getpid() == owner; }

		/* An entry to fill; null in a child. There is one, as each is submitted at once. */
		io_uring_sqe *entry() noexcept
		{
			if (!is_ours())
				return nullptr;
			return left ?: (left = io_uring_get_sqe(&uring));
		}

		/* An error: the kernel did not take the entry. */
		std::error_code submit() noexcept
		{
			const int rc = io_uring_submit(&uring);

			if (rc != 1)
				return from_errno(rc < 0 ? -rc : EAGAIN);
			left = nullptr;
			return from_errno(0);
		}

		/* A registration that is done, with its result; null: the answer to a cancel. */
		Registration *take(io_uring_cqe *cqe) noexcept
		{
			auto *const done = static_cast<Registration *>(io_uring_cqe_get_data(cqe));

			if (done) {
				done->done(cqe->res);
				--under_way;
			}
			io_uring_cqe_seen(&uring, cqe);
			return done;
		}

		/* The kernel writes to registrations, so they must live while it has any. */
		void end_all() noexcept
		{
			io_uring_sqe *const sqe = under_way ? entry() : nullptr;

			if (sqe) {
				io_uring_prep_cancel(sqe, nullptr, IORING_ASYNC_CANCEL_ANY);
				io_uring_sqe_set_data(sqe, nullptr);
				std::ignore = submit(); /* if that fails, the wait is longer */
			}
			while (under_way) {
				io_uring_cqe *cqe;
				const int rc = io_uring_wait_cqe(&uring, &cqe);

				if (rc == 0) {
					if (Registration *const done = take(cqe))
						done->cancel();
				} else if (rc != -EINTR) {
					return;
				}
			}
		}
	};

	explicit Registrar(std::unique_ptr<Ring> ring) noexcept : ring_(std::move(ring)) {}

	std::unique_ptr<Ring> ring_;
};

} // namespace treadle

#endif
