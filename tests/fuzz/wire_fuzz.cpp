// SPDX-License-Identifier: GPL-2.0
/* A frame of any bytes: what is read of it lies in it, one item behind the other. */
#include <memory>

#include "../unit/shim.h"

extern "C" {
#include "pure/wire.h"
}

#include "input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	/* Aligned, and no byte longer: behind it is what the sanitizer guards. */
	const std::unique_ptr<u64, decltype(&std::free)> copy(
		static_cast<u64 *>(std::malloc(size ? size : 1)), &std::free);
	const auto *frame = reinterpret_cast<const treadle_wire_frame *>(copy.get());
	const u8 *at = reinterpret_cast<const u8 *>(frame + 1), *end;
	treadle_wire_reader reader;
	treadle_wire_view view;
	u32 items = 0;
	int rc;

	if (size)
		std::memcpy(copy.get(), data, size);
	if (treadle_wire_begin(&reader, frame, size))
		return 0;
	end = reinterpret_cast<const u8 *>(frame) + size;
	while ((rc = treadle_wire_next(&reader, &view)) == 1) {
		const u8 *const item = reinterpret_cast<const u8 *>(view.item);

		items++;
		ENSURE(item >= at && item + sizeof(*view.item) <= end);
		ENSURE(view.payload >= item && view.payload + view.bytes <= end);
		ENSURE(!view.ranges || reinterpret_cast<const u8 *>(view.ranges) >= item);
		for (u32 i = 0; i < view.bytes; i++)
			ENSURE(view.payload[i] == view.payload[i]);
		at = view.payload + view.bytes;
	}
	ENSURE(items <= frame->items);
	ENSURE(rc == 0 || rc == -EPROTO);
	return 0;
}
