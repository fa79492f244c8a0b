// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_REGISTRAR_H
#define TREADLE_REGISTRAR_H

#include <array>
#include <memory>
#include <span>

#include <treadle/memory_region.h>

namespace treadle
{

/* Memory to register. The object, and the key in options, keep their place until it is done. */
class TREADLE_API Registration
{
public:
	/* More than TREADLE_MAX_MR_IOV ranges are refused at registration. */
	Registration(const Context &context, std::span<const treadle_iov> ranges,
		     const MemoryRegion::Options &options) noexcept;
	Registration(const Registration &) = delete;
	Registration &operator=(const Registration &) = delete;

	/* Registers in this call. */
	void run() noexcept;

	/*
	 * The result, once, after run(), or after Registrar::next() has returned this. ENOENT: it
	 * is not done, or the result was taken before. ECANCELED: it was canceled. A registration
	 * that ended because the thread that began it did is registered now. A region that is not
	 * taken stays registered until the context ends.
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
 * Registers memory in the background, as pinning takes time.
 *
 * It works by io_uring, in threads of the kernel. A child after fork(2) can't use that of its
 * parent.
 *
 * Threads: by one thread at a time.
 */
class TREADLE_API Registrar
{
public:
	/* ENOSYS, EPERM: this process can't use io_uring. */
	static Result<Registrar> create() noexcept;
	Registrar(Registrar &&) noexcept;
	Registrar &operator=(Registrar &&) noexcept;
	/*
	 * Cancels registrations that are under way, and waits for them, as the kernel writes to
	 * each Registration: they must live until then. Their result() is available afterwards.
	 */
	~Registrar();

	/* 0, or -errno: it has not begun. */
	int begin(Registration &registration) noexcept;
	/* A registration that is done, or null. */
	Registration *next() noexcept;
	/* Asks a registration to end early; next() returns it in any case. */
	void cancel(Registration &registration) noexcept;
	/* Blocks until next() returns one. 0, -EINTR, or -EPERM (after fork). */
	int wait() noexcept;

	/*
	 * A file to poll(2): readable when a registration is done, or a cancel was answered: then
	 * next() may be null.
	 */
	int file() const noexcept;

private:
	struct __attribute__((visibility("hidden"))) Ring;
	explicit Registrar(std::unique_ptr<Ring> ring) noexcept;

	std::unique_ptr<Ring> ring_;
};

} // namespace treadle

#endif
