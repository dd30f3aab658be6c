// Kernels for the tests of the driver API. The .ptx and .fatbin files beside this one are made from it with nvcc 13.0:
//   nvcc -arch=sm_90a -lineinfo -ptx kernels.cu -o kernels.ptx
//   nvcc -gencode arch=compute_90a,code=[sm_90a,compute_90a] --compress-mode=speed -Xfatbin -compress-all -fatbin kernels.cu -o kernels_lz4.fatbin
//   (the same with --compress-mode=size for kernels_zstd.fatbin; the .file line of the PTX names the source without its folder)

__device__ unsigned counter = 7;
__constant__ float table[4] = {1.0f, 2.0f, 4.0f, 8.0f};

extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void add_counter(unsigned* out) {
    if (threadIdx.x == 0) *out = counter + (unsigned)table[3];
}

extern "C" __global__ void reverse_in_shared(unsigned* data) {
    extern __shared__ unsigned tile[];
    tile[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(128) bounded(unsigned* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x; }

extern "C" __global__ void __cluster_dims__(2, 1, 1) clustered(unsigned* out) {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) out[blockIdx.x] = rank;
}

extern "C" __global__ void write_at(unsigned* p, long long index) { p[index] = 1; }

extern "C" __global__ void stop() { asm volatile("trap;"); }
