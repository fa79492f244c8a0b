# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# A release serves programs that ask for an older one of the same major version.

set(PACKAGE_VERSION @VERSION@)
string(REGEX MATCH "^[0-9]+" treadle_major "${PACKAGE_VERSION}")
if(PACKAGE_FIND_VERSION_MAJOR STREQUAL treadle_major AND NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
	set(PACKAGE_VERSION_COMPATIBLE TRUE)
	if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
		set(PACKAGE_VERSION_EXACT TRUE)
	endif()
endif()
unset(treadle_major)
