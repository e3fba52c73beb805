"""GPT-2 in NumPy: writes random weights with Hugging Face's names, and the logits of some tokens.

`gpt_reference.py write FILE` writes weights and prints tokens and logits as JSON. `gpt_reference.py compare FILE OTHER`
fails unless OTHER has the tensors of FILE.
"""

import json
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

WORDS, POSITIONS, WIDTH, HEADS, BLOCKS = 11, 7, 12, 3, 2


def norm(signal, scale, shift):
    mean, variance = signal.mean(-1, keepdims=True), signal.var(-1, keepdims=True)
    return (signal - mean) / np.sqrt(variance + 1e-5) * scale + shift


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def logits(weights, tokens):
    get = lambda name: weights[name].astype(np.float64)
    linear = lambda signal, name: signal @ get(f"{name}.weight") + get(f"{name}.bias")
    normed = lambda signal, name: norm(signal, get(f"{name}.weight"), get(f"{name}.bias"))
    count = tokens.shape[1]
    signal = get("wte.weight")[tokens] + get("wpe.weight")[:count]
    hidden = np.triu(np.full((count, count), -np.inf), 1)
    for block in range(BLOCKS):
        parts = np.split(linear(normed(signal, f"h.{block}.ln_1"), f"h.{block}.attn.c_attn"), 3, axis=-1)
        heads = lambda part: part.reshape(len(tokens), count, HEADS, WIDTH // HEADS).swapaxes(1, 2)
        query, key, value = map(heads, parts)
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(WIDTH // HEADS) + hidden
        chances = np.exp(scores - scores.max(-1, keepdims=True))
        chances /= chances.sum(-1, keepdims=True)
        heard = (chances @ value).swapaxes(1, 2).reshape(len(tokens), count, WIDTH)
        signal = signal + linear(heard, f"h.{block}.attn.c_proj")
        inner = gelu(linear(normed(signal, f"h.{block}.ln_2"), f"h.{block}.mlp.c_fc"))
        signal = signal + linear(inner, f"h.{block}.mlp.c_proj")
    return normed(signal, "ln_f") @ get("wte.weight").T


def random_weights():
    draw = np.random.default_rng(7)
    shapes = {"wte.weight": (WORDS, WIDTH), "wpe.weight": (POSITIONS, WIDTH)}
    for block in range(BLOCKS):
        for name, inputs, outputs in [("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1), ("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1)]:
            shapes[f"h.{block}.{name}.weight"] = (inputs * WIDTH, outputs * WIDTH)
            shapes[f"h.{block}.{name}.bias"] = (outputs * WIDTH,)
        for name in ["ln_1", "ln_2"]:
            shapes[f"h.{block}.{name}.weight"] = shapes[f"h.{block}.{name}.bias"] = (WIDTH,)
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (WIDTH,)
    return {name: draw.normal(scale=0.5, size=shape).astype(np.float32) for name, shape in shapes.items()}


if sys.argv[1] == "write":
    weights = random_weights()
    masks = {f"h.{block}.attn.bias": np.ones((1, 1, POSITIONS, POSITIONS), dtype=np.float32) for block in range(BLOCKS)}
    save_file({f"transformer.{name}": tensor for name, tensor in (weights | masks).items()}, sys.argv[2])
    tokens = np.random.default_rng(8).integers(WORDS, size=(3, POSITIONS))
    print(json.dumps({"tokens": tokens.ravel().tolist(), "logits": logits(weights, tokens).ravel().tolist()}))
else:
    ours, theirs = load_file(sys.argv[3]), load_file(sys.argv[2])
    theirs = {name.removeprefix("transformer."): tensor for name, tensor in theirs.items() if not name.endswith(".attn.bias")}
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    for name, tensor in theirs.items():
        assert np.array_equal(ours[name], tensor), name
