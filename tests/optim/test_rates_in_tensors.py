"""Rates that are tensors under schedules, groups that come later, the deprecated argument: in both libraries."""

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")


SCHEDULES = {
    "StepLR": lambda s, o: s.StepLR(o, 2),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2]),
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9),
    "ConstantLR": lambda s, o: s.ConstantLR(o),
    "LinearLR": lambda s, o: s.LinearLR(o),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 4),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=10),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, patience=0),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.5, 2), s.ExponentialLR(o, 0.9)], milestones=[2]
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_tensor_stays_the_one_and_gets_the_rates_of_a_number(lib, name):
    pairs = []
    for rate in (lib.tensor(0.05), 0.05):
        optimizer = lib.optim.SGD([lib.zeros(2, requires_grad=True)], lr=rate, momentum=0.9)
        pairs.append((optimizer, SCHEDULES[name](lib.optim.lr_scheduler, optimizer)))
    held = pairs[0][0].param_groups[0]["lr"]
    for _ in range(6):
        for optimizer, schedule in pairs:
            optimizer.step()
            schedule.step(*([1.0] if name == "ReduceLROnPlateau" else []))
        assert pairs[0][0].param_groups[0]["lr"] is held
        assert float(held) == pytest.approx(pairs[1][0].param_groups[0]["lr"], rel=1e-5)


def test_what_was_asked_for_does_not_change(lib):
    rate = lib.tensor(0.1)
    optimizer = lib.optim.SGD([lib.zeros(1, requires_grad=True)], lr=rate)
    schedule = lib.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    (first,), initial = schedule.get_last_lr(), optimizer.param_groups[0]["initial_lr"]
    optimizer.step()
    schedule.step()
    assert [float(x) for x in (rate, first, initial)] == pytest.approx([0.05, 0.1, 0.1])


def test_bounds_in_tensors_are_those_of_the_beginning(lib):
    module, rate, high, low = lib.optim, lib.tensor(0.1), lib.tensor(0.2), lib.tensor(0.8)
    optimizer = module.SGD([lib.zeros(1, requires_grad=True)], lr=rate)
    cyclic = module.lr_scheduler.CyclicLR(
        optimizer, rate, [high], base_momentum=low, max_momentum=high
    )
    averaged = module.SGD([lib.zeros(1, requires_grad=True)], lr=rate)
    module.swa_utils.SWALR(averaged, swa_lr=high)
    for bound in (rate, high, low):
        bound.mul_(0.5)
    optimizer.step()
    cyclic.step()
    group = optimizer.param_groups[0]
    seen = [*cyclic.base_lrs, *cyclic.max_lrs, group["base_momentum"], group["max_momentum"]]
    assert [float(bound) for bound in seen] == pytest.approx([0.1, 0.2, 0.8, 0.2])
    assert float(averaged.param_groups[0]["swa_lr"]) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="swa_lr must have the same length as optimizer.param"):
        module.swa_utils.SWALR(averaged, swa_lr=[0.1, 0.2])


def test_chained_schedules_take_their_turn_in_a_sequence(lib):
    module = lib.optim.lr_scheduler
    optimizer = lib.optim.SGD([lib.zeros(1, requires_grad=True)], lr=0.05)
    chained = module.ChainedScheduler(
        [module.LinearLR(optimizer, 0.1, total_iters=5), module.ConstantLR(optimizer, 0.1, 5)]
    )
    last = module.ConstantLR(optimizer, factor=0.5, total_iters=5)
    schedule = module.SequentialLR(optimizer, [chained, last], milestones=[5])
    rates = []
    for _ in range(7):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([0.0005, 0.0014, 0.0023, 0.0032, 0.0041, 0.025, 0.025])


def test_time_by_an_argument_is_deprecated(lib):
    module = lib.optim.lr_scheduler
    optimizer = lib.optim.SGD([lib.zeros(1, requires_grad=True)], lr=1.0)
    schedule = module.StepLR(optimizer, 2)
    optimizer.step()
    with pytest.warns(UserWarning, match="The epoch parameter in"):
        schedule.step(4)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)
    assert module.EPOCH_DEPRECATION_WARNING.startswith("The epoch parameter in")


@pytest.mark.parametrize("low", [0.1, [0.1]])
def test_a_group_that_comes_later_has_a_lowest_rate_or_is_missed(lib, low):
    def parameter():
        return lib.zeros(1, requires_grad=True)

    optimizer = lib.optim.SGD([parameter()], lr=1.0)
    schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=low)
    optimizer.add_param_group({"params": [parameter()], "lr": 0.5})
    schedule.step(1.0)
    if isinstance(low, list):
        with pytest.raises(RuntimeError, match="number of param groups in the `optimizer`"):
            schedule.step(1.0)
        return
    schedule.step(1.0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.1]
