#!/usr/bin/python3
"""Writes algorithms.pt: what Composer's algorithms do in short runs, step by step.

usage: write_algorithms.py COMPOSER OUT_FOLDER

COMPOSER is a checkout of Composer's source. The algorithms, times, losses and accesses to batches
are its own; the loop, the state and what the modules import besides are stand-ins here, so that
PyTorch 1.13 can run them.

The file has "cases" and "functions", lists of dicts. A case has
  name, options, duration, the algorithm and its run
  weights            the model's state dict at the start
  draws              [kind, arguments, result] of each random number, in order
  steps              for each batch: "batch" as it comes; "loaded", after after_dataloader;
                     "input" of forward(); "target" and "loss" of backward(); "metrics" that were
                     logged; "weights", all parameters in one vector,
                     and "lr", after the step
  state_dict         the algorithm's, after the last step
A function has name, arguments, draws and result. CutMix draws one number more in each batch, which
it does not use: it is left out.
"""
import collections
import importlib
import pathlib
import re
import sys
import types

import numpy as np
import torch

BATCHES = 2  # in an epoch
DRAWS = []
SEEN = {}
RANDINT = torch.randint


def stand_in(name, **attributes):
    module = sys.modules.setdefault(name, types.ModuleType(name))
    for key, value in attributes.items():
        setattr(module, key, value)
    return module


def import_composer(checkout):
    """The packages without their __init__.py, which import all of Composer."""
    for name in ("composer", "composer.core", "composer.utils", "composer.loss", "composer.loggers",
                 "composer.models", "composer.algorithms", "composer.algorithms.utils"):
        stand_in(name).__path__ = [str(pathlib.Path(checkout).joinpath(*name.split(".")))]
    torch.optim.lr_scheduler.LRScheduler = torch.optim.lr_scheduler._LRScheduler
    stand_in("PIL")
    stand_in("PIL.Image", Image=type("Image", (), {}))
    stand_in("torchvision")
    stand_in("torchvision.transforms")
    stand_in("torchvision.transforms.functional", crop=lambda image, top, left, height, width: (
        image[..., top:top + height, left:left + width]))
    sys.modules["torchvision"].transforms = sys.modules["torchvision.transforms"]
    sys.modules["torchvision.transforms"].functional = sys.modules[
        "torchvision.transforms.functional"]
    enums = importlib.import_module("composer.utils.string_enum")
    helpers = importlib.import_module("composer.utils.iter_helpers")
    stand_in("composer.utils", StringEnum=enums.StringEnum, ensure_tuple=helpers.ensure_tuple,
             dist=None)
    time = importlib.import_module("composer.core.time")
    stand_in("composer.core", Algorithm=importlib.import_module("composer.core.algorithm").Algorithm,
             Event=importlib.import_module("composer.core.event").Event, State=State, Time=time.Time,
             TimeUnit=time.TimeUnit, Batch=object,
             get_precision_context=lambda *_: torch.autocast("cpu", enabled=False))
    stand_in("composer.trainer").__path__ = []
    stand_in("composer.trainer._scaler", ClosureGradScaler=object)
    stand_in("composer.loggers", Logger=Logger)
    stand_in("composer.models", ComposerModel=Model, HuggingFaceModel=Model)
    algorithms = {}
    for folder in ("mixup", "cutmix", "cutout", "swa", "layer_freezing", "progressive_resizing",
                   "sam", "seq_length_warmup", "selective_backprop"):
        package = f"composer.algorithms.{folder}"
        stand_in(package).__path__ = [str(pathlib.Path(checkout, *package.split(".")))]
        module = importlib.import_module(f"{package}.{folder}")
        algorithms.update({name: getattr(module, name) for name in module.__all__})
    return algorithms


def plain(value):
    return value.item() if isinstance(value, np.generic) else value


def recorded(kind, function, arguments_of):
    def draw(*args, **kwargs):
        result = function(*args, **kwargs)
        listed = torch.as_tensor(result) if isinstance(result, np.ndarray) else plain(result)
        if kind == "integer":
            listed = int(listed)
        DRAWS.append([kind, arguments_of(*args, **kwargs), listed])
        return result
    return draw


def record_draws():
    np.random.beta = recorded("beta", np.random.beta, lambda a, b: [a])
    np.random.randint = recorded(
        "integer", np.random.randint,
        lambda low, high=None: [int(low), int(high)] if high is not None else [0, int(low)])
    torch.randint = recorded("integer", torch.randint, lambda high, size: [0, high])
    torch.randperm = recorded("permutation", torch.randperm, lambda size: [size])
    np.random.choice = recorded(
        "choice", np.random.choice,
        lambda size, count, replace, p: [torch.as_tensor(p), count])


class Logger:
    def __init__(self):
        self.metrics = {}

    def log_metrics(self, metrics):
        self.metrics.update(metrics)


