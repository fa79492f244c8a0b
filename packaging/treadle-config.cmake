# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# find_package(treadle CONFIG): the targets treadle::treadle and treadle::treadle-static.

file(REAL_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." treadle_libdir)
string(REGEX REPLACE "/@LIBDIR@$" "" treadle_prefix "${treadle_libdir}")

if(NOT TARGET treadle::treadle)
	add_library(treadle::treadle SHARED IMPORTED)
	set_target_properties(treadle::treadle PROPERTIES
		IMPORTED_LOCATION "${treadle_libdir}/libtreadle.so.1"
		IMPORTED_SONAME libtreadle.so.1)
	add_library(treadle::treadle-static STATIC IMPORTED)
	set_target_properties(treadle::treadle-static PROPERTIES
		IMPORTED_LOCATION "${treadle_libdir}/libtreadle.a"
		INTERFACE_LINK_OPTIONS -pthread)
	foreach(treadle_target treadle::treadle treadle::treadle-static)
		set_target_properties(${treadle_target} PROPERTIES
			IMPORTED_LINK_INTERFACE_LANGUAGES CXX
			INTERFACE_INCLUDE_DIRECTORIES "${treadle_prefix}/include"
			INTERFACE_COMPILE_FEATURES cxx_std_23)
	endforeach()
	unset(treadle_target)
endif()
unset(treadle_libdir)
unset(treadle_prefix)
