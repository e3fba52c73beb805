"""PyTorch's speed on the nets of `hemiola bench nets` and of hemiola-nn's example `net_speed`.

`nets_torch.py FOLDER RANK SIZE` is one process of DistributedDataParallel with Gloo, of one thread. It prints examples
per second of all processes. `nets_torch.py --threads N NET...` is one process of N threads. It prints, for each net,
examples per second and examples per second of CPU time.
"""

import json
import math
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import nn

if sys.argv[1] == "--threads":
    folder, rank, size, threads, nets = None, 0, 1, int(sys.argv[2]), sys.argv[3:]
else:
    folder, rank, size, threads, nets = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 1, ["mlp", "transformer"]
torch.set_num_threads(threads)
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


def convolutions():
    """Three 3 x 3 convolutions, each followed by a rectifier and pooling, and two linear layers."""
    parts, channels = [], 3
    for wanted in (32, 64, 128):
        parts += [nn.Conv2d(channels, wanted, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(2)]
        channels = wanted
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 10))


class Lstm(nn.Module):
    def __init__(self, words=10_000, width=128):
        super().__init__()
        self.words, self.layer, self.output = nn.Embedding(words, width), nn.LSTM(width, width, batch_first=True), nn.Linear(width, words)

    def forward(self, words):
        return self.output(self.layer(self.words(words))[0])


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


def alone(model, inputs, wanted, steps=30, rounds=3):
    """Examples per second and per second of CPU time, of one process: the best rounds."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    best, best_cpu = math.inf, math.inf
    for round in range(rounds + 1):
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps if round else 2):
            optimizer.zero_grad(set_to_none=True)
            scores = model(inputs)
            functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), wanted.reshape(-1)).backward()
            optimizer.step()
        if round:
            best, best_cpu = min(best, (time.perf_counter() - start) / steps), min(best_cpu, (time.process_time() - cpu) / steps)
    return [len(inputs) / best, len(inputs) / best_cpu]


MODELS = {
    "mlp": lambda: (layers(), torch.rand(64, 1, 28, 28), torch.randint(10, (64,))),
    "cnn": lambda: (convolutions(), torch.rand(16, 3, 32, 32), torch.randint(10, (16,))),
    "lstm": lambda: (Lstm(), torch.randint(10_000, (9, 64)), torch.randint(10_000, (9, 64))),
    "transformer": lambda: (Transformer(), torch.randint(10_000, (9, 64)), torch.randint(10_000, (9, 64))),
}

if folder is None:
    print(json.dumps({name: alone(*MODELS[name]()) for name in nets}))
    sys.exit()

if size > 1:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size)
found = {name: speed(*MODELS[name]()) for name in nets}
if rank == 0:
    print(json.dumps(found))
if size > 1:
    dist.destroy_process_group()
