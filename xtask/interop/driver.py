"""A small binding of the CUDA driver API: what is needed to launch kernels on the library that is loaded.

The library is named by its path, so that the virtual driver is used whether or not the machine has a real one.
"""

import ctypes
import struct

import numpy as np


class DriverError(Exception):
    """A driver call that failed: function, error name and description."""


class Descriptor:
    """A tiled tensor map over a row-major array: innermost dimension last, as in the array's shape."""

    def __init__(self, array, box, swizzle, element_type):
        self.array = array
        self.box = box
        self.swizzle = swizzle
        self.element_type = element_type


class Driver:
    """Device 0 of a driver library."""

    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, device)
        self.name = name.value.decode()

    def call(self, function, *arguments):
        status = getattr(self.lib, function)(*arguments)
        if status != 0:
            text, name = ctypes.c_char_p(), ctypes.c_char_p()
            self.lib.cuGetErrorName(status, ctypes.byref(name))
            self.lib.cuGetErrorString(status, ctypes.byref(text))
            shown = [(part.value or b"?").decode() for part in (name, text)]
            raise DriverError(f"{function}: {shown[0]} ({status}): {shown[1]}")

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def upload(self, array):
        array = np.ascontiguousarray(array)
        address = self.allocate(array.nbytes)
        if array.nbytes:
            pointer = array.ctypes.data_as(ctypes.c_void_p)
            self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), pointer, ctypes.c_size_t(array.nbytes))
        return address

    def download(self, address, like):
        array = np.empty_like(np.ascontiguousarray(like))
        if array.nbytes:
            pointer = array.ctypes.data_as(ctypes.c_void_p)
            self.call("cuMemcpyDtoH_v2", pointer, ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes))
        return array

    def load(self, ptx):
        module = ctypes.c_void_p()
        text = ctypes.create_string_buffer(ptx.encode())
        self.call("cuModuleLoadData", ctypes.byref(module), text)
        return module

    def unload(self, module):
        self.call("cuModuleUnload", module)

    def tensor_map(self, address, descriptor):
        """The 128 bytes of a tensor map; dimensions innermost first, as the driver wants them."""
        array = descriptor.array
        rank = array.ndim
        sizes = (ctypes.c_uint64 * rank)(*reversed(array.shape))
        strides = (ctypes.c_uint64 * max(rank - 1, 1))(*reversed(array.strides[:-1]))
        box = (ctypes.c_uint32 * rank)(*reversed(descriptor.box))
        steps = (ctypes.c_uint32 * rank)(*([1] * rank))
        room = (ctypes.c_uint8 * 192)()
        start = -ctypes.addressof(room) % 64
        place = (ctypes.c_uint8 * 128).from_buffer(room, start)
        self.call(
            "cuTensorMapEncodeTiled", ctypes.byref(place), ctypes.c_int(descriptor.element_type), ctypes.c_uint32(rank),
            ctypes.c_uint64(address), sizes, strides, box, steps, ctypes.c_int(0), ctypes.c_int(descriptor.swizzle),
            ctypes.c_int(2), ctypes.c_int(0),
        )  # fmt: skip
        return bytes(place)

    def launch(self, module, kernel, grid, block, shared, arguments):
        """Launches and waits. Arguments are the bytes of each parameter, in order."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        if shared > 48 * 1024:
            self.call("cuFuncSetAttribute", function, 8, ctypes.c_int(shared))
        # Tensor maps must be aligned to 64 bytes.
        held, pointers = [], []
        for argument in arguments:
            room = ctypes.create_string_buffer(len(argument) + 64)
            start = -ctypes.addressof(room) % 64
            ctypes.memmove(ctypes.addressof(room) + start, argument, len(argument))
            held.append(room)
            pointers.append(ctypes.addressof(room) + start)
        table = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        grid = [ctypes.c_uint(n) for n in (*grid, 1, 1)[:3]]
        self.call(
            "cuLaunchKernel", function, *grid, ctypes.c_uint(block), ctypes.c_uint(1), ctypes.c_uint(1),
            ctypes.c_uint(shared), None, table, None,
        )  # fmt: skip
        self.call("cuCtxSynchronize")


def packed(kind, value):
    """The bytes of a scalar parameter: a struct format such as i, q, f, Q."""
    return struct.pack("<" + kind, value)
