#!/usr/bin/env python3
"""Reads what sample_trainer wrote, as a Python program would.

    read_checkpoint.py --program SAMPLE_TRAINER    runs it first
    read_checkpoint.py --folder FOLDER             reads what it wrote elsewhere

Exits with 77 (skipped) where there is no torch or no numpy, whose array a full checkpoint holds.
Works with torch 1.13 and newer, numpy 1 and 2.
"""
import argparse
import collections
import datetime
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
except ImportError:
    print("SKIPPED: no torch or no numpy for this Python")
    sys.exit(77)


def loads(path):
    """The object as each kind of torch.load reads it."""
    yield "plain", torch.load(path, weights_only=False)
    if hasattr(torch.serialization, "add_safe_globals"):
        # What Composer allows, too. Of numpy no function of its inner module is needed, whose name
        # changed in numpy 2.
        torch.serialization.add_safe_globals(
            [datetime.timedelta, numpy.ndarray, numpy.dtype, type(numpy.dtype("uint32"))])
        yield "weights_only", torch.load(path, weights_only=True)


def check_tensor(tensor, dtype, shape):
    assert type(tensor) is torch.Tensor, type(tensor)
    assert tensor.dtype == dtype and list(tensor.shape) == shape, (tensor.dtype, tensor.shape)
    assert not tensor.requires_grad


def check_model(model, expected):
    assert type(model) is collections.OrderedDict
    assert list(model) == [
        "module.0.weight", "module.0.bias", "module.1.weight", "module.1.bias",
        "module.1.running_mean", "module.1.running_var", "module.1.num_batches_tracked",
        "module.3.weight", "module.3.bias"]
    for name, want in expected.items():
        check_tensor(model[name], torch.float32, want["shape"])
        assert torch.equal(model[name].flatten(), torch.tensor(want["values"])), name
    check_tensor(model["module.1.num_batches_tracked"], torch.int64, [])
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU(),
                              torch.nn.Linear(6, 3))
    net.load_state_dict({k[len("module."):]: v for k, v in model.items()})
    return net


def check_optimizer(optimizers, net, lr):
    assert list(optimizers) == ["AdamW"]
    state, groups = optimizers["AdamW"]["state"], optimizers["AdamW"]["param_groups"]
    names = ["module." + name for name, _ in net.named_parameters()]
    assert list(state) == names and groups[0]["params"] == names
    assert [group["lr"] for group in groups] == lr
    assert type(groups[0]["betas"]) is tuple
    for name, parameter in net.named_parameters():
        entry = state["module." + name]
        assert list(entry) == ["step", "exp_avg", "exp_avg_sq"]
        assert float(entry["step"]) == 7
        check_tensor(entry["exp_avg"], torch.float32, list(parameter.shape))
    # Python's own optimizer takes it by position.
    optimizer = torch.optim.AdamW(net.parameters(), lr=1)
    optimizer.load_state_dict({
        "state": {i: state[name] for i, name in enumerate(names)},
        "param_groups": [{**groups[0], "params": list(range(len(names)))}]})
    assert optimizer.param_groups[0]["lr"] == lr[0]


def check_random(rng, expected):
    assert len(rng) == 1 and list(rng[0]) == ["python", "numpy", "torch"]
    random.setstate(rng[0]["python"])
    drawn = random.random()
    random.seed(expected["seed"])
    assert drawn == random.random()
    check_tensor(rng[0]["torch"], torch.uint8, [5056])
    torch.set_rng_state(rng[0]["torch"])
    assert torch.rand(4).tolist() == torch.tensor(expected["next_random_numbers"]).tolist()
    words = rng[0]["numpy"][1]
    assert type(words) is numpy.ndarray and words.dtype == numpy.uint32 and words.shape == (624,)
    numpy.random.set_state(rng[0]["numpy"])
    drawn = numpy.random.random()
    numpy.random.seed(expected["seed"])
    assert drawn == numpy.random.random()


def check_full(checkpoint, expected):
    assert list(checkpoint) == ["state", "rng"]
    state = checkpoint["state"]
    assert list(state) == [
        "model", "optimizers", "schedulers", "algorithms", "callbacks", "scaler", "timestamp",
        "rank_zero_seed", "train_metrics", "eval_metrics", "run_name", "dataset_state",
        "integrations", "metadata"]
    net = check_model(state["model"], expected["model"])
    check_optimizer(state["optimizers"], net, expected["lr"])
    scheduler = state["schedulers"]["LambdaLR"]
    assert scheduler["last_epoch"] == 7 and scheduler["lr_lambdas"] == [None]
    assert type(state["algorithms"]) is list
    assert type(state["callbacks"]["SpeedMonitor"]["total_eval_wct"]) is float
    assert list(state["scaler"]["ClosureGradScaler"]) == [
        "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"]
    timestamp = state["timestamp"]["Timestamp"]
    assert len(timestamp) == 14 and timestamp["batch"] == 7 and timestamp["epoch"] == 1
    assert type(timestamp["total_wct"]) is datetime.timedelta
    assert state["rank_zero_seed"] == expected["seed"] and state["run_name"] == "sample"
    accuracy = state["train_metrics"]["MulticlassAccuracy"]
    assert list(accuracy) == ["state_dict", "_computed"]
    assert list(accuracy["state_dict"]) == ["tp", "fp", "tn", "fn"]
    assert list(state["dataset_state"]) == ["train", "eval"]
    assert type(state["metadata"]["torch_version"]) is str
    check_random(checkpoint["rng"], expected)


def check(folder):
    expected = json.loads((folder / "expected.json").read_text())
    for how, checkpoint in loads(folder / "full.pt"):
        check_full(checkpoint, expected)
        print(f"torch {torch.__version__}, {how}: full checkpoint as expected")
    for how, checkpoint in loads(folder / "weights.pt"):
        assert list(checkpoint) == ["state"]
        assert list(checkpoint["state"]) == ["model", "integrations", "metadata"]
        check_model(checkpoint["state"]["model"], expected["model"])
        print(f"torch {torch.__version__}, {how}: weights as expected")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--program")
    which.add_argument("--folder", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.folder:
        return check(arguments.folder)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([arguments.program, folder], check=True)
        check(pathlib.Path(folder))


main()
