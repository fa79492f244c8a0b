// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The only place that knows the interfaces of devices. Each is in it if its header is there when this is compiled.
 * Its library comes with the driver and is looked for when this runs, by its soname, so it is the one that
 * the application uses; where there is none, there is no device.
 */
#include "hmem.h"

#include "provider.h"

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

/* Never closed: what it has mapped may be in use until the process ends. */
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
	/* Whether all of them were there. */
	bool complete() const noexcept { return complete_; }

private:
	void *handle_;
	bool complete_ = true;
};

/* The header's names may be macros: for the version of the function that the header declares. */
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
 * By the primary context of the device, which is that of the runtime API and of its kernels. It is held, since
 * what it has mapped goes with it. With PORTABLE other contexts have the pages, too, at the same address.
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
	/* The calling thread has that context meanwhile, and then its own again. */
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

/* The first driver: device numbers are libfabric's, which are indices of its devices. */
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
	ze_context_handle_t context = nullptr; /* of all its devices */
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
	/* A driver that does not know the extension has taken no notice of it. */
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

Xpu::Xpu(const fi_trigger_xpu &xpu) noexcept
	: iface(xpu.iface), device(iface == FI_HMEM_CUDA ? xpu.device.cuda :
				   iface == FI_HMEM_ZE	 ? xpu.device.ze :
							   0)
{
}

std::expected<Seen, int> seen_by(const Xpu &xpu, std::uint64_t *words, std::size_t size)
{
	switch (xpu.iface) {
	case FI_HMEM_SYSTEM:
		return Seen(Seen(), words); /* where they are */
	case FI_HMEM_CUDA:
		return seen_by_cuda(xpu.device, words, size);
	case FI_HMEM_ZE:
		return seen_by_ze(xpu.device, words, size);
	default:
		return NO_XPU("iface %d: only FI_HMEM_SYSTEM, _CUDA and _ZE", xpu.iface);
	}
}

} // namespace treadle::fi
