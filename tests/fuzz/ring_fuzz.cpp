// SPDX-License-Identifier: GPL-2.0
/*
 * A descriptor ring with arbitrary contents, compared with counting in 64 bits: which indices are
 * accepted, which slot is read, and that nothing beyond the ring is.
 */
#include <vector>

#include "../unit/shim.h"
#include "input.h"

extern "C" {
#include "core/ring.h"
}

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	Input in(data, size);
	const u32 entries = 1u << in.below(6);
	std::vector<treadle_slot> slots(entries);
	struct treadle_ring_prod user {
	};
	treadle_ring_cons kern{};
	treadle_ring ring{};
	/* Any start, so that 32 bits overflow. */
	u64 head = (1ull << 32) + in.next<u32>(), released = head;

	ring.user = &user;
	ring.kern = &kern;
	ring.slots = slots.data();
	ring.entries = entries;
	ring.head = kern.released = static_cast<u32>(head);
	while (in) {
		const unsigned int what = in.below(4);

		if (what == 0) { /* the contents of a slot change */
			auto &slot = slots[in.below(entries)];

			slot.bytes[in.below(TREADLE_SLOT_SIZE)] = in.next<u8>();
		} else if (what == 1) { /* some of the commands that were read finish */
			const u32 n = in.below(entries + 1);

			if (released + n > head)
				continue;
			treadle_ring_release(&ring, n);
			released += n;
		} else {
			/* An index near the right one, or any. */
			user.prod = what == 2 ? ring.head + in.next<std::int8_t>() : in.next<u32>();
			const u64 prod =
				head + static_cast<u32>(user.prod - static_cast<u32>(head));
			const bool right = prod - released <= entries;
			u32 told;

			ENSURE(treadle_ring_prod(&ring, &told) == right && told == user.prod);
			if (!right)
				continue;
			for (; head < prod; ++head, ++ring.head) {
				const treadle_desc &from = slots[head % entries].desc;
				treadle_desc d, want = from;

				std::memset(&d, 0xdb, sizeof(d));
				treadle_ring_fetch(&ring, ring.head, &d);
				if (!(from.flags & TREADLE_F_EXT))
					std::memset(reinterpret_cast<char *>(&want) +
							    TREADLE_SLOT_SIZE / 2,
						    0, TREADLE_SLOT_SIZE / 2);
				ENSURE(std::memcmp(&d, &want, sizeof(d)) == 0);
			}
		}
		ENSURE(kern.released == static_cast<u32>(released));
		ENSURE(ring.head == static_cast<u32>(head) && head - released <= entries);
	}
	return 0;
}
