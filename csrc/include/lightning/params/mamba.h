// Parameter blocks: time steps and the SSD scan (csrc/mamba/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"

// delta_th = max(softplus(raw_th + bias_h), dt_min)
typedef struct SoftplusDtFwdParams {
  LIGHTNING_PTR(const void) raw;    // [t, h] act: columns of the in_proj output
  LIGHTNING_PTR(const float) bias;  // [h] f32
  LIGHTNING_PTR(float) delta;       // [t, h] f32, overwritten
  int64_t raw_stride;               // elements from one row of raw to the next
  int64_t delta_stride;             // of delta
  int64_t t;                        // tokens, may be 0
  int32_t h;                        // heads, at least 1
  float dt_min;                     // lower bound of delta; 0: none
} SoftplusDtFwdParams;

LIGHTNING_ASSERT(sizeof(SoftplusDtFwdParams) == 56);
LIGHTNING_ASSERT(offsetof(SoftplusDtFwdParams, dt_min) == 52);

// draw_th = ddelta_th sigmoid(raw_th + bias_h) [delta_th above dt_min],  dbias_partial[i] = sum over token block i of draw_th
typedef struct SoftplusDtBwdParams {
  LIGHTNING_PTR(const float) ddelta;    // [t, h] f32
  LIGHTNING_PTR(const void) raw;        // [t, h] act, of the forward pass
  LIGHTNING_PTR(const float) bias;      // [h] f32
  LIGHTNING_PTR(void) draw;             // [t, h] act, overwritten
  LIGHTNING_PTR(float) dbias_partial;   // [ceil(t / 64), h] f32, overwritten
  int64_t ddelta_stride;                // elements from one row of ddelta to the next
  int64_t raw_stride;                   // of raw
  int64_t draw_stride;                  // of draw
  int64_t partial_stride;               // of dbias_partial
  int64_t t;                            // tokens, may be 0
  int32_t h;                            // heads, at least 1
  float dt_min;                         // of the forward pass
} SoftplusDtBwdParams;

LIGHTNING_ASSERT(sizeof(SoftplusDtBwdParams) == 88);
LIGHTNING_ASSERT(offsetof(SoftplusDtBwdParams, dt_min) == 84);

// S_t = e^{delta_t a} S_{t-1} + delta_t x_t (x) B_t,  y_t = act(S_t C_t + D x_t),  a = -exp(A_log); S starts from 0 at every
// document. All kernels of the forward pass take this block.
typedef struct SsdScanFwdParams {
  LIGHTNING_PTR(const void) x;          // [t, h p] act
  LIGHTNING_PTR(const void) b;          // [t, g n] act
  LIGHTNING_PTR(const void) c;          // [t, g n] act
  LIGHTNING_PTR(const float) delta;     // [t, h] f32: time steps after softplus
  LIGHTNING_PTR(const float) a_log;     // [h] f32
  LIGHTNING_PTR(const float) d;         // [h] f32
  LIGHTNING_PTR(const int32_t) start;   // [t] i32: first token of each token's document
  LIGHTNING_PTR(const float) state_in;  // [rows, h p n] f32: S before the first token of a row; may be absent (0)
  LIGHTNING_PTR(void) y;                // [t, h p] act, overwritten
  LIGHTNING_PTR(float) states;          // [rows chunks, h p n] f32, overwritten: S at the start of every chunk
  LIGHTNING_PTR(float) state_out;       // [rows, h p n] f32, overwritten: S after the last token of a row; may be absent
  LIGHTNING_PTR(float) log_decay;       // [t, h] f32, workspace: l, the sum of delta a from the piece's start
  int64_t x_stride;                     // elements from one row of x to the next
  int64_t b_stride;                     // of b
  int64_t c_stride;                     // of c
  int64_t delta_stride;                 // of delta
  int64_t state_in_stride;              // of state_in
  int64_t y_stride;                     // of y
  int64_t states_stride;                // of states
  int64_t state_out_stride;             // of state_out
  int64_t rows;                         // rows of row_len tokens each: t = rows row_len; may be 0
  int32_t row_len;                      // tokens of a row, at least 1
  int32_t chunk;                        // chunk length, at least 1
  int32_t heads;                        // h, a multiple of groups
  int32_t head_dim;                     // p, at least 1
  int32_t state;                        // n, at least 1
  int32_t groups;                       // g, at least 1
} SsdScanFwdParams;

LIGHTNING_ASSERT(sizeof(SsdScanFwdParams) == 192);
LIGHTNING_ASSERT(offsetof(SsdScanFwdParams, x_stride) == 96);
LIGHTNING_ASSERT(offsetof(SsdScanFwdParams, groups) == 188);

// Gradients of the scan. All kernels of the backward pass take this block; those that also run in the forward pass take
// its part fwd, of which y and state_out are absent then.
typedef struct SsdScanBwdParams {
  SsdScanFwdParams fwd;                   // inputs and kept states of the forward pass
  LIGHTNING_PTR(const void) dy;           // [t, h p] act
  LIGHTNING_PTR(const float) dstate_out;  // [rows, h p n] f32: gradient of state_out; may be absent (0)
  LIGHTNING_PTR(void) dx;                 // [t, h p] act, overwritten
  LIGHTNING_PTR(void) db;                 // [t, g n] act, overwritten
  LIGHTNING_PTR(void) dc;                 // [t, g n] act, overwritten
  LIGHTNING_PTR(float) ddelta;            // [t, h] f32, overwritten
  LIGHTNING_PTR(float) dstate_in;         // [rows, h p n] f32, overwritten: gradient of state_in; may be absent
  LIGHTNING_PTR(float) dstates;           // [rows chunks, h p n] f32, workspace: gradient of S at the end of every chunk
  LIGHTNING_PTR(float) dlog_decay;        // [t, h] f32, workspace: gradient of log_decay
  LIGHTNING_PTR(float) da_partial;        // [rows chunks, h] f32, overwritten: sums of the gradient of A_log
  LIGHTNING_PTR(float) dd_partial;        // [rows chunks, h] f32, overwritten: sums of the gradient of D
  int64_t dy_stride;                      // elements from one row of dy to the next
  int64_t dstate_out_stride;              // of dstate_out
  int64_t dx_stride;                      // of dx
  int64_t db_stride;                      // of db
  int64_t dc_stride;                      // of dc
  int64_t ddelta_stride;                  // of ddelta
  int64_t dstate_in_stride;               // of dstate_in
} SsdScanBwdParams;

LIGHTNING_ASSERT(sizeof(SsdScanBwdParams) == 336);
LIGHTNING_ASSERT(offsetof(SsdScanBwdParams, dy) == 192);
LIGHTNING_ASSERT(offsetof(SsdScanBwdParams, dy_stride) == 280);
