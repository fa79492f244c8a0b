// SPDX-License-Identifier: GPL-2.0
#ifndef TREADLE_TESTS_FUZZ_INPUT_H
#define TREADLE_TESTS_FUZZ_INPUT_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

/* The fuzzer's bytes, one after the other, followed by zeros. */
class Input
{
public:
	Input(const std::uint8_t *data, std::size_t size) : at_(data), left_(size) {}

	explicit operator bool() const { return left_; }

	template <class T> T next()
	{
		T value{};
		const std::size_t n = left_ < sizeof(T) ? left_ : sizeof(T);

		std::memcpy(static_cast<void *>(&value), at_, n);
		at_ += n;
		left_ -= n;
		return value;
	}
	unsigned int below(unsigned int n) { return next<std::uint8_t>() % n; }

private:
	const std::uint8_t *at_;
	std::size_t left_;
};

/* As assert(), but not disabled by NDEBUG. */
#define ENSURE(condition)                                                                    \
	((condition) ? void() :                                                              \
		       (std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), \
			std::abort()))

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

#endif
