"""Names in an nsys export: string ids, API names, NVTX domains and categories."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from nvtrace.model.nsys_ddl import copy_name
from nvtrace.model.strings import Strings
from nvtrace.sources.columns import TEXTS, Coded, Rows, values
from nvtrace.sources.table_reader import TableReader

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

UNNAMED = "(unnamed)"
NO_ID = -1
# NVTX_EVENTS.eventType
_CATEGORY_NAME, _DOMAIN_CREATE = 33, 75
PROCESS_MASK = np.int64(~0xFFFFFF)

# cudaLaunchKernel_v7000 is an ABI version; cuGetProcAddress_v2 is the function's own name
_ABI_VERSION = re.compile(r"_v\d{4,}$")


class Names:
    """Turns ids of one export's StringIds table into rows of the trace's strings."""

    def __init__(self, reader: TableReader, strings: Strings) -> None:
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

    def rows(self, identifiers: Coded, *, api: bool = False) -> I32:
        """Return the rows of string ids, int32 of shape (n,).

        Args:
            identifiers: ids; -1 becomes the placeholder for a missing name.
            api: strip the ABI version that CUDA's API names carry.
        """

        def rows(distinct: I64) -> I32:
            texts = map(self.text, distinct.tolist())
            stripped = (_ABI_VERSION.sub("", text) for text in texts) if api else texts
            return self._strings.intern_all(stripped)

        return identifiers.map(rows)

    def optional_rows(self, identifiers: Coded) -> I32:
        """Return the rows of string ids, -1 staying -1."""

        def rows(distinct: I64) -> I32:
            texts = ((one, self.text(one)) for one in distinct.tolist())
            found = (-1 if one == NO_ID else self._strings.intern(text) for one, text in texts)
            return np.fromiter(found, np.int32, len(distinct))

        return identifiers.map(rows)

    def copy_rows(self, kinds: Coded) -> I32:
        """Return the rows of the names of copies, worded as nsys words them."""
        return kinds.map(
            lambda distinct: self._strings.intern_all(map(copy_name, distinct.tolist()))
        )


class ScopedNames:
    """Names that NVTX gives to the numbers of domains, and of categories within them."""

    def __init__(self, reader: TableReader, names: Names) -> None:
        wanted = dict.fromkeys(("eventType", "globalTid", "domainId", "category"), values())
        wanted |= {"textId": values(NO_ID), "text": TEXTS}
        where = Rows("eventType", (_CATEGORY_NAME, _DOMAIN_CREATE))
        rows = reader.read("NVTX_EVENTS", wanted, where)
        inline = rows.pop("text").astype(object)
        process = rows.pop("globalTid") & PROCESS_MASK
        numbers = (rows[name].tolist() for name in ("eventType", "domainId", "category", "textId"))
        self._domains: dict[tuple[int, int], str] = {}
        self._categories: dict[tuple[int, int, int], str] = {}
        for key, text, kind, domain, category, identifier in zip(
            process.tolist(), inline.tolist(), *numbers, strict=True
        ):
            if text is None and identifier == NO_ID:
                continue
            name = names.text(identifier) if text is None else text
            if kind == _DOMAIN_CREATE:
                self._domains[key, domain] = name
            else:
                self._categories[key, domain, category] = name

    def domain(self, process_key: int, domain: int) -> str | None:
        """Return the name of a domain of a process, None when it was never given."""
        return self._domains.get((process_key, domain))

    def category(self, process_key: int, domain: int, category: int) -> str | None:
        """Return the name of a category, None when it was never given."""
        return self._categories.get((process_key, domain, category))
