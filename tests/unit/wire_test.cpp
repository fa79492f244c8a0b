// SPDX-License-Identifier: GPL-2.0

/* What nodes send to each other: kernel/pure/wire.h, with lengths that lie. */

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "shim.h"

extern "C" {
#include "pure/wire.h"
}

static_assert(sizeof(treadle_wire_frame) == 24);
static_assert(sizeof(treadle_wire_item) == 8);
static_assert(sizeof(treadle_wire_range) == 24);
static_assert(sizeof(treadle_wire_cmd) == 56);
static_assert(sizeof(treadle_wire_intro) == 48);
static_assert(sizeof(treadle_wire_grant) == 24);

/* A frame that is put together; read from memory of exactly its size, so that a sanitizer sees. */
class Frame
{
public:
	Frame() : bytes(sizeof(treadle_wire_frame)) {}

	/* Returns where the item is. */
	size_t add(u8 kind, u32 length, u8 flags = 0, u32 reference = 7)
	{
		const size_t at = bytes.size();

		bytes.insert(bytes.end(), ALIGN(length, 8), 0);
		auto &item = get<treadle_wire_item>(at);
		item.kind = kind;
		item.flags = flags;
		item.length = length;
		item.reference = reference;
		items++;
		return at;
	}
	template <class T> T &get(size_t at) { return reinterpret_cast<T &>(bytes[at]); }

	/* How many items there are, or the error. */
	int read(u8 type = TREADLE_WIRE_ITEMS)
	{
		auto &header = get<treadle_wire_frame>(0);

		header.type = type;
		header.items = items;
		header.length = bytes.size();
		return reread(bytes.size());
	}
	int reread(u32 got)
	{
		const std::unique_ptr<void, decltype(&std::free)> copy(std::malloc(got),
								       &std::free);
		int n = 0, rc;

		std::memset(copy.get(), 0, got);
		std::memcpy(copy.get(), bytes.data(), std::min<size_t>(got, bytes.size()));
		rc = treadle_wire_begin(&reader,
					static_cast<const treadle_wire_frame *>(copy.get()), got);
		if (rc)
			return rc;
		while ((rc = treadle_wire_next(&reader, &view)) == 1)
			n++;
		return rc ? rc : n;
	}

	std::vector<u8> bytes;
	u16 items = 0;
	treadle_wire_reader reader;
	treadle_wire_view view{};
};

TEST(Wire, items_are_read_one_by_one)
{
	Frame frame;

	frame.add(TREADLE_WIRE_CMD, sizeof(treadle_wire_cmd));
	frame.add(TREADLE_WIRE_DATA, 16 + 5);
	frame.add(TREADLE_WIRE_DONE, 16);
	frame.add(TREADLE_WIRE_CONN_REQ, 16 + 256);
	EXPECT_EQ(frame.read(), 4);
	EXPECT_EQ(frame.view.bytes, 256u);
}

TEST(Wire, payload_comes_behind_the_ranges)
{
	Frame frame;

	frame.get<treadle_wire_cmd>(frame.add(TREADLE_WIRE_CMD, sizeof(treadle_wire_cmd) + 51))
		.ranges = 2;
	EXPECT_EQ(frame.read(), 1);
	EXPECT_EQ(frame.view.bytes, 3u);
	EXPECT_EQ(frame.view.payload - reinterpret_cast<const u8 *>(frame.view.ranges), 48);
}

TEST(Wire, more_ranges_than_bytes_are_refused)
{
	Frame frame;
	const size_t at = frame.add(TREADLE_WIRE_CMD, sizeof(treadle_wire_cmd) + 24);

	for (const auto &[ranges, expected] : {std::pair{1, 1}, {2, -EPROTO}, {255, -EPROTO}}) {
		frame.get<treadle_wire_cmd>(at).ranges = ranges;
		EXPECT_EQ(frame.read(), expected) << ranges;
	}
}

TEST(Wire, the_length_is_what_has_arrived)
{
	Frame frame;

	frame.add(TREADLE_WIRE_GONE, 8);
	EXPECT_EQ(frame.read(), 1);
	for (const u32 got : {0u, 8u, 23u, 24u, 31u, 33u, 16384u, 16385u, ~0u - 64})
		EXPECT_EQ(got > 16384 ? -EPROTO : frame.reread(got), -EPROTO) << got;
	for (const u32 length : {0u, 24u, 31u, 33u, 40u, ~0u}) {
		frame.get<treadle_wire_frame>(0).length = length;
		EXPECT_EQ(frame.reread(32), -EPROTO) << length;
	}
}

