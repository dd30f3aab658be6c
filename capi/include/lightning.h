// The operations of lightning's GPU device by raw device pointer and stream. Generated from the crate `capi` by
// `cargo xtask bindgen`; the rules for callers are at the head of capi/src/lib.rs.

#ifndef LIGHTNING_H
#define LIGHTNING_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Outcome of a call.
typedef enum LightningStatus {
  // Done, or enqueued.
  LIGHTNING_STATUS_OK = 0,
  // An argument is wrong: a shape, a type, an overlap of operands, a missing pointer.
  LIGHTNING_STATUS_INVALID_ARGUMENT = 1,
  // The device has not enough memory.
  LIGHTNING_STATUS_OUT_OF_MEMORY = 2,
  // The device cannot be used, or the driver reports a fault.
  LIGHTNING_STATUS_DEVICE_ERROR = 3,
  // A defect of this library.
  LIGHTNING_STATUS_INTERNAL_ERROR = 4,
} LightningStatus;

// Element type of a tensor.
typedef enum LightningDtype {
  // The tensor is not there.
  LIGHTNING_DTYPE_ABSENT = 0,
  // bfloat16.
  LIGHTNING_DTYPE_BF16 = 1,
  // IEEE binary32.
  LIGHTNING_DTYPE_F32 = 2,
  // IEEE binary64.
  LIGHTNING_DTYPE_F64 = 3,
  // 32-bit integer.
  LIGHTNING_DTYPE_I32 = 4,
} LightningDtype;

// A CUDA device with its kernels.
typedef struct LightningDevice LightningDevice;

// A window of device memory.
typedef struct LightningTensor {
  // Device address of the first element.
  uint64_t address;
  // Rows; 1 for a vector.
  size_t rows;
  // Elements of a row.
  size_t cols;
  // Elements from one row to the next, at least `cols`.
  size_t ld;
  // Element type.
  enum LightningDtype dtype;
} LightningTensor;

// First and last token of every token's document (`ops::Segments`).
typedef struct LightningSegments {
  // Document offsets, ascending, the last repeated [n] i32.
  struct LightningTensor cu_seqlens;
  // First token of the document [t] i32.
  struct LightningTensor start;
  // One past its last token [t] i32.
  struct LightningTensor end;
  // Tokens of a row.
  size_t row_len;
} LightningSegments;

// Device memory that an operation may use while it runs.
typedef struct LightningWorkspace {
  // Device address, a multiple of 256; 0 asks for the size.
  uint64_t address;
  // Bytes; the answer when `address` is 0.
  size_t bytes;
} LightningWorkspace;

// The next token's value within the document (`ops::Roll`).
typedef struct LightningRoll {
  // Values [t] i32.
  struct LightningTensor src;
  // From `lightning_segments` [t] i32.
  struct LightningTensor end;
  // Shifted values [t] i32.
  struct LightningTensor dst;
} LightningRoll;

// Causal attention (`ops::AttentionFwd`).
typedef struct LightningAttentionFwd {
  // Queries [t, heads * head_dim].
  struct LightningTensor q;
  // Keys [t, kv_heads * head_dim].
  struct LightningTensor k;
  // Values [t, kv_heads * head_dim].
  struct LightningTensor v;
  // First token of each token's document [t] i32.
  struct LightningTensor start;
  // Output [t, heads * head_dim].
  struct LightningTensor o;
  // Log-sum-exp of the scores [t, heads] f32.
  struct LightningTensor lse;
  // Factor on the scores.
  double scale;
  // Query heads.
  size_t heads;
  // Key and value heads.
  size_t kv_heads;
  // Channels of a head.
  size_t head_dim;
  // Tokens of a row.
  size_t row_len;
} LightningAttentionFwd;

// Gradients of attention (`ops::AttentionBwd`).
typedef struct LightningAttentionBwd {
  // Arguments of the forward pass, with its results.
  struct LightningAttentionFwd fwd;
  // Gradient of the output.
  struct LightningTensor dout;
  // Gradient of the queries.
  struct LightningTensor dq;
  // Gradient of the keys.
  struct LightningTensor dk;
  // Gradient of the values.
  struct LightningTensor dv;
} LightningAttentionBwd;

// Sets every element (`ops::Fill`).
typedef struct LightningFill {
  // Any tensor.
  struct LightningTensor dst;
  // The value, rounded to the type.
  double value;
} LightningFill;

