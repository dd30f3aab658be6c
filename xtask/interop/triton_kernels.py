"""Kernels written in Triton: PTX that this project's compiler did not make. Legend: m, n, k sizes; q queries."""

import triton
import triton.language as tl


@triton.jit
def matmul(a_mk, b_kn, c_mn, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a b, any sizes, operands through cp.async."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        depth = start + inner
        a = tl.load(a_mk + rows[:, None] * k + depth[None, :], (rows[:, None] < m) & (depth[None, :] < k), 0.0)
        b = tl.load(b_kn + depth[:, None] * n + columns[None, :], (depth[:, None] < k) & (columns[None, :] < n), 0.0)
        total = tl.dot(a, b, total)
    tl.store(c_mn + rows[:, None] * n + columns[None, :], total, (rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def matmul_tma(a_map, b_map, c_map, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a b^T through tensor maps that the host encoded."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        total = tl.dot(a_map.load([row, start]), b_map.load([column, start]).T, total)
    c_map.store([row, column], total.to(tl.bfloat16))


@triton.jit
def matmul_device_map(a_mk, b_nk, c_mn, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a b^T through tensor maps that the kernel itself writes."""
    a_map = tl.make_tensor_descriptor(a_mk, [m, k], [k, 1], [BM, BK])
    b_map = tl.make_tensor_descriptor(b_nk, [n, k], [k, 1], [BN, BK])
    c_map = tl.make_tensor_descriptor(c_mn, [m, n], [n, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        total = tl.dot(a_map.load([row, start]), b_map.load([column, start]).T, total)
    c_map.store([row, column], total.to(tl.bfloat16))


@triton.jit
def matmul_persistent(a_map, b_map, c_map, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a b^T, each program takes every num_programs-th tile."""
    tiles_n = tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, BM) * tiles_n, tl.num_programs(0)):
        row, column = (tile // tiles_n) * BM, (tile % tiles_n) * BN
        total = tl.zeros((BM, BN), tl.float32)
        for start in range(0, k, BK):
            total = tl.dot(a_map.load([row, start]), b_map.load([column, start]).T, total)
        c_map.store([row, column], total.to(tl.bfloat16))


@triton.jit
def grouped_matmul(a_of, b_of, c_of, sizes, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c_g = a_g b_g for groups of different m (0 too) with addresses and sizes read from memory."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    first = 0
    for group in range(groups):
        m, n, k = tl.load(sizes + group * 3), tl.load(sizes + group * 3 + 1), tl.load(sizes + group * 3 + 2)
        tiles_n = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * tiles_n
        a = tl.load(a_of + group).to(tl.pointer_type(tl.float16))
        b = tl.load(b_of + group).to(tl.pointer_type(tl.float16))
        c = tl.load(c_of + group).to(tl.pointer_type(tl.float32))
        # The tiles of all groups are dealt out in turn.
        tile = (program - first % programs + programs) % programs
        while tile < tiles:
            rows = (tile // tiles_n) * BM + tl.arange(0, BM)
            columns = (tile % tiles_n) * BN + tl.arange(0, BN)
            total = tl.zeros((BM, BN), tl.float32)
            for start in range(0, k, BK):
                depth = start + tl.arange(0, BK)
                left = tl.load(a + rows[:, None] * k + depth[None, :], (rows[:, None] < m) & (depth[None, :] < k), 0.0)
                right = tl.load(
                    b + depth[:, None] * n + columns[None, :], (depth[:, None] < k) & (columns[None, :] < n), 0.0
                )
                total = tl.dot(left, right, total)
            tl.store(c + rows[:, None] * n + columns[None, :], total, (rows[:, None] < m) & (columns[None, :] < n))
            tile += programs
        first += tiles


@triton.jit
def softmax(x_mn, y_mn, n, BLOCK: tl.constexpr):
    """Row-wise softmax; one program a row."""
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_mn + row * n + column, column < n, -float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_mn + row * n + column, e / tl.sum(e, 0), column < n)


@triton.jit
def layer_norm(x_mn, w_n, b_n, y_mn, mean_m, rstd_m, n, eps, BLOCK: tl.constexpr):
    """y = (x - mean) rstd w + b; one program a row."""
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < n
    x = tl.load(x_mn + row * n + column, inside, 0.0).to(tl.float32)
    mean = tl.sum(x, 0) / n
    centred = tl.where(inside, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 0) / n + eps)
    y = centred * rstd * tl.load(w_n + column, inside, 0.0) + tl.load(b_n + column, inside, 0.0)
    tl.store(y_mn + row * n + column, y, inside)
    tl.store(mean_m + row, mean)
    tl.store(rstd_m + row, rstd)


@triton.jit
def layer_norm_bwd(x_mn, w_n, dy_mn, mean_m, rstd_m, dx_mn, dw_n, lock, n, BLOCK: tl.constexpr):
    """dx, and dw summed over rows under a spin lock that all programs share."""
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < n
    x = tl.load(x_mn + row * n + column, inside, 0.0).to(tl.float32)
    dy = tl.load(dy_mn + row * n + column, inside, 0.0).to(tl.float32)
    w = tl.load(w_n + column, inside, 0.0)
    rstd = tl.load(rstd_m + row)
    normal = tl.where(inside, (x - tl.load(mean_m + row)) * rstd, 0.0)
    g = dy * w
    dx = (g - tl.sum(g, 0) / n - normal * (tl.sum(g * normal, 0) / n)) * rstd
    tl.store(dx_mn + row * n + column, dx, inside)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    before = tl.load(dw_n + column, inside, 0.0)
    tl.store(dw_n + column, before + dy * normal, inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def attention(q_td, k_td, v_td, o_td, lse_t, t, scale, BQ: tl.constexpr, BK: tl.constexpr, D: tl.constexpr):
    """Causal attention of one head, softmax in base 2; scale includes log2(e)."""
    q_at, d = tl.program_id(0) * BQ + tl.arange(0, BQ), tl.arange(0, D)
    q = tl.load(q_td + q_at[:, None] * D + d[None, :], q_at[:, None] < t, 0.0)
    largest = tl.full((BQ,), -float("inf"), tl.float32)
    total = tl.zeros((BQ,), tl.float32)
    out = tl.zeros((BQ, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BQ, BK):
        k_at = start + tl.arange(0, BK)
        k = tl.load(k_td + k_at[:, None] * D + d[None, :], k_at[:, None] < t, 0.0)
        s = tl.dot(q, k.T) * scale
        s = tl.where((q_at[:, None] >= k_at[None, :]) & (k_at[None, :] < t), s, -float("inf"))
        now = tl.maximum(largest, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        shrink = tl.exp2(largest - now)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_td + k_at[:, None] * D + d[None, :], k_at[:, None] < t, 0.0)
        out = tl.dot(p.to(v.dtype), v, out * shrink[:, None])
        largest = now
    tl.store(o_td + q_at[:, None] * D + d[None, :], out / total[:, None], q_at[:, None] < t)
    tl.store(lse_t + q_at, largest + tl.log2(total), q_at < t)


@triton.jit
def attention_bwd(
    q_td, k_td, v_td, do_td, lse_t, delta_t, dq_td, dk_td, dv_td, t, scale, natural,
    BQ: tl.constexpr, BK: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """dk and dv of one block of keys, dq by atomic adds; natural is the scale without log2(e)."""
    k_at, d = tl.program_id(0) * BK + tl.arange(0, BK), tl.arange(0, D)
    inside = k_at[:, None] < t
    k = tl.load(k_td + k_at[:, None] * D + d[None, :], inside, 0.0)
    v = tl.load(v_td + k_at[:, None] * D + d[None, :], inside, 0.0)
    dk = tl.zeros((BK, D), tl.float32)
    dv = tl.zeros((BK, D), tl.float32)
    for start in range(tl.program_id(0) * BK // BQ * BQ, t, BQ):
        q_at = start + tl.arange(0, BQ)
        live = q_at[:, None] < t
        q = tl.load(q_td + q_at[:, None] * D + d[None, :], live, 0.0)
        do = tl.load(do_td + q_at[:, None] * D + d[None, :], live, 0.0)
        s = tl.dot(q, k.T) * scale - tl.load(lse_t + q_at, q_at < t, 0.0)[:, None]
        p = tl.where((q_at[:, None] >= k_at[None, :]) & live, tl.exp2(s), 0.0)
        dv = tl.dot(p.to(do.dtype).T, do, dv)
        dp = tl.dot(do, v.T)
        ds = (p * (dp - tl.load(delta_t + q_at, q_at < t, 0.0)[:, None]) * natural).to(q.dtype)
        dk = tl.dot(ds.T, q, dk)
        tl.atomic_add(dq_td + q_at[:, None] * D + d[None, :], tl.dot(ds, k), live)
    tl.store(dk_td + k_at[:, None] * D + d[None, :], dk, inside)
    tl.store(dv_td + k_at[:, None] * D + d[None, :], dv, inside)


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def linear_step(a_scale, a_sum, b_scale, b_sum):
    """Composition of x -> a_scale x + a_sum with x -> b_scale x + b_sum."""
    return a_scale * b_scale, a_sum * b_scale + b_sum


@triton.jit
def scan(x_mn, decay_mn, sums_mn, state_mn, n, BLOCK: tl.constexpr):
    """Running sums, and the linear recurrence state = decay state + x, along each row."""
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    at = row * n + column
    x = tl.load(x_mn + at, column < n, 0.0)
    decay = tl.load(decay_mn + at, column < n, 1.0)
    tl.store(sums_mn + at, tl.associative_scan(x, 0, plus), column < n)
    _, state = tl.associative_scan((decay, x), 0, linear_step)
    tl.store(state_mn + at, state, column < n)


@triton.jit
def atomics(values, bins, counts, largest, sums, n, BLOCK: tl.constexpr):
    """Histogram, maximum and float sums by atomics on few addresses."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value, where = tl.load(values + at, inside, 0), tl.load(bins + at, inside, 0)
    tl.atomic_add(counts + where, 1, inside)
    tl.atomic_max(largest + where, value, inside)
    # Small whole numbers: exact in any order.
    tl.atomic_add(sums + where, value.to(tl.float32), inside)
