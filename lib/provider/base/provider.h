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
#include <treadle/version.h>

#include "base/results.h"

/* The libfabric provider: maps fi_* to libtreadle. Declarations that all its files share. */
namespace treadle::fi
{

inline constexpr char name[] = "treadle"; /* of the provider, its fabric and its domain */
inline constexpr std::uint32_t version = FI_VERSION(TREADLE_VERSION_MAJOR, TREADLE_VERSION_MINOR);

extern fi_provider provider;

/*
 * These call the libfabric core that loaded this provider. It must make the structures that it
 * hands out or frees, because they grow from release to release. The symbol version of the link
 * would fix the layout of 1.17.
 */
fi_info *dup_info(const fi_info *info) noexcept; /* of null: an empty one; null on no memory */
void free_info(fi_info *info) noexcept;

struct FreeInfo {
	void operator()(fi_info *info) const noexcept { free_info(info); }
};
using InfoPtr = std::unique_ptr<fi_info, FreeInfo>;

/* Logs why a call is refused, at FI_LOG_LEVEL=warn, as printf. Returns error. */
int log_refusal(int error, fi_log_subsys subsys, const char *func, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
#define REFUSE(error, subsys, ...) \
	::treadle::fi::log_refusal(error, subsys, __func__, __LINE__, __VA_ARGS__)

/* Returns -FI_ETOOSMALL. Room of 0 only asks for the size, so that is not logged. */
inline int too_small(fi_log_subsys subsys, const char *call, std::size_t room,
		     std::size_t needed) noexcept
{
	return room ? REFUSE(-FI_ETOOSMALL, subsys, "%s: room for %zu, not for %zu", call, room,
			     needed) :
		      -FI_ETOOSMALL;
}

/* Refuses FI_PEER as fi_peer(3) says: invalid, where other unknown flags are bad flags. */
inline int no_peer(fi_log_subsys subsys, const char *call) noexcept
{
	return REFUSE(-FI_EINVAL, subsys, "%s: FI_PEER: %s is no peer provider", call, name);
}

/* Disables thread cancellation around calls that read, write or poll files: they do not unwind. */
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

/* FI_TREADLE_DIRECT: may the process do itself what needs no kernel? */
bool direct_wanted() noexcept;

/* A negative errno of the kernel as a libfabric error. */
int fabric_error(int error) noexcept;

/* fi_tostr of a value; the text lives until the end of the expression. */
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

/*
 * Catches exceptions, which may not cross into C. Only "no memory" and impossible sizes are ever
 * thrown.
 */
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
