"""Throughput figures against those worked by hand, and against paddle.profiler's formulas."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence

import pytest
from capturing import nothing_left, profiler
from hypothesis import given
from hypothesis import strategies as st

import nvtrace
from nvtrace import UsageError, benchmark, boundaries, dataloaders
from nvtrace.benchmark import Benchmark, BenchmarkSummary, Spread

MS = 1_000_000
RAMP = [10 * n for n in range(1, 16)]  # 10, 20, ... 150 ms


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    with nothing_left():
        yield


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.ns = 10**15

    def __call__(self) -> int:
        return self.ns

    def pass_ms(self, milliseconds: float) -> None:
        self.ns += round(milliseconds * MS)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (benchmark, boundaries, dataloaders):
        monkeypatch.setattr(module, "perf_counter_ns", made)
    return made


def measured(clock: Clock, milliseconds: Sequence[float]) -> BenchmarkSummary:
    """The figures of a run of steps that take so long, through the Profiler."""
    prof = profiler(timer_only=True)
    with prof:
        for duration in milliseconds:
            clock.pass_ms(duration)
            prof.step()
    assert prof.benchmark is not None
    return prof.benchmark


def spread(average: float, median: float, p95: float, maximum: float, minimum: float) -> object:
    figures = (average, median, p95, maximum, minimum)
    return pytest.approx(Spread(*figures).__dict__, rel=1e-12)


def test_the_ramp(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps 10..14 last 110, 120, 130, 140 and 150 ms: 650 ms."""
    found = measured(clock, RAMP)
    assert (found.first, found.steps, found.warmup) == (10, 5, 10)
    # numpy's percentile: 95 % of the way through 4 gaps is 3.8: 140 + 0.8 * 10
    assert found.batch_cost.__dict__ == spread(0.130, 0.130, 0.148, 0.150, 0.110)
    # 1/0.12 + 0.8 * (1/0.11 - 1/0.12)
    p95 = 1 / 0.12 + 0.8 * (1 / 0.11 - 1 / 0.12)
    assert found.ips.__dict__ == spread(5 / 0.65, 1 / 0.13, p95, 1 / 0.11, 1 / 0.15)
    assert found.reader_cost is None
    assert found.reader_ratio is None
    printed = capsys.readouterr().out.splitlines()
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in printed if "|" in line}
    assert [cell.strip() for cell in rows[""]] == ["avg", "max", "min", "median", "p95"]
    assert [float(cell) for cell in rows["batch_cost"]] == [0.13, 0.15, 0.11, 0.13, 0.148]
    assert [float(cell) for cell in rows["ips"]] == [7.69231, 9.09091, 6.66667, 7.69231, 8.93939]
    assert set(rows) == {"", "batch_cost", "ips"}
    assert "Perf Summary" in printed[0]
    assert "Time Unit: s, IPS Unit: steps/s" in printed
    assert "Steps 10..14 (5), the first 10 skipped as warm-up" in printed
    assert "No loader seen: wrap yours in nvtrace.dataloader() for reader_cost" in printed


@pytest.mark.parametrize(
    ("milliseconds", "first", "steps", "average"),
    [
        ([20] * 11, 10, 1, 0.020),
        ([30, 10, 20, 50, 40], 0, 5, 0.030),
        ([70], 0, 1, 0.070),
        ([10] * 10, 0, 10, 0.010),
        ([500] * 10 + [40, 60], 10, 2, 0.050),
    ],
)
def test_short_runs(
    clock: Clock, milliseconds: list[float], first: int, steps: int, average: float
) -> None:
    found = measured(clock, milliseconds)
    assert (found.first, found.steps) == (first, steps)
    assert found.batch_cost.average == pytest.approx(average, rel=1e-12)
    assert found.ips.average == pytest.approx(1 / average, rel=1e-12)
    assert found.batch_cost.minimum == min(milliseconds[first:]) / 1000
    assert found.batch_cost.maximum == max(milliseconds[first:]) / 1000
    said = "the first 10 skipped as warm-up" if first else "no warm-up skipped in so short a run"
    assert f"Steps {first}..{first + steps - 1} ({steps}), {said}" in str(found)


def paddles(milliseconds: Sequence[float]) -> tuple[float, float] | None:
    """Average and minimum batch_cost in ms as paddle 3.3.1 works them out, or no table at all."""
    warmup = 10
    if len(milliseconds) <= warmup:
        return None
    kept = milliseconds[warmup - 1 :]  # one record too many
    highest, lowest = 0.0, math.inf
    for one in kept:
        if one > highest:
            highest = one  # the first record always ends here
        elif one < lowest:
            lowest = one
    return sum(kept) / (len(milliseconds) - warmup), lowest


def test_paddles_figures_are_others(clock: Clock) -> None:
    assert paddles(RAMP) == (150.0, math.inf)
    found = measured(clock, RAMP).batch_cost
    assert (found.average, found.minimum) == (pytest.approx(0.130), 0.110)
    assert paddles([20] * 11) == (40.0, 20)
    assert measured(clock, [20] * 11).batch_cost.average == pytest.approx(0.020)
    assert paddles([20] * 5) is paddles([20]) is None
    assert measured(clock, [20] * 5).batch_cost.average == pytest.approx(0.020)
    # twenty equal steps: an eleventh of a step too much for each of ten
    average, _ = paddles([20] * 20) or (0, 0)
    assert average == pytest.approx(22)
    assert measured(clock, [20] * 20).batch_cost.average == pytest.approx(0.020)


durations = st.lists(st.integers(0, 10**12), min_size=1, max_size=40)


