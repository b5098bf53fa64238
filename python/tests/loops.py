"""Loops of torch that are trained twice: by one worker of a run, and plainly."""

import gaia
import torch
from torch import nn


def net(device="cpu"):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)


def batch(at, rank=0, device="cpu"):
    draws = torch.Generator().manual_seed(100 * rank + at)
    x = torch.randn(16, 6, generator=draws).to(device)
    return x, x.sum(1, keepdim=True)


def loss(model, x, y):
    return (model(x) - y).square().mean()


def judge(model):
    device = next(model.parameters()).device
    return loss(model, *batch(99, device=device)).item()


def joined(model, optimizer, **settings):
    return gaia.join(model, optimizer, evaluate=torch.no_grad()(judge), **settings)


def weights(model):
    return torch.cat([one.detach().flatten() for one in model.parameters()])


def ended_alone(one, train, clocks=6, within=1e-5, device="cpu"):
    """Trains with one worker under BSP, where a run is the plain loop, and compares with it.

    `train(model, join)` takes steps until the run is over that `join(model, optimizer)` returns, and returns its clock.
    """
    found = {}

    def main():
        model = net(device)
        found["clock"], found["weights"] = train(model, joined), weights(model)

    gaia.simulate(main, one, set={"stop.clocks": clocks})
    plain = net(device)

    class Plain:
        """A run that ends after the same number of clocks."""

        def __init__(self):
            self.clock, self.over = 0, False

        def stepped(self, *_):
            self.clock += 1
            self.over = self.clock == found["clock"]

    def plainly(model, optimizer, **settings):
        run = Plain()
        optimizer.register_step_post_hook(run.stepped)
        return run

    assert train(plain, plainly) == found["clock"]
    assert (weights(plain) - found["weights"]).abs().max() < within
