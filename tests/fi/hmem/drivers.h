// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_DRIVERS_H
#define TREADLE_TESTS_FI_DRIVERS_H

#include <cstddef>
#include <cstdint>

/* Simulated devices behind two real interfaces: CUDA has two devices, Level Zero one. */
struct Drivers {
	/* A store by a device; false if its driver has nothing mapped there. */
	bool (*store)(std::uint64_t *place, std::uint64_t value);
	/* A load, likewise. */
	bool (*load)(const std::uint64_t *place, std::uint64_t &value);

	std::size_t mapped = 0;	  /* ranges */
	std::size_t bytes = 0;	  /* in them */
	std::size_t retained = 0; /* primary contexts */
	bool full = false;	  /* the next range is one too many */
	bool old = false;	  /* a Level Zero that can't map memory of others */
};

/* The library of both drivers has this name. */
inline constexpr char drivers_name[] = "drivers";

#endif
