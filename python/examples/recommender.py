"""Ratings by users and items with embeddings. Each worker has users of its own, and all share the items.

A batch needs few rows of the tables. `rows=` names them, so that no others are read.

    gaia train examples/regions.toml --script examples/recommender.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gaia

USERS, ITEMS, RANK, RATINGS = 40_000, 10_000, 16, 400_000

draws = torch.Generator().manual_seed(1)
users, items = (1.5 * torch.rand(count, 3, generator=draws) for count in (USERS, ITEMS))
# Few users and items have most ratings.
user, item = ((count * torch.rand(RATINGS, generator=draws) ** 4).long() for count in (USERS, ITEMS))
rating = (users[user] * items[item]).sum(1) + 0.3 * torch.randn(RATINGS, generator=draws)
own = user % gaia.size() == gaia.rank()
user, item, rating = user[own], item[own], rating[own]
held_out = len(user) // 10

torch.manual_seed(0)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        # Sparse gradients, and an optimizer that changes the rows of the batch alone.
        self.users, self.items = (nn.Embedding(count, RANK, sparse=True) for count in (USERS, ITEMS))
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, mean=0.2, std=0.1)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(1)


model = Recommender()
optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.02)


@torch.no_grad()
def validate(model):
    error = (model(user[:held_out], item[:held_out]) - rating[:held_out]).square().mean()
    return error.item(), error.sqrt().item(), held_out


run = gaia.join(model, optimizer, evaluate=validate, metric="rmse", average=False)
data = TensorDataset(user[held_out:], item[held_out:], rating[held_out:])
rows = {"users.weight": lambda batch: batch[0], "items.weight": lambda batch: batch[1]}
for epoch in range(20):
    for u, i, r in run(DataLoader(data, batch_size=256, shuffle=True), rows=rows):
        optimizer.zero_grad()
        (model(u, i) - r).square().mean().backward()
        optimizer.step()
run.end()
print(f"rank {gaia.rank()}: root mean square error {validate(model)[1]:.3f} after {run.clock} clocks")
