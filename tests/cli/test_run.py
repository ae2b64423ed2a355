"""``nvtrace run``: the program sees what python would show it, and what it did is kept whole."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

import nvtrace

HOST = socket.gethostname()


class Workplace:
    """A folder with programs, and what is run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))

    def start(self, *command: str, **environment: str) -> subprocess.Popen:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**clean(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess:
        process = self.start(*command, **environment)
        out, err = process.communicate(timeout=900)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def nvtrace(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        return self.run(*NVTRACE, "--no-summary", *arguments, **environment)

    def python(self, *arguments: str) -> subprocess.CompletedProcess:
        return self.run(sys.executable, *arguments)

    def saved(self) -> list[Path]:
        """Every file but the programs; a hidden or temporary one would be among them."""
        return sorted(
            path
            for path in self.folder.iterdir()
            if path.is_file() and path.suffix not in (".py", ".zip")
        )

    def trace(self) -> nvtrace.Trace:
        (path,) = self.saved()
        return nvtrace.load(path)


NVTRACE = (sys.executable, "-m", "nvtrace", "run")


def clean() -> dict[str, str]:
    """The environment without what a launcher of this test may have set."""
    ranks = ("RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_", "PADDLE_TRAINER")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ranks)}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def names(trace: nvtrace.Trace) -> list[str]:
    return [trace.strings[row] for row in trace.ranges["name"].tolist()]


SEES = """
    import json, sys, __main__
    print(json.dumps([
        sys.argv, __name__, __file__, sys.path[0], __main__.__file__, __package__,
        __spec__ and __spec__.name, type(__loader__).__name__, sorted(__builtins__.__dict__)[:3],
        globals() is vars(__main__), sys.modules["__main__"].__dict__ is globals(),
    ]))
"""


class TestLooksLikePython:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("sees.py", "-o", "x", "--help", "", "a b", "--"),
            ("inner/sees.py", "a"),
            ("./inner/../sees.py",),
            ("link.py", "a"),
            ("-m", "sees", "-o", "x", "-m"),
            ("-m", "inner.sees"),
            ("-m", "inner", "a"),
            ("inner",),
            ("app.zip", "a"),
        ],
    )
    def test_what_the_program_sees(self, place, arguments):
        for name in ("sees.py", "inner/sees.py", "inner/__main__.py"):
            place.write(name, SEES)
        place.write("inner/__init__.py", "")
        (place.folder / "link.py").symlink_to("inner/sees.py")
        import zipfile

        with zipfile.ZipFile(place.folder / "app.zip", "w") as archive:
            archive.write(place.folder / "sees.py", "__main__.py")
        expected = place.python(*arguments)
        assert expected.returncode == 0, expected.stderr
        found = place.nvtrace(*arguments)
        assert json.loads(found.stdout) == json.loads(expected.stdout)

    @pytest.mark.parametrize(
        "program",
        [
            "import sys; sys.exit()",
            "import sys; sys.exit(0)",
            "import sys; sys.exit(7)",
            "import sys; sys.exit(300)",
            "import sys; sys.exit(-1)",
            "import sys; sys.exit(True)",
            "import sys; sys.exit('what is wrong')",
            "raise SystemExit((1, 2))",
            "def f():\n    raise ValueError('no')\nf()",
            "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e",
            "raise ExceptionGroup('g', [ValueError(1)])",
            "x = (",
            "import nothing_of_that_name",
            "import sys; sys.excepthook = lambda *a: print('mine', a[0].__name__)\nraise OSError",
            "import sys; sys.stdout.close()",
            "import sys; sys.stdout = None",
            "import atexit; atexit.register(print, 'late')\nprint('early')",
            "import threading, time\n"
            "threading.Thread(target=lambda: (time.sleep(.2), print('thread'))).start()",
            "from concurrent.futures import ThreadPoolExecutor as T\nt = T(); t.submit(print, 1)",
            "from concurrent.futures import ProcessPoolExecutor as P\n"
            "if __name__ == '__main__': p = P(1); print(p.submit(int).result())",
            "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)",
            "a: int = 1\nprint(__annotations__)",
            "print(type(__loader__), __doc__)",
            "import sys; sys.stdout.write('no newline')",
        ],
    )
    def test_status_and_output(self, place, program):
        place.write("program.py", program)
        expected = place.python("program.py")
        found = place.nvtrace("-o", "x.sqlite", "program.py")
        assert found.returncode == expected.returncode, found.stderr
        assert found.stdout == expected.stdout
        noise = ("wrote x.sqlite: ", "GPU work was not recorded: ")
        said = [line for line in found.stderr.splitlines() if not line.startswith(noise)]
        assert said == expected.stderr.splitlines()
        assert nvtrace.load(place.folder / "x.sqlite").recorded.ranges

    def test_output_is_as_unbuffered_as_python_s(self, place):
        """A terminal shows each line of a program as it is printed."""
        found = []
        place.write("program.py", "import sys; print(sys.stdout.line_buffering, sys.stdout.errors)")
        for command in ((sys.executable,), (*NVTRACE, "--no-summary")):
            main, other = os.openpty()
            process = subprocess.Popen(
                [*command, "program.py"], cwd=place.folder, stdout=other, stderr=subprocess.DEVNULL,
                env={name: value for name, value in clean().items() if name != "PYTHONUNBUFFERED"},
            )  # fmt: skip
            assert process.wait(900) == 0
            os.close(other)
            found.append(os.read(main, 100))
            os.close(main)
        assert found[0].startswith(b"True ")
        assert found[1] == found[0]