// Looks up rows (`ops::EmbeddingFwd`).
typedef struct LightningEmbeddingFwd {
  // Token ids [t] i32, inside the table.
  struct LightningTensor ids;
  // Embedding table [v, d].
  struct LightningTensor table;
  // Rows [t, d].
  struct LightningTensor y;
} LightningEmbeddingFwd;

// Adds gradients to rows, tokens in ascending order (`ops::EmbeddingBwd`).
typedef struct LightningEmbeddingBwd {
  // Token ids [t] i32.
  struct LightningTensor ids;
  // Gradient of the rows [t, d].
  struct LightningTensor dy;
  // Gradient of the table [v, d], f32 or bf16.
  struct LightningTensor dtable;
  // Add to `dtable`.
  bool accumulate;
} LightningEmbeddingBwd;

// y = x W^T (`ops::LinearFwd`).
typedef struct LightningLinearFwd {
  // Input [t, i].
  struct LightningTensor x;
  // Weight [o, i].
  struct LightningTensor w;
  // Output [t, o].
  struct LightningTensor y;
} LightningLinearFwd;

// Gradients of a projection (`ops::LinearBwd`).
typedef struct LightningLinearBwd {
  // Gradient of the output [t, o].
  struct LightningTensor dy;
  // Input [t, i].
  struct LightningTensor x;
  // Weight [o, i].
  struct LightningTensor w;
  // Gradient of the input [t, i]; may be absent.
  struct LightningTensor dx;
  // Gradient of the weight [o, i], f32 or bf16; may be absent.
  struct LightningTensor dw;
  // Add to `dx`.
  bool accumulate_dx;
  // Add to `dw`.
  bool accumulate_dw;
} LightningLinearBwd;

// Logits, cross entropy and their gradients for one head, tile by tile (`ops::LinearCrossEntropy`).
typedef struct LightningLinearCrossEntropy {
  // Hidden states [t, d].
  struct LightningTensor h;
  // Labels [t] i32.
  struct LightningTensor label;
  // 1 where the label counts [t] i32.
  struct LightningTensor mask;
  // Head weight [v, d].
  struct LightningTensor w;
  // Cross entropy of every token [t] f32.
  struct LightningTensor ce;
  // Gradient of the hidden states [t, d]; absent in evaluation.
  struct LightningTensor dh;
  // Gradient of the weight [v, d], f32 or bf16; absent in evaluation or when it is frozen.
  struct LightningTensor dw;
  // Sum of masked losses, masked tokens, mean loss, hits: added to [4] f64.
  struct LightningTensor metric;
  // Workspace [tile, v].
  struct LightningTensor logits;
  // Factor on the head's loss.
  double factor;
  // Micro-batches of a step, whose means are averaged; 0: every token counts the same.
  size_t micro_batches;
  // Add to `dw`.
  bool accumulate;
} LightningLinearCrossEntropy;

// Causal depthwise convolution and SiLU (`ops::ConvSiluFwd`).
typedef struct LightningConvSiluFwd {
  // Input [t, c].
  struct LightningTensor x;
  // Taps [c, K].
  struct LightningTensor w;
  // Bias [c].
  struct LightningTensor b;
  // First token of each token's document [t] i32.
  struct LightningTensor start;
  // Output [t, c].
  struct LightningTensor y;
} LightningConvSiluFwd;

// Gradients of the convolution (`ops::ConvSiluBwd`).
typedef struct LightningConvSiluBwd {
  // Gradient of the output [t, c].
  struct LightningTensor dy;
  // Input [t, c].
  struct LightningTensor x;
  // Taps [c, K].
  struct LightningTensor w;
  // Bias [c].
  struct LightningTensor b;
  // First token of each token's document [t] i32.
  struct LightningTensor start;
  // Gradient of the input [t, c].
  struct LightningTensor dx;
  // Gradient of the taps [c, K], f32 or bf16.
  struct LightningTensor dw;
  // Gradient of the bias [c], as `dw`.
  struct LightningTensor db;
  // Workspace [K + 1, c] f32.
  struct LightningTensor partial;
  // Add to `dw` and `db`.
  bool accumulate;
} LightningConvSiluBwd;

// Time steps (`ops::SoftplusDtFwd`).
typedef struct LightningSoftplusDtFwd {
  // Raw time steps [t, h].
  struct LightningTensor raw;
  // Bias [h] f32.
  struct LightningTensor bias;
  // Time steps [t, h] f32.
  struct LightningTensor delta;
  // Lower bound; 0 in training.
  double dt_min;
} LightningSoftplusDtFwd;

