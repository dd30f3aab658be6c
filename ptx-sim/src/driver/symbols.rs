//! Look-up of API functions by name, with the versions that `cuda.h` of CUDA 13.0 gives to plain names.

use super::entry::Symbol;
use std::ffi::c_void;

/// Tables of all files, the unsupported functions last.
const TABLES: &[&[Symbol]] = &[
    super::api_init::SYMBOLS,
    super::api_device::SYMBOLS,
    super::api_context::SYMBOLS,
    super::api_memory::SYMBOLS,
    super::api_copy::SYMBOLS,
    super::api_fill::SYMBOLS,
    super::pool::SYMBOLS,
    super::virtual_memory::SYMBOLS,
    super::api_stream::SYMBOLS,
    super::event::SYMBOLS,
    super::stream_values::SYMBOLS,
    super::graph_attributes::SYMBOLS,
    super::api_module::SYMBOLS,
    super::api_function::SYMBOLS,
    super::launch::SYMBOLS,
    super::api_tensormap::SYMBOLS,
    super::api_graph::SYMBOLS,
    super::api_graph_nodes::SYMBOLS,
    super::unsupported::SYMBOLS,
];

/// Plain names and the versioned functions that they stand for.
const CURRENT: &[(&str, &str)] = &[
    ("cuArray3DCreate", "cuArray3DCreate_v2"),
    ("cuArray3DGetDescriptor", "cuArray3DGetDescriptor_v2"),
    ("cuArrayCreate", "cuArrayCreate_v2"),
    ("cuArrayGetDescriptor", "cuArrayGetDescriptor_v2"),
    ("cuCtxCreate", "cuCtxCreate_v4"),
    ("cuCtxDestroy", "cuCtxDestroy_v2"),
    ("cuCtxPopCurrent", "cuCtxPopCurrent_v2"),
    ("cuCtxPushCurrent", "cuCtxPushCurrent_v2"),
    ("cuDeviceGetUuid", "cuDeviceGetUuid_v2"),
    ("cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2"),
    ("cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"),
    (
        "cuDevicePrimaryCtxSetFlags",
        "cuDevicePrimaryCtxSetFlags_v2",
    ),
    ("cuDeviceTotalMem", "cuDeviceTotalMem_v2"),
    ("cuEventDestroy", "cuEventDestroy_v2"),
    ("cuEventElapsedTime", "cuEventElapsedTime_v2"),
    ("cuGetProcAddress", "cuGetProcAddress_v2"),
    ("cuGraphAddDependencies", "cuGraphAddDependencies_v2"),
    ("cuGraphAddKernelNode", "cuGraphAddKernelNode_v2"),
    ("cuGraphAddNode", "cuGraphAddNode_v2"),
    (
        "cuGraphExecKernelNodeSetParams",
        "cuGraphExecKernelNodeSetParams_v2",
    ),
    ("cuGraphExecUpdate", "cuGraphExecUpdate_v2"),
    ("cuGraphGetEdges", "cuGraphGetEdges_v2"),
    ("cuGraphInstantiate", "cuGraphInstantiateWithFlags"),
    (
        "cuGraphKernelNodeGetParams",
        "cuGraphKernelNodeGetParams_v2",
    ),
    (
        "cuGraphKernelNodeSetParams",
        "cuGraphKernelNodeSetParams_v2",
    ),
    (
        "cuGraphNodeGetDependencies",
        "cuGraphNodeGetDependencies_v2",
    ),
    (
        "cuGraphNodeGetDependentNodes",
        "cuGraphNodeGetDependentNodes_v2",
    ),
    ("cuGraphRemoveDependencies", "cuGraphRemoveDependencies_v2"),
    (
        "cuGraphicsResourceGetMappedPointer",
        "cuGraphicsResourceGetMappedPointer_v2",
    ),
    (
        "cuGraphicsResourceSetMapFlags",
        "cuGraphicsResourceSetMapFlags_v2",
    ),
    ("cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"),
    ("cuLinkAddData", "cuLinkAddData_v2"),
    ("cuLinkAddFile", "cuLinkAddFile_v2"),
    ("cuLinkCreate", "cuLinkCreate_v2"),
    ("cuMemAdvise", "cuMemAdvise_v2"),
    ("cuMemAlloc", "cuMemAlloc_v2"),
    ("cuMemAllocHost", "cuMemAllocHost_v2"),
    ("cuMemAllocPitch", "cuMemAllocPitch_v2"),
    ("cuMemFree", "cuMemFree_v2"),
    ("cuMemGetAddressRange", "cuMemGetAddressRange_v2"),
    ("cuMemGetInfo", "cuMemGetInfo_v2"),
    ("cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer_v2"),
    ("cuMemHostRegister", "cuMemHostRegister_v2"),
    ("cuMemPrefetchAsync", "cuMemPrefetchAsync_v2"),
    ("cuMemcpy2D", "cuMemcpy2D_v2"),
    ("cuMemcpy2DAsync", "cuMemcpy2DAsync_v2"),
    ("cuMemcpy2DUnaligned", "cuMemcpy2DUnaligned_v2"),
    ("cuMemcpy3D", "cuMemcpy3D_v2"),
    ("cuMemcpy3DAsync", "cuMemcpy3DAsync_v2"),
    ("cuMemcpy3DBatchAsync", "cuMemcpy3DBatchAsync_v2"),
    ("cuMemcpyAtoA", "cuMemcpyAtoA_v2"),
    ("cuMemcpyAtoD", "cuMemcpyAtoD_v2"),
    ("cuMemcpyAtoH", "cuMemcpyAtoH_v2"),
    ("cuMemcpyAtoHAsync", "cuMemcpyAtoHAsync_v2"),
    ("cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2"),
    ("cuMemcpyDtoA", "cuMemcpyDtoA_v2"),
    ("cuMemcpyDtoD", "cuMemcpyDtoD_v2"),
    ("cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2"),
    ("cuMemcpyDtoH", "cuMemcpyDtoH_v2"),
    ("cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2"),
    ("cuMemcpyHtoA", "cuMemcpyHtoA_v2"),
    ("cuMemcpyHtoAAsync", "cuMemcpyHtoAAsync_v2"),
    ("cuMemcpyHtoD", "cuMemcpyHtoD_v2"),
    ("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2"),
    ("cuMemsetD16", "cuMemsetD16_v2"),
    ("cuMemsetD2D16", "cuMemsetD2D16_v2"),
    ("cuMemsetD2D32", "cuMemsetD2D32_v2"),
    ("cuMemsetD2D8", "cuMemsetD2D8_v2"),
    ("cuMemsetD32", "cuMemsetD32_v2"),
    ("cuMemsetD8", "cuMemsetD8_v2"),
    ("cuModuleGetGlobal", "cuModuleGetGlobal_v2"),
    ("cuStreamBatchMemOp", "cuStreamBatchMemOp_v2"),
    ("cuStreamBeginCapture", "cuStreamBeginCapture_v2"),
    ("cuStreamDestroy", "cuStreamDestroy_v2"),
    ("cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v3"),
    (
        "cuStreamUpdateCaptureDependencies",
        "cuStreamUpdateCaptureDependencies_v2",
    ),
    ("cuStreamWaitValue32", "cuStreamWaitValue32_v2"),
    ("cuStreamWaitValue64", "cuStreamWaitValue64_v2"),
    ("cuStreamWriteValue32", "cuStreamWriteValue32_v2"),
    ("cuStreamWriteValue64", "cuStreamWriteValue64_v2"),
    ("cuTexRefGetAddress", "cuTexRefGetAddress_v2"),
    ("cuTexRefSetAddress", "cuTexRefSetAddress_v2"),
    ("cuTexRefSetAddress2D", "cuTexRefSetAddress2D_v3"),
];

/// Names of all functions that are implemented.
pub fn implemented() -> impl Iterator<Item = &'static str> {
    TABLES[..TABLES.len() - 1]
        .iter()
        .flat_map(|t| t.iter().map(|s| s.name))
}

/// Address of a function. A plain name gives the version that `cuda.h` maps it to.
pub fn find(name: &str) -> Option<*const c_void> {
    let exact = CURRENT.iter().find(|c| c.0 == name).map_or(name, |c| c.1);
    TABLES
        .iter()
        .flat_map(|t| t.iter())
        .find(|s| s.name == exact)
        .map(|s| s.address)
}
