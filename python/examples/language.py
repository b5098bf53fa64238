"""A small transformer that continues text, over text that it makes: sums such as `17+25=42`.

    gaia train examples/regions.toml --script examples/language.py --set stop.clocks=300
"""

import random

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import gaia

LETTERS = "0123456789+=;"
LENGTH, WIDTH = 32, 48


def text(seed, characters):
    """Sums of numbers below 20, one after the other. Each worker has its own."""
    draws, found = random.Random(seed), ""
    while len(found) < characters:
        a, b = draws.randrange(20), draws.randrange(20)
        found += f"{a}+{b}={a + b};"
    return torch.tensor([LETTERS.index(letter) for letter in found[:characters]])


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.answer = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        x = self.letters(x) + self.places(torch.arange(x.shape[1]))
        return self.answer(self.layers(x, mask=mask, is_causal=True))


def loss_of(model, batch):
    answers = model(batch[:, :-1])
    return cross_entropy(answers.flatten(0, 1), batch[:, 1:].flatten())


data = text(1000 + gaia.rank(), 20_000).unfold(0, LENGTH + 1, 8)
held_out = text(7, 3_000).unfold(0, LENGTH + 1, 32)
torch.manual_seed(0)
model = Language()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


@torch.no_grad()
def validate(model):
    loss = loss_of(model, held_out)
    return loss.item(), loss.exp().item(), held_out[:, 1:].numel()


run = gaia.join(model, optimizer, evaluate=validate, metric="perplexity")
for epoch in range(20):
    for batch in run(DataLoader(data, batch_size=16, shuffle=True)):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
run.end()
print(f"rank {gaia.rank()}: perplexity {validate(model)[1]:.2f} after {run.clock} clocks")