// Gradients of the time steps (`ops::SoftplusDtBwd`).
typedef struct LightningSoftplusDtBwd {
  // Gradient of the time steps [t, h] f32.
  struct LightningTensor ddelta;
  // Raw time steps [t, h].
  struct LightningTensor raw;
  // Bias [h] f32.
  struct LightningTensor bias;
  // Gradient of the raw time steps [t, h].
  struct LightningTensor draw;
  // Gradient of the bias [h], f32 or bf16.
  struct LightningTensor dbias;
  // Workspace [ceil(t / 64), h] f32, at least one row.
  struct LightningTensor partial;
  // Lower bound of the forward pass.
  double dt_min;
  // Add to `dbias`.
  bool accumulate;
} LightningSoftplusDtBwd;

// Sizes of a scan.
typedef struct LightningSsdShape {
  // Heads.
  size_t heads;
  // Channels of a head.
  size_t head_dim;
  // State size.
  size_t state;
  // Groups that share B and C.
  size_t groups;
  // Chunk length.
  size_t chunk;
  // Tokens of a row; rows * row_len = t.
  size_t row_len;
} LightningSsdShape;

// The selective scan (`ops::SsdScanFwd`).
typedef struct LightningSsdScanFwd {
  // Sizes.
  struct LightningSsdShape shape;
  // Input channels [t, heads * head_dim].
  struct LightningTensor x;
  // Input projections [t, groups * state].
  struct LightningTensor b;
  // Output projections [t, groups * state].
  struct LightningTensor c;
  // Time steps [t, heads] f32.
  struct LightningTensor delta;
  // Logarithm of the decay rates [heads] f32.
  struct LightningTensor a_log;
  // Direct path [heads] f32.
  struct LightningTensor d;
  // First token of each token's document [t] i32.
  struct LightningTensor start;
  // One past the last token of the document [t] i32.
  struct LightningTensor end;
  // State before each row [rows, heads * head_dim * state] f32; may be absent.
  struct LightningTensor state_in;
  // Output [t, heads * head_dim].
  struct LightningTensor y;
  // States at chunk starts [rows * chunks, heads * head_dim * state] f32, kept for the backward pass.
  struct LightningTensor states;
  // State after each row, as `state_in`; may be absent.
  struct LightningTensor state_out;
} LightningSsdScanFwd;

// Gradients of the scan (`ops::SsdScanBwd`).
typedef struct LightningSsdScanBwd {
  // Arguments of the forward pass, with its results.
  struct LightningSsdScanFwd fwd;
  // Gradient of the output [t, heads * head_dim].
  struct LightningTensor dy;
  // Gradient of `state_out` f32; may be absent.
  struct LightningTensor dstate_out;
  // Gradient of `x`.
  struct LightningTensor dx;
  // Gradient of `b`.
  struct LightningTensor db;
  // Gradient of `c`.
  struct LightningTensor dc;
  // Gradient of the time steps [t, heads] f32.
  struct LightningTensor ddelta;
  // Gradient of `a_log` [heads], f32 or bf16.
  struct LightningTensor da_log;
  // Gradient of `d` [heads], as `da_log`.
  struct LightningTensor dd;
  // Gradient of `state_in` f32; may be absent.
  struct LightningTensor dstate_in;
  // Workspace [rows, heads] f32.
  struct LightningTensor partial_a;
  // Workspace [rows, heads] f32.
  struct LightningTensor partial_d;
  // Add to `da_log` and `dd`.
  bool accumulate;
} LightningSsdScanBwd;

