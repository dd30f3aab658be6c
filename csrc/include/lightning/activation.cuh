// Activation functions in f32 and their derivatives.
#pragma once

namespace lightning {

// 1 / (1 + e^-x)
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// ln(1 + e^x); the identity above 20, as in the reference kernels. A NaN stays one.
__device__ __forceinline__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

// d(x sigmoid(x))/dx, where s = sigmoid(x)
__device__ __forceinline__ float silu_slope(float x, float s) { return s * (1.0f + x * (1.0f - s)); }

}  // namespace lightning
