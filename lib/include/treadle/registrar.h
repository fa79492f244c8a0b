// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_REGISTRAR_H
#define TREADLE_REGISTRAR_H

#include <array>
#include <memory>
#include <span>

#include <treadle/memory_region.h>

namespace treadle
{

/* What is to be registered. It stays where it is, and so does the key in options, until it is done. */
class TREADLE_API Registration
{
public:
	/* More than TREADLE_MAX_MR_IOV ranges are refused when they are registered. */
	Registration(const Context &context, std::span<const treadle_iov> ranges,
		     const MemoryRegion::Options &options) noexcept;
	Registration(const Registration &) = delete;
	Registration &operator=(const Registration &) = delete;

	/* Registers in this call. */
	void run() noexcept;

	/*
	 * What became of one that was run, or that a registrar says is done; once (ENOENT: it is not done, or
	 * this was asked before). One that ended with the thread that had begun it is registered now.
	 * ECANCELED: it was canceled. What nobody asks for stays registered until the context ends.
	 */
	Result<MemoryRegion> result() noexcept;

private:
	friend class Registrar;

	int fd_, result_;
	bool canceled_ = false;
	treadle_mr_create args_{};
	std::array<treadle_iov, TREADLE_MAX_MR_IOV> ranges_;
};

/**
 * Registers memory while the caller does something else: pinning takes time.
 *
 * It works by io_uring, in threads of the kernel. A child after fork(2) can't use its
 * parent's.
 *
 * Threads: by one thread at a time.
 */
class TREADLE_API Registrar
{
public:
	/* ENOSYS, EPERM: there is no io_uring for this process. */
	static Result<Registrar> create() noexcept;
	Registrar(Registrar &&) noexcept;
	Registrar &operator=(Registrar &&) noexcept;
	/*
	 * Ends what is under way, and waits for that, as the kernel writes to each
	 * Registration: they must live until then, and result() tells what became of them.
	 */
	~Registrar();

	/* 0, or -errno: it was not begun. */
	int begin(Registration &registration) noexcept;
	/* One that is done, or null. */
	Registration *next() noexcept;
	/* Asks it to end early; next() returns it in any case. */
	void cancel(Registration &registration) noexcept;
	/* Blocks until next() returns one. 0, -EINTR, or -EPERM (after fork). */
	int wait() noexcept;

	/* A file to poll(2): readable while one is done, or a cancel was answered: next() may be null. */
	int file() const noexcept;

private:
	struct __attribute__((visibility("hidden"))) Ring;
	explicit Registrar(std::unique_ptr<Ring> ring) noexcept;

	std::unique_ptr<Ring> ring_;
};

} // namespace treadle

#endif