// Selects experts (`ops::RouterFwd`).
typedef struct LightningRouterFwd {
  // Tokens [t, d].
  struct LightningTensor x;
  // Router weight [e, d].
  struct LightningTensor w;
  // Expert bias [e] f32.
  struct LightningTensor bias;
  // Experts that are selected whatever the logits say [t, k] i32; may be absent.
  struct LightningTensor forced;
  // 1 for padding tokens [t] i32; may be absent.
  struct LightningTensor padding;
  // Logits [t, e] f32.
  struct LightningTensor logits;
  // Selected experts [t, k] i32.
  struct LightningTensor idx;
  // Their weights [t, k] f32.
  struct LightningTensor weight;
  // Tokens per expert, accumulated [e] i32; may be absent.
  struct LightningTensor counts;
  // Workspace [rows, e] i32.
  struct LightningTensor row_counts;
  // Statistics of the auxiliary loss [rows, e + 2] f32; absent without it.
  struct LightningTensor aux_stats;
  // Receives the auxiliary loss [1] f64; there exactly when `aux_stats` is.
  struct LightningTensor aux_metric;
  // Factor on the weights.
  double scale;
  // Coefficient of the auxiliary loss.
  double aux_coefficient;
  // Experts of a token.
  size_t top_k;
  // Tokens of a row.
  size_t row_len;
  // Micro-batches of a step; 0 with per-token loss.
  size_t aux_micro_batches;
  // Normalise the selected scores.
  bool normalize;
} LightningRouterFwd;

// Gradients of the router (`ops::RouterBwd`).
typedef struct LightningRouterBwd {
  // Arguments of the forward pass, with its results.
  struct LightningRouterFwd fwd;
  // Gradient of the weights [t, k] f32.
  struct LightningTensor dweight;
  // Gradient of the tokens [t, d]; added to.
  struct LightningTensor dx;
  // Gradient of the router weight [e, d], f32 or bf16; may be absent.
  struct LightningTensor dw;
  // Workspace [t, e] f32.
  struct LightningTensor dlogits;
  // Workspace [t, d] f32.
  struct LightningTensor wide_x;
  // Workspace [e, d] f32.
  struct LightningTensor wide_w;
  // Add to `dw`.
  bool accumulate;
} LightningRouterBwd;

// Slots of (token, expert) pairs, grouped by expert (`ops::DispatchPlan`).
typedef struct LightningDispatchPlan {
  // Selected experts [t, k] i32.
  struct LightningTensor idx;
  // First slot of every expert, then the number of pairs [e + 1] i32.
  struct LightningTensor offsets;
  // Pair in each slot [t * k] i32.
  struct LightningTensor pair_of_slot;
  // Slot of each pair [t, k] i32.
  struct LightningTensor slot_of_pair;
} LightningDispatchPlan;

// The routed experts (`ops::ExpertsFwd`).
typedef struct LightningExpertsFwd {
  // Tokens [t, d].
  struct LightningTensor x;
  // Routing weights [t, k] f32.
  struct LightningTensor weight;
  // From the dispatch plan [e + 1] i32.
  struct LightningTensor offsets;
  // From the dispatch plan [t * k] i32.
  struct LightningTensor pair_of_slot;
  // Up-projections of all experts [e * f, d].
  struct LightningTensor up;
  // Down-projections of all experts [e * d, f].
  struct LightningTensor down;
  // Gathered tokens [t * k, d].
  struct LightningTensor xs;
  // Up-projected slots [t * k, f], kept for the backward pass.
  struct LightningTensor p;
  // Activated slots [t * k, f].
  struct LightningTensor a;
  // Outputs by slot [t * k, d].
  struct LightningTensor y;
} LightningExpertsFwd;

// Gradients of the experts (`ops::ExpertsBwd`).
typedef struct LightningExpertsBwd {
  // Arguments of the forward pass, with its results.
  struct LightningExpertsFwd fwd;
  // Gradient of the combined output, by token [t, d].
  struct LightningTensor dout;
  // Gradient of the gathered tokens, by slot [t * k, d].
  struct LightningTensor dxs;
  // Gradient of the routing weights [t, k] f32.
  struct LightningTensor dweight;
  // Gradient of the up-projections, f32 or bf16; absent when the experts are frozen.
  struct LightningTensor dup;
  // Gradient of the down-projections; there exactly when `dup` is.
  struct LightningTensor ddown;
  // Workspace [t * k, d].
  struct LightningTensor dys;
  // Workspace [t * k, f].
  struct LightningTensor a;
  // Workspace [t * k, f].
  struct LightningTensor dp;
  // Add to `dup` and `ddown`.
  bool accumulate;
} LightningExpertsBwd;

// Sums the slots of every token (`ops::CombineFwd`).
typedef struct LightningCombineFwd {
  // Outputs by slot [t * k, d].
  struct LightningTensor y;
  // From the dispatch plan [t, k] i32.
  struct LightningTensor slot_of_pair;
  // Output of the shared expert [t, d]; may be absent.
  struct LightningTensor shared;
  // Combined output [t, d].
  struct LightningTensor out;
} LightningCombineFwd;

