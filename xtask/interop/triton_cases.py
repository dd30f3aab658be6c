"""Cases of the Triton kernels: inputs from a seeded generator, launch, and what must come out, computed with numpy."""

import math
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import triton_kernels as kernels

BF16 = ml_dtypes.bfloat16
FP8 = ml_dtypes.float8_e4m3fn


@dataclass
class Case:
    """One launch. `arguments` holds arrays, numbers and descriptors by parameter name; `expected` what arrays become,
    with the bound on |got - want| relative to the largest |want|."""

    name: str
    kernel: Any
    grid: tuple
    arguments: dict
    constants: dict
    expected: dict
    options: dict = field(default_factory=dict)
    reduced: bool = False


def normal(rng, shape, dtype=np.float32):
    return rng.standard_normal(shape, np.float32).astype(dtype)


def f64(array):
    return np.asarray(array).astype(np.float64)


def cdiv(a, b):
    return -(-a // b)


def matmul(rng, m, n, k, tile, dtype, options, reduced=False):
    a, b = normal(rng, (m, k), dtype), normal(rng, (k, n), dtype)
    c = np.full((m, n), np.nan, np.float32)
    bm, bn, bk = tile
    return Case(
        f"matmul {np.dtype(dtype).name} {m}x{n}x{k}", kernels.matmul, (cdiv(m, bm), cdiv(n, bn)),
        {"a_mk": a, "b_kn": b, "c_mn": c, "m": m, "n": n, "k": k}, {"BM": bm, "BN": bn, "BK": bk},
        {"c_mn": (f64(a) @ f64(b), 2e-5)}, options, reduced,
    )  # fmt: skip


def matmul_by_maps(rng, kernel, m, n, k, tile, options, reduced=False, grid=None):
    bm, bn, bk = tile
    a, b = normal(rng, (m, k), BF16), normal(rng, (n, k), BF16)
    c = np.full((m, n), np.nan, BF16)
    grid = grid or (cdiv(m, bm), cdiv(n, bn))
    expected = {"c_mn": (f64(a) @ f64(b).T, 4e-3)}
    sizes = {"m": m, "n": n, "k": k}
    if kernel is kernels.matmul_device_map:
        arguments = {"a_mk": a, "b_nk": b, "c_mn": c} | sizes
    else:
        maps = {"a_map": Block(a, (bm, bk)), "b_map": Block(b, (bn, bk)), "c_map": Block(c, (bm, bn))}
        arguments = maps | (sizes if kernel is kernels.matmul_persistent else {"k": k})
        expected = {"c_map": expected["c_mn"]}
    name = f"{kernel.__name__} {m}x{n}x{k}"
    return Case(name, kernel, grid, arguments, {"BM": bm, "BN": bn, "BK": bk}, expected, options, reduced)


@dataclass
class Block:
    """An array that a kernel reads or writes through a tensor map of this block."""

    array: np.ndarray
    block: tuple


def grouped_matmul(rng):
    shapes = [(70, 64, 96), (0, 64, 32), (1, 40, 64), (130, 128, 33)]
    a = [normal(rng, (m, k), np.float16) for m, _, k in shapes]
    b = [normal(rng, (k, n), np.float16) for _, n, k in shapes]
    c = [np.full((m, n), np.nan, np.float32) for m, n, _ in shapes]
    want = [f64(x) @ f64(y) for x, y in zip(a, b)]
    return Case(
        "grouped matmul", kernels.grouped_matmul, (5,),
        {"a_of": a, "b_of": b, "c_of": c, "sizes": np.array(shapes, np.int32), "groups": len(shapes)},
        {"BM": 64, "BN": 64, "BK": 32}, {"c_of": (want, 2e-5)},
    )  # fmt: skip


def softmax(rng):
    m, n = 5, 1000
    x = normal(rng, (m, n)) * 4
    e = np.exp(f64(x) - f64(x).max(1, keepdims=True))
    y = np.full_like(x, np.nan)
    return Case(
        "softmax", kernels.softmax, (m,), {"x_mn": x, "y_mn": y, "n": n}, {"BLOCK": 1024},
        {"y_mn": (e / e.sum(1, keepdims=True), 2e-6)}, reduced=True,
    )  # fmt: skip


def layer_norm(rng):
    m, n, eps = 7, 777, 1e-5
    x, w, b = normal(rng, (m, n), BF16), normal(rng, n), normal(rng, n)
    mean, variance = f64(x).mean(1), f64(x).var(1)
    rstd = 1 / np.sqrt(variance + eps)
    y = (f64(x) - mean[:, None]) * rstd[:, None] * w + b
    return Case(
        "layer norm", kernels.layer_norm, (m,),
        {"x_mn": x, "w_n": w, "b_n": b, "y_mn": np.full((m, n), np.nan, np.float32),
         "mean_m": np.full(m, np.nan, np.float32), "rstd_m": np.full(m, np.nan, np.float32), "n": n, "eps": eps},
        {"BLOCK": 1024}, {"y_mn": (y, 2e-6), "mean_m": (mean, 1e-5), "rstd_m": (rstd, 1e-6)},
    )  # fmt: skip


def layer_norm_bwd(rng):
    m, n, eps = 6, 500, 1e-5
    x, w, dy = normal(rng, (m, n), BF16), normal(rng, n), normal(rng, (m, n), BF16)
    mean, rstd = f64(x).mean(1), 1 / np.sqrt(f64(x).var(1) + eps)
    hat = (f64(x) - mean[:, None]) * rstd[:, None]
    g = f64(dy) * w
    dx = (g - g.mean(1, keepdims=True) - hat * (g * hat).mean(1, keepdims=True)) * rstd[:, None]
    return Case(
        "layer norm backward", kernels.layer_norm_bwd, (m,),
        {"x_mn": x, "w_n": w, "dy_mn": dy, "mean_m": mean.astype(np.float32), "rstd_m": rstd.astype(np.float32),
         "dx_mn": np.full((m, n), np.nan, np.float32), "dw_n": np.zeros(n, np.float32),
         "lock": np.zeros(1, np.int32), "n": n},
        {"BLOCK": 512}, {"dx_mn": (dx, 2e-6), "dw_n": ((f64(dy) * hat).sum(0), 2e-6)},
    )  # fmt: skip


def attention_values(q, k, v, scale):
    """Probabilities and outputs of causal attention in f64."""
    s = f64(q) @ f64(k).T * scale
    s[np.triu_indices(len(s), 1)] = -np.inf
    largest = s.max(1, keepdims=True)
    p = np.exp(s - largest)
    total = p.sum(1, keepdims=True)
    return p / total, (p / total) @ f64(v), (largest + np.log(total))[:, 0]


def attention(rng):
    t, d = 200, 64
    q, k, v = (normal(rng, (t, d), np.float16) for _ in range(3))
    scale = 1 / math.sqrt(d)
    _, o, lse = attention_values(q, k, v, scale)
    return Case(
        "attention", kernels.attention, (cdiv(t, 64),),
        {"q_td": q, "k_td": k, "v_td": v, "o_td": np.full((t, d), np.nan, np.float32),
         "lse_t": np.full(t, np.nan, np.float32), "t": t, "scale": scale * math.log2(math.e)},
        {"BQ": 64, "BK": 64, "D": d}, {"o_td": (o, 2e-3), "lse_t": (lse * math.log2(math.e), 1e-5)},
    )  # fmt: skip


def attention_bwd(rng):
    t, d = 136, 64
    q, k, v, do = (normal(rng, (t, d), np.float16) for _ in range(4))
    scale = 1 / math.sqrt(d)
    p, o, lse = attention_values(q, k, v, scale)
    delta = (f64(do) * o).sum(1)
    ds = p * (f64(do) @ f64(v).T - delta[:, None]) * scale
    nan = [np.full((t, d), np.nan, np.float32) for _ in range(2)]
    return Case(
        "attention backward", kernels.attention_bwd, (cdiv(t, 64),),
        {"q_td": q, "k_td": k, "v_td": v, "do_td": do, "lse_t": (lse * math.log2(math.e)).astype(np.float32),
         "delta_t": delta.astype(np.float32), "dq_td": np.zeros((t, d), np.float32), "dk_td": nan[0], "dv_td": nan[1],
         "t": t, "scale": scale * math.log2(math.e), "natural": scale},
        {"BQ": 64, "BK": 64, "D": d},
        {"dq_td": (ds @ f64(k), 3e-3), "dk_td": (ds.T @ f64(q), 3e-3), "dv_td": (p.T @ f64(do), 3e-3)},
    )  # fmt: skip


def scan(rng):
    m, n = 3, 900
    x = normal(rng, (m, n))
    decay = rng.uniform(0.5, 1, (m, n)).astype(np.float32)
    state, now = np.empty((m, n)), np.zeros(m)
    for i in range(n):
        now = f64(decay)[:, i] * now + f64(x)[:, i]
        state[:, i] = now
    return Case(
        "scan", kernels.scan, (m,),
        {"x_mn": x, "decay_mn": decay, "sums_mn": np.full_like(x, np.nan), "state_mn": np.full_like(x, np.nan), "n": n},
        {"BLOCK": 1024}, {"sums_mn": (f64(x).cumsum(1), 1e-5), "state_mn": (state, 1e-5)}, reduced=True,
    )  # fmt: skip


def atomics(rng):
    n, bins = 1000, 7
    values = rng.integers(-50, 50, n).astype(np.int32)
    where = rng.integers(0, bins, n).astype(np.int32)
    counts = np.bincount(where, minlength=bins)
    largest = np.array([max(values[where == b], default=-100) for b in range(bins)])
    sums = np.bincount(where, values, bins)
    return Case(
        "atomics", kernels.atomics, (cdiv(n, 256),),
        {"values": values, "bins": where, "counts": np.zeros(bins, np.int32),
         "largest": np.full(bins, -100, np.int32), "sums": np.zeros(bins, np.float32), "n": n},
        {"BLOCK": 256}, {"counts": (counts, 0), "largest": (largest, 0), "sums": (sums, 0)}, reduced=True,
    )  # fmt: skip


def all_cases(seed):
    """Every case, with inputs drawn from `seed`."""
    rng = np.random.default_rng(seed)
    four, eight = {"num_warps": 4, "num_stages": 3}, {"num_warps": 8, "num_stages": 4}
    wide = (128, 64, 64)
    return [
        matmul(rng, 200, 136, 168, (64, 64, 32), np.float16, four, reduced=True),
        matmul(rng, 256, 256, 256, (128, 128, 64), BF16, eight),
        matmul(rng, 128, 128, 256, (128, 128, 128), FP8, eight),
        matmul_by_maps(rng, kernels.matmul_tma, 256, 192, 256, wide, four, reduced=True),
        matmul_by_maps(rng, kernels.matmul_tma, 200, 136, 168, (128, 128, 64), eight),
        matmul_by_maps(rng, kernels.matmul_device_map, 256, 128, 192, wide, four),
        matmul_by_maps(rng, kernels.matmul_persistent, 384, 256, 192, wide, four, grid=(3,)),
        grouped_matmul(rng),
        softmax(rng),
        layer_norm(rng),
        layer_norm_bwd(rng),
        attention(rng),
        attention_bwd(rng),
        scan(rng),
        atomics(rng),
    ]
