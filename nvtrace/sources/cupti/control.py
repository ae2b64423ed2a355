"""Switches CUPTI on and off, through cupti-python.

What cupti-python lacks goes through the library that it loaded: memory callbacks that are native,
and, in its versions for CUDA 12, runtime calls as a kind.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from nvtrace.errors import CollectorUnavailable
from nvtrace.sources.cupti import diagnosis
from nvtrace.sources.cupti.layout import RecordKind
from nvtrace.sources.cupti.library import Library, mapped
from nvtrace.sources.cupti.shim import Shim

HELD, NOT_COMPATIBLE, NOT_INITIALIZED, UNKNOWN = 39, 14, 15, 999
DRIVER_API, RUNTIME_API = 1, 2
_SYSTEM_THREAD_IDS = 1
_CALLBACK_LIMIT = 1024

ABI_VERSION = re.compile(r"_v\d{4,}$")
_LAUNCHES = re.compile(
    r"cu(LaunchKernel|LaunchCooperativeKernel|LaunchGrid|Launch$|GraphLaunch|Memcpy|Memset)"
)
_QUERIES = re.compile(
    r"cuda(GetDevice|SetDevice|GetDeviceCount|DeviceGetAttribute|GetLastError|PeekAtLastError"
    r"|EventCreate|EventCreateWithFlags|EventDestroy|StreamIsCapturing|StreamGetCaptureInfo\w*"
    r"|ThreadExchangeStreamCaptureMode)(_ptsz)?"
)
_DENIED = {
    33: "CUPTI does not support this virtual GPU",
    35: "this user may not trace the GPU (NVreg_RestrictProfilingToAdminUsers is set)",
    40: "the hypervisor does not permit tracing the GPU",
    41: "CUPTI does not trace under confidential computing",
    42: "CUPTI does not support this mining GPU",
    43: "CUPTI does not support this MIG device",
    44: "CUPTI does not support GPUs in SLI",
    45: "CUPTI does not support this WSL",
}


class CuptiError(Exception):
    """CUPTI refused a call: ``code`` is its own."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call} returned {code}")
        self.code = code

    def unavailable(self) -> CollectorUnavailable:
        """Return the error for a user whom this stops."""
        if self.code == HELD:
            return CollectorUnavailable(busy(""), diagnosis.BUSY)
        if self.code in _DENIED:
            return CollectorUnavailable(_DENIED[self.code], diagnosis.DENIED)
        if self.code in (NOT_INITIALIZED, UNKNOWN):
            reason = f"CUPTI cannot be initialised here ({self}): is the driver older than CUPTI?"
            return CollectorUnavailable(reason, diagnosis.FAILED)
        return CollectorUnavailable(f"CUPTI refuses: {self}", diagnosis.FAILED)


def busy(holder: str) -> str:
    """Return the sentence for a CUPTI that another client holds, by the name that it gave."""
    if holder == "nvtrace":
        return "GPU work is being collected by another nvtrace collector of this process"
    who = holder or "another profiler in this process (torch.profiler, jax.profiler, Proton, ...)"
    return f"CUPTI is held by {who}: it serves one client at a time; stop the other one first"