MARKED = """
    import nvtrace, sys, time
    for number in range(3):
        with nvtrace.step(number), nvtrace.phase("forward"):
            pass
"""


class TestKeepsWhatWasRecorded:
    def test_to_the_end(self, place):
        place.write("train.py", MARKED)
        assert place.nvtrace("train.py").returncode == 0
        trace = place.trace()
        assert names(trace) == ["step", "forward"] * 3
        assert trace.ranges["payload"][::2].tolist() == [0, 1, 2]
        assert [process.host for process in trace.processes] == [HOST]

    @pytest.mark.parametrize(
        ("end", "status"),
        [
            ("sys.exit(5)", 5),
            ("raise ValueError", 1),
            ("raise KeyboardInterrupt", 130),
            (
                "import signal; sys.excepthook = lambda *_: signal.raise_signal(2)"
                "; raise KeyboardInterrupt",
                130,
            ),
            ("import os, signal; os.kill(os.getpid(), signal.SIGTERM); time.sleep(900)", -15),
            ("import os, signal; os.kill(os.getpid(), signal.SIGINT); time.sleep(900)", 130),
        ],
    )
    def test_however_it_ends(self, place, end, status):
        place.write("train.py", dedent(MARKED) + f"with nvtrace.range('open'):\n    {end}\n")
        assert place.nvtrace("train.py").returncode == status
        assert names(place.trace())[:6] == ["step", "forward"] * 3
        assert names(place.trace())[6] == "open"

    @pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, -15), (signal.SIGINT, 130)])
    def test_signal_from_outside(self, place, number, status):
        place.write("train.py", dedent(MARKED) + "print('ready', flush=True)\ntime.sleep(900)\n")
        process = place.start(*NVTRACE, "--no-summary", "train.py")
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        time.sleep(0.01)
        process.send_signal(number)  # some are impatient
        process.communicate(timeout=900)
        assert process.returncode == status
        assert names(place.trace()) == ["step", "forward"] * 3

    def test_program_that_handles_the_signal_itself(self, place):
        place.write(
            "train.py",
            dedent(MARKED)
            + "import os, signal\n"
            + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
            + "os.kill(os.getpid(), signal.SIGTERM)\n",
        )
        assert place.nvtrace("train.py").returncode == 9
        assert names(place.trace()) == ["step", "forward"] * 3

    def test_threads_that_outlive_the_main_thread(self, place):
        place.write(
            "train.py",
            """
            import nvtrace, threading, time
            def work():
                time.sleep(.2)
                with nvtrace.range("late"):
                    pass
            threading.Thread(target=work, name="worker").start()
            """,
        )
        place.nvtrace("train.py")
        trace = place.trace()
        assert names(trace) == ["late"]
        assert [trace.strings[name] for name in trace.threads["name"].tolist()] == ["worker"]

    def test_program_that_marks_nothing(self, place):
        place.write("train.py", "x = 1")
        assert place.run(*NVTRACE, "train.py").returncode == 0
        assert place.trace().ranges.rows == 0

    def test_summary_goes_beside_the_program_s_output(self, place):
        place.write("train.py", dedent(MARKED) + "print('data')\n")
        done = place.run(*NVTRACE, "train.py")
        assert done.stdout == "data\n"
        assert "Model Summary" in done.stderr
        assert "Forward" in done.stderr


