// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The only file that knows device interfaces. Each is built in if its header is there.
 *
 * Its library belongs to the driver and is loaded by soname at run time, so it is the one that the
 * application uses. Without a library there is no device.
 */
#include "domain/hmem.h"

#include "base/provider.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#define HAVE_CUDA
#endif
#if __has_include(<level_zero/ze_api.h>)
#include <level_zero/ze_api.h>
#ifdef ZE_EXTERNAL_MEMORY_MAPPING_EXT_NAME /* since 1.14 */
#define HAVE_ZE
#endif
#endif
#if defined(HAVE_CUDA) || defined(HAVE_ZE)
#include <dlfcn.h>
#endif

namespace treadle::fi
{

namespace
{

#define NO_XPU(...) \
	std::unexpected(REFUSE(-FI_EOPNOTSUPP, FI_LOG_DOMAIN, "XPU trigger: " __VA_ARGS__))

#if defined(HAVE_CUDA) || defined(HAVE_ZE)

/* Never closed: its mappings may be in use until the process ends. */
class Library
{
protected:
	explicit Library(const char *soname) noexcept : handle_(dlopen(soname, RTLD_NOW)) {}

	template <class F> F find(const char *name) noexcept
	{
		void *const found = handle_ ? dlsym(handle_, name) : nullptr;

		complete_ = complete_ && found;
		return reinterpret_cast<F>(found);
	}
	/* Were all functions found? */
	bool complete() const noexcept { return complete_; }

private:
	void *handle_;
	bool complete_ = true;
};

/*
 * Names in the header may be macros. They expand to the version of the function that the header
 * declares.
 */
#define TEXT(name) #name
#define FIND(name) find<decltype(&(name))>(TEXT(name))

#endif

#ifdef HAVE_CUDA

struct Cuda : Library {
	Cuda() noexcept : Library("libcuda.so.1"), works(complete() && !init(0)) {}

	decltype(&cuInit) init = FIND(cuInit);
	decltype(&cuDevicePrimaryCtxRetain) retain = FIND(cuDevicePrimaryCtxRetain);
	decltype(&cuDevicePrimaryCtxRelease) release = FIND(cuDevicePrimaryCtxRelease);
	decltype(&cuCtxPushCurrent) push = FIND(cuCtxPushCurrent);
	decltype(&cuCtxPopCurrent) pop = FIND(cuCtxPopCurrent);
	decltype(&cuMemHostRegister) map = FIND(cuMemHostRegister);
	decltype(&cuMemHostUnregister) unmap = FIND(cuMemHostUnregister);
	decltype(&cuMemHostGetDevicePointer) locate = FIND(cuMemHostGetDevicePointer);
	bool works;
};

/*
 * Maps pages in the primary context of the device, which the runtime API and its kernels use. The
 * context is held because it owns the mapping. With PORTABLE, other contexts see the pages at the
 * same address, too.
 */
class CudaPages
{
public:
	CudaPages(const Cuda &cuda, CUdevice device) noexcept : cuda_(cuda), device_(device) {}
	CudaPages(const CudaPages &) = delete;
	~CudaPages()
	{
		if (pages_)
			inside([&] { return cuda_.unmap(pages_); });
		if (context_)
			cuda_.release(device_);
	}

	CUresult map(void *pages, std::size_t size, CUdeviceptr &place) noexcept
	{
		if (const CUresult rc = cuda_.retain(&context_, device_))
			return rc;
		return inside([&] {
			const CUresult rc = cuda_.map(pages, size,
						      CU_MEMHOSTREGISTER_PORTABLE |
							      CU_MEMHOSTREGISTER_DEVICEMAP);
			if (rc)
				return rc;
			pages_ = pages;
			return cuda_.locate(&place, pages, 0);
		});
	}

private:
	/* Runs a call in the primary context, then restores the calling thread's own. */
	template <class F> CUresult inside(F &&call) noexcept
	{
		const CUresult rc = cuda_.push(context_);
		CUcontext popped;

		if (rc)
			return rc;
		const CUresult result = call();
		cuda_.pop(&popped);
		return result;
	}

