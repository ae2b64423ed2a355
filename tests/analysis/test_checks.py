"""Notes on figures that a trace itself carries."""

from __future__ import annotations

import nvtrace


def test_what_an_adapter_marked_for_the_reader_is_a_note_once():
    targets = [nvtrace.ProfilerTarget.CPU]
    with nvtrace.Profiler(targets=targets, adapters=None, emit_nvtx=False) as profiler:
        for _ in range(2):
            nvtrace.mark("one_sided: half of it: the left", category="note")
        nvtrace.mark("a word", category="note")
        nvtrace.mark("theirs: no note of ours", category="note", domain="mine")
        nvtrace.mark("plain: of another category")
        profiler.step()
    notes = [(note["code"], note["message"]) for note in profiler.trace.summary(["model"]).notes]
    assert notes.count(("one_sided", "half of it: the left")) == 1
    assert not {"a word", "theirs", "plain"} & {code for code, _ in notes}