class TestChildren:
    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_multiprocessing(self, place, method):
        """One file, of the parent alone, however the children end."""
        place.write(
            "train.py",
            f"""
            import multiprocessing, nvtrace, os, sys, time
            def work(how):
                with nvtrace.range("in the child"):
                    pass
                if how == "exit":
                    sys.exit(3)
                if how == "raise":
                    raise ValueError
                if how == "sleep":
                    open("sleeps.py", "w").close()
                    time.sleep(900)
            if __name__ == "__main__":
                context = multiprocessing.get_context("{method}")
                children = [context.Process(target=work, args=(how,))
                            for how in ("return", "exit", "raise", "sleep")]
                with nvtrace.range("in the parent"):
                    for child in children:
                        child.start()
                while not os.path.exists("sleeps.py"):
                    time.sleep(.01)
                children[3].terminate()
                for child in children:
                    child.join()
                print([child.exitcode for child in children])
            """,
        )
        done = place.nvtrace("train.py")
        assert done.stdout == "[0, 3, 1, -15]\n", done.stderr
        assert names(place.trace()) == ["in the parent"]

    def test_plain_fork_that_runs_on_to_the_end(self, place):
        place.write(
            "train.py",
            """
            import nvtrace, os, sys
            with nvtrace.range("before"):
                pass
            child = os.fork()
            with nvtrace.range("child" if child == 0 else "parent"):
                pass
            if child:
                _, status = os.waitpid(child, 0)
                print(os.waitstatus_to_exitcode(status))
            else:
                sys.exit(4)
            """,
        )
        done = place.nvtrace("train.py")
        assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
        assert names(place.trace()) == ["before", "parent"]
        assert done.stderr.count("wrote ") == 1

    def test_fork_while_steps_are_counted(self, place):
        place.write(
            "train.py",
            """
            import nvtrace, os
            if os.fork() == 0:
                with nvtrace.step(0):
                    pass
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.wait()[1]))
            for number in range(4):
                with nvtrace.step(number):
                    pass
            """,
        )
        done = place.nvtrace("--steps", "1:3", "train.py")
        assert done.stdout == "0\n", done.stderr
        steps = place.trace().explain()
        assert steps.step_numbers.tolist() == [1, 2]