class Control:
    """CUPTI in this process.

    Args:
        shim: gives CUPTI its memory.

    Raises:
        CollectorUnavailable: CUPTI cannot be loaded, or two of it are.
    """

    def __init__(self, shim: Shim) -> None:
        self._shim = shim
        try:
            from cupti import cupti

            cupti.get_timestamp()  # the binding loads its library at the first call
        except Exception as error:  # whatever stops a binding: its own types differ by version
            text = str(error).partition("\n")[0]
            raise CollectorUnavailable(
                f"cupti-python {diagnosis.version(diagnosis.BINDING)} cannot load CUPTI: {text}",
                diagnosis.NO_LIBRARY,
            ) from error
        self._binding = cupti
        loaded = mapped()
        if len(loaded) != 1:
            raise CollectorUnavailable(diagnosis.two_libraries(loaded), diagnosis.TWO_LIBRARIES)
        self.library = Library(loaded[0])
        self._subscriber: int | None = None
        self._enabled: list[RecordKind] = []
        self._driver_calls: list[int] = []

    def subscribe(self) -> None:
        """Claim CUPTI for nvtrace; the claim is what keeps other clients' buffers apart.

        Raises:
            CollectorUnavailable: another client has it.
        """
        cupti = self._binding
        if not hasattr(cupti, "subscribe_v2"):
            self._subscriber = self._call("cuptiSubscribe", cupti.subscribe, _ignore, None)
            return
        parameters = cupti.SubscriberParams()
        parameters.struct_size = cupti.SUBSCRIBER_PARAMS_SIZE
        parameters.subscriber_name = "nvtrace"
        try:
            self._subscriber = self._call(
                "cuptiSubscribe_v2", cupti.subscribe_v2, _ignore, None, parameters.ptr
            )
        except CuptiError as error:
            if error.code != HELD:
                raise
            try:
                holder = parameters.old_subscriber_name or ""
            except UnicodeDecodeError:  # memory that nobody wrote to
                holder = ""
            raise CollectorUnavailable(busy(holder), diagnosis.BUSY) from error

    def prepare(self) -> None:
        """Give CUPTI its memory callbacks, and have calls carry the ids that the system uses."""
        self._native("cuptiSetThreadIdType", _SYSTEM_THREAD_IDS)
        callbacks = ctypes.c_void_p(self._shim.requested), ctypes.c_void_p(self._shim.completed)
        self._native("cuptiActivityRegisterCallbacks", *callbacks)

    def enable(self, kind: RecordKind) -> None:
        """Have CUPTI record a kind; of driver calls, those that put work on the GPU.

        Raises:
            CuptiError: it will not.
        """
        if kind is RecordKind.DRIVER:
            for callback in self._callbacks(DRIVER_API, _LAUNCHES.match):
                self._driver_call(callback, on=True)
                self._driver_calls.append(callback)
            return
        try:
            self._call("cuptiActivityEnable", self._binding.activity_enable, int(kind))
        except NotImplementedError:
            self._native("cuptiActivityEnable", int(kind))
        self._enabled.append(kind)
        if kind is RecordKind.RUNTIME:
            for callback in self._callbacks(RUNTIME_API, _QUERIES.fullmatch):
                switch = self._binding.activity_enable_runtime_api
                self._call("cuptiActivityEnableRuntimeApi", switch, callback, 0)

    def disable(self) -> None:
        """Have CUPTI record nothing any more.

        Raises:
            CuptiError: of the first kind that could not be disabled; the others are.
        """
        calls = [partial(self._driver_call, callback, on=False) for callback in self._driver_calls]
        calls += [partial(self._native, "cuptiActivityDisable", int(k)) for k in self._enabled]
        self._driver_calls, self._enabled = [], []
        failed: CuptiError | None = None
        for call in calls:
            try:
                call()
            except CuptiError as error:
                failed = failed or error
        if failed:
            raise failed

    def flush(self, *, forced: bool) -> None:
        """Have CUPTI give back its buffers: those that are done with, or all of them."""
        self._call("cuptiActivityFlushAll", self._binding.activity_flush_all, int(forced))

    def dropped(self) -> int:
        """Return how many records CUPTI had no memory for; once, after something was enabled."""
        count = ctypes.c_size_t()
        self._native("cuptiActivityGetNumDroppedRecords", None, 0, ctypes.byref(count))
        return count.value

    def unsubscribe(self) -> None:
        """Leave CUPTI to others. It stays in the process: taking it out is what crashes."""
        subscriber, self._subscriber = self._subscriber, None
        if subscriber is not None:
            self._call("cuptiUnsubscribe", self._binding.unsubscribe, subscriber)

    def timestamp(self) -> int:
        """Return the time on CUPTI's clock."""
        return int(self._binding.get_timestamp())

    def callback_name(self, domain: int, callback: int) -> str | None:
        """Return the name of a driver or runtime call, without its ABI version; None unknown."""
        try:
            name = self._binding.get_callback_name(domain, callback)
        except self._binding.cuptiError:
            return None
        return ABI_VERSION.sub("", name) if name else None

    def _callbacks(self, domain: int, wanted: Callable[[str], Any]) -> list[int]:
        # by name: what number a call has is the library's business
        names = ((id_, self.callback_name(domain, id_)) for id_ in range(1, _CALLBACK_LIMIT))
        return [callback for callback, name in names if name and wanted(name)]

    def _driver_call(self, callback: int, *, on: bool) -> None:
        switch = self._binding.activity_enable_driver_api
        self._call("cuptiActivityEnableDriverApi", switch, callback, int(on))

    def _native(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library.handle, name)(*arguments)
        if code:
            raise CuptiError(name, code)

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._binding.cuptiError as error:
            raise CuptiError(name, int(error.status)) from error


def _ignore(*_: Any) -> None:
    """Stand for the callback that a subscriber has to name; nothing enables it."""
