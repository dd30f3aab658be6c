// exp and sigmoid with the bits of the CPU device, for decisions that must not differ between the two (which experts a
// token goes to). Formula: Real::exp of lightning-core/src/element.rs; every product and sum is rounded by itself there,
// so none is contracted here.
#pragma once

namespace lightning {

// e^x, relative error below 2 units in the last place; range reduction to [-ln 2 / 2, ln 2 / 2] and a Taylor polynomial
// of degree 7.
__device__ __forceinline__ float exp_exact(float v) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits
  float x = v > 88.72f ? 88.72f : v;
  x = x < -87.33f ? -87.33f : x;
  const float shifted = __fadd_rn(__fmul_rn(x, 1.44269504088896340736f), kShift);
  const float n = __fsub_rn(shifted, kShift);
  const float r = __fsub_rn(__fsub_rn(x, __fmul_rn(n, 0.6933594f)), __fmul_rn(n, -2.1219444e-4f));
  float p = 1.0f / 5040.0f;
  p = __fadd_rn(__fmul_rn(p, r), 1.0f / 720.0f);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f / 120.0f);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f / 24.0f);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f / 6.0f);
  p = __fadd_rn(__fmul_rn(p, r), 0.5f);
  p = __fadd_rn(__fadd_rn(__fmul_rn(__fmul_rn(p, r), r), r), 1.0f);
  // Two half-steps keep the scale finite at both ends of the range.
  const int k = __float_as_int(shifted) - __float_as_int(kShift);
  const int half = k >> 1;
  const float y = __fmul_rn(__fmul_rn(p, __int_as_float((half + 127) << 23)), __int_as_float((k - half + 127) << 23));
  if (v > 88.72f) return __int_as_float(0x7f800000);
  return v < -87.33f ? 0.0f : y;
}

// 1 / (1 + e^-x)
__device__ __forceinline__ float sigmoid_exact(float x) { return __fdiv_rn(1.0f, __fadd_rn(1.0f, exp_exact(-x))); }

}  // namespace lightning
