// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_XPU_H
#define TREADLE_PROVIDER_XPU_H

#include <cstddef>

#include <rdma/fi_trigger.h>

#include <treadle/command.h>

/* fi_trigger(3), "XPU TRIGGERS" */
namespace treadle::fi
{

class Endpoint;

/*
 * Adds the condition that a cell is written, and fills in what the application writes. May throw.
 */
int when_written(Command &command, const Endpoint &endpoint, fi_trigger_xpu &xpu);

/* FI_OPT_XPU_TRIGGER */
int xpu_variables(const Endpoint &endpoint, void *value, std::size_t *size) noexcept;

} // namespace treadle::fi

#endif
