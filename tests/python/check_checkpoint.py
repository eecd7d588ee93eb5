#!/usr/bin/env python3
"""Opens .pt files that cairn wrote with torch.load and checks what a Python program would find.

    check_checkpoint.py [--weights-only] FILE...

A file is a checkpoint of a Trainer ({"state": ..., "rng": ...}) or a state_dict. --weights-only
loads with torch.load(weights_only=True) (torch 2.5 or newer): state_dicts and weights-only
checkpoints as they are, full ones after allowing checkpoint_classes().
"""
import argparse
import contextlib
import datetime
import pickle
import random
from collections import OrderedDict

import numpy
import numpy_names  # noqa: F401
import torch

STATE_KEYS = ["model", "optimizers", "schedulers", "algorithms", "callbacks", "scaler", "timestamp",
              "rank_zero_seed", "train_metrics", "eval_metrics", "run_name", "dataset_state",
              "integrations", "metadata"]
WEIGHTS_KEYS = ["model", "integrations", "metadata"]
COUNTERS = ["iteration", "epoch", "batch", "sample", "token", "epoch_in_iteration",
            "token_in_iteration", "batch_in_epoch", "sample_in_epoch", "token_in_epoch"]
CLOCKS = ["total_wct", "iteration_wct", "epoch_wct", "batch_wct"]


def checkpoint_classes():
    """What a full checkpoint holds besides tensors and Python's plain values."""
    multiarray = getattr(numpy, "_core", None) or numpy.core
    reconstruct = multiarray.multiarray._reconstruct
    return [datetime.timedelta, numpy.ndarray, numpy.dtype, type(numpy.dtype("uint32")),
            # Files name it by its place in the numpy that wrote it; numpy 2 finds both.
            (reconstruct, "numpy.core.multiarray._reconstruct"),
            (reconstruct, "numpy._core.multiarray._reconstruct")]


def load(path, weights_only=False):
    if not weights_only:
        with contextlib.suppress(TypeError):  # torch before 1.13 has no such argument
            return torch.load(path, weights_only=False)
        return torch.load(path)
    try:
        return torch.load(path, weights_only=True)
    except pickle.UnpicklingError:
        with torch.serialization.safe_globals(checkpoint_classes()):
            value = torch.load(path, weights_only=True)
        expect("rng" in value, "only a full checkpoint may need more classes than torch allows")
        return value


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def expect_equal(found, expected, what):
    expect(found == expected, f"{what}: expected {expected!r}, found {found!r}")


def check_weights(weights):
    expect_equal(type(weights), OrderedDict, "type of a state_dict")
    expect(len(weights) > 0, "a state_dict without a tensor")
    for name, tensor in weights.items():
        expect(isinstance(name, str) and isinstance(tensor, torch.Tensor), f"{name!r} is no tensor")
        expect(tensor.is_contiguous() and tensor.device.type == "cpu", f"{name}: layout or device")
        expect(bool(torch.isfinite(tensor).all()), f"{name} has a value that is not finite")


def check_optimizer(name, state, model):
    """The state must be one that torch's own optimizer takes, once names have become positions."""
    (group,) = state["param_groups"]
    names = group["params"]
    expect(set(names) <= set(model), f"{name}: parameters that the model lacks")
    expect(type(group["lr"]) is float, f"{name}: lr is {group['lr']!r}")
    for parameter, entries in state["state"].items():
        for key, tensor in entries.items():
            if tensor is None or key == "step":
                continue
            expect_equal(tensor.shape, model[parameter].shape, f"{name}: {parameter}/{key}")
    optimizer_class = getattr(torch.optim, name, None)
    if optimizer_class is None:  # Composer's own classes are torch's with another weight decay
        optimizer_class = {"DecoupledAdamW": torch.optim.AdamW,
                           "DecoupledSGDW": torch.optim.SGD}[name]
    live = optimizer_class([model[n].clone().requires_grad_() for n in names], lr=1.0)
    live.load_state_dict({
        "state": {i: state["state"][n] for i, n in enumerate(names) if n in state["state"]},
        "param_groups": [dict(group, params=list(range(len(names))))]})
    expect_equal(live.param_groups[0]["lr"], group["lr"], f"{name}: lr after load_state_dict")
    for parameter in live.param_groups[0]["params"]:
        parameter.grad = torch.zeros_like(parameter)
    live.step()
    return live


