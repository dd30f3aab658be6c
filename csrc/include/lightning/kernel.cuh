// How a kernel is declared. build.rs reads these declarations as text and makes the kernel table of kernels-sys from
// them, then holds the table against the PTX (entry names, parameter sizes, block sizes).
//
//   LIGHTNING_KERNEL(name, Params, dtype, threads, min_blocks, dynamic_shared) { ... uses p ... }
//
//   name            symbol, and key of the kernel table; ends in the dtype where there is more than one
//   Params          parameter block of params/FAMILY.h (which the source includes), passed by value as p
//   dtype           bf16 or f32: the activation type; any: the kernel has only one form
//   threads         threads of a block, a multiple of 32 (a number, not a name)
//   min_blocks      blocks that must fit on one multiprocessor: bounds the registers
//   dynamic_shared  bytes of dynamic shared memory that a launch must ask for (a number)
//
// A file NAME.cu is compiled for every architecture; NAME.sm_90a.cu for that one alone.
#pragma once

#include "lightning/params/abi.h"

#define LIGHTNING_KERNEL(name, Params, dtype, threads, min_blocks, dynamic_shared) \
  extern "C" __global__ void __launch_bounds__(threads, min_blocks) name(const __grid_constant__ Params p)
