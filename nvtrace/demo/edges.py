"""Hand-placed cases that break a careless attribution; every gap is literal, in nanoseconds."""

from __future__ import annotations

from nvtrace.demo.catalog import AUTOGRAD, COMPUTE, LOADER, MAIN, Label
from nvtrace.demo.tape import KERNEL, NONE, Tape

_A, _B = "nvtrace", "NCCL"


def edges() -> Tape:
    """Return the tape of all cases, one after the other, 1 us apart."""
    tape = Tape(exact=True)
    for case in (
        _equal_bounds, _touching, _touched_by_an_instant, _crossing, _empty, _straddling,
        _longer_than_innermost, _outside, _two_phases, _untraced, _correlation_zero,
    ):  # fmt: skip
        tape.tick(1_000)
        case(tape)
    return tape


def _open(tape: Tape, name: str, gap_ns: int, domain: str = _A, thread: int = MAIN) -> int:
    category = "user" if domain == _A else ""
    return tape.open(Label(f"edge {name}", domain, category), gap_ns=gap_ns, thread=thread)


def _launch(tape: Tape, before: int, length: int, thread: int = MAIN) -> None:
    call = tape.begin("cudaLaunchKernel_v7000", gap_ns=before, thread=thread)
    tape.kernel("copy", call)
    tape.end(call, gap_ns=length)


def _equal_bounds(tape: Tape) -> None:
    """Two ranges and a call with the same begin and the same end."""
    outer, inner = _open(tape, "equal outer", 0), _open(tape, "equal inner", 0)
    _launch(tape, 0, 100)
    tape.close(inner, gap_ns=0)
    tape.close(outer, gap_ns=0)


def _touching(tape: Tape) -> None:
    """One range begins as the other ends; calls reach up to that instant from both sides."""
    left = _open(tape, "touching left", 0)
    _launch(tape, 40, 10)
    tape.close(left, gap_ns=0)
    right = _open(tape, "touching right", 0)
    _launch(tape, 0, 10)
    tape.close(right, gap_ns=40)


def _touched_by_an_instant(tape: Tape) -> None:
    """A call of no length where two ranges touch lies in both; the later owns it."""
    left = _open(tape, "instant left", 0)
    tape.close(left, gap_ns=50)
    right = _open(tape, "instant right", 0)
    call = tape.begin("cudaLaunchKernel_v7000", gap_ns=0)
    tape.kernel("copy", call)
    tape.end(call, gap_ns=0, touching=(left,))
    tape.close(right, gap_ns=50)


def _crossing(tape: Tape) -> None:
    """Ranges of two domains overlap without nesting."""
    first = _open(tape, "crossing first", 0)
    second = _open(tape, "crossing second", 30, _B)
    _launch(tape, 10, 10)
    tape.close(first, gap_ns=10)
    _launch(tape, 0, 10)
    tape.close(second, gap_ns=30)


def _empty(tape: Tape) -> None:
    """A range of no length, and a call right after it in the same instant."""
    outer = _open(tape, "around empty", 0)
    empty = _open(tape, "empty", 20)
    tape.close(empty, gap_ns=0)
    _launch(tape, 0, 20)
    tape.close(outer, gap_ns=20)


def _straddling(tape: Tape) -> None:
    """A call begins in one range and ends in its sibling: their parent owns it."""
    parent = _open(tape, "straddled parent", 0)
    left = _open(tape, "straddled left", 10)
    call = tape.begin("cudaLaunchKernel_v7000", gap_ns=20)
    tape.kernel("copy", call)
    tape.close(left, gap_ns=10)
    right = _open(tape, "straddled right", 10)
    tape.end(call, gap_ns=10)
    tape.close(right, gap_ns=20)
    tape.close(parent, gap_ns=10)


def _longer_than_innermost(tape: Tape) -> None:
    """A call begins before the innermost range and ends after it."""
    outer = _open(tape, "long call outer", 0)
    call = tape.begin("cudaLaunchKernel_v7000", gap_ns=10)
    tape.kernel("copy", call)
    inner = _open(tape, "long call inner", 10)
    tape.close(inner, gap_ns=60)
    tape.end(call, gap_ns=10)
    tape.close(outer, gap_ns=10)


def _outside(tape: Tape) -> None:
    """A launch outside every range and phase."""
    _launch(tape, 10, 10)


def _two_phases(tape: Tape) -> None:
    """A third thread launches while one phase is open, then two, then one again."""
    forward = tape.open(Label("forward", _A, "forward"), gap_ns=0)
    _launch(tape, 10, 10, LOADER)
    backward = tape.open(Label("backward", _A, "backward"), gap_ns=10, thread=AUTOGRAD)
    _launch(tape, 10, 10, LOADER)
    tape.close(forward, gap_ns=10)
    _launch(tape, 10, 10, LOADER)
    tape.close(backward, gap_ns=10)


def _untraced(tape: Tape) -> None:
    """A kernel whose launch was not recorded, while a range is open."""
    around = _open(tape, "around untraced", 10)
    tape.tick(10)
    tape.work(KERNEL, 0, NONE, COMPUTE, 5_000)
    tape.close(around, gap_ns=10)


def _correlation_zero(tape: Tape) -> None:
    """A call and a kernel that both carry correlation id 0 have nothing to do with each other."""
    around = _open(tape, "around zero", 10)
    call = tape.begin("cudaLaunchKernel_v7000", gap_ns=10, correlated=False)
    tape.kernel("copy", call)
    tape.end(call, gap_ns=10)
    tape.close(around, gap_ns=10)
