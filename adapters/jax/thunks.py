"""Names of the ranges that XLA itself emits on GPUs: ``Thunk:#name=...,hlo_op=dot.3#``."""

from __future__ import annotations

import re

_RANGE = re.compile(r"(?:TSL:)?(Thunk|Xla\w+):#(.*)#", re.DOTALL)
_LAST = re.compile(r"(?:,|^)(\w+)=([^,=\[\](){}]*)$")
# what stands before these is the program's own text, which may hold commas and more of '='
_OUTERMOST = ("hlo_op", "hlo_module")


def parse(name: str) -> tuple[str, dict[str, str]] | None:
    """Return kind and facts of a range of XLA's, None for any other range.

    Args:
        name: such as ``Thunk:#name=a/reduce_sum[axes=(0,)],hlo_op=fusion.2#``. Keys that are not
            known are returned like those that are.
    """
    found = _RANGE.fullmatch(name)
    if found is None:
        return None
    facts: dict[str, str] = {}
    rest = found[2]
    while last := _LAST.search(rest):
        facts[last[1]] = last[2]
        rest = rest[: last.start()]
        if last[1] in _OUTERMOST:
            break
    key, separator, value = rest.partition("=")
    if separator:
        facts[key] = value
    return found[1], facts
