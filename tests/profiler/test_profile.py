"""`weft.profiler`: what is recorded, what is told of it, and that nothing else changes."""

from __future__ import annotations

import gc
import gzip
import json
import os
import signal
import threading
import warnings
from pathlib import Path

import pytest

import weft
from weft.engine.devices import trace
from weft.engine.devices.cpu import pool
from weft.profiler import ProfilerAction, profile, record_function, schedule


class Net(weft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = weft.nn.Sequential(weft.nn.Linear(6, 8), weft.nn.ReLU())
        self.head = weft.nn.Linear(8, 3)

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.head(self.layers(x) * 2 + 1)


def train(steps: int = 1) -> list[float]:
    weft.manual_seed(0)
    net = Net()
    optimizer = weft.optim.SGD(net.parameters(), lr=0.1)
    x, y = weft.randn(4, 6), weft.tensor([0, 1, 2, 0])
    losses = []
    for _ in range(steps):
        with record_function("forward"):
            loss = weft.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def keys(watched: profile) -> dict[str, int]:
    return {event.key: event.count for event in watched.key_averages()}


def test_operations_have_pytorchs_names() -> None:
    with profile() as watched:
        train()
    found = keys(watched)
    assert {
        "aten::addmm",
        "aten::relu",
        "aten::mm",
        "aten::add",
        "forward",
        "weft::flush",
    } <= found.keys()
    assert found["Optimizer.step#SGD.step"] == 1


def test_losses_have_the_same_bits_when_watched() -> None:
    plain = train(12)
    with profile(profile_memory=True, with_stack=True, record_shapes=True, with_modules=True):
        watched = train(12)
    assert watched == plain


def test_nothing_is_recorded_outside() -> None:
    with profile() as watched:
        train()
    assert not trace.is_on()
    before = len(watched.events())
    train()
    assert len(watched.events()) == before


def test_profiles_in_each_other() -> None:
    with profile() as outer:
        weft.ones(3).exp().tolist()
        with profile() as inner:
            weft.ones(3).log().tolist()
        assert trace.is_on()
        weft.ones(3).sin().tolist()
    assert {"aten::exp", "aten::log", "aten::sin"} <= keys(outer).keys()
    assert "aten::log" in keys(inner) and not {"aten::exp", "aten::sin"} & keys(inner).keys()


def test_an_exception_in_the_block_ends_it() -> None:
    with pytest.raises(ZeroDivisionError), profile() as watched:
        weft.ones(3).exp().tolist()
        weft.ones(3).cos()
        raise ZeroDivisionError
    assert not trace.is_on()
    assert "aten::exp" in keys(watched)


def test_threads_have_rows_of_their_own() -> None:
    def work() -> None:
        with record_function("beside"):
            weft.ones(5).exp().tolist()

    with profile() as watched:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with record_function("here"):
            weft.ones(5).sin().tolist()
    threads = {event.key: event.thread for event in watched.events()}
    assert threads["beside"] == threads["aten::exp"] != threads["here"] == threads["aten::sin"]


def test_a_forked_child_records_nothing() -> None:
    with profile() as watched:
        weft.ones(3).exp().tolist()
        child = os.fork()
        if child == 0:
            weft.ones(3).sin().tolist()
            with profile() as own:
                weft.ones(3).cos().tolist()
            good = "aten::cos" in keys(own)
            watched.stop()
            os._exit(0 if good and not watched.events() and not trace.is_on() else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert "aten::exp" in keys(watched) and "aten::sin" not in keys(watched)


def test_a_signal_in_a_run() -> None:
    seen = []

    def handle(*_: object) -> None:
        with record_function("handler"):
            seen.append(True)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with profile() as watched:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            x = weft.ones(300, 300)
            while not seen:
                x = (x @ x).tanh()
                x.sum().item()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert {"handler", "aten::mm", "aten::tanh"} <= keys(watched).keys()


def test_nothing_is_left_behind_by_many_steps() -> None:
    plan = schedule(wait=2, warmup=1, active=2)
    x = weft.ones(3)
    before = 0
    with profile(schedule=plan, on_trace_ready=lambda p: p.key_averages()) as watched:
        for step in range(10_000):
            x.exp().tolist()
            watched.step()
            if step == 1000:
                before = resident_pages()
    assert resident_pages() - before < 1000  # four megabytes
    assert keys(watched)["aten::exp"] == 2


def resident_pages() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1])


