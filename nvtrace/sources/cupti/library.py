"""The CUPTI library itself: which file is loaded, its version, the sizes of its records."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nvtrace.sources.cupti.layout import FIELDS, KIND_LIMIT, RecordKind, needed

_NAME = re.compile(r"/libcupti\.so[.\d]*$")
_MAPS = Path("/proc/self/maps")


def mapped() -> list[Path]:
    """Return the files of CUPTI libraries that this process has loaded, each once."""
    try:
        lines = _MAPS.read_text(errors="replace").splitlines()
    except OSError:
        return []
    files: dict[tuple[str, str], Path] = {}
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and _NAME.search(fields[5].removesuffix(" (deleted)")):
            files.setdefault((fields[3], fields[4]), Path(fields[5]))
    return sorted(files.values())


class Library:
    """A loaded CUPTI library. Calls let other Python threads run.

    Args:
        path: its file; already loaded, the loaded one is used.

    Raises:
        OSError: it cannot be loaded.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        version = ctypes.c_uint32()
        self.handle.cuptiGetVersion(ctypes.byref(version))
        self.version = version.value

    def timestamp(self) -> int:
        """Return CUPTI's clock in its own unit; 0 where it has none."""
        value = ctypes.c_uint64()
        failed = self.handle.cuptiGetTimestamp(ctypes.byref(value))
        return 0 if failed else value.value

    def offsets(self, records: npt.NDArray[np.uint8]) -> list[int]:
        """Return where the library itself sees records begin in a buffer of records."""
        parse = self._parser()
        base, found = records.ctypes.data, []
        record = ctypes.c_void_p()
        while parse(base, len(records), ctypes.byref(record)) == 0:
            found.append((record.value or 0) - base)
        return found

    def sizes(self, kinds: Iterable[int] = range(1, KIND_LIMIT)) -> npt.NDArray[np.uint32]:
        """Return the sizes of records by kind, uint32 of shape (256,); 0 where unknown.

        The parser is asked for the record behind a record of the kind, in memory where any place
        holds a record of that kind: where it looks is one size further.
        """
        sizes = np.zeros(KIND_LIMIT, np.uint32)
        parse = self._parser()
        for kind in kinds:
            probe = np.full(1024, kind, np.uint32).view(np.uint8)
            record = ctypes.c_void_p()
            base = probe.ctypes.data
            if parse(base, len(probe), ctypes.byref(record)) or record.value != base:
                continue
            if parse(base, len(probe), ctypes.byref(record)) or record.value is None:
                continue
            sizes[kind] = record.value - base
        return sizes

    def _parser(self) -> Any:
        parse = self.handle.cuptiActivityGetNextRecord
        parse.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
        return parse


def unreadable(sizes: npt.NDArray[np.uint32]) -> list[RecordKind]:
    """Return the kinds whose records are shorter than the fields that are read of them."""
    return [RecordKind(kind) for kind in FIELDS if sizes[kind] < needed(kind) or sizes[kind] % 8]
