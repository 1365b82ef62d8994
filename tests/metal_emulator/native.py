"""The runtime library's structures and functions, as ctypes sees them."""

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_uint, c_uint64, c_void_p
from functools import cache

from metal_emulator.build import runtime_library

ARITHMETIC_TYPES = ("float", "half", "bfloat")
ARITHMETIC_KINDS = ("add", "multiply", "divide", "fma", "compare", "convert", "function")


class Thread(Structure):
    """msl_thread."""

    _fields_ = [
        ("in_grid", c_uint * 3),
        ("in_group", c_uint * 3),
        ("group", c_uint * 3),
        ("group_size", c_uint * 3),
        ("index", c_uint),
        ("lane", c_uint),
        ("simd", c_uint),
        ("lanes", c_uint),
        ("simds", c_uint),
        ("all", c_uint),
    ]


class Launch(Structure):
    """msl_launch."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("group", c_uint * 3),
        ("groups", c_uint * 3),
        ("seed", c_uint),
        ("checked", c_int),
        ("watched", c_int),
        ("seconds", c_double),
    ]


class Buffer(Structure):
    """msl_buffer."""

    _fields_ = [
        ("data", c_void_p),
        ("size", c_uint64),
        ("writable", c_int),
        ("initialised", c_int),
        ("loads", c_uint64),
        ("stores", c_uint64),
        ("bytes_loaded", c_uint64),
        ("bytes_stored", c_uint64),
        ("lines_loaded", c_uint64),
        ("lines_stored", c_uint64),
        ("lines", c_uint64),
        ("together", c_uint64),
    ]


class Counts(Structure):
    """msl_counts."""

    _fields_ = [
        ("simd_ops", c_uint64),
        ("barriers", c_uint64),
        ("threads", c_uint64),
        ("threadgroup_bytes", c_uint64),
        ("group_loads", c_uint64),
        ("group_stores", c_uint64),
        ("arithmetic", (c_uint64 * 8) * 3),
    ]


class Fault(Structure):
    """msl_fault."""

    _fields_ = [
        ("kind", c_int),
        ("write", c_int),
        ("memory", c_int),
        ("buffer", c_int),
        ("offset", c_uint64),
        ("size", c_uint64),
        ("thread", Thread),
        ("other", Thread),
        ("has_other", c_int),
        ("pc", c_uint64),
        ("other_pc", c_uint64),
        ("what", c_char_p),
        ("file", c_char_p),
        ("line", c_int),
    ]


@cache
def runtime() -> ctypes.CDLL:
    """The loaded runtime. Raises what `runtime_library` raises."""
    library = ctypes.CDLL(str(runtime_library()))
    library.msl_add.restype = POINTER(Buffer)
    library.msl_add.argtypes = [c_uint64, c_int, c_int, c_int]
    library.msl_go.argtypes = [c_void_p, POINTER(c_void_p), POINTER(Launch)]
    library.msl_kernel_at.argtypes = [c_void_p]
    library.msl_image.restype = c_uint64
    library.msl_last_fault.restype = POINTER(Fault)
    library.msl_last_counts.restype = POINTER(Counts)
    library.msl_threads_alive.restype = c_uint
    library.msl_array_name.restype = c_char_p
    library.msl_stood.argtypes = [c_uint, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_int)]
    return library
