"""Scripts whose model is a table of embeddings and a dense layer."""

import gaia
import gaia.torch
import numpy
import pytest
import torch

ROWS, WIDTH = 1_000, 4


class Model(torch.nn.Module):
    """A table and a dense layer after it."""

    def __init__(self, table):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(WIDTH))
        self.users = table

    def forward(self, ids):
        return (self.users(ids) * self.scale).sum(-1)


def whole_table(table):
    """The same values in a table of torch's, which a worker holds as a whole."""
    whole = torch.nn.Embedding(table.num_embeddings, table.embedding_dim)
    values = numpy.empty((table.num_embeddings, table.embedding_dim), numpy.float32)
    gaia._gaia.write_initial_rows(values, table.embedding_dim, *table.initial)
    with torch.no_grad():
        whole.weight.copy_(torch.from_numpy(values))
    return whole


def trains(finals, *, whole=False, steps=1, batches=24, optimizer=torch.optim.SGD, device="cpu", **arguments):
    """A script whose loss pulls the rows of its batches to their numbers. It evaluates rows that several workers train."""
    held_out = torch.arange(0, ROWS, 37, device=device)

    def main():
        torch.manual_seed(3)
        table = gaia.torch.Embedding(ROWS, WIDTH, mean=0.2, std=0.1)
        model = Model(whole_table(table) if whole else table).to(device)
        opt = optimizer(model.parameters(), lr=0.05, **arguments)
        target = lambda ids: torch.sin(ids.float())  # noqa: E731
        evaluate = lambda model: (model(held_out) - target(held_out)).square().mean().item()  # noqa: E731
        named = {} if whole else {"evaluate_rows": {"users.weight": held_out}}
        run = gaia.join(model, opt, evaluate=evaluate, steps_per_clock=steps, **named)
        draws = torch.Generator().manual_seed(gaia.rank())
        data = torch.randint(ROWS, (batches, 20), generator=draws).to(device)
        for epoch in range(2):
            for ids in run(data, rows={"users.weight": lambda ids: ids}):
                opt.zero_grad()
                # It lives until the next step, when other rows are in hand.
                loss = (model(ids) - target(ids)).square().mean()
                loss.backward()
                opt.step()
        run.end()
        with torch.no_grad():
            finals[gaia.rank()] = model(held_out).clone(), model.scale.clone(), run.clock

    return main


def check_rows_in_hand(three, **arguments):
    """Trains with rows in hand and with whole tables, which must come to the same. What six workers have of the former."""
    finals = {False: {}, True: {}}
    settings = {"stop.clocks": 1000, "evaluate.every": 5}
    results = [gaia.simulate(trains(finals[whole], whole=whole, **arguments), three, set=settings) for whole in (False, True)]
    in_hand, whole = results
    assert in_hand["objective"] == pytest.approx(whole["objective"], rel=1e-5)
    assert in_hand["objective"] < 0.9 * in_hand.progress[0]["objective"]
    for rank in range(6):
        for one, other in zip(finals[False][rank][:2], finals[True][0][:2], strict=True):
            assert torch.allclose(one, other, atol=1e-6), rank
    return finals[False]
