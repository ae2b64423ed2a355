"""Names in an nsys export: string ids, API names, NVTX domains and categories."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from nvtrace.model.arrays import factorize
from nvtrace.model.nsys_ddl import copy_name
from nvtrace.model.strings import Strings
from nvtrace.sources.sqlite_reader import SqliteReader

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

UNNAMED = "(unnamed)"
NO_ID = -1
PROCESS_MASK = np.int64(~0xFFFFFF)

# cudaLaunchKernel_v7000 is an ABI version; cuGetProcAddress_v2 is the function's own name
_ABI_VERSION = re.compile(r"_v\d{4,}$")


class Names:
    """Turns ids of one export's StringIds table into rows of the trace's strings."""

    def __init__(self, reader: SqliteReader, strings: Strings) -> None:
        self._ids, self._texts = reader.string_ids
        self._strings = strings

    def text(self, identifier: int) -> str:
        """Return the text of one id; a placeholder when the export lacks it."""
        if identifier == NO_ID:
            return UNNAMED
        row = int(np.searchsorted(self._ids, identifier))
        if row < len(self._ids) and self._ids[row] == identifier:
            return self._texts[row]
        return f"(string {identifier} missing)"

    def rows(self, identifiers: I64, *, api: bool = False) -> I32:
        """Return the rows of string ids, int32 of shape (n,).

        Args:
            identifiers: ids; -1 becomes the placeholder for a missing name.
            api: strip the ABI version that CUDA's API names carry.
        """
        distinct, codes = factorize(identifiers)
        texts = [self.text(identifier) for identifier in distinct.tolist()]
        if api:
            texts = [_ABI_VERSION.sub("", text) for text in texts]
        return self._strings.intern_all(texts)[codes] if len(texts) else codes

    def optional_rows(self, identifiers: I64) -> I32:
        """Return the rows of string ids, -1 staying -1."""
        rows = self.rows(identifiers)
        rows[identifiers == NO_ID] = -1
        return rows

    def copy_rows(self, kinds: I64) -> I32:
        """Return the rows of the names of copies, worded as nsys words them."""
        distinct, codes = factorize(kinds)
        texts = [copy_name(kind) for kind in distinct.tolist()]
        return self._strings.intern_all(texts)[codes] if len(texts) else codes


class ScopedNames:
    """Names that NVTX gives to numbers within a process and domain."""

    def __init__(
        self, reader: SqliteReader, names: Names, event_type: int, keys: list[str]
    ) -> None:
        where = f"eventType = {event_type}"
        table = "NVTX_EVENTS"
        rows = reader.integers(
            table, {"globalTid": 0, "textId": NO_ID, **dict.fromkeys(keys, 0)}, where
        )
        texts = Strings()
        inline = np.full(len(rows["textId"]), -1, np.int32)
        if "text" in reader.columns(table) and len(inline):
            inline = reader.texts(table, "text", texts.intern, where)
        self._names: dict[tuple[int, ...], str] = {}
        process = rows["globalTid"] & PROCESS_MASK
        scoped = zip(process.tolist(), *(rows[key].tolist() for key in keys), strict=True)
        for row, key in enumerate(scoped):
            given = int(inline[row])
            identifier = int(rows["textId"][row])
            if given >= 0 or identifier != NO_ID:
                self._names[key] = texts[given] if given >= 0 else names.text(identifier)

    def get(self, *key: int) -> str | None:
        """Return the name of ``(process key, number, ...)``, None when it was never given."""
        return self._names.get(key)
