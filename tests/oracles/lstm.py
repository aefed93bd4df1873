"""A model spec computed row by row in float64, as docs/model-format.md words it."""

from __future__ import annotations

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "softplus": lambda x: np.logaddexp(0, x),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "silu": lambda x: x * sigmoid(x),
    "expm1": np.expm1,
    "exp": np.exp,
}


def lstm(x, w, u, b):
    h = c = np.zeros(u.shape[1])
    out = []
    for row in x:
        i, f, g, o = np.split(w @ row + u @ h + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.array(out).reshape(-1, u.shape[1])


def gru(x, w, u, b, d):
    h, out = np.zeros(u.shape[1]), []
    for row in x:
        (r, z, n), (s, y, m) = np.split(w @ row + b, 3), np.split(u @ h + d, 3)
        z = sigmoid(z + y)
        h = (1 - z) * np.tanh(n + sigmoid(r + s) * m) + z * h
        out.append(h)
    return np.array(out).reshape(-1, u.shape[1])


def mingru(x, w, b):
    h, out = np.zeros(len(w) // 2), []
    for row in x:
        z, c = np.split(w @ row + b, 2)
        h = h + sigmoid(z) * (c - h)
        out.append(h)
    return np.array(out).reshape(-1, len(w) // 2)


def conv(x, w, b, dilation):
    out = np.tile(b.astype(float), (len(x), 1))
    for t in range(len(x)):
        for k in range(w.shape[2]):
            back = t - (w.shape[2] - 1 - k) * dilation
            if back >= 0:
                out[t] += w[:, :, k] @ x[back]
    return out


def layer(entry, x, tensors):
    """One entry of a stack on x [rows, width]."""
    name, kind = entry.get("name"), entry["type"]
    get = lambda part: tensors.get(f"{name}.{part}", np.zeros(1)).astype(float)  # noqa: E731
    if kind == "residual":
        return x + stack(entry["layers"], x, tensors)
    if kind == "concat":
        return np.hstack([x, stack(entry["layers"], x, tensors)])
    if kind == "layernorm":
        y = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + entry["eps"])
        return y * get("weight") + get("bias")
    if kind == "linear":
        return x @ get("weight").T + get("bias")
    if kind == "mingru":
        return mingru(x, get("weight"), get("bias"))
    if kind == "conv1d":
        return conv(x, get("weight"), get("bias") + np.zeros(entry["out"]), entry["dilation"])
    for k in range(entry.get("layers", 0)):
        out = []
        for order, suffix in ((1, ""), (-1, "_reverse"))[: 1 + entry.get("bidirectional", False)]:
            parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            w, u, b, d = (get(f"{p}_l{k}{suffix}") for p in parts)
            y = x[::order]
            y = (
                lstm(y, w, u, b + d)
                if kind == "lstm"
                else gru(y, w, u, b + 0 * u[:, 0], d + 0 * u[:, 0])
            )
            out.append(y[::order])
        x = np.hstack(out)
    return FUNCTIONS[kind](x) if kind in FUNCTIONS else x


def stack(entries, x, tensors):
    for entry in entries:
        x = layer(entry, x, tensors)
    return x


def chunked(entries, x, tensors, chunk, warmup, ahead=0):
    """The engine's promise: each chunk from zero state, over the rows before it first (and, for
    models that look ahead, back over ``ahead`` rows behind it)."""
    out = [np.zeros((0, stack(entries, x[:1], tensors).shape[1] if len(x) else 0))]
    for start in range(0, len(x), chunk):
        before, rows = max(0, start - warmup), len(x[start : start + chunk])
        window = stack(entries, x[before : start + chunk + ahead], tensors)
        out.append(window[start - before :][:rows])
    return np.concatenate(out)
