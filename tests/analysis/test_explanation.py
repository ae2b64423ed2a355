"""Every derived column of random captures, against loops over all pairs."""

from __future__ import annotations

import pytest
from oracle import Oracle, random_capture

from nvtrace.model.schema import RangeFlag, RangeKind

SEEDS = range(400)


@pytest.mark.parametrize("block", range(4))
def test_derived_columns_of_random_captures(block):
    for seed in SEEDS[block::4]:
        capture = random_capture(seed)
        truth, explained = Oracle(capture), capture.trace().explain()
        rows = range(len(truth.ranges))
        assert explained.range_parent.tolist() == truth.parent, seed
        assert explained.range_depth.tolist() == [len(truth.above(row)) - 1 for row in rows], seed
        assert explained.range_self.tolist() == [truth.self_ns(row) for row in rows], seed
        crossing = (explained.range_flags & RangeFlag.CROSSING) != 0
        assert crossing.tolist() == [truth.crosses(row) for row in rows], seed
        kinds = [RangeKind[one.category.upper()] for one in truth.ranges]
        assert explained.range_kind.tolist() == kinds, seed
        assert explained.step_rows.tolist() == truth.steps, seed
        assert explained.call_range.tolist() == [truth.owner(call) for call in truth.calls], seed
        assert explained.call_phase.tolist() == [truth.phase_of(c) for c in truth.calls], seed
        assert explained.call_step_row.tolist() == [truth.step_of(c) for c in truth.calls], seed
        assert explained.device_call.tolist() == [truth.call_of(w) for w in truth.work], seed
        found = list(
            zip(explained.device_range.tolist(), explained.device_how.tolist(), strict=True)
        )
        assert found == [truth.how(work) for work in truth.work], seed
