"""The image classifier of `examples/digits_plain.py` with hivemind 1.1. `hivemind-dht` says what to set `INITIAL_PEERS` to.

Each process trains on its own, and all average their parameters when together they have done a pass over the data.
"""

import os

import hivemind
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Subset, TensorDataset

rank, size = int(os.environ["REGION"]), int(os.environ["REGIONS"])

torch.manual_seed(0)
shapes = torch.randn(10, 1, 12, 12)
labels = torch.randint(10, (6000,))
images = shapes[labels] + 1.5 * torch.randn(6000, 1, 12, 12)
data = Subset(TensorDataset(images, labels), range(5400))
data = Subset(data, range(rank, len(data), size))
held_out = images[5400:], labels[5400:]

model = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, 10)
)
dht = hivemind.DHT(initial_peers=os.environ["INITIAL_PEERS"].split(), start=True)
optimizer = hivemind.Optimizer(
    dht=dht,
    run_id="digits",
    params=model.parameters(),
    optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
    batch_size_per_step=32,
    target_batch_size=5400,
    use_local_updates=True,
    delay_state_averaging=False,
    matchmaking_time=3.0,
    averaging_timeout=20.0,
)


@torch.no_grad()
def validate(model):
    model.eval()
    answers = model(held_out[0])
    model.train()
    return cross_entropy(answers, held_out[1]).item(), (answers.argmax(1) == held_out[1]).float().mean().item()


for epoch in range(10):
    for x, y in DataLoader(data, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()

optimizer.shutdown()
dht.shutdown()
print("loss %.3f, accuracy %.3f" % validate(model))
