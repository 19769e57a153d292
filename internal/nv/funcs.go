package nv

// funcID numbers the driver's functions in use.
type funcID int

const (
	fnInit funcID = iota
	fnDriverGetVersion
	fnGetErrorName
	fnGetErrorString
	fnDeviceGetCount
	fnDeviceGet
	fnDeviceGetName
	fnDeviceGetAttribute
	fnDevicePrimaryCtxRetain
	fnDevicePrimaryCtxRelease
	fnCtxSetCurrent
	fnCtxSynchronize
	fnMemGetInfo
	fnMemAlloc
	fnMemFree
	fnMemcpyHtoDAsync
	fnMemcpyDtoHAsync
	fnMemcpyDtoDAsync
	fnMemsetD8Async
	fnMemsetD32Async
	fnModuleLoadData
	fnModuleUnload
	fnModuleGetFunction
	fnFuncSetAttribute
	fnFuncGetAttribute
	fnOccupancy
	fnLaunchKernelEx
	fnStreamCreate
	fnStreamDestroy
	fnStreamSynchronize
	fnStreamQuery
	fnStreamWaitEvent
	fnStreamBeginCapture
	fnStreamEndCapture
	fnEventCreate
	fnEventDestroy
	fnEventRecord
	fnEventSynchronize
	fnEventElapsedTime
	fnGraphInstantiate
	fnGraphLaunch
	fnGraphDestroy
	fnGraphExecDestroy
	numFuncs
)

// names are the exported symbols. A suffix _v2 is the one that cuda.h maps the
// plain name to.
var names = [numFuncs]string{
	fnInit:                    "cuInit",
	fnDriverGetVersion:        "cuDriverGetVersion",
	fnGetErrorName:            "cuGetErrorName",
	fnGetErrorString:          "cuGetErrorString",
	fnDeviceGetCount:          "cuDeviceGetCount",
	fnDeviceGet:               "cuDeviceGet",
	fnDeviceGetName:           "cuDeviceGetName",
	fnDeviceGetAttribute:      "cuDeviceGetAttribute",
	fnDevicePrimaryCtxRetain:  "cuDevicePrimaryCtxRetain",
	fnDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
	fnCtxSetCurrent:           "cuCtxSetCurrent",
	fnCtxSynchronize:          "cuCtxSynchronize",
	fnMemGetInfo:              "cuMemGetInfo_v2",
	fnMemAlloc:                "cuMemAlloc_v2",
	fnMemFree:                 "cuMemFree_v2",
	fnMemcpyHtoDAsync:         "cuMemcpyHtoDAsync_v2",
	fnMemcpyDtoHAsync:         "cuMemcpyDtoHAsync_v2",
	fnMemcpyDtoDAsync:         "cuMemcpyDtoDAsync_v2",
	fnMemsetD8Async:           "cuMemsetD8Async",
	fnMemsetD32Async:          "cuMemsetD32Async",
	fnModuleLoadData:          "cuModuleLoadData",
	fnModuleUnload:            "cuModuleUnload",
	fnModuleGetFunction:       "cuModuleGetFunction",
	fnFuncSetAttribute:        "cuFuncSetAttribute",
	fnFuncGetAttribute:        "cuFuncGetAttribute",
	fnOccupancy:               "cuOccupancyMaxActiveBlocksPerMultiprocessor",
	fnLaunchKernelEx:          "cuLaunchKernelEx",
	fnStreamCreate:            "cuStreamCreate",
	fnStreamDestroy:           "cuStreamDestroy_v2",
	fnStreamSynchronize:       "cuStreamSynchronize",
	fnStreamQuery:             "cuStreamQuery",
	fnStreamWaitEvent:         "cuStreamWaitEvent",
	fnStreamBeginCapture:      "cuStreamBeginCapture_v2",
	fnStreamEndCapture:        "cuStreamEndCapture",
	fnEventCreate:             "cuEventCreate",
	fnEventDestroy:            "cuEventDestroy_v2",
	fnEventRecord:             "cuEventRecord",
	fnEventSynchronize:        "cuEventSynchronize",
	fnEventElapsedTime:        "cuEventElapsedTime",
	fnGraphInstantiate:        "cuGraphInstantiateWithFlags",
	fnGraphLaunch:             "cuGraphLaunch",
	fnGraphDestroy:            "cuGraphDestroy",
	fnGraphExecDestroy:        "cuGraphExecDestroy",
}