// Sums the gradients of every token's slots (`ops::CombineBwd`).
typedef struct LightningCombineBwd {
  // Gradients by slot [t * k, d].
  struct LightningTensor dxs;
  // From the dispatch plan [t, k] i32.
  struct LightningTensor slot_of_pair;
  // Gradient of the tokens [t, d].
  struct LightningTensor dx;
  // Add to `dx`.
  bool accumulate;
} LightningCombineBwd;

// Squared ReLU (`ops::Relu2Fwd`).
typedef struct LightningRelu2Fwd {
  // Input [t, f].
  struct LightningTensor x;
  // Output [t, f].
  struct LightningTensor y;
} LightningRelu2Fwd;

// Gradient of the squared ReLU (`ops::Relu2Bwd`).
typedef struct LightningRelu2Bwd {
  // Input of the forward pass [t, f].
  struct LightningTensor x;
  // Gradient of the output [t, f].
  struct LightningTensor dy;
  // Gradient of the input [t, f].
  struct LightningTensor dx;
} LightningRelu2Bwd;

// Adds a pending branch to the residual stream and normalises the sum (`ops::RmsNormFwd`).
typedef struct LightningRmsNormFwd {
  // Residual stream [t, d].
  struct LightningTensor x;
  // Output of the branch before [t, d]; may be absent.
  struct LightningTensor branch;
  // Weight [d].
  struct LightningTensor w;
  // New residual stream [t, d]; there exactly when `branch` is.
  struct LightningTensor x_out;
  // Normalised output [t, d].
  struct LightningTensor y;
  // Reciprocal root mean squares [t, 1] f32.
  struct LightningTensor rstd;
  // Added to the mean square.
  double eps;
} LightningRmsNormFwd;

// Gradients of RMSNorm (`ops::RmsNormBwd`).
typedef struct LightningRmsNormBwd {
  // Gradient of the output [t, d].
  struct LightningTensor dy;
  // Normalised input [t, d].
  struct LightningTensor x;
  // Weight [d].
  struct LightningTensor w;
  // Of the forward pass [t, 1] f32.
  struct LightningTensor rstd;
  // Gradient of the input [t, d].
  struct LightningTensor dx;
  // Gradient of the weight [d], f32 or bf16.
  struct LightningTensor dw;
  // Workspace [ceil(t / 64), d] f32, at least one row.
  struct LightningTensor partial;
  // Add to `dx`.
  bool accumulate_dx;
  // Add to `dw`.
  bool accumulate_dw;
} LightningRmsNormBwd;

// Gate, then RMSNorm of groups of channels (`ops::GatedRmsNormFwd`).
typedef struct LightningGatedRmsNormFwd {
  // Output of the scan [t, c].
  struct LightningTensor y;
  // Gate [t, c].
  struct LightningTensor z;
  // Weight [c].
  struct LightningTensor w;
  // Output [t, c].
  struct LightningTensor o;
  // Reciprocal root mean squares [t, g] f32.
  struct LightningTensor rstd;
  // Added to the mean square.
  double eps;
  // Groups of channels that are normalised together.
  size_t groups;
} LightningGatedRmsNormFwd;

// Gradients of the gated norm (`ops::GatedRmsNormBwd`).
typedef struct LightningGatedRmsNormBwd {
  // Gradient of the output [t, c].
  struct LightningTensor dout;
  // Output of the scan [t, c].
  struct LightningTensor y;
  // Gate [t, c].
  struct LightningTensor z;
  // Weight [c].
  struct LightningTensor w;
  // Of the forward pass [t, g] f32.
  struct LightningTensor rstd;
  // Gradient of `y` [t, c].
  struct LightningTensor dy;
  // Gradient of `z` [t, c].
  struct LightningTensor dz;
  // Gradient of the weight [c], f32 or bf16.
  struct LightningTensor dw;
  // Workspace [ceil(t / 64), c] f32, at least one row.
  struct LightningTensor partial;
  // Groups of channels.
  size_t groups;
  // Add to `dw`.
  bool accumulate;
} LightningGatedRmsNormBwd;

