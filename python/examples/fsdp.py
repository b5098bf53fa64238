"""FSDP2 inside a data center, Gaia between: each process of a torchrun is a worker for the rows that it holds.

    GAIA_RUN=run.toml GAIA_DC=tokyo torchrun --nproc_per_node=8 examples/fsdp.py

The run file gives the data center as many workers as torchrun starts processes.
"""

import os
from datetime import timedelta

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Subset, TensorDataset

import gaia

device = torch.device("cpu")
# The coordinator of the run is not inside a data center: there the script is started without torchrun.
if "WORLD_SIZE" in os.environ:
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    # Processes wait in a collective for as long as the run waits for another data center: `failures.give_up_after`, and more.
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(hours=1))
torch.manual_seed(0)
centers = torch.randn(5, 20)
labels = torch.randint(5, (4000,))
points = centers[labels] + torch.randn(4000, 20)
points, labels = points.to(device), labels.to(device)
data = Subset(TensorDataset(points, labels), range(gaia.rank(), 3600, gaia.size()))

net = nn.Sequential(nn.Linear(20, 33), nn.BatchNorm1d(33), nn.ReLU(), nn.Linear(33, 5)).to(device)
if distributed.is_initialized():
    for layer in net:
        fully_shard(layer)
    fully_shard(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)


@torch.no_grad()
def validate(net):
    net.eval()
    answers = net(points[3600:])
    right = (answers.argmax(1) == labels[3600:]).float().mean()
    return cross_entropy(answers, labels[3600:]).item(), right.item()


run = gaia.join(net, optimizer, evaluate=validate, metric="accuracy", higher_is_better=True, sharded=True)
for epoch in range(100):
    for x, y in run(DataLoader(data, batch_size=32, shuffle=True, drop_last=True)):
        optimizer.zero_grad()
        cross_entropy(net(x), y).backward()
        optimizer.step()
run.end()
values = [value for value in net.state_dict().values() if value.is_floating_point()]
whole = [value.full_tensor() if hasattr(value, "full_tensor") else value for value in values]
total = sum(value.double().sum().item() for value in whole)
print(f"rank {gaia.rank()} of {gaia.size()}: checksum {total!r} after {run.clock} clocks")
if distributed.is_initialized():
    distributed.destroy_process_group()
