// SPDX-License-Identifier: GPL-2.0
/*
 * Any operation on any type and any bytes, compared with plain C++. The module never asks for an
 * undefined one.
 */
#include "../unit/arith_model.h"
#include "input.h"

namespace
{

template <class T> T read(Input &in)
{
	T value;

	if constexpr (IsComplex<T>::value) {
		using Part = typename T::value_type;
		const auto real = read<Part>(in);

		return {real, read<Part>(in)};
	} else if constexpr (std::is_same_v<T, long double>) {
		/* Not every pattern of ten bytes is a number. */
		value = in.next<double>() * in.next<std::int8_t>();
	} else {
		value = in.next<T>();
	}
	return value;
}

template <class T> void try_it(u8 op, u8 type, Input &in)
{
	const T was = read<T>(in), with = read<T>(in), than = read<T>(in);
	alignas(16) char at[sizeof(T)], operand[sizeof(T) + 1], compare[sizeof(T) + 3];
	T now, before;
	u32 tries = 1;

	std::memcpy(at, &was, sizeof(T));
	std::memcpy(operand + 1, &with, sizeof(T));
	std::memcpy(compare + 3, &than, sizeof(T));
	if constexpr (sizeof(T) <= 16) {
		ENSURE(treadle_update(compute_of(type), op, type, at, operand + 1,
				      op >= TREADLE_ATOMIC_CSWAP ? compare + 3 : nullptr, &tries));
		std::memcpy(&before, operand + 1, sizeof(T));
		ENSURE(identical(before, was));
	} else {
		compute_of(type)(op, type, at, operand + 1, compare + 3);
	}
	std::memcpy(&now, at, sizeof(T));
	ENSURE(identical(now, expected(op, was, with, than)));
}

using Try = void(u8 op, u8 type, Input &in);

constexpr Try *tries[TREADLE_DATATYPES] = {
	try_it<std::int8_t>,
	try_it<std::uint8_t>,
	try_it<std::int16_t>,
	try_it<std::uint16_t>,
	try_it<std::int32_t>,
	try_it<std::uint32_t>,
	try_it<std::int64_t>,
	try_it<std::uint64_t>,
	try_it<float>,
	try_it<double>,
	try_it<std::complex<float>>,
	try_it<std::complex<double>>,
	try_it<long double>,
	try_it<std::complex<long double>>,
	try_it<__int128>,
	try_it<unsigned __int128>,
};

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	Input in(data, size);

	while (in) {
		const u8 op = in.below(TREADLE_ATOMIC_OPS + 1), type = in.below(TREADLE_DATATYPES);

		if (treadle_atomic_types(op) >> type & 1)
			tries[type](op, type, in);
	}
	return 0;
}
