"""Conversions between f32, f16 and the narrow types on all codes, as PTX on a driver library, against ml_dtypes."""

import ml_dtypes
import numpy as np

from driver import packed

F32, U32 = np.float32, np.uint32

# One instruction a kernel: word `%r1` in, word `%r2` out. Pairs go in and come out as two halves of a word.
HEAD = """.version 9.0
.target sm_90a
.address_size 64
"""
KERNEL = """.visible .entry {name}(.param .u64 source, .param .u64 target, .param .u32 count)
{{
\t.reg .pred %p;
\t.reg .b8 %b;
\t.reg .b16 %h<3>;
\t.reg .b32 %r<8>;
\t.reg .b64 %rd<4>;
\tmov.u32 %r3, %ctaid.x;
\tmov.u32 %r4, %ntid.x;
\tmov.u32 %r5, %tid.x;
\tmad.lo.s32 %r3, %r3, %r4, %r5;
\tld.param.u32 %r4, [count];
\tsetp.ge.u32 %p, %r3, %r4;
\t@%p bra DONE;
\tmul.wide.u32 %rd3, %r3, 4;
\tld.param.u64 %rd1, [source];
\tadd.s64 %rd1, %rd1, %rd3;
\tld.global.u32 %r1, [%rd1];
\tld.param.u64 %rd2, [target];
\tadd.s64 %rd2, %rd2, %rd3;
{body}
\tst.global.u32 [%rd2], %r2;
DONE:
\tret;
}}
"""
TO_HALF = "\tcvt.{how} %h1, {source};\n\tcvt.u32.u16 %r2, %h1;"
FROM_HALF = "\tcvt.u16.u32 %h1, %r1;\n\tcvt.{how} %r2, %h1;"
TO_BYTE = "\tcvt.{how} %b, {source};\n\tcvt.u32.u8 %r2, %b;"
FROM_BYTE = "\tcvt.u8.u32 %b, %r1;\n\tcvt.{how} %r2, %b;"

# Narrow type by its name in PTX: that of ml_dtypes, bits of a code, what NaN becomes.
NARROW = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 8, 0x7F),
    "e5m2": (ml_dtypes.float8_e5m2, 8, 0x7F),
    "e2m3": (ml_dtypes.float6_e2m3fn, 6, 0x1F),
    "e3m2": (ml_dtypes.float6_e3m2fn, 6, 0x1F),
    "e2m1": (ml_dtypes.float4_e2m1fn, 4, 0x7),
}


