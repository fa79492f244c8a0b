/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The part of CUDA's driver API that the provider uses, for tests without CUDA: drivers.cpp. */
#ifndef TREADLE_TESTS_CUDA_H
#define TREADLE_TESTS_CUDA_H

#include <stddef.h>

#define cuCtxPushCurrent	  cuCtxPushCurrent_v2
#define cuCtxPopCurrent		  cuCtxPopCurrent_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuMemHostRegister	  cuMemHostRegister_v2
#define cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2

#define CU_MEMHOSTREGISTER_PORTABLE  0x01
#define CU_MEMHOSTREGISTER_DEVICEMAP 0x02

typedef enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
} CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;

#ifdef __cplusplus
extern "C" {
#endif

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuCtxPushCurrent(CUcontext context);
CUresult cuCtxPopCurrent(CUcontext *context);
CUresult cuMemHostRegister(void *memory, size_t size, unsigned int flags);
CUresult cuMemHostUnregister(void *memory);
CUresult cuMemHostGetDevicePointer(CUdeviceptr *place, void *memory, unsigned int flags);

#ifdef __cplusplus
}
#endif

#endif
