"""What a range stands for: one table of rules over domain, category and name.

The first rule that matches decides. A rule marked as a guess looks at nothing but a plain name;
views that rest on it say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nvtrace.analysis.paddle_names import shown_name
from nvtrace.errors import UsageError
from nvtrace.model.arrays import constant, distinct, factorize
from nvtrace.model.schema import RangeKind, RangeStyle
from nvtrace.model.trace import TraceData

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

DOMAIN = "nvtrace"
_KINDS = {kind.name.lower(): kind for kind in RangeKind}


class Rule(NamedTuple):
    """Ranges that match all given patterns are of ``kind``.

    Attributes:
        kind: what they stand for.
        name: regular expression searched in the name, None for any.
        domain: regular expression that the whole domain name matches, None for any. Both are
            compiled when first asked: few reports need them all.
        guess: whether the match is no more than a guess.
    """

    kind: RangeKind
    name: str | None = None
    domain: str | None = None
    guess: bool = False

    def matches(self, domain: str, name: str) -> bool:
        """Return whether a range of this domain and name falls under the rule."""
        if self.domain is not None and not _compiled(self.domain).fullmatch(domain):
            return False
        return self.name is None or _compiled(self.name).search(name) is not None


_compiled = cache(re.compile)


def parse_rule(text: str) -> Rule:
    """Return the rule that ``"NAME[@DOMAIN]=KIND"`` states.

    Args:
        text: NAME is a regular expression searched in the name, DOMAIN one that the whole domain
            name matches, KIND a name of RangeKind in lower case.

    Raises:
        UsageError: no kind, an unknown kind, or a pattern that is no regular expression.
    """
    pattern, separator, word = text.rpartition("=")
    kind = _KINDS.get(word.strip().lower())
    if not separator or not pattern or kind is None:
        raise UsageError(
            f"rule {text!r}: write NAME=KIND or NAME@DOMAIN=KIND, KIND one of {', '.join(_KINDS)}"
        )
    name, scoped, domain = pattern.rpartition("@")
    try:
        for expression in (name, domain) if scoped else (pattern,):
            re.compile(expression)
    except re.error as error:
        raise UsageError(f"rule {text!r}: not a regular expression ({error})") from error
    return Rule(kind, name, domain) if scoped else Rule(kind, pattern)


def parse_rules(rules: Iterable[str | Rule]) -> tuple[Rule, ...]:
    """Return rules, of which some may be written as ``parse_rule`` reads them."""
    return tuple(parse_rule(rule) if isinstance(rule, str) else rule for rule in rules)


def _rule(
    kind: RangeKind, name: str | None = None, domain: str | None = "", *, guess: bool = False
) -> Rule:
    return Rule(kind, name, domain, guess)


_K = RangeKind
_PLAIN = r"(?i)^\W*(?:%s)(?:[ _.-](?:pass|step|phase))?\W*$"

RULES: tuple[Rule, ...] = (
    # libraries with a domain of their own
    _rule(_K.COMMUNICATION, None, r"NCCL.*|nccl.*|NVSHMEM|nvshmem.*|UCX|ucx.*|MPI"),
    _rule(_K.COMMUNICATION, r"^(?:nccl|pnccl)[A-Z]\w+$", None),
    _rule(_K.OPERATOR_INNER, None, r"CCCL|CUB|cub|Thrust|cuBLAS(?:Lt)?|cuDNN|cudnn|cuFFT|cuSPARSE"),
    _rule(_K.OPERATOR, None, r"TensorRT|trt.*"),
    _rule(_K.OPERATOR_INNER, None, r"myelin.*"),
    # XLA
    _rule(_K.MODULE, r"^(?:TSL:)?XlaModule:", None),
    _rule(_K.COMMUNICATION, r"^(?:TSL:)?Thunk:.*\bhlo_op=(?:all-reduce|all-gather|reduce-scatter"
          r"|all-to-all|ragged-all-to-all|collective-permute|collective-broadcast)\b", None),
    _rule(_K.OPERATOR, r"^(?:TSL:)?Thunk:", None),
    # torch.profiler and emit_nvtx
    _rule(_K.STEP, r"^ProfilerStep#\d+$"),
    _rule(_K.DATALOADER, r"^enumerate\(DataLoader\)#"),
    _rule(_K.OPTIMIZATION, r"^Optimizer\.(?:step|zero_grad)#"),
    _rule(_K.COMMUNICATION, r"^(?:nccl:|gloo:|c10d::|record_param_comms$|_c10d_functional::)"),
    _rule(_K.OPERATOR_INNER, r"^autograd::engine::evaluate_function: "),
    _rule(_K.OPERATOR, r"^(?:aten|prims|torch\w*|quantized|profiler|xformers|flash_attn|triton)::"),
    _rule(_K.OPERATOR, r"^(?:\w+Backward\d*|torch::autograd::\w+)$"),
    _rule(_K.OPERATOR, r"^triton_\w+$"),
    # paddle
    _rule(_K.STEP, r"^ProfileStep#\d+$"),
    _rule(_K.OPERATOR_INNER, r"(?: |::)(?:infer_meta|infer_shape|compute|kernel launch"
          r"|node_creation)$"),
    _rule(_K.OPERATOR_INNER, r"^Local_\w*GradNode\w*$"),
    _rule(_K.OPERATOR_INNER, r" pybind_(?:imperative|patch)_func$"),
    _rule(_K.OPERATOR, r"^(?:\w+ dygraph|pd_op\.\w+|(?:Global_)?\w*GradNode\w*|\w+ grad_node)$"),
    # plain names
    _rule(_K.STEP, r"(?i)^(?:(?:train(?:ing)?|global)[ _-])?(?:(?:step|iteration|iter|batch)"
          r"[ _#:=-]+|iteration)\d+$", guess=True),
    _rule(_K.DATALOADER, _PLAIN % r"data[ _-]?load(?:er|ing)?|load[ _-]data|next[ _-]batch",
          guess=True),
    _rule(_K.FORWARD, _PLAIN % r"forward|fwd", guess=True),
    _rule(_K.BACKWARD, _PLAIN % r"backward|bwd", guess=True),
    _rule(_K.OPTIMIZATION, _PLAIN % r"optimi[sz]er|optimi[sz]ation|optim|opt[ _.-]step",
          guess=True),
)  # fmt: skip

# what torch calls phases: its own profiler's marks
_PHASES_OF_TORCH = ("enumerate(DataLoader)#", "Optimizer.")

# torch's emit_nvtx appends what differs from call to call: ", seq = 5, op_id = 7, sizes = [[2, 3]]"
_ATTRIBUTES = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = ")


class Classified(NamedTuple):
    """What ranges stand for, aligned with the trace's ranges.

    Attributes:
        kind: RangeKind, uint8.
        guessed: True where only a plain name speaks for the kind.
        name: row of strings, without attributes; of Paddle's operators the name to show.
        attributes: row of strings, -1 none.
    """

    kind: npt.NDArray[np.uint8]
    guessed: npt.NDArray[np.bool_]
    name: I32
    attributes: I32


def classify(
    trace: TraceData, rules: Sequence[Rule] = (), step_names: Iterable[str] = ()
) -> Classified:
    """Return what each range stands for.

    Args:
        trace: its strings grow by the names without attributes.
        rules: the user's own, tried first.
        step_names: names of ranges that are steps, ``*`` and ``?`` as in a shell; nothing else
            is a step then.
    """
    ranges, strings = trace.ranges, trace.strings
    names, name_codes = factorize(ranges["name"])
    bases = np.empty(len(names), np.int32)
    attributes = np.full(len(names), -1, np.int32)
    for row, text in enumerate(strings.take(names)):
        found = _ATTRIBUTES.search(text)
        bases[row] = names[row] if found is None else strings.intern(text[: found.start()])
        if found is not None:
            attributes[row] = strings.intern(text[found.start() + 2 :])
    width = len(trace.categories) + 1
    scopes, scope_codes = factorize(ranges["domain"] * width + ranges["category"] + 1)
    cells, codes = factorize(scope_codes * np.int64(max(len(names), 1)) + name_codes)
    if not len(cells):
        nothing = np.empty(0, np.int32)
        return Classified(np.empty(0, np.uint8), np.empty(0, np.bool_), nothing, nothing)
    scope, name = scopes[cells // len(names)], cells % len(names)
    known = len(strings)
    pairs, pair = factorize(scope.astype(np.int64) * known + bases[name])
    kinds, guesses, shown = _of_pairs(trace, pairs, known, rules, tuple(step_names))
    kinds, guesses, attributes = kinds[pair], guesses[pair], attributes[name]
    # emit_nvtx marks operators alone with attributes: a custom autograd.Function, for instance
    kinds[(attributes >= 0) & (kinds == RangeKind.USER)] = RangeKind.OPERATOR
    kind = kinds[codes]
    guessed = guesses[codes] if guesses.any() else constant(False, len(codes), np.bool_)
    if (guesses & (kinds == RangeKind.STEP)).any():
        needless = _needless_guesses(kind, guessed, ranges["style"])
        kind[needless] = RangeKind.USER
        guessed &= ~needless
    of_torch = [text.startswith(_PHASES_OF_TORCH) for text in strings.take(bases[name])]
    if any(of_torch):
        kind[_repeated(trace, kind, np.array(of_torch)[codes])] = RangeKind.OPERATOR
    shown = shown[pair]
    return Classified(
        kind,
        guessed,
        ranges["name"] if (shown == names[name]).all() else shown[codes],
        attributes[codes] if (attributes >= 0).any() else constant(-1, len(codes), np.int32),
    )


def _of_pairs(
    trace: TraceData, pairs: I64, width: int, rules: Sequence[Rule], steps: tuple[str, ...]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_], I32]:
    """Return kind, whether it is guessed, and name to show of each pair of scope and name.

    Args:
        trace: the trace.
        pairs: (row of domains, row of categories + 1) as one number, times ``width``, plus row of
            strings.
        width: more than any row of strings in ``pairs``.
        rules: the user's own.
        steps: names of ranges that are steps.
    """
    strings = trace.strings
    kinds = np.zeros(len(pairs), np.uint8)
    guesses = np.zeros(len(pairs), np.bool_)
    shown = np.zeros(len(pairs), np.int32)
    for row, pair in enumerate(pairs.tolist()):
        scope, name_row = divmod(pair, width)
        domain_row, category_row = divmod(scope, len(trace.categories) + 1)
        category = trace.categories[category_row - 1] if category_row else ""
        name, domain = strings[name_row], trace.domains[domain_row].name
        kinds[row], guesses[row] = _kind(domain, category, name, rules, steps)
        if not domain and kinds[row] in (RangeKind.OPERATOR, RangeKind.OPERATOR_INNER):
            name = shown_name(name)
        shown[row] = strings.intern(name)
    return kinds, guesses, shown


def _repeated(
    trace: TraceData, kind: npt.NDArray[np.uint8], of_torch: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return torch's own names for phases where nvtrace marks the same kind in that process.

    Counted too they would make more of them: of a loader torch also marks the wait that ends it.
    """
    repeated = np.zeros(len(kind), np.bool_)
    ranges = trace.ranges
    own = np.array([domain.name == DOMAIN for domain in trace.domains])[ranges["domain"]]
    process = trace.threads["process"][ranges["thread"]]
    for one in (RangeKind.DATALOADER, RangeKind.OPTIMIZATION):
        marked = distinct(process[own & (kind == one)])
        repeated |= of_torch & ~own & (kind == one) & np.isin(process, marked)
    return repeated


