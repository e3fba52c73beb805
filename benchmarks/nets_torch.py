"""One process of PyTorch's DistributedDataParallel with Gloo: the nets `mlp` and `transformer` of `hemiola bench nets`, one thread each. Prints examples per second of all processes."""

import json
import math
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import nn

folder, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(rank)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before_attention, self.before_hidden = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asked, self.heard = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.hidden, self.added = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, signal):
        examples, positions, width = signal.shape
        each = width // self.heads
        parts = self.asked(self.before_attention(signal)).view(examples, positions, 3, self.heads, each).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-2, -1) / math.sqrt(each)
        hidden = torch.triu(torch.ones(positions, positions, dtype=torch.bool), diagonal=1)
        heard = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1) @ parts[2]
        signal = signal + self.heard(heard.transpose(1, 2).reshape(examples, positions, width))
        return signal + self.added(functional.gelu(self.hidden(self.before_hidden(signal))))


class Transformer(nn.Module):
    def __init__(self, words=10_000, positions=64, width=128, heads=4, blocks=2):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(positions, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(blocks)])
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, words):
        signal = self.words(words) + self.places(torch.arange(words.shape[1]))
        return self.output(self.norm(self.blocks(signal)))


def layers():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def speed(model, inputs, wanted, steps=10, rounds=3):
    model = nn.parallel.DistributedDataParallel(model) if size > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        scores = model(inputs)
        functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), wanted.reshape(-1)).backward()
        optimizer.step()

    step()
    best = math.inf
    for _ in range(rounds):
        if size > 1:
            dist.barrier()
        start = time.perf_counter()
        for _ in range(steps):
            step()
        best = min(best, (time.perf_counter() - start) / steps)
    return size * len(inputs) / best


if size > 1:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size)
found = {
    "mlp": speed(layers(), torch.rand(64, 1, 28, 28), torch.randint(10, (64,))),
    "transformer": speed(Transformer(), torch.randint(10_000, (9, 64)), torch.randint(10_000, (9, 64))),
}
if rank == 0:
    print(json.dumps(found))
if size > 1:
    dist.destroy_process_group()
