// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/result.h>

#include <cerrno>
#include <cstring>
#include <string>

#include <treadle/ioctl.h>

namespace treadle
{

const char *describe(int code) noexcept
{
	if (code == TREADLE_ETRUNC)
		return "Message longer than the buffer";
	if (code == EPROTO)
		return "The module and the library have different ABI versions";
	const char *text = strerrordesc_np(code);
	return text ? text : "Unknown error";
}

namespace
{

class Category final : public std::error_category
{
public:
	const char *name() const noexcept override { return "treadle"; }
	std::string message(int code) const override { return describe(code); }
	std::error_condition default_error_condition(int code) const noexcept override
	{
		return {code, std::generic_category()};
	}
};

constinit const Category ours;

} // namespace

const std::error_category &category() noexcept
{
	return ours;
}

} // namespace treadle