def test_room_for_events_is_bounded() -> None:
    before = trace.set_most_events(4096)
    try:
        with pytest.warns(RuntimeWarning, match="left out"), profile() as watched:
            for _ in range(5000):
                with record_function("part"):
                    pass
        assert watched.dropped >= 5000 - keys(watched)["part"] > 0
    finally:
        trace.set_most_events(before)


# -- schedules -----------------------------------------------------------------------------------------------------


def test_a_schedule_goes_through_its_cycles() -> None:
    N, W, R, S = ProfilerAction  # noqa: N806 - as in the comment of a schedule
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert [plan(step) for step in range(11)] == [N, N, W, R, S, N, W, R, S, N, N]
    plan = schedule(wait=2, warmup=1, active=1, skip_first_wait=1)
    assert [plan(step) for step in range(6)] == [W, S, N, N, W, S]
    with pytest.raises(AssertionError, match="active >= 1"):
        schedule(wait=0, warmup=1, active=0)
    with pytest.warns(UserWarning, match="warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_each_cycle_is_handed_over() -> None:
    handed: list[list[str]] = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=lambda p: handed.append(steps_of(p))) as watched:
        for _ in range(10):
            weft.ones(3).exp().tolist()
            watched.step()
    assert handed == [["ProfilerStep#2", "ProfilerStep#3"], ["ProfilerStep#6", "ProfilerStep#7"]]
    assert keys(watched)["aten::exp"] == 2


def steps_of(watched: profile) -> list[str]:
    return [event.name for event in watched.events() if event.name.startswith("ProfilerStep#")]


def test_events_of_all_cycles_are_kept_where_asked_for() -> None:
    plan = schedule(wait=0, warmup=1, active=1)
    with profile(schedule=plan, acc_events=True) as watched:
        for _ in range(6):
            weft.ones(3).exp().tolist()
            watched.step()
    assert keys(watched)["aten::exp"] == 3


# -- what is told --------------------------------------------------------------------------------------------------


def test_lines_and_modules() -> None:
    with profile(with_modules=True) as watched:
        train()
    lines = {line.function: spent for line, spent in watched.by_line().items()}
    assert {"aten::addmm", "aten::relu"} <= lines["Net.forward"].by_operation.keys()
    assert "self.head(self.layers(x) * 2 + 1)" in str(watched.by_line())
    modules = watched.by_module()
    assert set(modules["Net.layers.1"].by_operation) == {"aten::relu"}
    assert set(modules["Net"].by_operation) == {"aten::mul", "aten::add"}
    assert "Net.head" in str(modules)


def test_modules_are_known_where_the_program_is() -> None:
    weft.manual_seed(0)
    net, x = Net(), weft.randn(4, 6)
    for _ in range(5):
        net(x).sum().item()
    for _ in range(4):
        with profile(with_modules=True) as watched:
            net(x).sum().item()
    assert set(watched.by_module()["Net.layers.1"].by_operation) == {"aten::relu"}


