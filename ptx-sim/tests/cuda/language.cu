// Language features: functions, calls, switch, local memory, printf, atomics, warp intrinsics, math.
#include <cstdint>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__device__ uint32_t table[8]={3,1,4,1,5,9,2,6};
__constant__ float weights[4]={0.5f,1.5f,2.5f,3.5f};
__device__ __noinline__ uint32_t collatz(uint32_t x){uint32_t n=0;while(x!=1){x=(x&1)?3*x+1:x>>1;n++;}return n;}
struct Pair{uint32_t a;uint64_t b;};
__device__ __noinline__ Pair swap_add(Pair p,uint32_t k){Pair r;r.a=(uint32_t)p.b+k;r.b=(uint64_t)p.a<<33;return r;}
extern "C" __global__ void calls(uint32_t*out){
  int t=threadIdx.x;
  out[t]=(t%3==0)?collatz(t+1):collatz(2*t+7)+1000;
  Pair p{(uint32_t)t,(uint64_t)t*5};
  p=swap_add(p,7);
  out[64+t]=p.a+(uint32_t)(p.b>>32);
}
extern "C" __global__ void branches(const uint32_t*in,uint32_t*out){
  int t=threadIdx.x; uint32_t v=in[t],r;
  switch(v%9){case 0:r=v+1;break;case 1:r=v*3;break;case 2:r=v^0x55;break;case 3:r=v-7;break;case 4:r=v<<2;break;case 5:r=v>>1;break;case 6:r=~v;break;case 7:r=v*v;break;default:r=table[v&7];}
  uint32_t stack[16];
  #pragma unroll 1
  for(int i=0;i<16;i++)stack[i]=v+i*i;
  out[t]=r+stack[v&15];
}
extern "C" __global__ void warps(uint32_t*out){
  uint32_t t=threadIdx.x,l=t&31;
  out[t]=__ballot_sync(~0u,l%3==1);
  out[32+t]=__match_any_sync(~0u,l%5);
  out[64+t]=__reduce_add_sync(~0u,l*l);
  out[96+t]=__shfl_up_sync(~0u,l*10,3);
  out[128+t]=__shfl_down_sync(~0u,l*10,5,16);
  out[160+t]=__shfl_sync(~0u,l*10,l*7,8);
  out[192+t]=(l<16)?__reduce_max_sync(0xffff,l^5):__reduce_min_sync(0xffff0000u,l^5);
  out[224+t]=__any_sync(~0u,l==40)*2+__all_sync(~0u,l<40);
}
extern "C" __global__ void atoms(uint32_t*i,float*f,unsigned long long*q,__half2*h){
  atomicAdd(&i[0],threadIdx.x+1);
  atomicMax((int*)&i[1],(int)threadIdx.x-50);
  atomicAnd(&i[2],~(1u<<(threadIdx.x&31)));
  atomicInc(&i[3],6);
  uint32_t old=i[4],seen; do{seen=old;old=atomicCAS(&i[4],seen,seen*2+1);}while(old!=seen && old<1000000);
  atomicAdd(f,0.5f);
  atomicAdd(q,1ull<<33);
  atomicAdd(h,__floats2half2_rn(1.f,2.f));
  __shared__ uint32_t s[2];
  if(threadIdx.x<2)s[threadIdx.x]=0;
  __syncthreads();
  atomicAdd(&s[threadIdx.x&1],threadIdx.x);
  __syncthreads();
  if(threadIdx.x<2)i[8+threadIdx.x]=s[threadIdx.x];
}
extern "C" __global__ void maths(const float*x,float*y,double*d,int n){
  int t=blockIdx.x*blockDim.x+threadIdx.x; if(t>=n)return;
  float v=x[t];
  y[t]=sinf(v*1e6f); y[n+t]=expf(v); y[2*n+t]=logf(fabsf(v)+1e-3f); y[3*n+t]=v/(v*v+1.f); y[4*n+t]=sqrtf(fabsf(v));
  y[5*n+t]=__half2float(__hfma(__float2half(v),__float2half(0.25f),__float2half(1.f)));
  y[6*n+t]=__bfloat162float(__hadd(__float2bfloat16(v),__float2bfloat16(0.125f)));
  y[7*n+t]=weights[t&3]*v; y[8*n+t]=tanhf(v); y[9*n+t]=rsqrtf(fabsf(v)+1.f)+floorf(v)+rintf(v*3.f);
  d[t]=exp((double)v)+cos((double)v)/3.0;
}
extern "C" __global__ void speak(int n,const char*){
  if(threadIdx.x<2)printf("t %d of %u: %5.2f %s %#llx|%-4d|%05d %c%%\n",threadIdx.x,n,threadIdx.x*0.5,"word",0x1234567890ull,7,-42,'z');
}
