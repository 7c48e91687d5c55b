"""Walks inside walks, and on several threads, over one graph."""

import threading

import pytest

import weft


def test_a_hook_may_walk_over_the_same_graph():
    seen, inside_hook = [], []
    x = weft.tensor([2.0, 3.0], requires_grad=True)
    middle = x.exp()
    other = middle * x
    part, total = other.sum(), (other * middle).sum()

    def look(gradient):
        if not inside_hook:
            inside_hook.append(True)
            seen.append(weft.autograd.grad(part, x, retain_graph=True)[0].tolist())

    expected = weft.autograd.grad(total, x, retain_graph=True)[0].tolist()
    inside = weft.autograd.grad(part, x, retain_graph=True)[0].tolist()
    other.register_hook(look)
    total.backward(retain_graph=True)
    assert x.grad.tolist() == expected and seen == [inside]


def test_a_hook_may_walk_from_the_same_root():
    calls = []
    x = weft.tensor([2.0], requires_grad=True)
    y = x * x
    z = (y * x).sum()

    def again(gradient):
        if len(calls) < 3:
            calls.append(gradient.item())
            z.backward(retain_graph=True)

    y.register_hook(again)
    z.backward(retain_graph=True)
    assert calls == [2, 2, 2] and x.grad.item() == 4 * 12


def rounds_of_cells(rounds, w):
    """Sums of equal cells, of which those of a round are read, and so are a batch."""
    sums = []
    for number in range(rounds):
        cells = [(weft.full((1, 4), 0.1 * i + number) @ w).tanh() @ w for i in range(6)]
        sums.extend(cell.sum() for cell in cells)
        weft.stack(sums[-6:]).sum().item()
    return weft.stack(sums).sum(), sums


@pytest.mark.parametrize("rounds", [0, 1, 3])
@pytest.mark.parametrize("read", [False, True])
def test_what_a_hook_has_walked_over_has_given_up_its_saves(rounds, read):
    w = weft.full((4, 4), 0.1, requires_grad=True)
    total, sums = rounds_of_cells(rounds, w) if rounds else ((w.tanh() @ w).sum(), None)
    middle = total * 1.0
    out = middle * 2
    if read:
        out.item()
    middle.register_hook(lambda gradient: (sums[3] if sums else total).backward())
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()


@pytest.mark.parametrize("read", [False, True])
def test_a_hook_may_walk_over_what_saves_nothing(read):
    w = weft.full((4, 4), 0.5, requires_grad=True)
    cells = [w + i for i in range(6)]
    for _ in range(3):
        cells = [(cell + cell).flip(0) for cell in cells]
    total = weft.stack(cells).sum()
    middle = total * 1.0
    out = middle * 2
    if read:
        out.item()
    middle.register_hook(lambda gradient: total.backward())
    out.backward()
    assert w.grad.tolist() == [[3 * 6 * 8.0] * 4] * 4


def test_threads_walk_one_graph_at_the_same_time():
    x = weft.tensor([0.5] * 3, requires_grad=True)
    y = x
    for _ in range(30):
        y = (y * 1.01).sin() + x
    total = y.sum()
    expected = weft.autograd.grad(total, x, retain_graph=True)[0].tolist()
    wrong = []

    def walk():
        for _ in range(20):
            found = weft.autograd.grad(total, x, retain_graph=True)[0].tolist()
            if found != expected:
                wrong.append(found)

    threads = [threading.Thread(target=walk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