def test_the_data_of_a_profile_is_plain() -> None:
    with profile(profile_memory=True, with_modules=True) as watched:
        train(3)
    data = json.loads(json.dumps(watched.data()))
    kinds = {event["kind"] for event in data["events"]}
    assert {"flush", "program", "launch", "operation", "walk", "range", "module"} <= kinds
    for event in data["events"]:
        assert event["begin_us"] <= event["end_us"] <= data["duration_us"] + 1
        assert -1 <= event["parent"] < len(data["events"])
        assert (event["kernel"] >= 0) == (event["kind"] == "launch")
    launches = [event["kernel"] for event in data["events"] if event["kind"] == "launch"]
    assert sum(
        part["share"] for part in data["kernels"][launches[0]]["operations"]
    ) == pytest.approx(1)
    assert len(data["memory"]["time_us"]) == len(data["memory"]["bytes"]) > 0
    assert {block["name"] for block in data["memory"]["blocks"]} >= {"", "aten::mm"}


def test_batches_count_their_members() -> None:
    weight = weft.randn(4, 4)
    rows = [weft.randn(1, 4) for _ in range(8)]
    for _ in range(3):
        with profile() as watched:
            weft.stack([(row @ weight).relu().sum() for row in rows]).sum().item()
    assert keys(watched)["aten::relu"] == 8


def test_the_table() -> None:
    with profile(
        record_shapes=True, profile_memory=True, with_stack=True, with_flops=True
    ) as watched:
        train()
    table = watched.key_averages().table(sort_by="self_cpu_time_total", row_limit=4, header="Step")
    lines = table.splitlines()
    assert lines[1] == "Step" and set(lines[0]) == {"="}
    head = [
        "Name Self CPU % Self CPU CPU total % CPU total CPU time avg CPU Mem Self CPU Mem # of Calls"
    ]
    assert " ".join(head) in " ".join(lines[3].split())
    assert len(lines) == 3 + 2 + 4 + 2 and lines[-1].startswith("Self CPU time total: ")
    shaped = watched.key_averages(group_by_input_shape=True, group_by_stack_n=1)
    assert any(event.input_shapes == [[4, 6], [8, 6], [8]] for event in shaped)
    assert "Input Shapes" in shaped.table() and "Source Location" in shaped.table()
    total = watched.events().total_average()
    assert total.self_cpu_time_total == pytest.approx(watched.events().self_cpu_time_total)


def test_children_take_no_more_than_their_parents() -> None:
    with profile() as watched:
        train(2)
    for event in watched.events():
        assert (
            sum(child.cpu_time_total for child in event.cpu_children) <= event.cpu_time_total + 1e-6
        )
        assert all(child.cpu_parent is event for child in event.cpu_children)


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_trace_has_what_perfetto_needs(tmp_path: Path) -> None:
    with profile(profile_memory=True) as watched:
        train()
    watched.add_metadata("run", "one")
    watched.add_metadata_json("sizes", "[1, 2]")
    watched.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    written = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    assert written["run"] == "one" and written["sizes"] == [1, 2]
    for event in written["traceEvents"]:
        assert event["ph"] in "XMiC" and isinstance(event["ts"], float)
        assert {"name", "pid", "tid", "args"} <= event.keys()
        assert (event["ph"] == "X") == ("dur" in event)
    names = {event["name"] for event in written["traceEvents"]}
    assert {"aten::addmm", "forward", "[memory]", "allocated bytes", "thread_name"} <= names


def test_stacks_and_speedscope(tmp_path: Path) -> None:
    with profile(with_stack=True) as watched:
        train()
    watched.export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    assert "Net.forward;aten::addmm " in (tmp_path / "stacks").read_text()
    with pytest.raises(ValueError, match="self_cpu_time_total"):
        watched.export_stacks(str(tmp_path / "stacks"), "nothing")
    watched.export_speedscope(str(tmp_path / "scope.json"))
    scope = json.loads((tmp_path / "scope.json").read_text())
    for one in scope["profiles"]:
        open_: list[int] = []
        times = [event["at"] for event in one["events"]]
        assert times == sorted(times) and times[-1] <= one["endValue"]
        for event in one["events"]:
            open_.append(event["frame"]) if event["type"] == "O" else None
            assert event["type"] == "O" or open_.pop() == event["frame"]
        assert not open_


