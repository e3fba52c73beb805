"""Reads exported weights, and computes with NumPy what the PyTorch modules of docs/guides/export.md compute.

Arguments: a folder. Reads `<net>.safetensors` there and the inputs in `inputs.json`, and prints a JSON
object: for each net the shapes of its tensors and its predictions.
"""

import json
import math
import sys

import numpy as np
from safetensors import safe_open


def load(path):
    with safe_open(path, "numpy") as file:
        assert file.metadata()["format"] == "pt"
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        return tensors, json.loads(file.metadata()["hemiola"])


def linear(w, name, x):
    """nn.Linear"""
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def conv(x, weight, stride, padding):
    """nn.Conv2d without bias"""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("ncijxy,ocxy->noij", windows, weight)


def max_pool(x):
    n, c, h, w = x.shape
    x = x[:, :, : h // 2 * 2, : w // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2)
    return x.max((3, 5))


def group_norm(w, name, x):
    """nn.GroupNorm(channels // 8, channels)"""
    n, c, rows, columns = x.shape
    g = x.reshape(n, c // 8, -1)
    g = (g - g.mean(2, keepdims=True)) / np.sqrt(g.var(2, keepdims=True) + 1e-5)
    return g.reshape(x.shape) * w[name + ".weight"][:, None, None] + w[name + ".bias"][:, None, None]


def layer_norm(w, name, x):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * w[name + ".weight"] + w[name + ".bias"]


def relu(x):
    return np.maximum(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def normalized(images, description):
    tones = np.array(description["input"]["normalization"], "float64")
    return (images - tones[:, 0, None, None]) / tones[:, 1, None, None]


def mlp(w, x):
    x = x.reshape(len(x), -1)
    for layer in range(sum(name.startswith("hidden") for name in w) // 2):
        x = relu(linear(w, f"hidden.{layer}", x))
    return softmax(linear(w, "output", x))


def cnn(w, x):
    for layer in ["first", "second"]:
        x = relu(max_pool(conv(x, w[layer + ".weight"], 1, 2)))
    return softmax(linear(w, "output", relu(linear(w, "hidden", x.reshape(len(x), -1)))))


def resnet(w, x):
    x = relu(group_norm(w, "bn1", conv(x, w["conv1.weight"], 1, 1)))
    blocks = sorted({tuple(name.split(".")[:2]) for name in w if name.startswith("layer")})
    for stage, block in blocks:
        at, stride = f"{stage}.{block}.", 2 if stage != "layer1" and block == "0" else 1
        added = relu(group_norm(w, at + "bn1", conv(x, w[at + "conv1.weight"], stride, 1)))
        added = group_norm(w, at + "bn2", conv(added, w[at + "conv2.weight"], 1, 1))
        if at + "downsample.0.weight" in w:
            x = group_norm(w, at + "downsample.1", conv(x, w[at + "downsample.0.weight"], stride, 0))
        x = relu(x + added)
    return softmax(linear(w, "fc", x.mean((2, 3))))


def lstm(w, tokens):
    x = w["token_embedding.weight"][tokens]
    for layer in range(sum(name.startswith("lstm.weight_ih") for name in w)):
        hidden = w[f"lstm.weight_hh_l{layer}"].shape[1]
        h = c = np.zeros((len(x), hidden))
        outputs = []
        for position in range(x.shape[1]):
            gates = x[:, position] @ w[f"lstm.weight_ih_l{layer}"].T + w[f"lstm.bias_ih_l{layer}"]
            gates = gates + h @ w[f"lstm.weight_hh_l{layer}"].T + w[f"lstm.bias_hh_l{layer}"]
            i, f, g, o = np.split(gates, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            outputs.append(h)
        x = np.stack(outputs, 1)
    return linear(w, "output", x)


def attention(q, k, v, heads):
    n, length, width = q.shape
    q, k, v = (part.reshape(n, length, heads, -1).transpose(0, 2, 1, 3) for part in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    return (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(n, length, width)


def transformer(w, tokens, heads):
    x = w["token_embedding.weight"][tokens] + w["position_embedding.weight"][: tokens.shape[1]]
    for block in range(sum(name.endswith("in_proj_bias") for name in w)):
        at = f"blocks.{block}."
        qkv = layer_norm(w, at + "norm1", x) @ w[at + "self_attn.in_proj_weight"].T + w[at + "self_attn.in_proj_bias"]
        x = x + linear(w, at + "self_attn.out_proj", attention(*np.split(qkv, 3, 2), heads))
        inner = linear(w, at + "linear1", layer_norm(w, at + "norm2", x))
        gelu = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        x = x + linear(w, at + "linear2", gelu)
    return linear(w, "output", layer_norm(w, "norm", x))


def gpt(w, tokens, heads):
    def conv1d(name, x):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    x = w["wte.weight"][tokens] + w["wpe.weight"][: tokens.shape[1]]
    for block in range(sum(name.endswith("attn.c_attn.bias") for name in w)):
        at = f"h.{block}."
        qkv = conv1d(at + "attn.c_attn", layer_norm(w, at + "ln_1", x))
        x = x + conv1d(at + "attn.c_proj", attention(*np.split(qkv, 3, 2), heads))
        inner = conv1d(at + "mlp.c_fc", layer_norm(w, at + "ln_2", x))
        gelu = 0.5 * inner * (1 + np.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
        x = x + conv1d(at + "mlp.c_proj", gelu)
    return layer_norm(w, "ln_f", x) @ w["wte.weight"].T


def ncf(w, users, items):
    user, item = w["users.weight"][users], w["items.weight"][items]
    both = np.concatenate([user, item], 1)
    for layer in range(sum(name.startswith("hidden") for name in w) // 2):
        both = relu(linear(w, f"hidden.{layer}", both))
    return linear(w, "output", np.concatenate([user * item, both], 1))[:, 0] + w["mean"]


def perplexity(logits, targets):
    chances = softmax(logits)
    rows, columns = np.indices(targets.shape)
    return float(np.exp(-np.log(chances[rows, columns, targets]).mean()))


def main(folder):
    inputs = json.load(open(folder + "/inputs.json"))
    images = np.array(inputs["images"], "float64")
    found = {}
    for net in inputs["nets"]:
        tensors, description = load(f"{folder}/{net}.safetensors")
        assert all(tensor.dtype == np.float32 for tensor in tensors.values())
        w = {name: tensor.astype("float64") for name, tensor in tensors.items()}
        sizes = description["architecture"]
        kind = description["input"]["kind"]
        if kind == "images":
            result = {"mlp": mlp, "cnn": cnn, "resnet": resnet}[net](w, normalized(images, description)).tolist()
        elif kind == "text":
            words = {word: index for index, word in enumerate(description["input"]["vocabulary"])}
            lines = [line.split() for line in inputs["text"].splitlines()]
            text = [words.get(word, words.get("<unk>")) for line in lines for word in [*line, "<eos>"]]
            length = description["input"]["sequence_length"]
            count = (len(text) - 1) // length
            tokens = np.array(text[: count * length]).reshape(count, length)
            targets = np.array(text[1 : count * length + 1]).reshape(count, length)
            if net == "lstm":
                logits = lstm(w, tokens)
            else:
                logits = {"transformer": transformer, "gpt": gpt}[net](w, tokens, sizes["heads"])
            result = perplexity(logits, targets)
        else:
            names = description["input"]
            users = [names["users"].index(user) for user in inputs["users"]]
            items = [names["items"].index(item) for item in inputs["items"]]
            result = ncf(w, users, items).tolist()
        found[net] = {"shapes": {name: list(tensor.shape) for name, tensor in tensors.items()}, "result": result}
    print(json.dumps(found))


main(sys.argv[1])
