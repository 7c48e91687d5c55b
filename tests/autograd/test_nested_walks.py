"""Walks inside walks, and on several threads, over one graph."""

import threading

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