def test_files_for_tensorboard(tmp_path: Path) -> None:
    with profile(on_trace_ready=weft.profiler.tensorboard_trace_handler(str(tmp_path), "w", True)):
        train()
    [path] = tmp_path.iterdir()
    assert path.name.startswith("w.") and path.name.endswith(".pt.trace.json.gz")


def test_memory_over_time(tmp_path: Path) -> None:
    with profile(profile_memory=True) as watched:
        train()
    watched.export_memory_timeline(str(tmp_path / "memory.json"))
    times, sizes = json.loads((tmp_path / "memory.json").read_text())
    assert len(times) == len(sizes) > 0
    watched.export_memory_timeline(str(tmp_path / "memory.raw.json.gz"))
    raw = json.loads(gzip.decompress((tmp_path / "memory.raw.json.gz").read_bytes()))
    assert {action for _, action, _, _ in raw} == {"CREATE", "DESTROY"}
    with pytest.raises(ValueError, match="json"):
        watched.export_memory_timeline(str(tmp_path / "memory.html"))


def test_the_older_profile() -> None:
    with weft.autograd.profiler.profile(record_shapes=True) as watched:
        train()
    assert "aten::addmm" in watched.key_averages().table(sort_by="cpu_time_total")
    assert watched.self_cpu_time_total > 0 and watched.function_events
    with weft.autograd.profiler.profile(enabled=False) as nothing:
        train()
    assert nothing is None


def test_asked_too_early() -> None:
    with profile() as watched, pytest.raises(RuntimeError, match="behind the block"):
        watched.key_averages()


# -- after PyTorch's own tests ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
@pytest.mark.parametrize(
    ("warmup", "active", "repeat", "accumulate", "count"),
    [
        (0, 1, 1, True, 1),
        (0, 5, 0, True, 100),
        (1, 5, 0, True, 83),
        (10, 10, 4, True, 40),
        (0, 5, 0, False, 0),
    ],
)
def test_operations_are_counted_in_active_steps(
    warmup: int, active: int, repeat: int, accumulate: bool, count: int
) -> None:
    plan = schedule(wait=0, warmup=warmup, active=active, repeat=repeat)
    with profile(schedule=plan, acc_events=accumulate) as watched:
        for _ in range(100):
            (weft.ones(2) + 2).tolist()
            watched.step()
    assert keys(watched).get("aten::add", 0) == count


def test_programs_can_ask_whether_they_are_profiled() -> None:
    assert not weft.autograd.profiler._is_profiler_enabled
    with profile():
        assert weft.autograd.profiler._is_profiler_enabled
    assert not weft.autograd.profiler._is_profiler_enabled


def test_activities_are_asked_for_once() -> None:
    cpu = weft.profiler.ProfilerActivity.CPU
    assert profile(activities=[cpu, weft.profiler.ProfilerActivity.CUDA]).activities
    with pytest.raises(ValueError, match="each activity once"):
        profile(activities=[cpu, {cpu: ["CPU_OP"]}])
    with pytest.raises(ValueError, match="must be non-negative"):
        profile(post_processing_timeout_s=-1.0)


def test_values_within_programs_have_names_and_lines() -> None:
    """What lies in a program's own memory is said by value, with its slot, its line and how long it is there."""
    x = weft.rand(64, 64)

    def step() -> None:
        ((x @ x).tanh() @ x).exp().sum().item()

    for _ in range(4):
        step()
    with weft.profiler.profile(profile_memory=True) as watched:
        step()
    data = watched.data()
    values = data["memory"]["values"]
    assert {"aten::mm", "aten::tanh"} <= {value["name"] for value in values}
    for value in values:
        assert value["bytes"] > 0 and value["begin_us"] <= value["end_us"]
        assert value["line"]["file"] == __file__ and value["line"]["function"].endswith("step")
    assert any(kernel["ir"].startswith("kernel ") for kernel in data["kernels"])
    assert not any(kernel["again"] for kernel in data["kernels"])