class TestFile:
    def test_default_name(self, place):
        place.write("my train.py", MARKED)
        process = place.start(*NVTRACE, "--no-summary", "my train.py")
        process.communicate(timeout=900)
        assert [path.name for path in place.saved()] == [f"my_train.{HOST}.{process.pid}.sqlite"]

    def test_default_name_of_a_rank(self, place):
        place.write("train.py", MARKED)
        process = place.start(*NVTRACE, "--no-summary", "train.py", RANK="3", WORLD_SIZE="8")
        process.communicate(timeout=900)
        name = f"train.{HOST}.rank3.{process.pid}.sqlite"
        assert [path.name for path in place.saved()] == [name]
        assert place.trace().processes[0].rank == 3

    def test_ranks_of_one_command_line(self, place):
        place.write("train.py", MARKED)
        runs = [
            place.start(*NVTRACE, "--no-summary", "-o", "x.sqlite", "train.py",
                        RANK=str(rank), WORLD_SIZE="2")
            for rank in range(2)
        ]  # fmt: skip
        for one in runs:
            one.communicate(timeout=900)
        assert [path.name for path in place.saved()] == ["x.rank0.sqlite", "x.rank1.sqlite"]

    @pytest.mark.parametrize("force", [(), ("-f",)])
    @pytest.mark.parametrize("suffix", [".sqlite", ".json"])
    def test_two_processes_and_one_path(self, place, suffix, force):
        """Neither waits for the other, and both files are whole."""
        place.write(
            "train.py",
            """
            import nvtrace, os, sys, time
            me, other = sys.argv[1:]
            open(f"{me}.py", "w").close()
            while not os.path.exists(f"{other}.py"):
                time.sleep(.01)
            with nvtrace.range(f"by {me}"):
                pass
            """,
        )
        if force:
            (place.folder / f"x{suffix}").write_text("old")
        runs = [
            place.start(*NVTRACE, "--no-summary", *force, "-o", f"x{suffix}", "train.py", *who)
            for who in (("a", "b"), ("b", "a"))
        ]
        for one in runs:
            _, said = one.communicate(timeout=900)
            assert one.returncode == 0, said
        files = place.saved()
        assert len(files) == 2
        assert f"x{suffix}" in [path.name for path in files]
        if suffix == ".sqlite":
            assert sorted(names(nvtrace.load(files))) == ["by a", "by b"]
        else:
            events = [e for path in files for e in json.loads(path.read_text())["traceEvents"]]
            assert sorted(e["name"] for e in events if e["ph"] == "X") == ["by a", "by b"]

    def test_existing_file_is_kept(self, place):
        place.write("train.py", "print('ran')")
        (place.folder / "x.sqlite").write_text("mine")
        done = place.nvtrace("-o", "x.sqlite", "train.py")
        assert (done.returncode, done.stdout) == (1, "")
        assert "x.sqlite exists" in done.stderr
        assert (place.folder / "x.sqlite").read_text() == "mine"
        assert place.nvtrace("-f", "-o", "x.sqlite", "train.py").returncode == 0
        assert place.trace().recorded.ranges

    @pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
    def test_timeline(self, place, name):
        import gzip

        place.write("train.py", MARKED)
        place.nvtrace("-o", name, "train.py")
        data = (place.folder / name).read_bytes()
        events = json.loads(gzip.decompress(data) if name.endswith("gz") else data)["traceEvents"]
        assert sorted(e["name"] for e in events if e["ph"] == "X") == ["forward"] * 3 + ["step"] * 3

    def test_folder_goes_away(self, place):
        place.write("train.py", "import shutil; shutil.rmtree('out')")
        (place.folder / "out").mkdir()
        done = place.nvtrace("-o", "out/x.sqlite", "train.py")
        assert done.returncode == 1
        assert "nvtrace: error: cannot write out" in done.stderr


class TestSteps:
    def test_only_some(self, place):
        place.write(
            "train.py",
            """
            import nvtrace
            for number in range(10):
                with nvtrace.step(number):
                    with nvtrace.range(f"work {number}"):
                        pass
            """,
        )
        place.nvtrace("--steps", "3:5", "train.py")
        trace = place.trace()
        assert sorted(name for name in names(trace) if "work" in name) == ["work 3", "work 4"]
        assert trace.explain().step_numbers.tolist() == [3, 4]

    def test_steps_that_are_never_reached(self, place):
        place.write("train.py", MARKED)
        done = place.nvtrace("--steps", "30:40", "train.py")
        assert done.returncode == 0
        assert "nothing was recorded" in done.stderr
        assert place.saved() == []

    def test_timer_only(self, place):
        place.write(
            "train.py",
            """
            import nvtrace, time
            for batch in nvtrace.dataloader(range(5)):
                with nvtrace.step():
                    time.sleep(.02)
            """,
        )
        done = place.nvtrace("--timer-only", "train.py")
        assert (done.returncode, done.stdout) == (0, "")
        assert "Steps 0..4 (5)" in done.stderr
        assert "reader_cost" in done.stderr
        assert place.saved() == []


