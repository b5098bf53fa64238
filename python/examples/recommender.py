"""Ratings by users and items with embeddings. Each worker has users of its own, and all share the items.

    gaia train examples/regions.toml --script examples/recommender.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gaia

USERS, ITEMS, RANK, RATINGS = 600, 300, 8, 40_000

draws = torch.Generator().manual_seed(1)
users, items = (torch.randn(count, 3, generator=draws) for count in (USERS, ITEMS))
user, item = (torch.randint(count, (RATINGS,), generator=draws) for count in (USERS, ITEMS))
rating = (users[user] * items[item]).sum(1) + 0.3 * torch.randn(RATINGS, generator=draws)
own = user % gaia.size() == gaia.rank()
user, item, rating = user[own], item[own], rating[own]
held_out = len(user) // 10

torch.manual_seed(0)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, RANK), nn.Embedding(ITEMS, RANK)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.3)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(1)


model = Recommender()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)


@torch.no_grad()
def validate(model):
    error = (model(user[:held_out], item[:held_out]) - rating[:held_out]).square().mean()
    return error.item(), error.sqrt().item(), held_out


run = gaia.join(model, optimizer, evaluate=validate, metric="rmse", average=False)
data = TensorDataset(user[held_out:], item[held_out:], rating[held_out:])
for epoch in range(20):
    for u, i, r in run(DataLoader(data, batch_size=256, shuffle=True)):
        optimizer.zero_grad()
        (model(u, i) - r).square().mean().backward()
        optimizer.step()
run.end()
print(f"rank {gaia.rank()}: root mean square error {validate(model)[1]:.3f} after {run.clock} clocks")
