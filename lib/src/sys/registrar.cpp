// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/registrar.h>

#include <cerrno>
#include <new>

#include <liburing.h>
#include <unistd.h>

#include <treadle/context.h>

namespace treadle
{

constexpr unsigned int ring_entries = 32; /* each entry is submitted at once */

struct Registrar::Ring {
	io_uring uring{};
	/* An entry that the kernel did not take, or null. It stays in the ring, to be filled again. */
	io_uring_sqe *left = nullptr;
	pid_t owner = getpid();
	unsigned int under_way = 0; /* registrations */

	~Ring()
	{
		if (is_ours())
			end_all();
		io_uring_queue_exit(&uring);
	}

	/* A child shares the memory of the ring, and must not take entries of its parent. */
	bool is_ours() const noexcept { return getpid() == owner; }

	/* An entry to fill; null in a child. There always is one, as each is submitted at once. */
	io_uring_sqe *entry() noexcept
	{
		if (!is_ours())
			return nullptr;
		return left ?: (left = io_uring_get_sqe(&uring));
	}
	/* 0, or -errno: the kernel did not take the entry. */
	int submit() noexcept
	{
		const int rc = io_uring_submit(&uring);

		if (rc == 1)
			left = nullptr;
		return rc == 1 ? 0 : rc < 0 ? rc : -EAGAIN;
	}

	/* A registration that is done, with its result; null: the answer to a cancel. */
	Registration *take(io_uring_cqe *cqe) noexcept
	{
		auto *const done = static_cast<Registration *>(io_uring_cqe_get_data(cqe));

		if (done) {
			done->result_ = cqe->res;
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
			submit(); /* if that fails, the wait is longer */
		}
		while (under_way) {
			io_uring_cqe *cqe;
			const int rc = io_uring_wait_cqe(&uring, &cqe);

			if (rc == 0) {
				if (Registration *const done = take(cqe))
					done->canceled_ = true;
			} else if (rc != -EINTR) {
				return;
			}
		}
	}
};

Registrar::Registrar(std::unique_ptr<Ring> ring) noexcept : ring_(std::move(ring)) {}
Registrar::Registrar(Registrar &&) noexcept = default;
Registrar &Registrar::operator=(Registrar &&) noexcept = default;
Registrar::~Registrar() = default;

Result<Registrar> Registrar::create() noexcept
{
	io_uring uring;

	/* EAGAIN: a map of the ring would be locked, as in Mapping::create. */
	if (const int rc = io_uring_queue_init(ring_entries, &uring, 0); rc < 0)
		return std::unexpected(Errno(rc == -EAGAIN ? ENOMEM : -rc));
	std::unique_ptr<Ring> ring(new (std::nothrow) Ring{.uring = uring});
	if (!ring) {
		io_uring_queue_exit(&uring);
		return std::unexpected(Errno(ENOMEM));
	}
	io_uring_probe *const probe = io_uring_get_probe_ring(&ring->uring);
	const bool works = probe && io_uring_opcode_supported(probe, IORING_OP_URING_CMD);
	io_uring_free_probe(probe);
	if (!works)
		return std::unexpected(Errno(ENOSYS));
	return Registrar(std::move(ring));
}

int Registrar::begin(Registration &registration) noexcept
{
	io_uring_sqe *const sqe = ring_->entry();

	if (!sqe)
		return -EPERM;
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, registration.fd_, nullptr, 0, 0);
	sqe->cmd_op = TREADLE_IOC_MR_CREATE;
	sqe->addr3 = address_of(&registration.args_);
	sqe->__pad2[0] = 0;
	/* The kernel copies the entry: some (6.12) otherwise read it when it has been reused. */
	sqe->flags |= IOSQE_ASYNC;
	io_uring_sqe_set_data(sqe, &registration);
	const int rc = ring_->submit();
	ring_->under_way += rc == 0;
	return rc;
}

Registration *Registrar::next() noexcept
{
	io_uring *const uring = &ring_->uring;
	io_uring_cqe *cqe;

	while ((io_uring_cq_ready(uring) || io_uring_cq_has_overflow(uring)) && ring_->is_ours() &&
	       io_uring_peek_cqe(uring, &cqe) == 0) {
		if (Registration *const done = ring_->take(cqe))
			return done;
	}
	return nullptr;
}

void Registrar::cancel(Registration &registration) noexcept
{
	registration.canceled_ = true;
	io_uring_sqe *const sqe = ring_->entry();
	if (!sqe)
		return;
	io_uring_prep_cancel(sqe, &registration, 0);
	io_uring_sqe_set_data(sqe, nullptr);
	ring_->submit(); /* if that fails, the registration takes its time */
}

int Registrar::wait() noexcept
{
	io_uring_cqe *cqe;

	if (!ring_->is_ours())
		return -EPERM;
	for (;;) {
		const int rc = io_uring_wait_cqe(&ring_->uring, &cqe);

		if (rc || io_uring_cqe_get_data(cqe))
			return rc;
		ring_->take(cqe); /* the answer to a cancel: next() would return null */
	}
}

int Registrar::file() const noexcept
{
	return ring_->uring.ring_fd;
}

} // namespace treadle
