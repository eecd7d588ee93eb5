#!/usr/bin/python3
"""PyTorch and the reference of safetensors open what `cairn convert` makes of every golden file.

usage: convert_test.py CAIRN DATA_FOLDER       converts and checks
       convert_test.py --make CAIRN DATA_FOLDER OUT     only converts, into OUT
       convert_test.py --check OUT                      only checks what is in OUT

The last two are for a Python on another machine. Every file that has a description is converted to
torch.save, to a folder of torch.distributed.checkpoint and to safetensors, and dumped again:

- torch.save: the dump is the one of the original, and torch.load() gives what it says;
- the folder, beside whose parts cairn's manifest lies: dcp_to_torch_save() and load() of
  torch.distributed.checkpoint give what the dump says (PyTorch 2.2 and newer);
- safetensors: the reference gives the tensors that the dump names.

Exits with 77 (ctest: skipped) where PyTorch is not installed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch_file_test as torch_file
except SystemExit:
    torch_file = None
try:
    from safetensors.torch import load_file
except ImportError:
    load_file = None

REFUSED = 5   # cairn's exit code for what a format cannot hold
WRONG = 2     # and for what was asked in vain: two names that would be one


def golden_files(data):
    for description in sorted(data.rglob("*.json")):
        path = description.with_suffix("")
        if path.exists() and path.suffix != ".index":
            yield path
        # One description for the checkpoint in every container.
        if description.name == "ck.json":
            yield from sorted(p for p in description.parent.iterdir() if p.suffix != ".json")


def make(cairn, data, out):
    def run(*arguments):
        return subprocess.run([cairn, *map(str, arguments)], capture_output=True, text=True)

    def dump(path):
        answer = run("dump", path)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    made = []
    for i, source in enumerate(golden_files(data)):
        entry = {"source": str(source.relative_to(data)), "targets": [], "refused": {}}
        before = dump(source)
        for target, options in ((f"{i}.pt", []), (f"{i}.dcp", ["--to", "dcp"]),
                                (f"{i}.safetensors", [])):
            answer = run("convert", "--quiet", *options, source, out / target)
            if answer.returncode in (REFUSED, WRONG):
                entry["refused"][target] = answer.stderr.strip()
                assert not (out / target).exists(), target
                continue
            assert answer.returncode == 0, (source, target, answer.stderr)
            after = dump(out / target)
            if target.endswith(".pt"):
                assert json.loads(after) == json.loads(before), (source, target)
            (out / (target + ".json")).write_text(after)
            entry["targets"].append(target)
        assert f"{i}.pt" in entry["targets"], entry
        made.append(entry)
    assert len(made) > 60, "golden files are missing"
    (out / "made.json").write_text(json.dumps(made, indent=1))


def check_torch(path, description):
    reason = torch_file.reason_to_skip(description)
    if reason is None:
        assert torch_file.describe(torch_file.load(path, weights_only=False)) == description
    return reason


def check_dcp(path, description):
    if torch_file.TORCH < (2, 2):
        return "this PyTorch has no dcp_to_torch_save"
    reason = torch_file.reason_to_skip(description)
    if reason is not None:
        return reason
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    with tempfile.TemporaryDirectory() as folder:
        dcp_to_torch_save(path, folder + "/whole.pt")
        found = torch_file.load(folder + "/whole.pt", weights_only=False)
    assert torch_file.describe(found) == description
    check_dcp_load(path, found)
    return None


def check_dcp_load(path, whole):
    """load() fills tensors, beside a file in the folder that it does not know."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    assert (path / ".cairn_manifest.json").exists()
    # What others list: the parts, by their ending or without the hidden names.
    assert {name.suffix for name in path.glob("[!.]*")} <= {".distcp"}
    saved = dcp.FileSystemReader(path).read_metadata()
    found = {name: torch_file.torch.zeros(entry.size, dtype=entry.properties.dtype)
             for name, entry in saved.state_dict_metadata.items()
             if isinstance(entry, TensorStorageMetadata)}
    dcp.load(found, storage_reader=dcp.FileSystemReader(path), no_dist=True)
    for name, tensor in found.items():
        expected = whole
        for key in saved.planner_data[name]:
            expected = expected[key]
        assert torch_file.tensor_bytes(tensor) == torch_file.tensor_bytes(expected), name


def check_safetensors(path, description):
    if load_file is None:
        return "safetensors is not installed"
    try:
        found = load_file(path)
    except Exception as error:
        if "InvalidHeaderDeserialization" in str(error):
            return "this safetensors does not know all of its dtypes"
        raise
    expected = {key["value"]: tensor for key, tensor in description["items"]}
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    for name, tensor in found.items():
        if str(tensor.dtype)[6:].startswith("float4"):
            continue  # two elements a byte: PyTorch gives no bytes of it
        described = torch_file.describe_tensor(tensor)
        for key in ("dtype", "shape", "sha256"):
            assert described[key] == expected[name][key], (name, key)
    return None


CHECKS = {".pt": check_torch, ".dcp": check_dcp, ".safetensors": check_safetensors}


def check(out):
    failures = 0
    for suffix, check_one in CHECKS.items():
        opened, skipped, refused = 0, {}, 0
        for entry in json.loads((out / "made.json").read_text()):
            refused += sum(name.endswith(suffix) for name in entry["refused"])
            for target in entry["targets"]:
                if not target.endswith(suffix):
                    continue
                description = json.loads((out / (target + ".json")).read_text())
                try:
                    reason = check_one(out / target, description)
                except BaseException as error:  # CheckpointException is no Exception
                    failures += 1
                    print(f"FAILED {entry['source']} as {suffix}: {type(error).__name__}: {error}")
                    continue
                if reason is None:
                    opened += 1
                else:
                    skipped[reason] = skipped.get(reason, 0) + 1
        print(f"{suffix}: {opened} opened and the same, {refused} refused by cairn")
        for reason, count in skipped.items():
            print(f"    {count} skipped: {reason}")
    return 1 if failures else 0


def main():
    if sys.argv[1] == "--make":
        make(sys.argv[2], *map(pathlib.Path, sys.argv[3:5]))
        return 0
    if torch_file is None:
        return 77
    print("torch", torch_file.torch.__version__)
    if sys.argv[1] == "--check":
        return check(pathlib.Path(sys.argv[2]))
    with tempfile.TemporaryDirectory() as out:
        make(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(out))
        return check(pathlib.Path(out))


if __name__ == "__main__":
    sys.exit(main())