def _needless_guesses(
    kind: npt.NDArray[np.uint8], guessed: npt.NDArray[np.bool_], style: npt.NDArray[np.uint8]
) -> npt.NDArray[np.bool_]:
    """Return steps that are no more than guesses where others are marked: a loader's "batch 7"."""
    steps = kind == RangeKind.STEP
    marked = bool((steps & ~guessed & (style != RangeStyle.MARK)).any())
    needless: npt.NDArray[np.bool_] = steps & guessed & marked
    return needless


def _kind(
    domain: str, category: str, name: str, rules: Sequence[Rule], steps: tuple[str, ...]
) -> tuple[RangeKind, bool]:
    if any(name == step or fnmatchcase(name, step) for step in steps):
        return RangeKind.STEP, False
    kind, guess = _by_rules(domain, category, name, rules)
    if steps and kind is RangeKind.STEP:
        return RangeKind.USER, False
    return kind, guess


def _by_rules(
    domain: str, category: str, name: str, rules: Sequence[Rule]
) -> tuple[RangeKind, bool]:
    for rule in rules:
        if rule.matches(domain, name):
            return rule.kind, False
    if domain == DOMAIN:
        return _KINDS.get(category, RangeKind.USER), False
    for rule in RULES:
        if rule.matches(domain, name):
            return rule.kind, rule.guess
    return RangeKind.USER, False
