"""What `weft.explaining` prints of a flush: the texts of its stages, of very many lines the first and the last ones."""

from __future__ import annotations

import weft
from weft.engine.pipeline import passes


def test_very_many_lines_are_shortened(capsys: object) -> None:
    def chain(length: int) -> str:
        x = weft.zeros(3) + 0.5
        with weft.explaining("schedule"):
            for _ in range(length):
                x = x * 1.5 + 1
            x.sum().item()
        return str(capsys.readouterr().err)  # type: ignore[attr-defined]

    few = chain(10)
    assert "lines more" not in few and "add" in few
    many = chain(2 * passes.MOST_LINES).splitlines()
    assert any(line.startswith("... ") and line.endswith(" lines more") for line in many)
    assert len(many) < 10 * passes.MOST_LINES
