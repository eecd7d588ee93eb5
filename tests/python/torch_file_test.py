#!/usr/bin/python3
"""PyTorch reads what cairn writes, and would have written the same pickle.

usage: torch_file_test.py WRITE_SAMPLE DATA_FOLDER

Runs WRITE_SAMPLE, then for every file: the zip is whole (Python's zipfile), torch.load gives what
the description beside it says, and torch.save of that object gives the same data.pkl byte for byte.
Exits with 77 (ctest: skipped) where python3-torch is not installed.
"""
import collections
import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import numpy_names  # noqa: F401

try:
    import torch
except ImportError:
    print("SKIPPED: python3-torch is not installed")
    sys.exit(77)

TORCH = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])

# Not pickled as PyTorch would: cairn avoids the global by which CPython writes empty bytes, and
# writes the "cpu" of torch.device("cpu") and of a storage once, not twice.
# Of sparse tensors it writes is_coalesced only where the file had it.
OTHER_PICKLE = {"sample.pt", "weights_only.pt", "python_values.pt", "sparse.pt",
                "sparse_layouts.pt"}

# Types that torch.load(weights_only=True) refuses, whoever wrote them.
NOT_WEIGHTS_ONLY = ("ndarray", "timedelta", "frozenset")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def tensor_bytes(tensor):
    tensor = tensor.detach().contiguous().reshape(-1)
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor).reshape(-1)
    return bytes(tensor.view(torch.uint8).tolist())


def dense_of(tensor):
    tensor = tensor.detach()
    if tensor.is_quantized:
        return tensor.int_repr()
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def describe_tensor(tensor):
    out = {"type": "tensor", "dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape),
           "requires_grad": tensor.requires_grad,
           "sha256": sha256(tensor_bytes(dense_of(tensor)))}
    if tensor.layout == torch.strided:
        out["stride"] = list(tensor.stride())
    else:
        out["layout"] = str(tensor.layout)
    if isinstance(tensor, torch.nn.Parameter):
        out["parameter"] = True
    return out


def describe(value):
    kind = type(value).__name__
    if value is None:
        return {"type": "None"}
    if type(value).__module__ == "numpy" and kind != "ndarray":
        return {"type": "numpy." + str(value.dtype), "value": describe(value.item())}
    if isinstance(value, torch.Tensor):
        return describe_tensor(value)
    if isinstance(value, (bool, str)):
        return {"type": kind, "value": value}
    if isinstance(value, torch.Size):
        return {"type": "torch.Size", "value": list(value)}
    if isinstance(value, int):
        return {"type": "int", "value": str(value)}
    if isinstance(value, float):
        return {"type": "float", "hex": value.hex()}
    if isinstance(value, complex):
        return {"type": "complex", "value": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, (bytes, bytearray)):
        return {"type": kind, "size": len(value), "sha256": sha256(value)}
    if isinstance(value, (list, tuple)):
        return {"type": kind, "items": [describe(item) for item in value]}
    if isinstance(value, (dict, collections.OrderedDict)):
        return {"type": kind, "items": [[describe(k), describe(v)] for k, v in value.items()]}
    if isinstance(value, (set, frozenset)):
        # Sorted by their text as nlohmann::json dumps it.
        return {"type": kind, "items": sorted(
            (describe(item) for item in value),
            key=lambda item: json.dumps(item, sort_keys=True, separators=(",", ":")))}
    if isinstance(value, datetime.timedelta):
        return {"type": kind, "value": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, torch.dtype):
        return {"type": "dtype", "value": str(value)}
    if isinstance(value, torch.device):
        return {"type": "device", "value": str(value)}
    if kind == "ndarray":
        out = {"type": "ndarray", "dtype": str(value.dtype), "shape": list(value.shape),
               "sha256": sha256(value.tobytes())}
        if value.flags.f_contiguous and not value.flags.c_contiguous:
            out["order"] = "F"
        return out
    if isinstance(value, (torch.layout, torch.memory_format, torch.qscheme)):
        return {"type": kind, "value": str(value)}
    raise TypeError(kind)


