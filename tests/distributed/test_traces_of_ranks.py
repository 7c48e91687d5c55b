"""Traces of ranks: collectives from their begin to their result, and one file of all ranks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ranks import needs_mpi, run
from weft.profiler import merge_chrome_traces


@needs_mpi
def test_traces_of_ranks_are_merged_with_what_is_under_way(tmp_path: Path) -> None:
    run(2, "timeline.py", "weft", tmp_path)
    merge_chrome_traces([tmp_path / "0.json", tmp_path / "1.json"], tmp_path / "all.json.gz")
    merge_chrome_traces([tmp_path / "all.json.gz"], tmp_path / "again.json")
    merge_chrome_traces([tmp_path / "0.json", tmp_path / "1.json"], tmp_path / "all.json")
    events = json.loads((tmp_path / "all.json").read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {0: "rank 0: timeline.py", 1: "rank 1: timeline.py"}
    passages = [e for e in events if e.get("cat") == "under way"]
    assert Counter((e["ph"], e["pid"]) for e in passages) == {
        (ph, pid): 16 for ph in "be" for pid in (0, 1)
    }
    assert {e["name"] for e in passages} == {"all_reduce"}
    begun = {(e["pid"], e["id"]): e["ts"] for e in passages if e["ph"] == "b"}
    assert all(e["ts"] >= begun[e["pid"], e["id"]] for e in passages if e["ph"] == "e")
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert any(begun[one] < e["ts"] for one in begun for e in kernels if e["pid"] == one[0])


def test_what_is_no_trace(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("[1]")
    with pytest.raises(ValueError, match="call export_chrome_trace on each rank first"):
        merge_chrome_traces([other], tmp_path / "all.json")
    assert not (tmp_path / "all.json").exists()
