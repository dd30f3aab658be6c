"""Times import and export beside `dd` and the safetensors package, on the same bytes in the same run.

Run by `cargo xtask checkpoint-speed`. Every command starts with the same source in the system's cache and nothing left to
be written, and ends with its bytes on the disk. Peak memory is the one that the system accounts to the process; it cannot be seen to be
below that of this script, about 30 MiB.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time


def measure(words):
    """Seconds and peak resident MiB of a command."""
    os.sync()
    start = time.monotonic()
    child = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.monotonic() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {child.returncode}:\n{said}")
    return seconds, usage.ru_maxrss / 1024


def warm(folder):
    for path in folder.rglob("*.safetensors"):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def copy_with_dd(files, target):
    target.mkdir()
    results = [measure(["dd", f"if={f}", f"of={target / f.name}", "bs=4M", "conv=fsync"]) for f in files]
    return sum(r[0] for r in results), max(r[1] for r in results)


def copy_in_one(files, target):
    target.mkdir()
    pipe = 'to=$1; shift; cat "$@" | dd of="$to" bs=4M iflag=fullblock conv=fsync'
    return measure(["sh", "-c", pipe, "copy", target / "all", *files])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--source", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="which of the five commands begins the first round")
    parser.add_argument("--max-shard-size", type=int, default=5_000_000_000)
    args = parser.parse_args()
    copy = pathlib.Path(__file__).with_name("copy_tensors.py")
    files = sorted(args.source.glob("*.safetensors"))
    total = sum(f.stat().st_size for f in files)
    print(f"{total} bytes in {len(files)} files, export and safetensors in files of up to {args.max_shard_size} bytes")
    ours, limit = args.work / "ours", args.max_shard_size

    def bring_in(out):
        return measure([args.program, "import", "--no-progress", "--hf-model", args.source, "--checkpoint-path", out])

    commands = {
        "dd": lambda out: copy_with_dd(files, out),
        "dd in one": lambda out: copy_in_one(files, out),
        "import": bring_in,
        "export": lambda out: measure(
            [args.program, "export", "--no-progress", "--checkpoint-path", ours, "--hf-path", out,
             "--max-shard-size", limit]),
        "safetensors": lambda out: measure([sys.executable, copy, args.source, out, limit]),
    }
    seconds = {name: [] for name in commands}
    memory = {name: 0.0 for name in commands}
    args.work.mkdir(parents=True, exist_ok=True)
    if not ours.exists():
        bring_in(ours)
    # Virtual disks write their first gigabytes after a pause at half the speed or less: that hits nobody here.
    for _ in range(2):
        copy_with_dd(files, args.work / "unmeasured")
        shutil.rmtree(args.work / "unmeasured")
    for round_number in range(args.rounds):
        # Who comes first changes, so that no one has a better place in all rounds.
        first = (args.first + round_number) % len(commands)
        names = list(commands)[first:] + list(commands)[:first]
        for name in names:
            out = args.work / name
            shutil.rmtree(out, ignore_errors=True)
            warm(ours if name == "export" else args.source)
            took, peak = commands[name](out)
            seconds[name].append(took)
            memory[name] = max(memory[name], peak)
            rate = total / took / 1e6
            print(f"round {round_number + 1}  {name:12} {took:7.2f} s {rate:7.0f} MB/s  peak {peak:7.0f} MiB", flush=True)
            shutil.rmtree(out)
    # Within a round the disk is the same; its speed differs from one to the next. Of the two dd the faster counts.
    dd = [min(both) for both in zip(seconds["dd"], seconds["dd in one"])]
    by_dd = {name: statistics.median(d / s for d, s in zip(dd, seconds[name])) for name in commands}
    for name in ["import", "export", "safetensors"]:
        share = memory[name] / memory["safetensors"]
        print(f"{name:12} {100 * by_dd[name]:5.0f} % of the speed of dd, {100 * share:5.1f} % of the memory of safetensors")
    slower = [name for name in ["import", "export"] if by_dd[name] < max(0.8, by_dd["safetensors"])]
    larger = [name for name in ["import", "export"] if memory[name] > memory["safetensors"] / 10]
    if slower or larger:
        raise SystemExit(f"too slow: {slower or 'none'}; too large: {larger or 'none'}")


if __name__ == "__main__":
    main()
