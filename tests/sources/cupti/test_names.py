"""Kernel names as people write them."""

from __future__ import annotations

import pytest

from nvtrace.sources.cupti.names import base_name, demangler, full_names


@pytest.mark.parametrize(
    ("full", "base"),
    [
        ("void at::native::reduce_kernel<512, 1, at::Op<float> >(Args<int>)", "reduce_kernel"),
        ("kernel(float*, int)", "kernel"),
        ("plain", "plain"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("void (anonymous namespace)::softmax<float>(float*)", "softmax"),
        ("(anonymous namespace)::run(int)", "run"),
        ("void f<main::'lambda'(int)>(main::'lambda'(int))", "f"),
        ("void ns::outer<void (*)(int)>::inner<3>(int)", "inner"),
        ("unsigned long ns::count<(ns::Kind)2>(unsigned long*)", "count"),
        ("void k<(bool)1, std::array<char*, 1ul>>(int, std::array<char*, 1ul>)", "k"),
        ("", ""),
        ("<nothing>", "<nothing>"),
    ],
)
def test_base_name(full: str, base: str) -> None:
    assert base_name(full) == base


def test_full_names() -> None:
    demangle = demangler()
    assert demangle is not None, "pip install --group test"
    mangled = ["_ZN3app4stepIfEEvPT_i", "triton_poi_fused_add_0", "_Zbroken", "", "_Z1kDF16_"]
    readable = ["void app::step<float>(float*, int)", "triton_poi_fused_add_0", "_Zbroken", ""]
    assert full_names(mangled, demangle) == [*readable, "k(_Float16)"]
    assert full_names(mangled, None) == mangled


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pydemumble", None)
    assert demangler() is None
