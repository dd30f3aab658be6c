//! Device attributes, as an H100 SXM5 80 GB and an H200 SXM5 141 GB report them.
//!
//! Where a virtual device cannot do what the real one can (managed memory migration, textures as data, decompression
//! engines, exported memory), the attribute says so, so that programs take another way.

use crate::exec::Architecture;

/// Attributes that are the same on both devices, by number of `CUdevice_attribute`.
const TABLE: &[(i32, i32)] = &[
    (1, 1024),          // MAX_THREADS_PER_BLOCK
    (2, 1024),          // MAX_BLOCK_DIM_X
    (3, 1024),          // MAX_BLOCK_DIM_Y
    (4, 64),            // MAX_BLOCK_DIM_Z
    (5, i32::MAX),      // MAX_GRID_DIM_X
    (6, 65_535),        // MAX_GRID_DIM_Y
    (7, 65_535),        // MAX_GRID_DIM_Z
    (8, 49_152),        // MAX_SHARED_MEMORY_PER_BLOCK
    (9, 65_536),        // TOTAL_CONSTANT_MEMORY
    (10, 32),           // WARP_SIZE
    (11, i32::MAX),     // MAX_PITCH
    (13, 1_980_000),    // CLOCK_RATE
    (14, 512),          // TEXTURE_ALIGNMENT
    (15, 1),            // GPU_OVERLAP
    (17, 0),            // KERNEL_EXEC_TIMEOUT
    (18, 0),            // INTEGRATED
    (19, 1),            // CAN_MAP_HOST_MEMORY
    (20, 0),            // COMPUTE_MODE
    (21, 131_072),      // MAXIMUM_TEXTURE1D_WIDTH
    (22, 131_072),      // MAXIMUM_TEXTURE2D_WIDTH
    (23, 65_536),       // MAXIMUM_TEXTURE2D_HEIGHT
    (24, 16_384),       // MAXIMUM_TEXTURE3D_WIDTH
    (25, 16_384),       // MAXIMUM_TEXTURE3D_HEIGHT
    (26, 16_384),       // MAXIMUM_TEXTURE3D_DEPTH
    (27, 32_768),       // MAXIMUM_TEXTURE2D_LAYERED_WIDTH
    (28, 32_768),       // MAXIMUM_TEXTURE2D_LAYERED_HEIGHT
    (29, 2048),         // MAXIMUM_TEXTURE2D_LAYERED_LAYERS
    (30, 512),          // SURFACE_ALIGNMENT
    (31, 1),            // CONCURRENT_KERNELS
    (32, 1),            // ECC_ENABLED
    (34, 0),            // PCI_DEVICE_ID
    (35, 0),            // TCC_DRIVER
    (40, 3),            // ASYNC_ENGINE_COUNT
    (41, 1),            // UNIFIED_ADDRESSING
    (42, 32_768),       // MAXIMUM_TEXTURE1D_LAYERED_WIDTH
    (43, 2048),         // MAXIMUM_TEXTURE1D_LAYERED_LAYERS
    (44, 1),            // CAN_TEX2D_GATHER
    (45, 32_768),       // MAXIMUM_TEXTURE2D_GATHER_WIDTH
    (46, 32_768),       // MAXIMUM_TEXTURE2D_GATHER_HEIGHT
    (47, 8192),         // MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE
    (48, 8192),         // MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE
    (49, 32_768),       // MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE
    (50, 0),            // PCI_DOMAIN_ID
    (51, 32),           // TEXTURE_PITCH_ALIGNMENT
    (52, 32_768),       // MAXIMUM_TEXTURECUBEMAP_WIDTH
    (53, 32_768),       // MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH
    (54, 2046),         // MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS
    (55, 32_768),       // MAXIMUM_SURFACE1D_WIDTH
    (56, 131_072),      // MAXIMUM_SURFACE2D_WIDTH
    (57, 65_536),       // MAXIMUM_SURFACE2D_HEIGHT
    (58, 16_384),       // MAXIMUM_SURFACE3D_WIDTH
    (59, 16_384),       // MAXIMUM_SURFACE3D_HEIGHT
    (60, 16_384),       // MAXIMUM_SURFACE3D_DEPTH
    (61, 32_768),       // MAXIMUM_SURFACE1D_LAYERED_WIDTH
    (62, 2048),         // MAXIMUM_SURFACE1D_LAYERED_LAYERS
    (63, 32_768),       // MAXIMUM_SURFACE2D_LAYERED_WIDTH
    (64, 32_768),       // MAXIMUM_SURFACE2D_LAYERED_HEIGHT
    (65, 2048),         // MAXIMUM_SURFACE2D_LAYERED_LAYERS
    (66, 32_768),       // MAXIMUM_SURFACECUBEMAP_WIDTH
    (67, 32_768),       // MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH
    (68, 2046),         // MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS
    (69, 268_435_456),  // MAXIMUM_TEXTURE1D_LINEAR_WIDTH
    (70, 131_072),      // MAXIMUM_TEXTURE2D_LINEAR_WIDTH
    (71, 65_000),       // MAXIMUM_TEXTURE2D_LINEAR_HEIGHT
    (72, 2_097_120),    // MAXIMUM_TEXTURE2D_LINEAR_PITCH
    (73, 32_768),       // MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH
    (74, 32_768),       // MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT
    (77, 32_768),       // MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH
    (78, 1),            // STREAM_PRIORITIES_SUPPORTED
    (79, 1),            // GLOBAL_L1_CACHE_SUPPORTED
    (80, 1),            // LOCAL_L1_CACHE_SUPPORTED
    (83, 1),            // MANAGED_MEMORY
    (84, 0),            // MULTI_GPU_BOARD
    (86, 0),            // HOST_NATIVE_ATOMIC_SUPPORTED
    (87, 2),            // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
    (88, 0),            // PAGEABLE_MEMORY_ACCESS
    (89, 1),            // CONCURRENT_MANAGED_ACCESS
    (90, 1),            // COMPUTE_PREEMPTION_SUPPORTED
    (91, 1),            // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
    (92, 0),            // CAN_USE_STREAM_MEM_OPS_V1
    (93, 0),            // CAN_USE_64_BIT_STREAM_MEM_OPS_V1
    (94, 0),            // CAN_USE_STREAM_WAIT_VALUE_NOR_V1
    (95, 1),            // COOPERATIVE_LAUNCH
    (96, 0),            // COOPERATIVE_MULTI_DEVICE_LAUNCH
    (98, 0),            // CAN_FLUSH_REMOTE_WRITES
    (99, 1),            // HOST_REGISTER_SUPPORTED
    (100, 0),           // PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
    (101, 0),           // DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
    (102, 1),           // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    (103, 0),           // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
    (104, 0),           // HANDLE_TYPE_WIN32_HANDLE_SUPPORTED
    (105, 0),           // HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED
    (107, 0),           // GENERIC_COMPRESSION_SUPPORTED
    (108, 32_768_000),  // MAX_PERSISTING_L2_CACHE_SIZE
    (109, 134_213_632), // MAX_ACCESS_POLICY_WINDOW_SIZE
    (110, 0),           // GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
    (112, 0),           // SPARSE_CUDA_ARRAY_SUPPORTED
    (113, 1),           // READ_ONLY_HOST_REGISTER_SUPPORTED
    (114, 0),           // TIMELINE_SEMAPHORE_INTEROP_SUPPORTED
    (115, 1),           // MEMORY_POOLS_SUPPORTED
    (116, 0),           // GPU_DIRECT_RDMA_SUPPORTED
    (117, 0),           // GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS
    (118, 0),           // GPU_DIRECT_RDMA_WRITES_ORDERING
    (119, 0),           // MEMPOOL_SUPPORTED_HANDLE_TYPES
    (120, 1),           // CLUSTER_LAUNCH
    (121, 0),           // DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED
    (122, 1),           // CAN_USE_64_BIT_STREAM_MEM_OPS
    (123, 1),           // CAN_USE_STREAM_WAIT_VALUE_NOR
    (124, 0),           // DMA_BUF_SUPPORTED
    (125, 0),           // IPC_EVENT_SUPPORTED
    (126, 4),           // MEM_SYNC_DOMAIN_COUNT
    (127, 1),           // TENSOR_MAP_ACCESS_SUPPORTED
    (128, 0),           // HANDLE_TYPE_FABRIC_SUPPORTED
    (129, 0),           // UNIFIED_FUNCTION_POINTERS
    (130, 0),           // NUMA_CONFIG
    (131, -1),          // NUMA_ID
    (132, 0),           // MULTICAST_SUPPORTED
    (133, 0),           // MPS_ENABLED
    (134, 0),           // HOST_NUMA_ID
    (135, 0),           // D3D12_CIG_SUPPORTED
    (136, 0),           // MEM_DECOMPRESS_ALGORITHM_MASK
    (137, 0),           // MEM_DECOMPRESS_MAXIMUM_LENGTH
    (138, 0),           // VULKAN_CIG_SUPPORTED
    (141, 0),           // HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    (142, 0),           // HOST_NUMA_MEMORY_POOLS_SUPPORTED
    (143, 0),           // HOST_NUMA_MULTINODE_IPC_SUPPORTED
    (144, 0),           // HOST_MEMORY_POOLS_SUPPORTED
    (145, 0),           // HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    (146, 0),           // HOST_ALLOC_DMA_BUF_SUPPORTED
    (147, 0),           // ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED
];

