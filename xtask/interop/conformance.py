"""Runs kernels that this project did not write on a driver library, and compares what they compute with numpy.

    python conformance.py --library target/release/sim/libcuda.so.1 [--reduced] [--seed N] [--only TEXT] [--ptx FOLDER]

Exit status 0: every kernel loaded, ran without a finding and was right.
"""

import argparse
import os
import pathlib
import sys
import time

import conversions
import triton_cases
import triton_run
from driver import Driver

# Name of the case that is not a kernel of Triton.
CONVERSIONS = "conversions as ml_dtypes"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libcuda.so.1 to run on; without it the kernels are only compiled")
    parser.add_argument("--reduced", action="store_true", help="a few small cases")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="seed of the inputs")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    parser.add_argument("--ptx", type=pathlib.Path, help="folder to leave the PTX in")
    options = parser.parse_args()

    cases = [c for c in triton_cases.all_cases(options.seed) if options.only in c.name]
    if options.reduced:
        cases = [c for c in cases if c.reduced]
    names = [c.name for c in cases]
    if options.only in CONVERSIONS:
        names.insert(0, CONVERSIONS)
    if options.list:
        print("\n".join(names))
        return
    if not names:
        sys.exit(f"no case has `{options.only}` in its name")
    print(f"seed {options.seed}, {len(names)} cases", flush=True)
    failed = []
    works = [lambda case=case: attempt(options.library, case, options.ptx) for case in cases]
    if options.only in CONVERSIONS:
        works.insert(0, lambda: convert(options.library, options.seed))
    for name, work in zip(names, works):
        started = time.perf_counter()
        outcome = in_a_process_of_its_own(work)
        seconds = time.perf_counter() - started
        mark = "ok    " if outcome.startswith("ok") else "FAILED"
        print(f"{mark} {seconds:6.2f} s  {name}: {outcome}", flush=True)
        if not outcome.startswith("ok"):
            failed.append(name)
    print(f"{len(names) - len(failed)} of {len(names)} right")
    if failed:
        sys.exit("failed: " + ", ".join(failed))


def in_a_process_of_its_own(work):
    """The text that `work` returns. A context that a fault has destroyed, or a crash, ends with the process."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        with os.fdopen(write_end, "w") as out:
            out.write(work())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    return text or f"the process ended with status {status}"


def convert(library, seed):
    """Compares the conversions with ml_dtypes; a line that starts with ok when all are right."""
    if library is None:
        return "ok, nothing to compile"
    try:
        wrong = conversions.check(Driver(library), seed)
    except Exception as failure:  # the cases may still tell something
        return f"{type(failure).__name__}: {failure}"
    shown = ", ".join(f"{name} {count}" for name, count in wrong.items())
    return f"{'ok' if not any(wrong.values()) else 'wrong values'}, wrong results: {shown}"


def attempt(library, case, folder):
    """Compiles and runs one case; a line that starts with ok when it is right."""
    try:
        compiled = triton_run.compile_case(case)
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / (case.name.replace(" ", "_") + ".ptx")).write_text(compiled.asm["ptx"])
        if library is None:
            return "ok, compiled only"
        worst = triton_run.run_case(Driver(library), case, compiled)
    except Exception as failure:  # the next case may still tell something
        return f"{type(failure).__name__}: {failure}"
    shown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in worst.items())
    return f"{'ok' if all(ratio <= 1 for ratio in worst.values()) else 'wrong values'}, error over bound: {shown}"


if __name__ == "__main__":
    main()