TEST(Wire, an_item_ends_within_its_frame)
{
	for (const unsigned int length : {0u, 7u, 9u, 15u, 17u, 24u, 65528u, 65529u, 65535u}) {
		Frame frame;

		frame.get<treadle_wire_item>(frame.add(TREADLE_WIRE_CANCEL, 16)).length = length;
		EXPECT_EQ(frame.read(), -EPROTO) << length;
	}
}

TEST(Wire, each_kind_has_its_length)
{
	for (u8 kind = 1; kind < TREADLE_WIRE_KINDS; kind++) {
		const auto *shape = treadle_wire_shape(kind);

		for (u32 length = 8; length <= 512; length++) {
			Frame frame;

			frame.add(kind, length);
			const bool fits = length >= u32(shape->fixed) + shape->least &&
					  length <= u32(shape->fixed) + shape->most;
			EXPECT_EQ(frame.read(), fits ? 1 : -EPROTO) << int(kind) << " " << length;
		}
	}
}

TEST(Wire, what_fills_up_is_zero)
{
	Frame frame;
	const size_t at = frame.add(TREADLE_WIRE_DATA, 17);

	EXPECT_EQ(frame.read(), 1);
	for (size_t i = 17; i < 24; i++) {
		frame.bytes[at + i] = 1;
		EXPECT_EQ(frame.read(), -EPROTO) << i;
		frame.bytes[at + i] = 0;
	}
}

TEST(Wire, an_unknown_item_is_skipped_only_if_it_may_be)
{
	for (const u8 kind : {0, int(TREADLE_WIRE_KINDS), 255}) {
		Frame may, must;

		may.add(kind, 77, TREADLE_WIRE_MAY_SKIP);
		may.add(TREADLE_WIRE_GONE, 8);
		EXPECT_EQ(may.read(), 1);
		must.add(kind, 77);
		EXPECT_EQ(must.read(), -EPROTO);
	}
}

TEST(Wire, the_number_of_items_is_right)
{
	Frame frame;

	frame.add(TREADLE_WIRE_GONE, 8);
	frame.add(TREADLE_WIRE_GONE, 8);
	for (const u16 items : {0, 1, 3, 65535}) {
		frame.items = items;
		EXPECT_EQ(frame.read(), -EPROTO) << items;
	}
}

TEST(Wire, a_frame_without_items_has_no_number)
{
	for (const u8 type : {TREADLE_WIRE_ACK, TREADLE_WIRE_PING, TREADLE_WIRE_ANSWER}) {
		Frame frame;

		EXPECT_EQ(frame.read(type), 0);
		frame.get<treadle_wire_frame>(0).seq = 1;
		EXPECT_EQ(frame.read(type), -EPROTO);
	}
	Frame empty, unknown;
	EXPECT_EQ(empty.read(), -EPROTO);
	EXPECT_EQ(unknown.read(0), -EPROTO);
	EXPECT_EQ(unknown.read(TREADLE_WIRE_ANSWER + 1), -EPROTO);
}

/* Bytes of good frames, changed at random: the sanitizers look on. */
TEST(Wire, random_bytes_stay_within_the_frame)
{
	std::mt19937 random(1);
	unsigned int good = 0, bad = 0;

	for (unsigned int round = 0; round < 20000; round++) {
		Frame frame;

		for (unsigned int n = random() % 4 + 1; n--;) {
			const u8 kind = random() % (TREADLE_WIRE_KINDS - 1) + 1;
			const auto *shape = treadle_wire_shape(kind);

			frame.add(kind,
				  shape->fixed + shape->least +
					  random() %
						  (std::min<u32>(shape->most - shape->least, 99) +
						   1));
		}
		frame.read();
		for (unsigned int n = random() % 3; n--;)
			frame.bytes[random() % frame.bytes.size()] = random();
		const int rc = frame.reread(frame.bytes.size());
		if (rc >= 0) {
			EXPECT_LE(rc, frame.items);
			good++;
		} else {
			EXPECT_EQ(rc, -EPROTO);
			bad++;
		}
	}
	EXPECT_GT(good, 1000u);
	EXPECT_GT(bad, 1000u);
}
