"""Kernel names as people write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Demangle = Callable[[str], str]

_OPEN, _CLOSE = "<([{", ">)]}"
_ANONYMOUS = "(anonymous namespace)"


def demangler() -> Demangle | None:
    """Return what turns a mangled C++ name into a readable one; None where it is not installed.

    The function returns an empty string for what is no mangled name.
    """
    try:
        from pydemumble import demangle
    except ImportError:
        return None
    return demangle  # type: ignore[no-any-return]


def full_names(mangled: Iterable[str], demangle: Demangle | None) -> list[str]:
    """Return readable names; a name that cannot be read stays as it is."""
    if demangle is None:
        return list(mangled)
    return [(demangle(name) or name) if name.startswith("_Z") else name for name in mangled]


def base_name(full: str) -> str:
    """Return a function's own name: no return type, scope, template arguments or parameters.

    ``void at::native::reduce_kernel<512, float>(Args)`` is ``reduce_kernel``.
    """
    name, depth = "", 0
    for character in full.replace(_ANONYMOUS, "_anonymous_"):
        if depth == 0 and character == "(" and name:
            break
        if character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif depth == 0:
            name = "" if character in " :" else name + character
    return name or full
