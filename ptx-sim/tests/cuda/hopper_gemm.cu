#include <cstdint>
#include <cuda_bf16.h>
__device__ __forceinline__ uint32_t s32(const void*p){return (uint32_t)__cvta_generic_to_shared(p);}
__device__ __forceinline__ void mbar_init(uint32_t b,uint32_t c){asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"::"r"(b),"r"(c):"memory");}
__device__ __forceinline__ void mbar_expect(uint32_t b,uint32_t n){asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"::"r"(b),"r"(n):"memory");}
__device__ __forceinline__ void mbar_arrive(uint32_t b){asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"::"r"(b):"memory");}
__device__ __forceinline__ void mbar_wait(uint32_t b,uint32_t ph){
  asm volatile("{\n.reg .pred p;\nL_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D_%=;\nbra L_%=;\nD_%=:\n}"::"r"(b),"r"(ph):"memory");}
__device__ __forceinline__ void tma2d(uint32_t dst,const void*map,uint32_t bar,int x,int y){
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4}], [%2];"::"r"(dst),"l"(map),"r"(bar),"r"(x),"r"(y):"memory");}
__device__ __forceinline__ uint64_t desc(uint32_t a){ // 128B swizzle, K-major
  return (uint64_t)((a&0x3FFFF)>>4) | (1ull<<16) | (64ull<<32) | (1ull<<62);}

__device__ __forceinline__ void wgmma_n128(float*d,uint64_t a,uint64_t b,int sc){
 asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p,%66,0;\n"
 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 0;\n}"
 :"+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]),"+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7]),"+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11]),"+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15]),"+f"(d[16]),"+f"(d[17]),"+f"(d[18]),"+f"(d[19]),"+f"(d[20]),"+f"(d[21]),"+f"(d[22]),"+f"(d[23]),"+f"(d[24]),"+f"(d[25]),"+f"(d[26]),"+f"(d[27]),"+f"(d[28]),"+f"(d[29]),"+f"(d[30]),"+f"(d[31]),"+f"(d[32]),"+f"(d[33]),"+f"(d[34]),"+f"(d[35]),"+f"(d[36]),"+f"(d[37]),"+f"(d[38]),"+f"(d[39]),"+f"(d[40]),"+f"(d[41]),"+f"(d[42]),"+f"(d[43]),"+f"(d[44]),"+f"(d[45]),"+f"(d[46]),"+f"(d[47]),"+f"(d[48]),"+f"(d[49]),"+f"(d[50]),"+f"(d[51]),"+f"(d[52]),"+f"(d[53]),"+f"(d[54]),"+f"(d[55]),"+f"(d[56]),"+f"(d[57]),"+f"(d[58]),"+f"(d[59]),"+f"(d[60]),"+f"(d[61]),"+f"(d[62]),"+f"(d[63]) :"l"(a),"l"(b),"r"(sc));}
struct alignas(64) TMap{uint64_t v[16];};
constexpr int STG=4;
extern "C" __global__ void __launch_bounds__(384,1) gemm90b(const __grid_constant__ TMap ta,const __grid_constant__ TMap tb,float*C,int K,int ldc){
  extern __shared__ __align__(1024) uint8_t sm[];
  __shared__ __align__(8) uint64_t full[STG],empty[STG];
  int wg=threadIdx.x/128;
  if(threadIdx.x==0){for(int i=0;i<STG;i++){mbar_init(s32(&full[i]),1);mbar_init(s32(&empty[i]),256);}
    asm volatile("fence.mbarrier_init.release.cluster;":::"memory");}
  __syncthreads();
  uint32_t base=s32(sm);
  int kt=K/64;
  if(wg==0){
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if(threadIdx.x==0){
      for(int k=0;k<kt;k++){int s=k%STG; uint32_t ph=(k/STG)&1;
        mbar_wait(s32(&empty[s]),ph^1);
        mbar_expect(s32(&full[s]),2*128*64*2);
        tma2d(base+s*32768,&ta,s32(&full[s]),k*64,blockIdx.y*128);
        tma2d(base+s*32768+16384,&tb,s32(&full[s]),k*64,blockIdx.x*128);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    int cw=wg-1;
    float d[64];
    #pragma unroll
    for(int i=0;i<64;i++)d[i]=0;
    for(int k=0;k<kt;k++){int s=k%STG; uint32_t ph=(k/STG)&1;
      mbar_wait(s32(&full[s]),ph);
      asm volatile("wgmma.fence.sync.aligned;":::"memory");
      #pragma unroll
      for(int kk=0;kk<4;kk++) wgmma_n128(d,desc(base+s*32768+cw*8192+kk*32),desc(base+s*32768+16384+kk*32),1);
      asm volatile("wgmma.commit_group.sync.aligned;":::"memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;":::"memory");
      mbar_arrive(s32(&empty[s]));
    }
    int t=threadIdx.x%128,w=t/32,l=t%32;
    #pragma unroll
    for(int j=0;j<16;j++)
    #pragma unroll
    for(int h=0;h<2;h++){
      float2 v=make_float2(d[j*4+h*2],d[j*4+h*2+1]);
      *(float2*)&C[(size_t)(blockIdx.y*128+cw*64+w*16+h*8+l/4)*ldc+blockIdx.x*128+j*8+(l%4)*2]=v;}
  }
}
