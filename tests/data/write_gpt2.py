#!/usr/bin/env python3
"""Writes gpt2/, a folder with the files and names of Hugging Face's "gpt2" in small, and the scores
that GPT-2's formulas give for some tokens. Needs torch; the safetensors file is written by hand.

    tests/data/write_gpt2.py
"""
import json
import math
import pathlib
import struct

import torch

HERE = pathlib.Path(__file__).parent
VOCABULARY, POSITIONS, WIDTH, LAYERS, HEADS = 29, 12, 8, 2, 2


def weights():
    torch.manual_seed(7)
    shapes = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (POSITIONS, WIDTH)}
    for i in range(LAYERS):
        shapes |= {f"h.{i}.{name}": shape for name, shape in {
            "ln_1.weight": (WIDTH,), "ln_1.bias": (WIDTH,),
            "attn.c_attn.weight": (WIDTH, 3 * WIDTH), "attn.c_attn.bias": (3 * WIDTH,),
            "attn.c_proj.weight": (WIDTH, WIDTH), "attn.c_proj.bias": (WIDTH,),
            "ln_2.weight": (WIDTH,), "ln_2.bias": (WIDTH,),
            "mlp.c_fc.weight": (WIDTH, 4 * WIDTH), "mlp.c_fc.bias": (4 * WIDTH,),
            "mlp.c_proj.weight": (4 * WIDTH, WIDTH), "mlp.c_proj.bias": (WIDTH,)}.items()}
    shapes |= {"ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)}
    tensors = {name: torch.randn(shape) / 2 for name, shape in shapes.items()}
    for i in range(LAYERS):  # the mask that the file of the hub holds, too
        tensors[f"h.{i}.attn.bias"] = torch.ones(1, 1, POSITIONS, POSITIONS).tril()
    return tensors


def scores(w, ids):
    def norm(x, name):
        return torch.nn.functional.layer_norm(x, (WIDTH,), w[name + ".weight"], w[name + ".bias"])

    def conv1d(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    x = w["wte.weight"][ids] + w["wpe.weight"][: ids.shape[1]]
    for i in range(LAYERS):
        heads = [part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                 for part in conv1d(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").chunk(3, -1)]
        query, key, value = heads
        raw = query @ key.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        mask = w[f"h.{i}.attn.bias"][:, :, : ids.shape[1], : ids.shape[1]].bool()
        mixed = raw.where(mask, torch.tensor(-1e4)).softmax(-1) @ value
        x = x + conv1d(mixed.transpose(1, 2).flatten(2), f"h.{i}.attn.c_proj")
        up = conv1d(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        bent = 0.5 * up * (1 + torch.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up ** 3)))
        x = x + conv1d(bent, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        dtype = {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    folder = HERE / "gpt2"
    folder.mkdir(exist_ok=True)
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
              "vocab_size": VOCABULARY, "n_positions": POSITIONS, "n_ctx": POSITIONS,
              "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS,
              "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = weights()
    write_safetensors(folder / "model.safetensors", tensors)
    ids = torch.randint(0, VOCABULARY, (2, 9))
    write_safetensors(HERE / "gpt2_scores.safetensors",
                      {"ids": ids, "scores": scores(tensors, ids)})


if __name__ == "__main__":
    main()