class Model(torch.nn.Module):
    """Composer's classifier around a small network for images of any size."""

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.module = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(),
                                    nn.Conv2d(3, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                    nn.Linear(3, 5), nn.Linear(5, 4))

    def forward(self, batch):
        return self.module(batch[0])

    def loss(self, outputs, batch, reduction="mean"):
        return LOSS(outputs, batch[1], reduction=reduction)


class State:
    def __init__(self, model, duration):
        core = sys.modules["composer.core"]
        self.model = model
        self.optimizers = [torch.optim.SGD(model.parameters(), 0.25, momentum=0.5)]
        self.schedulers = []
        self.timestamp = sys.modules["composer.core.time"].Timestamp()
        self.max_duration = core.Time.from_timestring(duration)
        self.dataloader = object()
        self.dataloader_len = BATCHES
        self.device = types.SimpleNamespace(batch_to_device=lambda batch: batch)
        self.precision = self.precision_config = None
        self.batch = self.outputs = self.loss = None

    def batch_get_item(self, key):
        return importlib.import_module("composer.utils.batch_helpers").batch_get(self.batch, key)

    def batch_set_item(self, key, value):
        self.batch = importlib.import_module("composer.utils.batch_helpers").batch_set(
            self.batch, key, value)

    def get_elapsed_duration(self):
        return self.timestamp.get(self.max_duration.unit) / self.max_duration