def test_a_recording_ends_by_itself_where_it_is_full() -> None:
    """One that is to have few events stops, and leaves another one that is open as it is."""
    from weft.engine.devices import trace

    begun = trace.clock()
    whole, small = trace.Recording(), trace.Recording(False, False, 100)
    for _ in range(20_000):
        trace.note("range", begun, ("x", None))
    assert small.is_full and not whole.is_full and trace.is_on()
    assert 100 <= len(small.close()) < 20_000
    assert len(whole.close()) == 20_000
    assert not trace.is_on()


def test_what_a_budget_computes_again_and_spills_is_told(tmp_path: Path) -> None:
    """Under a budget some launches compute again, under a smaller one some move values to the disk and back."""
    x = weft.rand(256, 256)
    weights = [weft.rand(256, 256, requires_grad=True) for _ in range(12)]
    size = 256 * 256 * 4

    def step() -> None:
        hidden = x
        for weight in weights:
            hidden = (hidden @ weight * 0.01).tanh()
        hidden.sum().backward()
        weft.realize(*[weight.grad for weight in weights])
        for weight in weights:
            weight.grad = None

    def launched(budget: int) -> list[dict[str, object]]:
        with weft.memory_budget(budget, spill=tmp_path), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for _ in range(3):
                step()
            with profile(profile_memory=True) as watched:
                step()
        data = watched.data()
        return [data["kernels"][e["kernel"]] for e in data["events"] if e["kind"] == "launch"]

    weft.realize(x, *weights)
    gc.collect()
    others = pool.stats()["allocated"] - 13 * size  # what other tests left counts too
    again = launched(others + 29 * size + 3 * size // 4)  # all of it are 25, and some to work in
    assert any(kernel["again"] for kernel in again)
    spilled = launched(others + 28 * size + 3 * size // 4)
    assert any(kernel["name"] == "spill_file" for kernel in spilled)
    assert not any(kernel["operations"] for kernel in spilled if kernel["name"] == "spill_file")


def test_what_workers_do_of_a_launch_stands_on_their_threads(tmp_path: Path) -> None:
    """A worker may sleep through a launch: work is shared out until one has helped."""
    threads = weft.get_num_threads()
    weft.set_num_threads(2)
    x = weft.ones(1500, 1500)
    try:
        for _ in range(40):
            with weft.profiler.profile() as profile:
                (x @ x).sum().item()
            data = profile.data()
            pieces = [event for event in data["events"] if event["kind"] == "piece"]
            if pieces:
                break
    finally:
        weft.set_num_threads(threads)
    launches = [event for event in data["events"] if event["kind"] == "launch"]
    for piece in pieces:
        assert data["rows"][piece["row"]]["name"].startswith("worker ")
        (launch,) = [
            one for one in launches if one["begin_us"] <= piece["begin_us"] < one["end_us"]
        ]
        assert piece["kernel"] == launch["kernel"] and piece["end_us"] <= launch["end_us"]
        assert piece["row"] != launch["row"]
    assert pieces
    assert all(event.name != pieces[0]["name"] for event in profile.events())
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    written = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = [e["args"]["name"] for e in written if e["name"] == "thread_name"]
    assert any(name.startswith("worker ") for name in names)


def test_operations_without_room_are_told() -> None:
    """Of a run of more than a quarter of a million, the rest is counted; values are as without."""
    from weft.engine.ir.tape import intact

    def chain() -> weft.Tensor:
        x = weft.ones(2)
        with intact():  # one run of all
            for _ in range(135_000):
                x = x * 0.5 + 1.0
        return x

    with pytest.warns(RuntimeWarning, match="left out(.|\n)*schedule"), profile() as watched:
        values = chain().tolist()
    assert values == [2.0, 2.0]
    assert watched.dropped > 0
    assert {"aten::mul", "aten::add"} <= {each.key for each in watched.key_averages()}