	const Cuda &cuda_;
	CUdevice device_;
	CUcontext context_ = nullptr;
	void *pages_ = nullptr;
};

std::expected<Seen, int> seen_by_cuda(int device, void *pages, std::size_t size)
{
	static const Cuda cuda;
	CUdeviceptr place = 0;

	if (!cuda.works)
		return NO_XPU("FI_HMEM_CUDA: no driver (libcuda.so.1)");
	auto mapped = std::make_shared<CudaPages>(cuda, device);
	if (const CUresult rc = mapped->map(pages, size, place))
		return NO_XPU("FI_HMEM_CUDA: device %d: CUresult %d", device, rc);
	return Seen(std::move(mapped), reinterpret_cast<std::uint64_t *>(place));
}

#else

std::expected<Seen, int> seen_by_cuda(int, void *, std::size_t)
{
	return NO_XPU("FI_HMEM_CUDA: treadle was built without <cuda.h>");
}

#endif
#ifdef HAVE_ZE

/* The first driver. libfabric's device numbers are indices of its devices. */
struct Ze : Library {
	Ze() noexcept : Library("libze_loader.so.1")
	{
		ze_driver_handle_t driver;
		std::uint32_t drivers = 1;

		if (complete() && !init(ZE_INIT_FLAG_GPU_ONLY) && !driver_get(&drivers, &driver) &&
		    drivers && !device_get(driver, &devices, nullptr))
			context = default_context(driver);
	}

	decltype(&zeInit) init = FIND(zeInit);
	decltype(&zeDriverGet) driver_get = FIND(zeDriverGet);
	decltype(&zeDeviceGet) device_get = FIND(zeDeviceGet);
	decltype(&zeDriverGetDefaultContext) default_context = FIND(zeDriverGetDefaultContext);
	decltype(&zeMemAllocHost) alloc = FIND(zeMemAllocHost);
	decltype(&zeMemFree) free = FIND(zeMemFree);
	std::uint32_t devices = 0;
	ze_context_handle_t context = nullptr; /* of all devices of the driver */
};

std::expected<Seen, int> seen_by_ze(int device, void *pages, std::size_t size)
{
	static const Ze ze;
	ze_external_memmap_sysmem_ext_desc_t these{};
	ze_host_mem_alloc_desc_t desc{};
	void *place = nullptr;

	if (!ze.context)
		return NO_XPU("FI_HMEM_ZE: no driver (libze_loader.so.1)");
	if (device < 0 || static_cast<std::uint32_t>(device) >= ze.devices)
		return NO_XPU("FI_HMEM_ZE: device %d: there are %u", device, ze.devices);
	these.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMMAP_SYSMEM_EXT_DESC;
	these.pSystemMemory = pages;
	these.size = size;
	desc.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC;
	desc.pNext = &these;
	if (const ze_result_t rc = ze.alloc(ze.context, &desc, size, 0, &place))
		return NO_XPU("FI_HMEM_ZE: device %d: ze_result_t 0x%x", device, rc);
	Seen seen(static_cast<std::uint64_t *>(place),
		  [](std::uint64_t *mapped) { ze.free(ze.context, mapped); });
	/* A driver without the extension ignores it and allocates other pages. */
	if (place != pages)
		return NO_XPU("FI_HMEM_ZE: device %d: the driver maps no pages of others", device);
	return seen;
}

#else

std::expected<Seen, int> seen_by_ze(int, void *, std::size_t)
{
	return NO_XPU(
		"FI_HMEM_ZE: treadle was built without <level_zero/ze_api.h> of 1.14 or later");
}

#endif

} // namespace

Xpu::Xpu(const fi_trigger_xpu &xpu) noexcept : iface(xpu.iface), device(0)
{
	if (iface == FI_HMEM_CUDA)
		device = xpu.device.cuda;
	else if (iface == FI_HMEM_ZE)
		device = xpu.device.ze;
}

std::expected<Seen, int> seen_by(const Xpu &xpu, std::uint64_t *words, std::size_t size)
{
	switch (xpu.iface) {
	case FI_HMEM_SYSTEM:
		return Seen(Seen(), words); /* the address is the same */
	case FI_HMEM_CUDA:
		return seen_by_cuda(xpu.device, words, size);
	case FI_HMEM_ZE:
		return seen_by_ze(xpu.device, words, size);
	default:
		return NO_XPU("iface %d: only FI_HMEM_SYSTEM, _CUDA and _ZE", xpu.iface);
	}
}

} // namespace treadle::fi
