#!/usr/bin/python3
"""The reference implementation opens the safetensors files that `cairn convert` writes.

usage: safetensors_test.py CAIRN DATA_FOLDER     converts and checks
       safetensors_test.py --make CAIRN DATA_FOLDER OUT     only converts, into OUT
       safetensors_test.py --check DATA_FOLDER OUT          only checks what is in OUT

The last two are for a Python on another machine. Exits with 77 (ctest: skipped) where torch or
safetensors is not installed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file
except ImportError:
    torch = None

MODEL = "composer-0.33/ema/ep2-ba15-rank0.pt"
PLAIN = ("float32", "float64", "float16", "bfloat16", "uint8", "int8", "int16", "int32", "int64",
         "bool", "complex64")


def make(cairn, data, out):
    def convert(source, target, *options):
        subprocess.run([cairn, "convert", "--quiet", str(data / source), str(out / target),
                        *options], check=True, stdout=subprocess.DEVNULL)

    convert(MODEL, "model.safetensors", "--weights-only")
    convert(MODEL, "all.safetensors")
    for dtype in ("bf16", "fp16", "fp32"):
        convert(MODEL, f"{dtype}.safetensors", "--weights-only", "--dtype", dtype)
    convert(MODEL, "shards", "--weights-only", "--shard-size", "1KB")
    convert("torch-2.14/dtypes.safetensors", "dtypes.safetensors")
    convert("torch-2.14/dtypes.safetensors", "dtypes.pt")
    subprocess.run([cairn, "convert", "--quiet", str(out / "model.safetensors"),
                    str(out / "model.pt")], check=True, stdout=subprocess.DEVNULL)


def load(path):
    try:
        return torch.load(path, weights_only=False)
    except TypeError:  # before 1.13
        return torch.load(path)


def flat(value, name=""):
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            yield from flat(part, f"{name}.{key}" if name else str(key))


def expect_same(found, expected, what):
    assert found.keys() == expected.keys(), (what, found.keys() ^ expected.keys())
    for name, tensor in expected.items():
        other = found[name]
        assert other.dtype == tensor.dtype and other.shape == tensor.shape, (what, name)
        raw = [t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (other, tensor)]
        assert torch.equal(*raw), (what, name)


def check_weights_only(path, model):
    try:
        expect_same(torch.load(path, weights_only=True), model, "weights_only")
    except TypeError:
        print("SKIPPED: torch.load of this PyTorch has no weights_only")


def check_hugging_face_reader(folder, model):
    """torch.distributed.checkpoint on a folder of shards with their index."""
    try:
        import torch.distributed.checkpoint as dcp
        reader = dcp.HuggingFaceStorageReader(str(folder))
    except (ImportError, AttributeError):  # before 2.7
        print("SKIPPED: this PyTorch has no HuggingFaceStorageReader")
        return
    found = {name: torch.zeros_like(tensor) for name, tensor in model.items()}
    dcp.load(found, storage_reader=reader, no_dist=True)
    expect_same(found, model, "shards through HuggingFaceStorageReader")


def check(data, out):
    checkpoint = load(data / MODEL)
    model = dict(checkpoint["state"]["model"])
    expect_same(load_file(out / "model.safetensors"), model, "weights")
    expect_same(load_file(out / "all.safetensors"), dict(flat(checkpoint)), "everything")
    expect_same(load(out / "model.pt"), model, "and back")
    check_weights_only(out / "model.pt", model)
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)):
        cast = {key: tensor.to(dtype) if tensor.is_floating_point() else tensor
                for key, tensor in model.items()}
        expect_same(load_file(out / f"{name}.safetensors"), cast, name)

    index = json.loads((out / "shards/model.safetensors.index.json").read_text())
    shards = {}
    for file in sorted(set(index["weight_map"].values())):
        part = load_file(out / "shards" / file)
        assert all(index["weight_map"][name] == file for name in part), file
        shards.update(part)
    expect_same(shards, model, "shards")
    assert index["metadata"]["total_size"] == sum(t.numel() * t.element_size()
                                                  for t in model.values())
    assert set(index["metadata"]) == {"total_size", "cairn.writer", "cairn.xxh3"}, index["metadata"]
    check_hugging_face_reader(out / "shards", model)

    with safe_open(out / "model.safetensors", "pt") as file:
        texts = file.metadata()
        assert texts["format"] == "pt" and all(isinstance(text, str) for text in texts.values())
        assert set(texts) == {"format", "cairn.writer", "cairn.xxh3"}, texts
    # Every dtype that this version of the reference knows; older ones do not open the file at all.
    try:
        found = load_file(out / "dtypes.safetensors")
        expect_same(found, load_file(data / "torch-2.14/dtypes.safetensors"), "dtypes")
        expect_same({k: load(out / "dtypes.pt")[k] for k in PLAIN if k in found},
                    {k: found[k] for k in PLAIN if k in found}, "dtypes as torch.save")
    except Exception as error:  # safetensors before 0.5
        assert "InvalidHeaderDeserialization" in str(error), error


def main():
    if sys.argv[1] == "--make":
        make(sys.argv[2], *map(pathlib.Path, sys.argv[3:5]))
        return 0
    if torch is None:
        print("SKIPPED: torch or safetensors is not installed")
        return 77
    if sys.argv[1] == "--check":
        check(*map(pathlib.Path, sys.argv[2:4]))
    else:
        with tempfile.TemporaryDirectory() as out:
            make(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(out))
            check(pathlib.Path(sys.argv[2]), pathlib.Path(out))
    print("ok: torch", torch.__version__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