@given(durations, st.data())
def test_the_average_lies_between_the_extremes(nanoseconds: list[int], data: st.DataObject) -> None:
    amounts = st.one_of(st.none(), st.integers(0, 10**6), st.floats(0, 1e6))
    made = Benchmark()
    made._since = now = 0
    for duration in nanoseconds:
        made.read(data.draw(st.integers(0, duration)))
        now += duration
        made.step(data.draw(amounts), now)
    found = made.summary()
    assert found is not None
    assert found.reader_cost is not None
    for one in (found.reader_cost, found.batch_cost, found.ips):
        assert one.minimum <= one.average <= one.maximum
        assert one.minimum <= one.median <= one.p95 <= one.maximum
    assert 0 <= (found.reader_ratio or 0) <= 100
    assert str(found)


def test_reader_cost(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """O-44: the loader takes 5 ms and the rest 15; a batch is both, and the ratio 25 %."""

    def batches() -> Iterator[int]:
        for number in range(20):
            clock.pass_ms(5)
            yield number

    prof = profiler(timer_only=True)
    with prof:
        for _ in nvtrace.dataloader(batches()):
            clock.pass_ms(15)
            prof.step(32)
    found = prof.benchmark
    assert found is not None
    assert found.reader_cost is not None
    assert found.reader_cost.__dict__ == spread(*[0.005] * 5)
    assert found.batch_cost.__dict__ == spread(*[0.020] * 5)
    assert found.ips.average == pytest.approx(1600)
    assert found.reader_ratio == pytest.approx(25)
    printed = capsys.readouterr().out
    assert "Reader Ratio: 25.000%" in printed
    assert "IPS Unit: samples/s" in printed
    assert "No loader seen" not in printed


def test_a_loader_on_another_thread_is_not_this_loops(clock: Clock) -> None:
    prof = profiler(timer_only=True)
    with prof:
        other = threading.Thread(target=lambda: list(nvtrace.dataloader([1, 2, 3])))
        other.start()
        other.join()
        clock.pass_ms(10)
        prof.step()
    assert prof.benchmark is not None
    assert prof.benchmark.reader_cost is None


def test_num_samples_on_every_step(clock: Clock) -> None:
    prof = profiler(timer_only=True)
    with prof:
        for samples in (30, 10, 20):
            clock.pass_ms(100)
            prof.step(num_samples=samples)
    assert prof.benchmark is not None
    # work over time: 60 in 0.3 s
    assert prof.benchmark.ips.__dict__ == spread(200, 200, 290, 300, 100)
    assert prof.benchmark.unit == "samples"


def test_num_samples_on_some_steps_counts_steps_and_says_so(clock: Clock) -> None:
    """Paddle switches for good at the first step without; a mix of both units is no figure."""
    prof = profiler(timer_only=True)
    with prof:
        for samples in (32, None, 32):
            clock.pass_ms(100)
            prof.step(samples)
    found = prof.benchmark
    assert found is not None
    assert found.ips.average == pytest.approx(10)
    assert found.unit == "steps"
    assert "Only 2 steps said num_samples: ips counts steps" in str(found)


@pytest.mark.parametrize("samples", [-1, math.nan, math.inf, "many"])
def test_no_amount_of_work(samples: float) -> None:
    prof = profiler(timer_only=True)
    with prof:
        prof.step()
        with pytest.raises(UsageError, match=r"num_samples=.*: give a number, 0 or more"):
            prof.step(samples)
        prof.step()
    assert prof.benchmark is not None
    assert prof.benchmark.steps == 2


def test_step_info_states_its_window(clock: Clock) -> None:
    prof = profiler(timer_only=True)
    assert prof.step_info() == "no step since the last step_info()"
    with prof:
        for _ in range(10):
            clock.pass_ms(20)
            prof.step(8)
        assert prof.step_info() == ("steps 0..9: batch_cost: 0.02000 s ips: 400.00000 samples/s")
        assert prof.step_info() == "no step since the last step_info()"
        for _ in range(5):
            clock.pass_ms(40)
            prof.step(8)
        assert prof.step_info("images") == (
            "steps 10..14: batch_cost: 0.04000 s ips: 200.00000 images/s"
        )
        clock.pass_ms(50)
        prof.step()
        # the number counts steps, whatever it is to be called
        assert prof.step_info("images").endswith("ips: 20.00000 steps/s")


def test_the_first_step_begins_with_start_and_the_last_needs_a_step(clock: Clock) -> None:
    prof = profiler(timer_only=True)
    clock.pass_ms(1000)
    prof.start()
    clock.pass_ms(10)
    prof.step()
    clock.pass_ms(1000)
    prof.stop()
    assert prof.benchmark is not None
    assert prof.benchmark.batch_cost.maximum == 0.010
    assert prof.benchmark.steps == 1


def test_a_long_run_keeps_its_last_steps(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "KEPT", 8)
    found = measured(clock, range(1, 41))
    # sixteen are reached at step 15, and again each eight steps later: at 39 the last is dropped
    assert (found.first, found.steps) == (32, 8)
    assert found.batch_cost.minimum == 0.033
    assert found.batch_cost.maximum == 0.040
    assert "Steps 32..39 (8)" in str(found)


def test_real_time() -> None:
    """A step ends within its step(): clocks read before and after enclose five of them."""
    prof = profiler(timer_only=True)
    before, after = [], []
    with prof:
        for _ in range(15):
            time.sleep(0.004)
            before.append(time.perf_counter())
            prof.step()
            after.append(time.perf_counter())
    found = prof.benchmark
    assert found is not None
    rounding = 1e-9
    assert before[14] - after[9] - rounding <= found.batch_cost.average * 5
    assert found.batch_cost.average * 5 <= after[14] - before[9] + rounding
    assert found.batch_cost.minimum >= 0.004
