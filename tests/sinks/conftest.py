"""Reports made by hand, the same for every renderer."""

from __future__ import annotations

import numpy as np
import pytest
from without_native import need_native, without_native

from nvtrace.report import Column, Report, ReportTable, Unit

# Differ in one template argument in the middle only.
LONG = [f"void gemm<{'float, ' * 700}{n}, {'int, ' * 1000}>(Params)" for n in (1, 2, 3)]
ODD = ["a|b", 'say "hi", ok', "line\nbreak", "\x1b[31mred", "<b>&amp;", "`x` \\| *y*", "", " pad "]


class Make:
    """Builds columns and tables from plain lists; None is not recorded."""

    @staticmethod
    def column(key, unit, values, title=None, group="", shown=True):
        valid = np.array([v is not None for v in values], dtype=bool)
        if unit is Unit.TEXT:
            return Column(
                key, title or key, unit, np.array(values, dtype=object), None, group, shown
            )
        kind = {Unit.PERCENT: float, Unit.BYTES_PER_S: float, Unit.BOOL: bool}.get(unit, np.int64)
        numbers = np.array([v or 0 for v in values], dtype=kind)
        mask = None if valid.all() else valid
        return Column(key, title or key, unit, numbers, mask, group, shown)

    @classmethod
    def names(cls, names, key="kernel", title="Kernel Summary", **options):
        """Return a table of names, each with its place from 1 as a count."""
        columns = (
            cls.column("name", Unit.TEXT, names, "Name"),
            cls.column("calls", Unit.COUNT, range(1, len(names) + 1), "Calls"),
        )
        return ReportTable(key, title, columns, **options)

    @classmethod
    def figures(cls, side, rows, start=0):
        """Return five columns, Total to Ratio(%), from rows of milliseconds and percent."""
        heads = ("Total", "Avg", "Max", "Min", "Ratio(%)")
        keys = ("total_ns", "avg_ns", "max_ns", "min_ns", "ratio")
        columns = []
        for at, (key, title) in enumerate(zip(keys, heads, strict=True)):
            unit = Unit.PERCENT if key == "ratio" else Unit.NS
            scale = 1 if key == "ratio" else 10**6
            values = [None if r[at] is None else r[at] * scale for r in rows]
            if unit is Unit.NS:
                values = [None if v is None else round(v) for v in values]
            columns.append(cls.column(f"{side.lower()}_{key}", unit, values, title, side))
        return tuple(columns)


def _huge():
    return ReportTable(
        "memory",
        "Memory Manipulation Summary",
        (
            Make.column("name", Unit.TEXT, ["HtoD", None], "Name"),
            Make.column("gpu_total_ns", Unit.NS, [2**62 + 1, None], "Total", "GPU"),
            Make.column("bytes", Unit.BYTES, [2**53 + 1, 1536], "Bytes"),
            Make.column("bandwidth_bytes_per_s", Unit.BYTES_PER_S, [2.5e9, None], "Bandwidth"),
            Make.column("ratio", Unit.PERCENT, [100.0, None], "Ratio (%)"),
            Make.column("pinned", Unit.BOOL, [True, None], "Pinned"),
        ),
    )


@pytest.fixture(scope="session")
def make():
    return Make


@pytest.fixture(scope="session")
def reports():
    tables = {
        "empty": Make.names([], empty="no kernels: record with nsys profile -t cuda"),
        "odd": Make.names(ODD),
        "unicode": Make.names(["größe", "训练步骤", "undecodable\udcff", "👩‍🔬"]),
        "long": Make.names(LONG),
        "huge": _huge(),
        "many": Make.names([f"k{i}" for i in range(2000)]),
    }
    reports = {name: Report({table.key: table}) for name, table in tables.items()}
    reports["none"] = Report({})
    reports["several"] = Report(
        {"kernel": tables["odd"], "memory": tables["huge"]},
        totals={"gpu_ns": np.int64(2**62 + 1), "steps": None, "rate": float("nan")},
        notes=[{"code": "no_steps", "message": "no <steps> | found\nat all"}],
        sources=[{"path": "a.sqlite"}],
        headline=["read a.sqlite", "97.0 % of GPU time found its range"],
    )
    return reports


@pytest.fixture(scope="module", params=["native", "numpy"])
def by(request):
    """What writes timelines: C, or what stands in for it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "native":
            need_native()
        else:
            without_native(patch)
        yield request.param