def test_example(place, repository):
    """The training loop of ``make demo``: marked in full, and it learns."""
    done = place.run(*NVTRACE, str(repository / "examples" / "numpy_train.py"))
    assert done.returncode == 0, done.stderr
    first, last = (float(word) for word in done.stdout.split() if "." in word)
    assert last < 0.7 * first
    trace = place.trace()
    explained = trace.explain()
    assert explained.step_numbers.tolist() == list(range(50))
    for phase in ("dataloader", "forward", "backward", "optimization", "cross_entropy"):
        rows = [row for row, name in enumerate(names(trace)) if name == phase]
        assert explained.range_step[rows].tolist() == list(range(50)), phase
    assert "Kernel Summary" not in done.stderr


ADAPTER = """
    import nvtrace
    from nvtrace.model.harvest import Harvest
    class Adapter:
        framework = "framework"
        def watch(self, on_wait, on_step):
            import framework
            self.on_step = on_step
            framework.end_step = on_step
        def unwatch(self):
            import framework
            framework.end_step = None
        def install(self, options):
            import framework
            framework.wrap = nvtrace.range("from the adapter")
        def begin(self):
            pass
        def end(self):
            return Harvest()
        def uninstall(self):
            import framework
            framework.wrap = None
"""


class TestAdapters:
    @pytest.fixture
    def place(self, place):
        """With a framework and its adapter, installed as packages are."""
        place.write("framework/__init__.py", "from framework.inner import wrap\nend_step = None")
        place.write(
            "framework/inner.py", "from contextlib import nullcontext\nwrap = nullcontext()"
        )
        place.write("its_adapter/__init__.py", ADAPTER)
        place.write("its_adapter-1.dist-info/METADATA", "Name: its_adapter\nVersion: 1\n")
        place.write(
            "its_adapter-1.dist-info/entry_points.txt",
            "[nvtrace.adapters]\nframework = its_adapter:Adapter\n",
        )
        place.write(
            "train.py",
            """
            import sys
            print("framework" in sys.modules)
            from framework import inner
            import framework
            for step in range(4):
                with framework.wrap:
                    pass
                framework.end_step and framework.end_step()
            print(framework.__spec__.loader is framework.__loader__, framework.__loader__.name)
            """,
        )
        return place

    def test_of_what_the_program_imports(self, place):
        done = place.nvtrace("train.py", PYTHONPATH=str(place.folder))
        assert done.stdout == "False\nTrue framework\n", done.stderr
        trace = place.trace()
        assert names(trace).count("from the adapter") == 4
        # the adapter tells where steps end; what comes after the last is none
        assert trace.explain().step_numbers.tolist() == [0, 1, 2, 3]

    def test_named(self, place):
        done = place.nvtrace("--adapters", "framework", "train.py", PYTHONPATH=str(place.folder))
        assert done.stdout == "True\nTrue framework\n", done.stderr
        assert names(place.trace()).count("from the adapter") == 4

    def test_none(self, place):
        place.nvtrace("--adapters", "none", "train.py", PYTHONPATH=str(place.folder))
        assert names(place.trace()) == []

    @pytest.mark.parametrize(("steps", "numbers"), [("1:3", [1, 2]), ("2:4", [2, 3]), ("0:1", [0])])
    def test_steps_of_the_framework(self, place, steps, numbers):
        place.nvtrace("--steps", steps, "train.py", PYTHONPATH=str(place.folder))
        trace = place.trace()
        assert names(trace).count("from the adapter") == len(numbers)
        assert trace.explain().step_numbers.tolist() == numbers

    def test_steps_of_the_program_win(self, place):
        """It marks every second one of the framework's as a step."""
        place.write(
            "train.py",
            """
            import nvtrace, framework
            for number in range(4):
                with nvtrace.step(number):
                    for _ in range(2):
                        with framework.wrap:
                            pass
                        framework.end_step and framework.end_step()
            """,
        )
        place.nvtrace("--steps", "1:3", "train.py", PYTHONPATH=str(place.folder))
        trace = place.trace()
        assert names(trace).count("from the adapter") == 4
        steps = [row for row in trace.ranges_report()["ranges"].rows() if row["kind"] == "step"]
        assert {row["payload"] for row in steps} == {"1", "2"}