def check_schedulers(schedulers, optimizer):
    for name, state in schedulers.items():
        if name == "LambdaLR":
            live = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        elif name == "StepLR":
            live = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        else:
            raise AssertionError(f"no check for scheduler {name}")
        live.load_state_dict(dict(state))
        expect_equal(live.last_epoch, state["last_epoch"], f"{name}: last_epoch")
        expect(type(state["base_lrs"]) is type(state["_last_lr"]) is list, f"{name}: types")


def check_timestamp(timestamp):
    expect_equal(list(timestamp), COUNTERS + CLOCKS, "keys of the timestamp")
    for key in COUNTERS:
        expect(type(timestamp[key]) is int and timestamp[key] >= 0, f"{key}: {timestamp[key]!r}")
    for key in CLOCKS:
        expect_equal(type(timestamp[key]), datetime.timedelta, f"type of {key}")
    expect(timestamp["batch_in_epoch"] <= timestamp["batch"] <= timestamp["sample"], "counters")


def check_rng(entries):
    (entry,) = entries
    expect_equal([k for k in entry if k != "cuda"], ["python", "numpy", "torch"], "keys of rng")
    draws = []
    for _ in range(2):  # each generator must take its state, and give the same numbers after it
        random.setstate(entry["python"])
        numpy.random.set_state(entry["numpy"])
        torch.set_rng_state(entry["torch"])
        draws.append((random.random(), numpy.random.rand(), torch.rand(1).item()))
    expect_equal(draws[0], draws[1], "numbers drawn after restoring the generators")


def check_checkpoint(checkpoint):
    state = checkpoint["state"]
    model = state["model"]
    check_weights(model)
    expect_equal(type(state["metadata"]), dict, "type of metadata")
    expect_equal(state["integrations"], {}, "integrations")
    if "rng" not in checkpoint:
        expect_equal(list(state), WEIGHTS_KEYS, "keys of a weights-only checkpoint")
        return
    expect_equal(list(checkpoint), ["state", "rng"], "top level keys")
    metrics = {"train_metrics", "eval_metrics"}
    expect_equal(list(state), [k for k in STATE_KEYS if k in state or k not in metrics],
                 "keys of the state")
    ((name, optimizer_state),) = state["optimizers"].items()
    check_schedulers(state["schedulers"], check_optimizer(name, optimizer_state, model))
    for name, algorithm in state["algorithms"]:
        expect(type(name) is str and "repr" in algorithm, f"algorithm {name}")
    expect(all(type(v) is dict for v in state["callbacks"].values()), "callbacks")
    check_timestamp(state["timestamp"]["Timestamp"])
    expect_equal(type(state["rank_zero_seed"]), int, "type of rank_zero_seed")
    expect_equal(type(state["run_name"]), str, "type of run_name")
    check_rng(checkpoint["rng"])


def check(path, weights_only=False):
    """Returns what the file holds."""
    value = load(path, weights_only)
    if "state" in value:
        check_checkpoint(value)
    else:
        check_weights(value)
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights-only", action="store_true")
    parser.add_argument("files", nargs="+", metavar="FILE")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, numpy {numpy.__version__}, "
          f"weights_only={arguments.weights_only}")
    for path in arguments.files:
        value = check(path, arguments.weights_only)
        print(f"{path}: ok ({'checkpoint' if 'state' in value else 'state_dict'})")


if __name__ == "__main__":
    main()
