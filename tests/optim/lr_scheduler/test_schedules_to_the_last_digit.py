"""Every schedule has PyTorch's rates and momenta to the last digit: step by step, at named times, chained with others,
after a change by hand, and after its state has gone through a file."""

import pickle

import pytest

import weft
from oracle import torch

pytestmark = [
    pytest.mark.filterwarnings("ignore:Detected call of"),  # rates alone matter here
    pytest.mark.filterwarnings("ignore:The epoch parameter"),
    pytest.mark.filterwarnings("ignore:Seems like"),
]
SCHEDULES = {
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.3),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], 0.3),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.93),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.4, 4),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.25, 0.9, 7),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 8, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 6, 0.001),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.002),
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, 6, "triangular2"),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [0.3, 0.2], total_steps=45, three_phase=True),
}
COMPOSED = {
    "Sequential": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9), s.CosineAnnealingLR(o, 5)], [3, 9]
    ),
    "warm restarts behind a ramp": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1, 4), s.CosineAnnealingWarmRestarts(o, 4, 2)], [4]
    ),
    "from the first step": lambda s, o: s.SequentialLR(
        o, [s.StepLR(o, 2), s.PolynomialLR(o, 6), s.StepLR(o, 1, 0.5)], [1, 2]
    ),
    "Chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
}


def optimizer(lib):
    """Two groups with rates of their own."""
    groups = [{"params": [lib.nn.Parameter(lib.ones(2))], "lr": rate} for rate in (0.05, 0.1)]
    return lib.optim.SGD(groups, lr=0.1, momentum=0.9)


def rates(opt, schedule):
    return [(g["lr"], g["momentum"]) for g in opt.param_groups], schedule.get_last_lr()


def compare(make, program):
    ours, theirs = [], []
    for lib, rows in ((weft, ours), (torch, theirs)):
        schedules = lib.optim.lr_scheduler
        opt = optimizer(lib)
        program(lib, lambda o, s=schedules: make(s, o), opt, rows)
    assert ours == theirs


@pytest.mark.parametrize("name", [*SCHEDULES, *COMPOSED])
def test_step_by_step_and_through_a_file(name):
    def program(lib, make, opt, rows):
        schedule = make(opt)
        for number in range(40):
            rows.append(rates(opt, schedule))
            schedule.step()
            if number == 13:
                kept = pickle.loads(pickle.dumps(schedule.state_dict()))
                again = optimizer(lib)
                schedule = make(again)
                again.load_state_dict(opt.state_dict())
                schedule.load_state_dict(kept)
                opt = again

    compare({**SCHEDULES, **COMPOSED}[name], program)


@pytest.mark.parametrize("name", SCHEDULES)
def test_at_named_times(name):
    def program(lib, make, opt, rows):
        schedule = make(opt)
        for time in (1, 2, 5, 9, 8, 0, 13, 14):
            schedule.step(time)
            rows.append(rates(opt, schedule))
        schedule.step()
        rows.append((rates(opt, schedule), schedule.last_epoch))

    compare(SCHEDULES[name], program)


@pytest.mark.parametrize("name", SCHEDULES)
def test_beside_another_and_after_a_change_by_hand(name):
    def program(lib, make, opt, rows):
        schedule, other = make(opt), lib.optim.lr_scheduler.ExponentialLR(opt, 0.97)
        for number in range(20):
            schedule.step()
            other.step()
            if number == 6:
                opt.param_groups[0]["lr"] = 0.5
            rows.append(rates(opt, schedule))

    compare(SCHEDULES[name], program)


@pytest.mark.parametrize("last_epoch", range(9))
@pytest.mark.parametrize("name", [name for name in SCHEDULES if name != "OneCycleLR"])
def test_resumed_by_the_last_epoch(name, last_epoch):
    class Resumed:
        """The schedules of a library, begun behind an epoch."""

        def __init__(self, schedules):
            self.schedules = schedules

        def __getattr__(self, kind):
            make = getattr(self.schedules, kind)
            return lambda *given: make(*given, last_epoch=last_epoch)

    def program(lib, make, opt, rows):
        for group in opt.param_groups:
            group.update(initial_lr=0.2, base_momentum=0.8, max_momentum=0.9)
        schedule = make(opt)
        for _ in range(9):
            rows.append(rates(opt, schedule))
            schedule.step()

    compare(lambda s, o: SCHEDULES[name](Resumed(s), o), program)


def test_a_callable_object_keeps_what_it_holds():
    class Decay:
        def __init__(self, rate):
            self.rate = rate

        def __call__(self, epoch):
            return self.rate**epoch

    results = []
    for lib in (weft, torch):
        opt = optimizer(lib)
        schedule = lib.optim.lr_scheduler.LambdaLR(opt, [Decay(0.9), lambda e: 1.0])
        kept = schedule.state_dict()
        schedule = lib.optim.lr_scheduler.LambdaLR(opt, [Decay(0.1), lambda e: 1.0])
        schedule.load_state_dict(kept)
        schedule.step()
        results.append((kept["lr_lambdas"], rates(opt, schedule)))
    assert results[0] == results[1]
