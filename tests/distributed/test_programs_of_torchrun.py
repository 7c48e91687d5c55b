"""What programs for PyTorch's launcher import and derive from, in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.elastic.multiprocessing.errors import record

class App(Stateful):
    def __init__(self, value):
        self.weight, self.step = torch.full((3,), value), int(value)
    def state_dict(self):
        return {"weight": self.weight, "step": self.step}
    def load_state_dict(self, state_dict):
        self.weight, self.step = state_dict["weight"], state_dict["step"]

@record
def main(folder):
    dist.init_process_group("gloo")
    dcp.save({"app": App(4.0)}, checkpoint_id=folder)
    loaded = App(1.0)
    dcp.load({"app": loaded}, checkpoint_id=folder)
    print(loaded.weight.tolist(), loaded.step, isinstance(loaded, Stateful), isinstance(3, Stateful))
    dist.destroy_process_group()
    raise KeyError("told")

main(sys.argv[1])
"""


def test_a_recorded_main_saves_what_has_a_state_and_fails_as_it_would(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "weft", "run", str(program), str(tmp_path / "folder")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "[4.0, 4.0, 4.0] 4 True False\n", done.stderr
    assert "KeyError: 'told'" in done.stderr
    assert done.returncode == 1
