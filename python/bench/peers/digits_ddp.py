"""The image classifier of `examples/digits_plain.py` with PyTorch's DDP over gloo. One torchrun starts each process."""

import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset

distributed.init_process_group("gloo")
rank, size = distributed.get_rank(), distributed.get_world_size()

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
model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


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

distributed.destroy_process_group()
print("loss %.3f, accuracy %.3f" % validate(model))
