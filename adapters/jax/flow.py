"""Data flow through a whole module: fusions, calls, loops and branches opened up."""

from __future__ import annotations

from collections.abc import Iterable

from .hlo import Computation, Instruction, Module


class Flow:
    """Who uses whose value.

    What a loop carries from one turn to the next is left out: it would make everything in a
    training loop depend on everything.

    Attributes:
        nodes: all instructions.
        producers: for each node the rows of those whose values it takes.
        consumers: the other way round.
    """

    def __init__(self, module: Module) -> None:
        self.nodes: list[Instruction] = list(module.instructions())
        self.producers: list[list[int]] = [[] for _ in self.nodes]
        self.consumers: list[list[int]] = [[] for _ in self.nodes]
        self._rows = {node.id: row for row, node in enumerate(self.nodes)}
        for row, node in enumerate(self.nodes):
            inner = module.expanded(node)
            if inner:
                self._enter(row, node, inner)
            else:
                for operand in node.operands:
                    self._link(operand, row)

    def after(self, rows: Iterable[int]) -> bytearray:
        """Return for each node whether it depends on one of ``rows``, those included."""
        return _reached(rows, self.consumers)

    def before(self, rows: Iterable[int]) -> bytearray:
        """Return for each node whether one of ``rows`` depends on it, those included."""
        return _reached(rows, self.producers)

    def order(self) -> list[int]:
        """Return the rows, producers first.

        A computation that several calls share may make a ring of them: the rows in rings, and
        behind them, come last.
        """
        waiting = [len(producers) for producers in self.producers]
        ready = [row for row, count in enumerate(waiting) if not count]
        found = []
        while ready:
            row = ready.pop()
            found.append(row)
            for consumer in self.consumers[row]:
                waiting[consumer] -= 1
                if not waiting[consumer]:
                    ready.append(consumer)
        found += [row for row, count in enumerate(waiting) if count > 0]
        return found

    def _enter(self, row: int, node: Instruction, inner: list[Computation]) -> None:
        for place, computation in enumerate(inner):
            operands = node.operands
            if node.opcode == "conditional":  # the first operand chooses, each branch has its own
                self._link(operands[0], row)
                operands = operands[place + 1 : place + 2]
            for one in computation.instructions:
                if one.opcode == "parameter" and one.parameter < len(operands):
                    self._link(operands[one.parameter], self._rows[one.id])
            self._link(computation.root, row)

    def _link(self, producer: int, consumer: int) -> None:
        row = self._rows.get(producer)
        if row is not None:
            self.consumers[row].append(consumer)
            self.producers[consumer].append(row)


def _reached(rows: Iterable[int], edges: list[list[int]]) -> bytearray:
    reached = bytearray(len(edges))
    ready = list(rows)
    for row in ready:
        reached[row] = 1
    while ready:
        for neighbour in edges[ready.pop()]:
            if not reached[neighbour]:
                reached[neighbour] = 1
                ready.append(neighbour)
    return reached
