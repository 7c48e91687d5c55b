"""
Balancing a pole
================

A cart on a track is pushed left or right so that the pole on it stays up (Barto, Sutton and Anderson, 1983); gymnasium
moves it. A policy learns it from nothing but how long it has balanced (REINFORCE: Williams, 1992). Each episode draws
its actions from the policy, reads them, and ends when the pole falls: 16 episodes of 16 lengths go through
``weft.map``, and at each time those that still balance ask the policy in one batch.

Run: ``python examples/gallery/cartpole.py [steps]``
"""

import random
import sys

import gymnasium
import matplotlib.pyplot as plt

import weft
from weft import nn
from weft.distributions import Categorical

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 150
random.seed(0)
weft.manual_seed(0)

# %%
# An episode is a loop that reads what it does next
# --------------------------------------------------

CARTS = [gymnasium.make("CartPole-v1") for _ in range(16)]
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))


def episode(cart: gymnasium.Env, most: int = 200) -> tuple[weft.Tensor, list[list[float]]]:
    """The log-probabilities of what was done, and the states on the way: place, speed, angle, angular speed."""
    chosen, states = [], []
    state, _ = cart.reset(seed=random.randrange(1 << 30))
    for _ in range(most):
        states.append(state.tolist())
        choices = Categorical(logits=policy(weft.tensor(states[-1])))
        action = choices.sample()
        chosen.append(choices.log_prob(action))
        state, _, has_fallen, _, _ = cart.step(
            action.item()
        )  # this episode waits here; the others go on
        if has_fallen:
            break
    return weft.stack(chosen), states


def returns(length: int, discount: float = 0.98) -> weft.Tensor:
    """What was still to come at each step, one for each that the pole stood."""
    left = weft.arange(length, 0, -1)
    return (1 - discount**left) / (1 - discount)


optimizer = weft.optim.Adam(policy.parameters(), lr=0.01)
lengths = []
for _step in range(STEPS):
    runs = weft.map(episode, CARTS)
    rewards = [returns(len(chosen)) for chosen, _ in runs]
    mean = weft.cat(rewards).mean()
    spread = weft.cat(rewards).std() + 1e-6
    losses = [-(c * (r - mean) / spread).sum() for (c, _), r in zip(runs, rewards, strict=True)]
    optimizer.zero_grad()
    (weft.stack(losses).sum() / sum(len(r) for r in rewards)).backward()
    optimizer.step()
    lengths.append(sum(len(chosen) for chosen, _ in runs) / len(runs))
print(
    f"balanced for {lengths[0]:.0f} steps at first, {sum(lengths[-10:]) / len(lengths[-10:]):.0f} at the end, of 200"
)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.plot(lengths)
left.set(xlabel="step of training", ylabel="steps in balance", title="16 episodes a step")
with weft.no_grad():
    for cart in CARTS[:5]:
        right.plot([state[2] for state in episode(cart)[1]], linewidth=0.8)
right.set(xlabel="time", ylabel="angle", title="five episodes with what it has learned")
plt.show()
