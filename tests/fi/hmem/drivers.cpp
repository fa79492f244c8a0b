// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * libcuda.so.1 and libze_loader.so.1 of simulated devices. They record what is mapped, store to
 * that and nothing else, and pin its pages by themselves, as a device does.
 */
#include "drivers.h"

#include <cstdlib>
#include <map>
#include <vector>

#include <sys/uio.h>
#include <unistd.h>

#include <cuda.h>
#include <level_zero/ze_api.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

/* Identified by its address. */
struct CUctx_st {
	std::size_t uses = 0;
};

namespace
{

/* Where CUDA's devices see memory: the processor has no such addresses. */
constexpr std::uint64_t beyond = 1ULL << 62;

struct Range {
	std::size_t size;
	const CUctx_st *context; /* goes with this context; null: with none */
};

std::map<std::uint64_t, Range> ranges; /* by the device's addresses */
CUctx_st primary[2];
thread_local std::vector<CUcontext> current;
std::vector<void *> own;

/* The word at a device's address, if that is mapped; else no bytes. */
iovec word_at(const std::uint64_t *place)
{
	const auto address = reinterpret_cast<std::uint64_t>(place);
	auto range = ranges.upper_bound(address);

	if (range == ranges.begin() || address - (--range)->first >= range->second.size)
		return {};
	return {reinterpret_cast<void *>(address & ~beyond), sizeof(*place)};
}

bool store(std::uint64_t *place, std::uint64_t value)
{
	const iovec from{&value, sizeof(value)}, to = word_at(place);

	return process_vm_writev(getpid(), &from, 1, &to, 1, 0) == sizeof(value);
}

bool load(const std::uint64_t *place, std::uint64_t &value)
{
	const iovec to{&value, sizeof(value)}, from = word_at(place);

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof(value);
}

} // namespace

EXPORT Drivers drivers;
Drivers drivers{.store = store, .load = load};

namespace
{

bool map(std::uint64_t place, std::size_t size, const CUctx_st *context)
{
	if (drivers.full || !ranges.emplace(place, Range{size, context}).second)
		return false;
	++drivers.mapped;
	drivers.bytes += size;
	return true;
}

bool unmap(std::uint64_t place)
{
	const auto range = ranges.find(place);

	if (range == ranges.end())
		return false;
	--drivers.mapped;
	drivers.bytes -= range->second.size;
	ranges.erase(range);
	return true;
}

std::uint64_t seen_by_cuda(const void *memory)
{
	return reinterpret_cast<std::uint64_t>(memory) | beyond;
}

} // namespace

/* --- CUDA -------------------------------------------------------------------------------- */

EXPORT CUresult cuInit(unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	if (device < 0 || static_cast<std::size_t>(device) >= std::size(primary))
		return CUDA_ERROR_INVALID_DEVICE;
	*context = &primary[device];
	++primary[device].uses;
	++drivers.retained;
	return CUDA_SUCCESS;
}

/* The last release unmaps what the context has mapped. */
EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	--drivers.retained;
	if (!--primary[device].uses)
		for (auto range = ranges.begin(); range != ranges.end();) {
			const auto [place, what] = *range++;
			if (what.context == &primary[device])
				unmap(place);
		}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent(CUcontext context)
{
	current.push_back(context);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent(CUcontext *context)
{
	if (current.empty())
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = current.back();
	current.pop_back();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostRegister(void *memory, std::size_t size, unsigned int flags)
{
	if (current.empty())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (flags != (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP))
		return CUDA_ERROR_INVALID_VALUE;
	return map(seen_by_cuda(memory), size, current.back()) ? CUDA_SUCCESS :
								 CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemHostUnregister(void *memory)
{
	if (current.empty())
		return CUDA_ERROR_INVALID_CONTEXT;
	return unmap(seen_by_cuda(memory)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr *place, void *memory, unsigned int flags)
{
	*place = seen_by_cuda(memory);
	return flags || !ranges.contains(*place) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* --- Level Zero -------------------------------------------------------------------------- */

EXPORT ze_result_t zeInit(std::uint32_t)
{
	return ZE_RESULT_SUCCESS;
}

EXPORT ze_result_t zeDriverGet(std::uint32_t *count, ze_driver_handle_t *)
{
	*count = 1;
	return ZE_RESULT_SUCCESS;
}

EXPORT ze_result_t zeDeviceGet(ze_driver_handle_t, std::uint32_t *count, ze_device_handle_t *)
{
	*count = 1;
	return ZE_RESULT_SUCCESS;
}

EXPORT ze_context_handle_t zeDriverGetDefaultContext(ze_driver_handle_t)
{
	return reinterpret_cast<ze_context_handle_t>(&drivers);
}

EXPORT ze_result_t zeMemAllocHost(ze_context_handle_t, const ze_host_mem_alloc_desc_t *desc,
				  std::size_t size, std::size_t, void **memory)
{
	const auto *given = static_cast<const ze_external_memmap_sysmem_ext_desc_t *>(desc->pNext);

	if (desc->stype != ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC ||
	    given->stype != ZE_STRUCTURE_TYPE_EXTERNAL_MEMMAP_SYSMEM_EXT_DESC ||
	    given->size != size)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	*memory = drivers.old ? std::aligned_alloc(4096, size) : given->pSystemMemory;
	if (drivers.old)
		own.push_back(*memory);
	return map(reinterpret_cast<std::uint64_t>(*memory), size, nullptr) ?
		       ZE_RESULT_SUCCESS :
		       ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

EXPORT ze_result_t zeMemFree(ze_context_handle_t, void *memory)
{
	if (std::erase(own, memory))
		std::free(memory);
	return unmap(reinterpret_cast<std::uint64_t>(memory)) ? ZE_RESULT_SUCCESS :
								ZE_RESULT_ERROR_INVALID_ARGUMENT;
}