def dtypes_in(description):
    if isinstance(description, dict):
        if description.get("type") == "tensor":
            yield description["dtype"]
        description = list(description.values())
    if isinstance(description, list):
        for item in description:
            yield from dtypes_in(item)


def reason_to_skip(description):
    """What this Python lacks for the file, or None."""
    text = json.dumps(description)
    if '"ndarray"' in text:
        try:
            import numpy  # noqa: F401
        except ImportError:
            return "python3-numpy is not installed"
    if TORCH < (2, 0) and re.search('"layout": "torch.sparse_(?!coo)', text):
        return "this PyTorch has no _rebuild_sparse_tensor for that layout"
    if TORCH < (2, 1) and '"layout": "torch.sparse_coo"' in text:
        return "this PyTorch cannot read the is_coalesced of newer ones' files"
    for dtype in sorted(set(dtypes_in(description))):
        if not hasattr(torch, dtype):
            return "this PyTorch has no torch." + dtype
        is_new = dtype == "complex32" or dtype.startswith(("uint16", "uint32", "uint64", "float8"))
        if is_new and not hasattr(torch._utils, "_rebuild_tensor_v3"):
            return "this PyTorch has no _rebuild_tensor_v3"
    return None


def load(path, weights_only):
    if TORCH < (1, 13):
        return torch.load(path)
    return torch.load(path, map_location="cpu", weights_only=weights_only)


def intern_texts(value):
    """Makes texts that equal a constant of PyTorch's ("cpu") that constant, as in a program."""
    if isinstance(value, dict):
        for key, item in value.items():
            if type(item) is str:
                value[key] = sys.intern(item)
            intern_texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            intern_texts(item)


def record(path, name):
    with zipfile.ZipFile(path) as archive:
        found = [n for n in archive.namelist() if n.split("/", 1)[1] == name]
        return archive.read(found[0])


def check(path, same_pickle):
    """None, or why the file was skipped."""
    description = json.loads(pathlib.Path(str(path) + ".json").read_text())
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None, "damaged record " + str(archive.testzip())
    skipped = reason_to_skip(description)
    if skipped:
        return skipped
    holds = {kind for kind in NOT_WEIGHTS_ONLY if f'"{kind}"' in json.dumps(description)}
    if "ndarray" in holds:
        import numpy
        # numpy 2 has renamed its modules, and cairn keeps the names that the file had.
        of_numpy2 = b"numpy._core" in record(path, "data.pkl")
        same_pickle = same_pickle and of_numpy2 == (not numpy.__version__.startswith("1."))
    value = load(path, weights_only=False)
    assert describe(value) == description, "torch.load gives something else"
    intern_texts(value)
    again = path.with_name("again.pt")
    torch.save(value, again)
    # The names of modules in _metadata are texts of their own in Python; cairn writes a text once.
    if same_pickle and b"_metadata" not in record(path, "data.pkl"):
        assert record(again, "data.pkl") == record(path, "data.pkl"), "PyTorch's pickle differs"
    if TORCH >= (2, 6) and not holds:
        assert describe(load(path, weights_only=True)) == description, "weights_only differs"
    return None


def main(write_sample, data):
    golden = [path for path in sorted(pathlib.Path(data).rglob("*.pt"))
              if pathlib.Path(str(path) + ".json").exists()
              and path.name != "legacy.pt"]
    assert len(golden) > 50, "golden files are missing"
    failures, skips = 0, 0
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([write_sample, out, *map(str, golden)], check=True)
        files = [(pathlib.Path(out, name), name)
                 for name in ("sample.pt", "weights_only.pt", "containers.pt")]
        files += [(pathlib.Path(out, f"{i}.pt"), str(path.relative_to(data)))
                  for i, path in enumerate(golden)]
        for path, name in files:
            try:
                skipped = check(path, pathlib.Path(name).name not in OTHER_PICKLE)
                if skipped:
                    skips += 1
                    print(f"skipped {name}: {skipped}")
            except Exception as error:  # every file is to be tried
                failures += 1
                print(f"FAILED {name}: {type(error).__name__}: {error}")
    print(f"torch {torch.__version__}: {len(files)} files, {failures} failed, {skips} skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