class Runner:
    """Runs one conversion over arrays of words."""

    def __init__(self, driver):
        self.driver = driver

    def __call__(self, body, words):
        words = np.ascontiguousarray(words, U32)
        module = self.driver.load(HEAD + KERNEL.format(name="convert", body=body))
        source, target = self.driver.upload(words), self.driver.allocate(words.nbytes)
        arguments = [packed("Q", source), packed("Q", target), packed("I", len(words))]
        self.driver.launch(module, "convert", (-(-len(words) // 256),), 256, 0, arguments)
        result = self.driver.download(target, words)
        self.driver.unload(module)
        self.driver.free(source)
        self.driver.free(target)
        return result


def same(got, want):
    """Number of places where two arrays of floats differ in value, sign of zero or being a number."""
    both_nan = np.isnan(got) & np.isnan(want)
    return int((~both_nan & ((got != want) | (np.signbit(got) != np.signbit(want)))).sum())


def finite_codes(kind, bits):
    codes = np.arange(1 << bits, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        values = codes.view(kind).astype(F32)
    return codes[np.isfinite(values)], np.sort(values[np.isfinite(values)])


def inputs(rng, values):
    """All bf16 and f16 codes as f32, every code and midpoint of the narrow type with its neighbours, random bits."""
    middles = ((values[1:].astype(np.float64) + values[:-1]) / 2).astype(F32)
    places = np.concatenate([values, middles])
    with np.errstate(over="ignore", invalid="ignore"):
        around = np.concatenate([places, np.nextafter(places, F32(np.inf)), np.nextafter(places, F32(-np.inf))])
    codes = np.arange(1 << 16, dtype=U32)
    with np.errstate(invalid="ignore"):
        halves = codes.astype(np.uint16).view(np.float16).astype(F32)
    random = rng.integers(0, 1 << 32, 50_000, dtype=np.uint64).astype(U32).view(F32)
    return np.concatenate([around, (codes << 16).view(F32), halves, random]).astype(F32)


def narrow(run, rng, name):
    """Both directions of a narrow type; number of wrong results."""
    kind, bits, nan_code = NARROW[name]
    from_code, to_code = (FROM_BYTE, TO_BYTE) if bits == 4 else (FROM_HALF, TO_HALF)
    pair_shift = bits if bits == 4 else 8
    low, high = (half.ravel() for half in np.meshgrid(np.arange(1 << bits), np.arange(1 << bits)))
    pairs = run(from_code.format(how=f"rn.f16x2.{name}x2"), (low | high << pair_shift).astype(U32))
    with np.errstate(invalid="ignore"):
        values = np.arange(1 << bits, dtype=np.uint8).view(kind).astype(F32)
        decoded = [pairs.astype(np.uint16).view(np.float16), (pairs >> 16).astype(np.uint16).view(np.float16)]
        wrong = same(decoded[0].astype(F32), values[low]) + same(decoded[1].astype(F32), values[high])

    _, finite = finite_codes(kind, bits)
    x = inputs(rng, finite)
    with np.errstate(invalid="ignore"):
        codes = np.clip(x, finite[0], finite[-1]).astype(kind).view(np.uint8).astype(U32)
    codes[np.isnan(x)] = nan_code
    # The first operand becomes the upper half: it is the input, the lower one its neighbour in the array.
    body = "\tmov.b32 %r6, 0f3F800000;\n" + to_code.format(how=f"rn.satfinite.{name}x2.f32", source="%r1, %r6")
    got = run(body, x.view(U32))
    one = np.ones(1, F32).astype(kind).view(np.uint8)[0]
    return wrong + int((got != (codes << pair_shift | U32(one))).sum())


def ue8m0(run, rng):
    """Powers of two: decoding on all pairs of codes, encoding down and up against a search in ml_dtypes' table."""
    table = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(F32)
    low, high = (half.ravel() for half in np.meshgrid(np.arange(256), np.arange(256)))
    pairs = run(FROM_HALF.format(how="rn.bf16x2.ue8m0x2"), (low | high << 8).astype(U32))
    wrong = same((pairs << 16).view(F32), table[low]) + same((pairs & U32(0xFFFF0000)).view(F32), table[high])
    exact = table[1:255].astype(np.float64)
    inside = np.exp2(rng.uniform(-126, 127, 50_000)).astype(F32)
    with np.errstate(over="ignore"):
        near = np.concatenate([np.nextafter(table[2:254], F32(0)), np.nextafter(table[2:254], F32(np.inf))])
    x = np.concatenate([table[1:255], near, inside]).astype(F32)
    for how, side in (("rz", "right"), ("rp", "left")):
        place = np.searchsorted(exact, x.astype(np.float64), side=side)
        code = place if how == "rz" else place + 1
        want = np.minimum(code, 254).astype(U32) << 8 | U32(127)
        body = "\tmov.b32 %r6, 0f3F800000;\n" + TO_HALF.format(how=f"{how}.satfinite.ue8m0x2.f32", source="%r1, %r6")
        wrong += int((run(body, x.view(U32)) != want).sum())
    return wrong


def wide(run, rng, name, kind):
    """f16 or bf16: decoding all codes, encoding what lies on and around every code."""
    codes = np.arange(1 << 16, dtype=U32)
    with np.errstate(invalid="ignore"):
        values = codes.astype(np.uint16).view(kind).astype(F32)
    wrong = same(run(FROM_HALF.format(how=f"f32.{name}"), codes).view(F32), values)
    finite = np.sort(values[np.isfinite(values)])
    x = inputs(rng, finite)
    got = run(TO_HALF.format(how=f"rn.{name}.f32", source="%r1"), x.view(U32)).astype(np.uint16).view(kind)
    with np.errstate(over="ignore", invalid="ignore"):
        return wrong + same(got.astype(F32), x.astype(kind).astype(F32))


def check(driver, seed):
    """Number of wrong results of every type."""
    rng, run = np.random.default_rng(seed), Runner(driver)
    wrong = {name: narrow(run, rng, name) for name in NARROW}
    wrong["ue8m0"] = ue8m0(run, rng)
    wrong["f16"] = wide(run, rng, "f16", np.float16)
    wrong["bf16"] = wide(run, rng, "bf16", ml_dtypes.bfloat16)
    return wrong
