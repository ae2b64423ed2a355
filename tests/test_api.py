"""The public names: few, sorted, typed, documented, and shown as nvtrace's own."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Iterator

import pytest

import nvtrace


def functions(value: object) -> Iterator[object]:
    """A public function itself, or the public methods that a class of ours defines."""
    if inspect.isclass(value):
        for name, member in vars(value).items():
            member = getattr(member, "__func__", getattr(member, "fget", member))
            if not name.startswith("_") and inspect.isfunction(member):
                yield member
    elif inspect.isfunction(value):
        yield value


def test_names_are_sorted_and_few() -> None:
    assert list(nvtrace.__all__) == sorted(nvtrace.__all__, key=str.casefold)
    assert len(nvtrace.__all__) <= 40


def test_dir_lists_the_public_names() -> None:
    assert set(nvtrace.__all__) <= set(dir(nvtrace))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'rnage'"):
        nvtrace.rnage  # noqa: B018


def test_version_is_that_of_the_distribution() -> None:
    assert nvtrace.__version__ == importlib.metadata.version("nvtrace")


@pytest.mark.parametrize("name", [name for name in nvtrace.__all__ if name != "__version__"])
def test_name_is_documented_and_typed(name: str) -> None:
    value = getattr(nvtrace, name)
    assert inspect.getdoc(value)
    for function in functions(value):
        assert inspect.getdoc(function), f"{name}: {function} has no docstring"
        signature = inspect.signature(function)  # type: ignore[arg-type]
        assert signature.return_annotation is not inspect.Signature.empty, function
        bare = [
            parameter.name
            for parameter in signature.parameters.values()
            if parameter.annotation is inspect.Parameter.empty
        ]
        assert bare in ([], ["self"], ["cls"]), f"{name}: {function} has {bare} without a type"
