"""The CUDA driver library, as far as a collector needs it."""

from __future__ import annotations

import ctypes
import uuid
from pathlib import Path
from typing import Any

from nvtrace.model.trace import Device

NAME = "libcuda.so.1"
NO_DEVICE, STUB = 100, 34
_SM_COUNT = 16
_NODES = Path("/dev")
_OTHER_NODES = ("dxg", "nvhost-gpu", "nvgpu")  # WSL, Jetson


def device_nodes() -> int:
    """Return how many GPUs the kernel's driver shows here; CUDA is not touched."""
    found = [node for node in _NODES.glob("nvidia[0-9]*") if node.name[6:].isdigit()]
    return len(found) or int(any((_NODES / name).exists() for name in _OTHER_NODES))


class DriverError(Exception):
    """The driver refused: ``code`` is CUDA's, and the text its own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Driver:
    """The loaded driver library.

    Raises:
        OSError: there is none.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL(NAME)

    def version(self) -> tuple[int, int]:
        """Return the CUDA version that the driver supports, (13, 0); CUDA is not initialised."""
        value = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(value))
        return value.value // 1000, value.value % 1000 // 10

    def devices(self) -> int:
        """Initialise CUDA and return how many devices this process may use."""
        self._call("cuInit", ctypes.c_uint(0))
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def facts(self, count: int) -> tuple[Device, ...]:
        """Return what is known of the devices, by ordinal."""
        return tuple(self._device(ordinal) for ordinal in range(count))

    def _device(self, ordinal: int) -> Device:
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal))
        name, bus = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
        raw, memory, count = (ctypes.c_ubyte * 16)(), ctypes.c_size_t(), ctypes.c_int()
        self._call("cuDeviceGetName", name, ctypes.c_int(256), device)
        self._call("cuDeviceGetUuid", raw, device)
        self._call("cuDeviceGetPCIBusId", bus, ctypes.c_int(32), device)
        self._call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
        self._call("cuDeviceGetAttribute", ctypes.byref(count), ctypes.c_int(_SM_COUNT), device)
        return Device(
            ordinal,
            name=name.value.decode("utf-8", "replace"),
            uuid=f"GPU-{uuid.UUID(bytes=bytes(raw))}",
            bus_id=bus.value.decode("ascii", "replace"),
            memory_bytes=memory.value,
            sm_count=count.value,
        )

    def synchronize(self, count: int) -> None:
        """Wait for all work in the contexts that frameworks share; makes no context."""
        for ordinal in range(count):
            device, active, flags = ctypes.c_int(), ctypes.c_int(), ctypes.c_uint()
            self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal))
            state = ctypes.byref(flags), ctypes.byref(active)
            self._call("cuDevicePrimaryCtxGetState", device, *state)
            if not active.value:
                continue
            context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            try:
                self._call("cuCtxPushCurrent_v2", context)
                try:
                    self._call("cuCtxSynchronize")
                finally:
                    self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
            finally:
                self._call("cuDevicePrimaryCtxRelease_v2", device)

    def _call(self, name: str, *arguments: Any) -> None:
        code = self._library[name](*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text))
            raise DriverError(code, (text.value or b"unknown error").decode("utf-8", "replace"))