// AdamW (`ops::AdamW`). Learning rate, weight decay, gradient factor, skip flag and bias corrections come from the state.
typedef struct LightningAdamW {
  // Accumulated gradient, f32 or bf16.
  struct LightningTensor gradient;
  // Working weight.
  struct LightningTensor param;
  // Master weight f32; absent when the working weight is f32.
  struct LightningTensor master;
  // First moment f32.
  struct LightningTensor m;
  // Second moment f32.
  struct LightningTensor v;
  // State block [13] f64: `lightning_core::optim::StateSlot` names the slots.
  struct LightningTensor state;
  // Decay rate of the first moment.
  double beta1;
  // Decay rate of the second moment.
  double beta2;
  // Added to the root of the second moment.
  double eps;
  // Whether weight decay applies.
  bool decay;
} LightningAdamW;

// Moves expert biases towards balance (`ops::ExpertBiasUpdate`).
typedef struct LightningExpertBiasUpdate {
  // Tokens per expert; reset to 0 [e] i32.
  struct LightningTensor counts;
  // Expert bias [e] f32.
  struct LightningTensor bias;
  // Receives the counts [e] i32.
  struct LightningTensor last;
  // Size of a move.
  double rate;
} LightningExpertBiasUpdate;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens CUDA device `ordinal` (among the visible ones) through its primary context.
//
// # Safety
// `device` must be a place for one pointer.
enum LightningStatus lightning_open(uint32_t ordinal, struct LightningDevice **device);

// Closes a device. Null is no device and nothing happens.
//
// # Safety
// `device` must come from `lightning_open`, must not be used again, and its streams must have passed all calls.
void lightning_close(struct LightningDevice *device);

// Enqueues [`LightningSegments`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_segments(struct LightningDevice *device,
                                        const struct LightningSegments *arguments,
                                        struct LightningWorkspace *workspace,
                                        void *stream);

// Enqueues [`LightningRoll`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_roll(struct LightningDevice *device,
                                    const struct LightningRoll *arguments,
                                    struct LightningWorkspace *workspace,
                                    void *stream);

// Enqueues [`LightningAttentionFwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_attention_fwd(struct LightningDevice *device,
                                             const struct LightningAttentionFwd *arguments,
                                             struct LightningWorkspace *workspace,
                                             void *stream);

// Enqueues [`LightningAttentionBwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_attention_bwd(struct LightningDevice *device,
                                             const struct LightningAttentionBwd *arguments,
                                             struct LightningWorkspace *workspace,
                                             void *stream);

// Enqueues [`LightningFill`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_fill(struct LightningDevice *device,
                                    const struct LightningFill *arguments,
                                    struct LightningWorkspace *workspace,
                                    void *stream);

// Enqueues [`LightningEmbeddingFwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_embedding_fwd(struct LightningDevice *device,
                                             const struct LightningEmbeddingFwd *arguments,
                                             struct LightningWorkspace *workspace,
                                             void *stream);

// Enqueues [`LightningEmbeddingBwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_embedding_bwd(struct LightningDevice *device,
                                             const struct LightningEmbeddingBwd *arguments,
                                             struct LightningWorkspace *workspace,
                                             void *stream);

// Enqueues [`LightningLinearFwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_linear_fwd(struct LightningDevice *device,
                                          const struct LightningLinearFwd *arguments,
                                          struct LightningWorkspace *workspace,
                                          void *stream);

// Enqueues [`LightningLinearBwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_linear_bwd(struct LightningDevice *device,
                                          const struct LightningLinearBwd *arguments,
                                          struct LightningWorkspace *workspace,
                                          void *stream);

// Enqueues [`LightningLinearCrossEntropy`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_linear_cross_entropy(struct LightningDevice *device,
                                                    const struct LightningLinearCrossEntropy *arguments,
                                                    struct LightningWorkspace *workspace,
                                                    void *stream);

// What went wrong in this thread's last call that failed; empty if none did. The text stays until the next failure.
const char *lightning_last_error(void);

// Enqueues [`LightningConvSiluFwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_conv_silu_fwd(struct LightningDevice *device,
                                             const struct LightningConvSiluFwd *arguments,
                                             struct LightningWorkspace *workspace,
                                             void *stream);

// Enqueues [`LightningConvSiluBwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_conv_silu_bwd(struct LightningDevice *device,
                                             const struct LightningConvSiluBwd *arguments,
                                             struct LightningWorkspace *workspace,
                                             void *stream);

// Enqueues [`LightningSoftplusDtFwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_softplus_dt_fwd(struct LightningDevice *device,
                                               const struct LightningSoftplusDtFwd *arguments,
                                               struct LightningWorkspace *workspace,
                                               void *stream);

