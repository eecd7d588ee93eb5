#!/usr/bin/env python3
"""torch.distributed.checkpoint reads what ranks of cairn wrote together.

    sharded_test.py PROGRAM          writes folders with the program sharded_files, and checks them
    sharded_test.py --check FOLDER.. checks folders, on a machine that has no such program

A PyTorch before 2.4 does not read today's folders: newer_torch.py says where a newer one may be;
exit code 77 (skipped) without. Two processes read one folder as FSDP2 does, into parts of their
own.
"""
import pathlib
import subprocess
import sys
import tempfile

import newer_torch

if newer_torch.version_here() >= (2, 4):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

MODEL = {"0.weight": ((13, 7), 100), "0.bias": ((13,), 200), "2.weight": ((1, 13), 300),
         "2.bias": ((1,), 400), "count": ((), 500)}
MOMENTS = {"step": ((), 3), "exp_avg": ((13, 7), 600), "exp_avg_sq": ((13, 7), 700)}


def numbers(shape, salt):
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count, dtype=torch.float32) + salt).reshape(shape)


def expect(found, shape, salt, name):
    assert torch.equal(found, numbers(shape, salt)), f"{name}: {found}"


def check_tensors(state):
    for name, (shape, salt) in MODEL.items():
        expect(state["model"][name], shape, salt, name)
    moments = state["optimizers"]["AdamW"]["state"]["0.weight"]
    for name, (shape, salt) in MOMENTS.items():
        expect(moments[name], shape, salt, name)
    expect(state["mesh"], (8, 6), 800, "mesh")


def check_whole(folder):
    """As dcp_to_torch_save makes one file of it."""
    with tempfile.TemporaryDirectory() as temp:
        path = pathlib.Path(temp) / "full.pt"
        dcp_to_torch_save(folder, path)
        full = torch.load(path, weights_only=False)
    check_tensors(full["state"])
    assert full["state"]["run_name"] == "sharded"
    assert full["state"]["timestamp"] == {"Timestamp": {"batch": 3}}
    assert full["state"]["optimizers"]["AdamW"]["param_groups"] == [
        {"lr": 0.5, "params": ["0.weight"]}]
    ranks = len(full["rng"])
    for rank in range(ranks):
        assert full["rng"][rank]["python"] == rank
        expect(full["rng"][rank]["torch"], (4,), 1000 * (1 + rank), "rng")
    return ranks


def check_metadata(folder):
    """What Composer looks for in it."""
    metadata = FileSystemReader(folder).read_metadata()
    rng = {path[1] for path in metadata.planner_data.values()
           if path[0] == "rng" and len(path) == 3 and path[2] in ("torch", "python")}
    assert rng == set(range(len(rng)))
    assert metadata.planner_data["state.model.0.weight"] == ("state", "model", "0.weight")
    files = {info.relative_path for info in metadata.storage_data.values()}
    assert files == {f"__{rank}_0.distcp" for rank in range(len(rng))}, files


def check_load(folder):
    """dcp.load() into the tensors of one process."""
    state = {"model": {name: torch.zeros(shape) for name, (shape, _) in MODEL.items()},
             "optimizers": {"AdamW": {"state": {"0.weight": {
                 name: torch.zeros(shape) for name, (shape, _) in MOMENTS.items()}}}},
             "mesh": torch.zeros(8, 6), "run_name": ""}
    dcp.load({"state": state}, checkpoint_id=folder)
    check_tensors(state)


def read_as_rank(rank, ranks, folder, port_file):
    """One of several processes with a model that FSDP2 has cut."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo", init_method=f"file://{port_file}", rank=rank,
                            world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))
    model = torch.nn.Sequential(torch.nn.Linear(7, 13), torch.nn.ReLU(), torch.nn.Linear(13, 1))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    state = {"state": {"model": model.state_dict()}}
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state["state"]["model"])
    for name, parameter in model.named_parameters():
        shape, salt = MODEL[name]
        expect(parameter.full_tensor().detach(), shape, salt, name)
    dist.destroy_process_group()


def check_fsdp(folder):
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401, since 2.6
    except ImportError:
        return
    with tempfile.TemporaryDirectory() as temp:
        torch.multiprocessing.spawn(read_as_rank, (2, folder, f"{temp}/store"), nprocs=2)


def check(folder):
    ranks = check_whole(folder)
    check_metadata(folder)
    check_load(folder)
    check_fsdp(folder)
    print(f"{folder}: of {ranks} ranks, read by PyTorch {torch.__version__}")


def main():
    if sys.argv[1] == "--check":
        for folder in sys.argv[2:]:
            check(folder)
        return
    for python in newer_torch.newer_torches(least=(2, 4)):
        with python.folder() as temp:
            folders = [temp / f"ranks-{ranks}" for ranks in (1, 2, 3, 4)]
            for ranks, folder in enumerate(folders, 1):
                subprocess.run([sys.argv[1], folder, str(ranks)], check=True)
            python.run(__file__, ["--check", *folders], temp)


if __name__ == "__main__":
    main()
