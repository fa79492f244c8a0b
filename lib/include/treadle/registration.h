// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_REGISTRATION_H
#define TREADLE_REGISTRATION_H

#include <array>
#include <span>

#include <treadle/memory_region.h>

namespace treadle
{

/*
 * Memory to register: by run(), or in the background, by prep_register or a Registrar (uring.h).
 * The object, and the key in options, keep their place until it is done.
 */
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

	/* After prep_register: it has ended, with res of the io_uring_cqe. */
	void done(int res) noexcept { result_ = res; }
	/* After prep_register: the program cancels it, so that it may end with ECANCELED. */
	void cancel() noexcept { canceled_ = true; }

	/*
	 * The result, once, after run() or done(). ENOENT: it is not done, or the result was taken
	 * before. ECANCELED: it was canceled. A registration that ended because the thread that
	 * began it did is registered now. A region that is not taken stays registered until the
	 * context ends.
	 */
	[[nodiscard]] Result<MemoryRegion> result() noexcept;

	/* What prep_register submits: TREADLE_IOC_MR_CREATE with args, of this file. */
	int device() const noexcept { return device_; }
	treadle_mr_create &args() noexcept { return args_; }

private:
	int device_, result_;
	bool canceled_ = false;
	treadle_mr_create args_{};
	std::array<treadle_iov, TREADLE_MAX_MR_IOV> ranges_;
};

} // namespace treadle

#endif