// Enqueues [`LightningSoftplusDtBwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_softplus_dt_bwd(struct LightningDevice *device,
                                               const struct LightningSoftplusDtBwd *arguments,
                                               struct LightningWorkspace *workspace,
                                               void *stream);

// Enqueues [`LightningSsdScanFwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_ssd_scan_fwd(struct LightningDevice *device,
                                            const struct LightningSsdScanFwd *arguments,
                                            struct LightningWorkspace *workspace,
                                            void *stream);

// Enqueues [`LightningSsdScanBwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_ssd_scan_bwd(struct LightningDevice *device,
                                            const struct LightningSsdScanBwd *arguments,
                                            struct LightningWorkspace *workspace,
                                            void *stream);

// Enqueues [`LightningRouterFwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_router_fwd(struct LightningDevice *device,
                                          const struct LightningRouterFwd *arguments,
                                          struct LightningWorkspace *workspace,
                                          void *stream);

// Enqueues [`LightningRouterBwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_router_bwd(struct LightningDevice *device,
                                          const struct LightningRouterBwd *arguments,
                                          struct LightningWorkspace *workspace,
                                          void *stream);

// Enqueues [`LightningDispatchPlan`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_dispatch_plan(struct LightningDevice *device,
                                             const struct LightningDispatchPlan *arguments,
                                             struct LightningWorkspace *workspace,
                                             void *stream);

// Enqueues [`LightningExpertsFwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_experts_fwd(struct LightningDevice *device,
                                           const struct LightningExpertsFwd *arguments,
                                           struct LightningWorkspace *workspace,
                                           void *stream);

// Enqueues [`LightningExpertsBwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_experts_bwd(struct LightningDevice *device,
                                           const struct LightningExpertsBwd *arguments,
                                           struct LightningWorkspace *workspace,
                                           void *stream);

// Enqueues [`LightningCombineFwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_combine_fwd(struct LightningDevice *device,
                                           const struct LightningCombineFwd *arguments,
                                           struct LightningWorkspace *workspace,
                                           void *stream);

// Enqueues [`LightningCombineBwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_combine_bwd(struct LightningDevice *device,
                                           const struct LightningCombineBwd *arguments,
                                           struct LightningWorkspace *workspace,
                                           void *stream);

// Enqueues [`LightningRelu2Fwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_relu2_fwd(struct LightningDevice *device,
                                         const struct LightningRelu2Fwd *arguments,
                                         struct LightningWorkspace *workspace,
                                         void *stream);

// Enqueues [`LightningRelu2Bwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_relu2_bwd(struct LightningDevice *device,
                                         const struct LightningRelu2Bwd *arguments,
                                         struct LightningWorkspace *workspace,
                                         void *stream);

// Enqueues [`LightningRmsNormFwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_rms_norm_fwd(struct LightningDevice *device,
                                            const struct LightningRmsNormFwd *arguments,
                                            struct LightningWorkspace *workspace,
                                            void *stream);

// Enqueues [`LightningRmsNormBwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_rms_norm_bwd(struct LightningDevice *device,
                                            const struct LightningRmsNormBwd *arguments,
                                            struct LightningWorkspace *workspace,
                                            void *stream);

// Enqueues [`LightningGatedRmsNormFwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_gated_rms_norm_fwd(struct LightningDevice *device,
                                                  const struct LightningGatedRmsNormFwd *arguments,
                                                  struct LightningWorkspace *workspace,
                                                  void *stream);

// Enqueues [`LightningGatedRmsNormBwd`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_gated_rms_norm_bwd(struct LightningDevice *device,
                                                  const struct LightningGatedRmsNormBwd *arguments,
                                                  struct LightningWorkspace *workspace,
                                                  void *stream);

// Enqueues [`LightningAdamW`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_adamw(struct LightningDevice *device,
                                     const struct LightningAdamW *arguments,
                                     struct LightningWorkspace *workspace,
                                     void *stream);

// Enqueues [`LightningExpertBiasUpdate`].
//
// # Safety
// See the head of this crate.
enum LightningStatus lightning_expert_bias_update(struct LightningDevice *device,
                                                  const struct LightningExpertBiasUpdate *arguments,
                                                  struct LightningWorkspace *workspace,
                                                  void *stream);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LIGHTNING_H */
