"""Compiled programs of this process: read from a session or from XLA, kept in files, labelled."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from nvtrace.errors import OutputError, SourceError

from .hlo import Module, read_hlo_proto, read_module
from .phases import Basis, Label, Labels, Phase, label
from .xspace import Plane

FOLDER = "NVTRACE_HLO"
"""Names the folder in which programs are kept while another tool records."""

SUFFIX = ".hlo.pb"
_KIND_ID = re.compile(r"(.*)\((\d+)\)")

PHASE_NAMES = {
    Phase.NONE: None,
    Phase.FORWARD: "forward",
    Phase.RECOMPUTE: "recompute",
    Phase.BACKWARD: "backward",
    Phase.OPTIMIZER: "optimizer",
}
BASIS_NAMES = {Basis.NONE: None, Basis.DATA_FLOW: "data flow", Basis.OP_NAME: "op_name"}


class Programs:
    """Labels of programs by name and id, made when first asked for."""

    def __init__(self) -> None:
        self._unread: dict[tuple[str, int], Callable[[], Module]] = {}
        self._labels: dict[tuple[str, int], Labels] = {}

    def add(self, name: str, program: int, read: Callable[[], Module]) -> None:
        """Add a program, which is read when it is needed."""
        self._unread[name, program] = read

    def labels(self, name: str, program: int = -1) -> Labels | None:
        """Return the labels of a program, None where there is none.

        Args:
            name: of its module.
            program: its id; -1 where unknown, which does where one program alone bears the name.
        """
        key = (name, program)
        if key not in self._unread:
            keys = [one for one in self._unread if one[0] == name]
            if program >= 0 or len(keys) != 1:
                return None
            key = keys[0]
        if key not in self._labels:
            self._labels[key] = label(self._unread[key]())
        return self._labels[key]

    def names(self) -> list[tuple[str, int]]:
        """Return name and id of each program."""
        return list(self._unread)


def of_session(planes: list[Plane]) -> Programs:
    """Return the programs that a session's metadata hold."""
    programs = Programs()
    for plane in planes:
        if plane.name != "/host:metadata":
            continue
        for kind, facts in plane.kinds():
            proto, found = facts.get("Hlo Proto"), _KIND_ID.fullmatch(kind)
            if isinstance(proto, bytes) and found is not None:
                programs.add(found[1], int(found[2]), _reader(read_hlo_proto, proto))
    return programs


def _reader(read: Callable[[bytes], Module], proto: bytes) -> Callable[[], Module]:
    return lambda: read(proto)


def save(folder: Path) -> int:
    """Write the program of each live executable into a folder; returns how many.

    Raises:
        OutputError: the folder or a file in it cannot be written.
    """
    import jax

    executables = jax.local_devices()[0].client.live_executables()
    protos = {}
    for executable in executables:
        for module in executable.hlo_modules():
            proto = module.as_serialized_hlo_module_proto()
            protos[f"{_safe(module.name)}.{read_module(proto).id}{SUFFIX}"] = proto
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, proto in protos.items():
            partial = folder / f".{name}.{os.getpid()}"
            partial.write_bytes(proto)
            partial.replace(folder / name)
    except OSError as error:
        raise OutputError(
            f"{folder}: the compiled programs cannot be kept there ({error})"
        ) from error
    return len(protos)


def load(folder: str | os.PathLike[str]) -> Programs:
    """Return the programs in a folder that `save` wrote.

    Raises:
        SourceError: there are none.
    """
    programs = Programs()
    for path in sorted(Path(folder).glob(f"*{SUFFIX}")):
        name, _, program = path.name.removesuffix(SUFFIX).rpartition(".")
        if program.isdigit():
            programs.add(name, int(program), lambda path=path: read_module(path.read_bytes()))  # type: ignore[misc]
    if not programs.names():
        raise SourceError(f"{folder}: no compiled programs (*{SUFFIX}) here")
    return programs


def facts(found: Label, labels: Labels) -> dict[str, object]:
    """Return what is known of an instruction, for the text of its ranges."""
    instruction = found.instruction
    said: dict[str, object] = {
        "hlo_module": labels.module,
        "opcode": instruction.opcode,
        "op_name": instruction.op_name,
        "source": instruction.source,
        "phase": PHASE_NAMES[found.phase] if labels.differentiated else "compute",
        "phase_by": BASIS_NAMES[found.basis],
        "mixed": found.mixed,
        "collective": found.collective,
    }
    return {key: value for key, value in said.items() if value}


def text(found: Label, labels: Labels) -> str:
    """Return the same as JSON."""
    return json.dumps(facts(found, labels), ensure_ascii=False, separators=(", ", ": "))


def _safe(name: str) -> str:
    return re.sub(r"[^\w.\-]", "_", name)
