// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_PROVIDER_H
#define TREADLE_PROVIDER_PROVIDER_H

#include <cinttypes>
#include <memory>
#include <new>
#include <stdexcept>

#include <pthread.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

/* The libfabric provider: maps fi_* to libtreadle. What all of its files share. */
namespace treadle::fi
{

inline constexpr char name[] = "treadle"; /* of the provider, its fabric and its domain */
inline constexpr std::uint32_t version = FI_VERSION(0, 1);

extern fi_provider provider;

/*
 * Structures that libfabric's core hands out or frees are made by the very core
 * that loaded us: they grow from release to release, and the symbol version
 * that we were linked with would give us the layout of 1.17 for ever.
 */
fi_info *dup_info(const fi_info *info) noexcept; /* null: a new, empty one; null on no memory */
void free_info(fi_info *info) noexcept;

struct FreeInfo {
	void operator()(fi_info *info) const noexcept { free_info(info); }
};
using InfoPtr = std::unique_ptr<fi_info, FreeInfo>;

/* printf to FI_LOG_LEVEL=warn, which explains every refusal. Returns error. */
int log_refusal(int error, fi_log_subsys subsys, const char *func, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
#define REFUSE(error, subsys, ...) \
	::treadle::fi::log_refusal(error, subsys, __func__, __LINE__, __VA_ARGS__)

/* -FI_ETOOSMALL. Who has no room at all asks for the size, which needs no explanation. */
inline int too_small(fi_log_subsys subsys, const char *call, std::size_t room,
		     std::size_t needed) noexcept
{
	return room ? REFUSE(-FI_ETOOSMALL, subsys, "%s: room for %zu, not for %zu", call, room,
			     needed) :
		      -FI_ETOOSMALL;
}

/* In what reads, writes or polls files: a thread is not canceled in the midst of our calls, which do not unwind. */
class Uncanceled
{
public:
	Uncanceled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
	Uncanceled(const Uncanceled &) = delete;
	Uncanceled &operator=(const Uncanceled &) = delete;
	~Uncanceled() { pthread_setcancelstate(before_, nullptr); }

private:
	int before_ = PTHREAD_CANCEL_ENABLE;
};

/* An errno of the kernel (negative) in libfabric's words. */
int fabric_error(int error) noexcept;

/* fi_tostr of a value, in a buffer that lives as long as the expression. */
class Text
{
public:
	template <class T> Text(const T &value, fi_type type) noexcept
	{
		fi_tostr_r(text_, sizeof(text_), &value, type);
	}
	operator const char *() const noexcept { return text_; }
	const char *c_str() const noexcept { return text_; }

private:
	char text_[512] = "";
};

/* No exception may cross into C: no memory, or a size that none has, are all that is ever thrown. */
template <class F> auto guard(F &&function) noexcept -> decltype(function())
{
	const Uncanceled uncanceled;

	try {
		return function();
	} catch (const std::bad_alloc &) {
		return -FI_ENOMEM;
	} catch (const std::length_error &) {
		return -FI_ENOMEM;
	}
}

} // namespace treadle::fi

#endif
