"""The image classifier of `examples/digits_plain.py` with DiLoCo of torchft 0.2. All processes meet at a lighthouse."""

import os
from datetime import timedelta

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Subset, TensorDataset
from torchft import Manager, ProcessGroupGloo
from torchft.local_sgd import DiLoCo

rank, size = int(os.environ["REPLICA_GROUP_ID"]), int(os.environ["NUM_REPLICA_GROUPS"])

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
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)


def state_dict():
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def load_state_dict(state):
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


manager = Manager(
    pg=ProcessGroupGloo(timeout=timedelta(seconds=60)),
    load_state_dict=load_state_dict,
    state_dict=state_dict,
    min_replica_size=size,
    use_async_quorum=False,
    replica_id=f"digits_{rank}",
)


@torch.no_grad()
def validate(model):
    model.eval()
    answers = model(held_out[0])
    model.train()
    return cross_entropy(answers, held_out[1]).item(), (answers.argmax(1) == held_out[1]).float().mean().item()


with DiLoCo(manager, [model], optimizer, outer, sync_every=10):
    for epoch in range(10):
        for x, y in DataLoader(data, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()

print("loss %.3f, accuracy %.3f" % validate(model))
manager.shutdown()