def copy_of(value):
    if isinstance(value, torch.Tensor):  # equal tensors are one in the file
        key = (value.dtype, tuple(value.shape), value.detach().numpy().tobytes())
        return SEEN.setdefault(key, value.detach().clone())
    if isinstance(value, dict):
        kind = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
        return kind((key, copy_of(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return [copy_of(item) for item in value]
    return re.sub("0x[0-9a-f]+", "0x0", value) if isinstance(value, str) else plain(value)


def parameters_of(model):
    return copy_of(torch.cat([parameter.flatten() for parameter in model.parameters()]))


def images(seed):
    generator = torch.Generator().manual_seed(seed)
    return [RANDINT(-8, 9, (6, 1, 8, 8), generator=generator) / 8.0,
            RANDINT(0, 4, (6,), generator=generator)]


def sequences(seed):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(16) < RANDINT(1, 17, (4, 1), generator=generator)
    return {"input_ids": RANDINT(1, 50, (4, 16), generator=generator) * mask,
            "attention_mask": mask.long()}


def draws_of(name):
    draws = list(DRAWS)
    DRAWS.clear()
    if name == "CutMix":
        draws = [draw for i, draw in enumerate(draws) if i % 5 != 4]
    return draws


def train(state, fire, step):
    """The events of one batch of images. `step` gets the values of the first pass."""
    event = sys.modules["composer.core"].Event
    batch = list(state.batch)

    def evaluate(**_):
        state.batch = list(batch)
        fire(event.BEFORE_FORWARD)
        step.setdefault("input", copy_of(state.batch[0]))
        state.outputs = state.model.forward(state.batch)
        fire(event.BEFORE_LOSS)
        state.loss = state.model.loss(state.outputs, state.batch)
        step.setdefault("target", copy_of(state.batch[1]))
        fire(event.BEFORE_BACKWARD)
        step.setdefault("loss", copy_of(state.loss))
        for parameter in state.model.parameters():
            parameter.grad = None
        state.loss.backward()
        return state.loss

    if hasattr(state.optimizers[0], "base_optimizer"):
        state.optimizers[0].step(evaluate)
    else:
        evaluate()
        state.optimizers[0].step()


def case_of(algorithms, name, options, duration, make_batch):
    torch.manual_seed(5)
    np.random.seed(5)
    core = sys.modules["composer.core"]
    state, logger = State(Model(), duration), Logger()
    algorithm = algorithms[name](**options)
    algorithm._activated = True  # SeqLengthWarmup's pass of full length, which needs a whole Trainer
    steps = []

    def fire(event):
        if algorithm.match(event, state):
            algorithm.apply(event, state, logger)

    weights = copy_of(state.model.state_dict())
    fire(core.Event.INIT)
    fire(core.Event.AFTER_LOAD)
    DRAWS.clear()
    while state.timestamp.get(state.max_duration.unit) < state.max_duration:
        batch = make_batch(len(steps))
        step = {"batch": copy_of(batch)}
        state.batch = batch
        fire(core.Event.AFTER_DATALOADER)
        step["loaded"] = copy_of(state.batch)
        if not isinstance(batch, dict):
            train(state, fire, step)
        state.timestamp = state.timestamp.to_next_batch(samples=4, tokens=0)
        fire(core.Event.BATCH_END)
        if state.timestamp.batch_in_epoch == BATCHES:
            state.timestamp = state.timestamp.to_next_epoch()
            fire(core.Event.EPOCH_END)
        step.update(metrics=copy_of(logger.metrics), weights=parameters_of(state.model),
                    lr=state.optimizers[0].param_groups[0]["lr"])
        logger.metrics = {}
        steps.append(step)
    return {"name": name, "options": options, "duration": duration, "weights": weights,
            "draws": draws_of(name), "steps": steps, "state_dict": copy_of(algorithm.state_dict())}


def cases():
    for name in ("MixUp", "CutMix"):
        yield name, {}, "2ep", images
        yield name, {"alpha": 0.7, "interpolate_loss": True}, "1ep", images
        yield name, {"alpha": 0}, "1ba", images
    yield "CutMix", {"uniform_sampling": True}, "2ep", images
    yield "CutOut", {}, "1ep", images
    yield "CutOut", {"num_holes": 3, "length": 0.4, "uniform_sampling": True}, "2ep", images
    yield "SWA", {"swa_start": "0.25dur", "swa_end": "0.75dur"}, "4ep", images
    yield "SWA", {"swa_start": "1ep", "swa_end": "3ep", "update_interval": "2ba"}, "4ep", images
    for strategy in ("linear", "cos"):
        yield "SWA", {"swa_start": "0.1dur", "swa_end": "0.9dur", "update_interval": "1ba",
                      "schedule_swa_lr": True, "anneal_strategy": strategy,
                      "anneal_steps": 3}, "4ep", images
    yield "LayerFreezing", {}, "4ep", images
    yield "LayerFreezing", {"freeze_start": 0.1, "freeze_level": 0.8}, "4ep", images
    yield "ProgressiveResizing", {}, "4ep", images
    yield "ProgressiveResizing", {"mode": "crop", "initial_scale": 0.6, "finetune_fraction": 0.3,
                                  "delay_fraction": 0.1, "size_increment": 2}, "6ba", images
    yield "SAM", {}, "2ep", images
    yield "SAM", {"rho": 0.5, "interval": 3}, "4ep", images
    yield "SelectiveBackprop", {"start": 0.0, "end": 1.0}, "2ep", images
    yield "SelectiveBackprop", {"start": 0.5, "end": 1.0, "keep": 0.7, "scale_factor": 0.75,
                                "interrupt": 0}, "2ep", images
    for options in ({}, {"preserve_end_of_sequence": True}, {"truncate": False}):
        yield "SeqLengthWarmup", {"duration": 0.8, "min_seq_length": 3, "max_seq_length": 16,
                                  "step_size": 5, **options}, "5ep", sequences
        yield "SeqLengthWarmup", {"duration": 0.5, "min_seq_length": 4, "max_seq_length": 12,
                                  "step_size": 4, **options}, "8ba", sequences


def functions():
    pictures, classes = images(20)
    masks = (pictures[:, 0] > 0).long()
    for options in ({}, {"mixing": 0.25}, {"alpha": 2.0, "indices": torch.arange(5, -1, -1)}):
        yield "mixup_batch", [pictures, classes], options
    for options in ({"length": 0.5}, {"bbox": [1, 2, 5, 8]}, {"uniform_sampling": True}):
        yield "cutmix_batch", [pictures, classes], options
    yield "cutout_batch", [pictures], {"num_holes": 2, "length": 0.3}
    for mode in ("crop", "resize"):
        for scale in (0.5, 0.8, 1.0):
            for target in (masks, pictures * 2, masks[:, ::2, ::2]):
                yield "resize_batch", [pictures, target], {"scale_factor": scale, "mode": mode,
                                                           "resize_targets": True}
    for length in (1, 5, 20):
        for options in ({}, {"preserve_end_of_sequence": True}, {"truncate": False}):
            yield "set_batch_sequence_length", [sequences(30), length], options
    for elapsed in (0.0, 0.5, 0.7, 0.9):
        for batch in range(4):
            for interrupt in (0, 2, 3):
                yield "should_selective_backprop", [elapsed, batch], {"interrupt": interrupt}


def function_case(algorithms, name, arguments, options):
    torch.manual_seed(6)
    np.random.seed(6)
    DRAWS.clear()
    listed = copy_of(arguments)
    result = algorithms[name](*arguments, **options)
    draws = draws_of("")
    if "bbox" in options:  # The coefficient, which is not used.
        draws = [draw for draw in draws if draw[0] != "beta"]
    return {"name": name, "arguments": listed, "options": copy_of(options), "draws": draws,
            "result": copy_of(result)}


def main(checkout, folder):
    global LOSS
    torch.set_num_threads(1)
    algorithms = import_composer(checkout)
    LOSS = importlib.import_module("composer.loss.loss").soft_cross_entropy
    record_draws()
    written = {"versions": {"torch": torch.__version__, "composer": "0.33.0.dev0"},
               "cases": [case_of(algorithms, *each) for each in cases()],
               "functions": [function_case(algorithms, *each) for each in functions()]}
    torch.save(written, pathlib.Path(folder) / "algorithms.pt")
    print(len(written["cases"]), "cases,", len(written["functions"]), "functions")


if __name__ == "__main__":
    main(*sys.argv[1:])
