"""DDP inside a data center, Gaia between: the processes of one torchrun are one worker of the run.

    GAIA_RUN=run.toml GAIA_DC=tokyo torchrun --nproc_per_node=8 examples/ddp.py
"""

import os
from datetime import timedelta

import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
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

net = nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 5)).to(device)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)


@torch.no_grad()
def validate(net):
    net.eval()
    answers = net(points[3600:])
    right = (answers.argmax(1) == labels[3600:]).float().mean()
    return cross_entropy(answers, labels[3600:]).item(), right.item()


run = gaia.join(net, optimizer, evaluate=validate, metric="accuracy", higher_is_better=True)
model = DistributedDataParallel(net) if distributed.is_initialized() else net
for epoch in range(100):
    for x, y in run(DataLoader(data, batch_size=32, shuffle=True, drop_last=True)):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
run.end()
total = sum(value.double().sum().item() for value in net.state_dict().values() if value.is_floating_point())
print(f"rank {gaia.rank()} of {gaia.size()}: checksum {total!r} after {run.clock} clocks")
if distributed.is_initialized():
    distributed.destroy_process_group()