class TestWrongUse:
    @pytest.mark.parametrize(
        ("arguments", "status", "said"),
        [
            ((), 2, "name a script"),
            (("missing.py",), 1, "missing.py: no such file"),
            (("-m", "no_such_module"), 1, "no module named 'no_such_module'"),
            (("-m", "json"), 1, "no module named 'json' that can be run"),
            ((".",), 1, "a folder without a __main__.py"),
            (("program",), 1, "not a Python script; other programs need --nsys"),
            (("-o", "x.txt", "train.py"), 2, "tells no format"),
            (("-o", "no/x.sqlite", "train.py"), 1, "no such folder"),
            (("--adapters", "tensorflow", "train.py"), 1, "no adapter named 'tensorflow'"),
            (("--timer-only", "-o", "x.sqlite", "train.py"), 2, "records nothing"),
            (("--nsys", "--steps", "1:2", "train.py"), 2, "do not go with --nsys"),
        ],
    )
    def test_one_line(self, place, arguments, status, said):
        place.write("train.py", "print('ran')")
        (place.folder / "program").write_bytes(b"\x7fELF\0\0")
        done = place.nvtrace(*arguments)
        assert done.returncode == status, done.stderr
        assert done.stdout == ""
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1

    def test_no_nsys(self, place):
        place.write("train.py", "print('ran')")
        done = place.nvtrace("--nsys", "train.py", NVTRACE_NSYS="/bin/true")
        assert done.returncode == 1
        assert done.stdout == ""
        assert "NVTRACE_NSYS=/bin/true is not an nsys" in done.stderr


class TestUnderNsys:
    @pytest.mark.parametrize(
        "program",
        [
            ("train.py", "4"),
            ("-m", "train", "4"),
            ("--", sys.executable, "train.py", "4"),
        ],
    )
    def test_records_and_exports(self, nsys, place, program):
        place.write("train.py", dedent(MARKED) + "sys.exit(int(sys.argv[1]))\n")
        done = place.run(
            *NVTRACE, "--nsys", "-o", "x.sqlite", *program, NVTRACE_NSYS=str(nsys)
        )  # fmt: skip
        assert done.returncode == 4, done.stderr
        assert [path.name for path in place.saved()] == ["x.nsys-rep", "x.sqlite"]
        trace = nvtrace.load(place.folder / "x.sqlite")
        assert names(trace) == ["step", "forward"] * 3
        assert trace.sources[0].product.startswith("Nsight Systems 2023.4.4")
        assert "Model Summary" in done.stderr

    def test_told_to_end(self, nsys, place):
        place.write("train.py", dedent(MARKED) + "open('ready', 'w').close()\ntime.sleep(900)\n")
        process = place.start(
            *NVTRACE, "--nsys", "--no-summary", "-o", "x.sqlite", "train.py", NVTRACE_NSYS=str(nsys)
        )
        while not (place.folder / "ready").exists():
            assert process.poll() is None
            time.sleep(0.05)
        (place.folder / "ready").unlink()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=900)
        assert process.returncode == 143
        assert names(nvtrace.load(place.folder / "x.sqlite"))[:6] == ["step", "forward"] * 3
