#!/usr/bin/env python3
"""A sharded run goes from cairn to FSDP2 in Python and back, and its losses stay the same.

    fsdp_test.py LAUNCHER PROGRAM    the launcher is cairn-run, the program fsdp_run

  1. Two ranks of cairn train six batches, and save each third.
  2. Two ranks of Python load the checkpoint of the third, as Composer does (get_state_dict, a
     strict dcp.load, set_state_dict), and train six more: the first three have cairn's losses.
  3. They save at the sixth with dcp.save, as Composer does and under its names.
  4. One, two and three ranks of cairn go on from there: their losses are those of Python's last
     three.

Needs a PyTorch with torch.distributed.fsdp.fully_shard (2.6): newer_torch.py. Else exits with 77.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import newer_torch

FEATURES, CLASSES, SAMPLES, BATCH = 7, 5, 48, 12
RANKS = {"Adam": (1, 2, 3), "AdamW": (2,), "SGD": (3,), "PlainSGD": (2,)}
OPTIMIZERS = tuple(RANKS)
SAVED_BY_CAIRN, SAVED_BY_PYTHON = "ep0-ba3", "saved"
TOLERANCE = 2e-6  # of losses between 1 and 2, as float32 adds them in another order


# What runs under the newer PyTorch.

def make_net():
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(FEATURES, 13)
            self.norm = torch.nn.LayerNorm(13)
            self.last = torch.nn.Linear(13, CLASSES)
            self.scale = torch.nn.Parameter(torch.ones(1))
            self.register_buffer("shift", torch.zeros(FEATURES))

        def forward(self, x):
            return self.last(self.norm(torch.tanh(self.first(x + self.shift)))) * self.scale

    class Model(torch.nn.Module):  # as ComposerClassifier has it
        def __init__(self):
            super().__init__()
            self.module = Net()

        def forward(self, x):
            return self.module(x)

    return Model()


def make_optimizer(name, parameters):
    import torch
    if name == "PlainSGD":
        return torch.optim.SGD(parameters, lr=0.1)
    if name == "SGD":
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)
    if name == "AdamW":
        return torch.optim.AdamW(parameters, lr=0.02, weight_decay=0.1)
    return torch.optim.Adam(parameters, lr=0.02)


def batch_of(number, rank, ranks):
    """What DistributedSampler deals without shuffling."""
    import torch
    i = torch.arange(SAMPLES).unsqueeze(1)
    j = torch.arange(FEATURES).unsqueeze(0)
    x = ((i * 5 + j * 3) % 17) / 17.0 - 0.5
    y = (torch.arange(SAMPLES) * 7) % CLASSES
    begin = number * BATCH % SAMPLES
    own = slice(begin + rank, begin + BATCH, ranks)
    return x[own], y[own]


def train_step(model, optimizer, number, rank, ranks):
    import torch
    import torch.distributed as dist
    x, y = batch_of(number, rank, ranks)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / ranks


def let_older_train_on_cpu():
    """FSDP2 of 2.6 computes on GPUs alone: a CPU's streams lack what it calls, and Gloo an
    operation, and gathering again for backward() needs a GPU, too. Gives fully_shard()'s options.
    """
    import torch
    import torch.distributed as dist
    if newer_torch.version_here() >= (2, 7):
        return {}
    stream = torch.cpu.Stream
    stream.record_event = lambda self, event=None: event or torch.cpu.Event()
    stream.wait_event = lambda self, event: None

    def reduce_scatter_tensor(output, input, op=dist.ReduceOp.SUM, group=None, async_op=False):
        whole = input.clone()
        dist.all_reduce(whole, dist.ReduceOp.SUM, group=group)
        ranks = dist.get_world_size(group)
        output.copy_(whole.chunk(ranks)[dist.get_rank(group)])
        if op == dist.ReduceOp.AVG:
            output.div_(ranks)

    dist.reduce_scatter_tensor = reduce_scatter_tensor
    return {"reshard_after_forward": False}


def objects_of(folder):
    """All of the checkpoint, for what is not this model's."""
    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    with tempfile.TemporaryDirectory() as temp:
        path = pathlib.Path(temp) / "full.pt"
        dcp_to_torch_save(folder, path)
        return torch.load(path, weights_only=False)


