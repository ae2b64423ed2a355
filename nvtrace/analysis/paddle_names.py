"""Names that Paddle's core gives its ranges, and the names nvtrace shows for them: one table.

A forward operator is shown as ``relu``, its gradient as ``relu_grad``, whatever the version calls
them, so that the two can be matched by name. An operator that works in place keeps its underscore
(``relu_``). Inner phases keep their operator's name: ``relu infer_meta``, ``relu kernel launch``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z])")


class Form(NamedTuple):
    """One way in which Paddle writes names.

    Attributes:
        versions: of Paddle that write so.
        pattern: regular expression that matches the whole name.
        shown: the name to show; what the pattern's groups hold goes through it.
    """

    versions: str
    pattern: str
    shown: Callable[[re.Match[str]], str]


_compiled = cache(re.compile)  # when first asked: few reports are of Paddle


def _snake(words: str) -> str:
    return _WORDS.sub("_", words).lower()


def _phase(found: re.Match[str]) -> str:
    phase = "infer_meta" if found["phase"].startswith("infer") else found["phase"]
    return f"{found['op']} {'kernel launch' if phase == 'compute' else phase}"


FORMS = tuple(
    Form(versions, pattern, shown)
    for versions, pattern, shown in (
        ("2.3-", r"(?:Global_)?GradNodeAccumulation", lambda _: "grad_accumulation"),
        (
            "2.3-",
            r"(?:Global_)?GradNodePyLayer_(?P<layer>\w+?)(?:_backward)?",
            lambda found: f"{found['layer']}_grad",
        ),
        # to_static's whole backward program
        ("3.0-", r"(?:Global_)?Dy2StGradNode", lambda _: "run_program_grad"),
        # 2.6: Conv2dGradNodeFinal, 3.x: Global_Conv2dGradNodeFinal
        (
            "2.3-",
            r"(?:Global_)?(?!Local_)(?P<words>[A-Za-z]\w*?)GradNode(?:Final|Compat)?",
            lambda found: f"{_snake(found['words'])}_grad",
        ),
        ("2.3-2.4", r"(?P<op>\w+) grad_node", lambda found: found["op"]),
        ("2.3-", r"(?P<op>\w+) dygraph", lambda found: found["op"]),
        ("3.0-", r"pd_op\.(?P<op>[\w.]+)", lambda found: found["op"]),
        # infer_shape and compute until 2.6, infer_meta and kernel launch since
        (
            "2.3-",
            r"(?P<op>\S+)(?: |::)(?P<phase>infer_meta|infer_shape|infermeta|compute|kernel launch"
            r"|node_creation)",
            _phase,
        ),
    )
)


def is_wrapper(name: str) -> bool:
    """Return whether a range only repeats the one around it (``Local_ReluGradNode``)."""
    return name.startswith("Local_") or name.endswith(
        (" pybind_imperative_func", " pybind_patch_func")
    )


def shown_name(name: str) -> str:
    """Return what to show for a name of Paddle's core; a name of another form is kept."""
    for form in FORMS:
        found = _compiled(form.pattern).fullmatch(name)
        if found is not None:
            return form.shown(found)
    return name
