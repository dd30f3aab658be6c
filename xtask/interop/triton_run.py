"""Compiles the Triton cases to PTX, without a GPU, and runs them on a driver library."""

import warnings

import ml_dtypes
import numpy as np

from driver import Descriptor, packed
from triton_cases import Block

warnings.filterwarnings("ignore", message="TRITON_DEFAULT_FP_FUSION")

import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

TYPES = {
    np.dtype(np.float32): "fp32",
    np.dtype(np.float16): "fp16",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(ml_dtypes.float8_e4m3fn): "fp8e4nv",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
}

# Triton numbers three element types as `tensormap.replace` does; the driver's encode function numbers them otherwise.
DRIVER_ELEMENT_TYPES = {8: 10, 9: 8, 10: 9}


def type_of(value):
    if isinstance(value, Block):
        return f"tensordesc<{TYPES[value.array.dtype]}{list(value.block)}>".replace(" ", "")
    if isinstance(value, list):
        return "*i64"
    if isinstance(value, np.ndarray):
        return "*" + TYPES[value.dtype]
    return "i32" if isinstance(value, int) else "fp32"


def compile_case(case):
    """The compiled kernel: PTX in `.asm["ptx"]`, launch facts in `.metadata`."""
    signature, hints = {}, {}
    for index, name in enumerate(case.kernel.arg_names):
        if name in case.constants:
            signature[name] = "constexpr"
            continue
        value = case.arguments[name]
        signature[name] = type_of(value)
        aligned = isinstance(value, (np.ndarray, list)) or (isinstance(value, int) and value % 16 == 0)
        if aligned:
            hints[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=case.kernel, signature=signature, constexprs=dict(case.constants), attrs=hints)
    options = {"num_warps": 4, "num_stages": 3, "ptx_version": 90} | case.options
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def run_case(driver, case, compiled):
    """Launches and compares; the largest error of each output relative to its bound."""
    ptx = compiled.asm["ptx"]
    meta = compiled.metadata
    block = int(ptx.split(".reqntid")[1].split()[0].rstrip(","))
    maps = list(meta.tensordesc_meta or [])
    held, places, parameters = [], {}, []

    def place(array):
        address = driver.upload(array)
        held.append(address)
        return address

    for name in case.kernel.arg_names:
        if name in case.constants:
            continue
        value = case.arguments[name]
        if isinstance(value, Block):
            facts = maps.pop(0)
            array = value.array
            places[name] = place(array)
            element_type = DRIVER_ELEMENT_TYPES.get(facts["elem_type"], facts["elem_type"])
            descriptor = Descriptor(array, facts["block_size"], facts["swizzle"], element_type)
            parameters.append(driver.tensor_map(places[name], descriptor))
            parameters.extend(packed("i", size) for size in array.shape)
            parameters.extend(packed("q", stride // array.itemsize) for stride in array.strides)
        elif isinstance(value, list):
            places[name] = [place(array) for array in value]
            parameters.append(packed("Q", place(np.array(places[name], np.uint64))))
        elif isinstance(value, np.ndarray):
            places[name] = place(value)
            parameters.append(packed("Q", places[name]))
        else:
            parameters.append(packed("i" if isinstance(value, int) else "f", value))
    programs = int(np.prod(case.grid))
    for size in (meta.global_scratch_size, meta.profile_scratch_size):
        scratch = driver.allocate(size * programs) if size else 0
        if scratch:
            held.append(scratch)
        parameters.append(packed("Q", scratch))

    module = driver.load(ptx)
    try:
        driver.launch(module, meta.name, case.grid, block, meta.shared, parameters)
        worst = {}
        for name, (want, bound) in case.expected.items():
            value = case.arguments[name]
            arrays = value if isinstance(value, list) else [value.array if isinstance(value, Block) else value]
            wants = want if isinstance(want, list) else [want]
            addresses = places[name] if isinstance(places[name], list) else [places[name]]
            for address, array, one in zip(addresses, arrays, wants):
                worst[name] = max(worst.get(name, 0.0), excess(driver.download(address, array), one, bound))
        return worst
    finally:
        driver.unload(module)
        for address in held:
            driver.free(address)


def excess(got, want, bound):
    """Largest error over its bound; 1 or less is right, infinite where something is not a number."""
    got = np.asarray(got).astype(np.float64)
    if got.size == 0:
        return 0.0
    error = np.abs(got - want)
    if not np.isfinite(error).all():
        return float("inf")
    largest = error.max()
    limit = bound * max(np.abs(want).max(), 1e-30)
    return float(largest / limit) if limit > 0 else (0.0 if largest == 0 else float("inf"))
