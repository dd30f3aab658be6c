"""Copies the tensors of a checkpoint with the safetensors package: each is read by itself, and a file is written when all
of its tensors are there, which is how the package writes. The yardstick of `cargo xtask checkpoint-speed`."""

import os
import pathlib
import sys

import ml_dtypes  # noqa: F401  numpy knows bfloat16 by it
from safetensors import safe_open
from safetensors.numpy import save_file


def main():
    source, target, limit = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    target.mkdir()
    held, size, written = {}, 0, 0

    def write():
        nonlocal held, size, written
        path = target / f"part-{written:05}.safetensors"
        save_file(held, path, metadata={"format": "pt"})
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        held, size, written = {}, 0, written + 1

    for path in sorted(source.glob("*.safetensors")):
        with safe_open(path, "np") as file:
            for name in file.keys():
                tensor = file.get_tensor(name)
                if held and size + tensor.nbytes > limit:
                    write()
                held[name] = tensor
                size += tensor.nbytes
    write()


if __name__ == "__main__":
    main()
