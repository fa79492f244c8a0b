/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Of Level Zero what the provider uses, for tests where there is none: drivers.cpp. */
#ifndef TREADLE_TESTS_ZE_API_H
#define TREADLE_TESTS_ZE_API_H

#include <stddef.h>
#include <stdint.h>

#define ZE_EXTERNAL_MEMORY_MAPPING_EXT_NAME "ZE_extension_external_memmap_sysmem"
#define ZE_INIT_FLAG_GPU_ONLY		    1

typedef enum { ZE_RESULT_SUCCESS = 0, ZE_RESULT_ERROR_INVALID_ARGUMENT = 0x78000004 } ze_result_t;
typedef enum {
	ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC = 0x16,
	ZE_STRUCTURE_TYPE_EXTERNAL_MEMMAP_SYSMEM_EXT_DESC = 0x20037,
} ze_structure_type_t;
typedef struct ze_driver *ze_driver_handle_t;
typedef struct ze_device *ze_device_handle_t;
typedef struct ze_context *ze_context_handle_t;

typedef struct {
	ze_structure_type_t stype;
	const void *pNext;
	uint32_t flags;
} ze_host_mem_alloc_desc_t;
typedef struct {
	ze_structure_type_t stype;
	const void *pNext;
	void *pSystemMemory;
	uint64_t size;
} ze_external_memmap_sysmem_ext_desc_t;

#ifdef __cplusplus
extern "C" {
#endif

ze_result_t zeInit(uint32_t flags);
ze_result_t zeDriverGet(uint32_t *count, ze_driver_handle_t *drivers);
ze_result_t zeDeviceGet(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *devices);
ze_context_handle_t zeDriverGetDefaultContext(ze_driver_handle_t driver);
ze_result_t zeMemAllocHost(ze_context_handle_t context, const ze_host_mem_alloc_desc_t *desc,
			   size_t size, size_t alignment, void **memory);
ze_result_t zeMemFree(ze_context_handle_t context, void *memory);

#ifdef __cplusplus
}
#endif

#endif
