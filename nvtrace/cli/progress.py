"""What is being done, on stderr, while it lasts."""

from __future__ import annotations

import sys
import time
from types import TracebackType

_QUIET_S = 0.5  # work shorter than this needs no word


class Progress:
    """Called with a line of text, shows it in place on a terminal, and clears it at the end."""

    def __init__(self, wanted: bool) -> None:
        self._on = wanted and sys.stderr.isatty()
        self._since = time.monotonic()
        self._shown = False

    def __call__(self, text: str) -> None:
        """Show ``text`` in place of the line before."""
        if self._on and time.monotonic() - self._since >= _QUIET_S:
            import shutil  # here: few reports take long enough

            line = text[: shutil.get_terminal_size().columns - 1]
            self._write(f"\r\x1b[K{line}")
            self._shown = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._shown:
            self._write("\r\x1b[K")

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