def go_on(optimizer_name, folder, rank, ranks):
    """Steps 2 and 3 of one optimizer; gives the losses."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (ranks,))
    model = make_net()
    for unit in (model.module.first, model.module.last, model):
        fully_shard(unit, mesh=mesh, **let_older_train_on_cpu())
    optimizer = make_optimizer(optimizer_name, model.parameters())
    name = type(optimizer).__name__
    weights, moments = get_state_dict(model, optimizer)
    state = {"state": {"model": weights, "optimizers": {name: moments}}}
    dcp.load(state, checkpoint_id=f"{folder}/{SAVED_BY_CAIRN}")
    missing = set_state_dict(model, optimizer, model_state_dict=state["state"]["model"],
                             optim_state_dict=state["state"]["optimizers"][name])
    assert not missing.missing_keys and not missing.unexpected_keys, missing
    losses = [train_step(model, optimizer, number, rank, ranks) for number in range(3, 6)]

    weights, moments = get_state_dict(model, optimizer)
    whole = objects_of(f"{folder}/{SAVED_BY_CAIRN}")["state"]
    time = whole["timestamp"]["Timestamp"]
    assert time["batch"] == 3 and time["sample"] == 3 * BATCH, time
    time.update(epoch=1, batch=6, sample=6 * BATCH, batch_in_epoch=2, sample_in_epoch=2 * BATCH)
    whole.update(model=weights, optimizers={name: moments})
    del whole["dataset_state"]
    dcp.save({"state": whole}, checkpoint_id=f"{folder}/{SAVED_BY_PYTHON}")
    return losses + [train_step(model, optimizer, number, rank, ranks) for number in range(6, 9)]


def rank_of_python(rank, ranks, temp):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{temp}/store", rank=rank,
                            world_size=ranks)
    losses = {name: go_on(name, f"{temp}/{name}", rank, ranks) for name in OPTIMIZERS}
    if rank == 0:
        pathlib.Path(temp, "losses.json").write_text(
            json.dumps({"torch": torch.__version__, "losses": losses}))
    dist.destroy_process_group()


def run_python(temp):
    import torch
    torch.multiprocessing.spawn(rank_of_python, (2, temp), nprocs=2)


# What runs here.

def run_cairn(launcher, program, ranks, **arguments):
    words = [f"{key}={value}" for key, value in {"ranks": ranks, **arguments}.items()]
    output = subprocess.run([launcher, "-n", str(ranks), program, *words], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    lines = [line.split() for line in output.splitlines() if line.startswith("batch ")]
    return {int(words[1]): float(words[3]) for words in lines}


def furthest(one, other):
    assert len(one) == len(other) == 3, (one, other)
    return max(abs(a - b) for a, b in zip(one, other))


def there_and_back(python, launcher, program, temp):
    def train(ranks, optimizer, **arguments):
        return run_cairn(launcher, program, ranks, optimizer=optimizer, **arguments)

    ours = {name: train(2, name, until=6, folder=temp / name) for name in OPTIMIZERS}
    python.run(__file__, ["--peer", temp], temp)
    answer = json.loads((temp / "losses.json").read_text())
    for name in OPTIMIZERS:
        theirs = answer["losses"][name]
        worst = furthest([ours[name][batch] for batch in (4, 5, 6)], theirs[:3])
        assert worst < TOLERANCE, (name, ours[name], theirs)
        print(f"PyTorch {answer['torch']}, {name}: two ranks of FSDP2 go on from cairn's, losses "
              f"within {worst:.1e}")
        for ranks in RANKS[name]:
            back = train(ranks, name, until=9, load=temp / name / SAVED_BY_PYTHON)
            assert sorted(back) == [7, 8, 9], back
            worst = furthest([back[batch] for batch in (7, 8, 9)], theirs[3:])
            assert worst < TOLERANCE, (name, ranks, back, theirs)
            print(f"  {ranks} of cairn go on from theirs, within {worst:.1e}")


def main():
    if sys.argv[1] == "--peer":
        return run_python(sys.argv[2])
    for python in newer_torch.newer_torches(least=(2, 6)):
        with python.folder() as temp:
            there_and_back(python, sys.argv[1], sys.argv[2], temp)


if __name__ == "__main__":
    main()