/// PCI bus number of a device.
pub fn pci_bus(physical: usize) -> i32 {
    0x0a + 0x10 * physical as i32
}

/// Value of an attribute of device `physical`; `None` for numbers that CUDA 13.0 does not define.
pub fn value(architecture: Architecture, physical: usize, attribute: i32) -> Option<i32> {
    let (major, minor) = architecture.compute_capability();
    let h200 = architecture == Architecture::H200;
    let own = match attribute {
        12 | 82 => architecture.registers_per_multiprocessor() as i32,
        16 => architecture.multiprocessors() as i32,
        33 => pci_bus(physical),
        // Peak memory clock in kHz and bus width in bits: HBM3 on five stacks, HBM3e on six.
        36 => {
            if h200 {
                3_201_000
            } else {
                2_619_000
            }
        }
        37 => {
            if h200 {
                6144
            } else {
                5120
            }
        }
        38 => {
            if h200 {
                62_914_560
            } else {
                52_428_800
            }
        }
        39 => architecture.threads_per_multiprocessor() as i32,
        75 => major as i32,
        76 => minor as i32,
        81 => architecture.shared_per_multiprocessor() as i32,
        85 => physical as i32,
        97 => architecture.max_shared_per_block_optin() as i32,
        106 => architecture.blocks_per_multiprocessor() as i32,
        111 => architecture.reserved_shared_per_block() as i32,
        // NVIDIA's vendor number with the device number of the board.
        139 => {
            if h200 {
                0x2335_10de
            } else {
                0x2330_10de
            }
        }
        140 => {
            if h200 {
                0x18be_10de
            } else {
                0x16c1_10de
            }
        }
        _ => return TABLE.iter().find(|t| t.0 == attribute).map(|t| t.1),
    };
    Some(own)
}
