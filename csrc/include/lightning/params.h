// Parameter blocks of all kernels: the one place where the host and the device agree on what a launch passes.
//
// Each kernel takes exactly one block by value. The headers are plain C: nvcc reads a family's for its kernels, and
// `cargo xtask bindgen` makes `kernels-sys/src/params.rs` from all of them (run that after every change here).
//
// Conventions
//   * A device address is LIGHTNING_PTR(type): a pointer on the device, a uint64_t on the host. 0 means "absent"
//     where a field says that it may be.
//   * Strides count elements, not bytes, are 64-bit, and are the distance from one row to the next.
//   * Names end in Params. Fields run from the widest to the narrowest, so that no padding hides between them; where
//     a size is not a multiple of 8, the last field is `reserved`.
//   * Legend: t tokens, h hidden (in the mixers: heads), v vocabulary, c channels, p head dim, n state, g groups,
//     e experts, k experts per token, f expert width. "act" is the activation type of the kernel's suffix, bf16 or f32.
#ifndef LIGHTNING_PARAMS_H
#define LIGHTNING_PARAMS_H

#include "lightning/params/norm.h"
#include "lightning/params/reduce.h"
#include "lightning/params/sort.h"
#include "lightning/params/embed.h"
#include "lightning/params/conv.h"
#include "lightning/params/mamba.h"
#include "lightning/params/attention.h"
#include "lightning/params/moe.h"
#include "lightning/params/gemm.h"
#include "lightning/params/loss.h"
#include "lightning/params/optim.h"

#endif
