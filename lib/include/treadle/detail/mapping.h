// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_DETAIL_MAPPING_H
#define TREADLE_DETAIL_MAPPING_H

#include <cstdint>
#include <memory>

#include <treadle/ioctl.h>
#include <treadle/result.h>

namespace treadle::detail
{

enum class Access { read, write };

/*
 * Owns a map of the device.
 *
 * Such maps are not inherited by fork(2), and a child that accessed their places would die. So the
 * child gets private pages of zeros there. The exception is the second word, the flags of both
 * kinds of kernel-written ring: it is child_flags. With these flags, the next use of a ring in the
 * child rings a doorbell, and the kernel answers EPERM.
 *
 * Children made by vfork(2) or a bare clone(2) are not covered. Maps of trigger cells are
 * inherited, so they keep their places.
 */
class TREADLE_API Mapping
{
public:
	static constexpr std::size_t child_flags_offset = 4;

	Mapping() noexcept;
	Mapping(Mapping &&) noexcept;
	Mapping &operator=(Mapping &&) noexcept;
	~Mapping();

	static Result<Mapping> create(int fd, const treadle_map &map, Access access,
				      std::uint32_t child_flags = 0) noexcept;

	std::byte *data() const noexcept;

private:
	struct __attribute__((visibility("hidden"))) Node;
	struct __attribute__((visibility("hidden"))) Registry;

	std::unique_ptr<Node> node_;
};

} // namespace treadle::detail

#endif
