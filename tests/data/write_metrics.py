#!/usr/bin/python3
"""Writes metrics.json: what the metrics of torchmetrics and Composer make of given updates.

usage: PYTHONPATH=TORCHMETRICS:LIGHTNING_UTILITIES write_metrics.py COMPOSER OUT_FOLDER

TORCHMETRICS and LIGHTNING_UTILITIES are the `src` folders of these projects' source, COMPOSER is a
checkout of Composer's source, of which only the two files in composer/metrics are run.

The file has "versions"; "updates", lists of [outputs, target] by name; and "cases", each with
"metric", the class; "options", its arguments; "updates", a name; "state_dict" and "value" after
them. A tensor is its "dtype", "shape" and "elements". Before the updates every tensor of a state is
zero, and every list empty.
LossMetric's loss function is torch.nn.functional.mse_loss.
"""
import importlib.util
import json
import pathlib
import sys
import types

import torch
import torchmetrics
from torchmetrics import classification, regression, text


def composer_module(checkout, name):
    """composer/metrics/NAME.py without the rest of Composer, which needs a newer PyTorch."""
    loss = types.ModuleType("composer.loss")
    loss.soft_cross_entropy = torch.nn.functional.cross_entropy  # the same for class indices
    sys.modules.update({"composer": types.ModuleType("composer"), "composer.loss": loss})
    path = pathlib.Path(checkout) / "composer" / "metrics" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"composer_metrics_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = torch.Generator().manual_seed(11)


def normal(*shape):
    return torch.randn(shape, generator=GENERATOR)


def below(n, *shape):
    return torch.randint(0, n, shape, generator=GENERATOR)


def some(target, value):
    """The targets, a quarter of them `value`."""
    return torch.where(below(4, *target.shape) == 0, torch.tensor(value), target)


SCORES = ["Accuracy", "Precision", "Recall", "F1Score"]
AVERAGES = ["micro", "macro", "weighted", "none"]
CLASSES, LABELS = 5, 3

# Class 4 is never the target.
MULTICLASS = [(normal(n, CLASSES), below(CLASSES - 1, n)) for n in (12, 7)]
IGNORING = [(scores, some(target, -1)) for scores, target in MULTICLASS]
OF_IMAGES = [(normal(3, CLASSES, 2, 2), below(CLASSES, 3, 2, 2)) for _ in range(2)]
AS_CLASSES = [(below(CLASSES, n), below(CLASSES - 1, n)) for n in (12, 7)]
PROBABILITIES = [(scores.softmax(1), target) for scores, target in MULTICLASS]

BINARY = [(normal(n).sigmoid(), below(2, n)) for n in (12, 7)]
BINARY_LOGITS = [(normal(3, 4), below(2, 3, 4)) for _ in range(2)]
BINARY_TIES = [((scores * 4).round() / 4, target) for scores, target in BINARY]
BINARY_ANSWERS = [(below(2, n), below(2, n)) for n in (12, 7)]
# The only scores outside of [0, 1] are of targets that do not count.
BINARY_IGNORING = []
for _scores, _target in BINARY:
    _target = some(_target, -1)
    BINARY_IGNORING.append((torch.where(_target == -1, _scores * 3, _scores), _target))
ONLY_NEGATIVE = [(scores, torch.zeros_like(target)) for scores, target in BINARY]

MULTILABEL = [(normal(n, LABELS), below(2, n, LABELS)) for n in (8, 5)]
MULTILABEL_IGNORING = [(scores.sigmoid(), some(target, -1)) for scores, target in MULTILABEL]
MULTILABEL_IMAGES = [(normal(2, LABELS, 3).sigmoid(), below(2, 2, LABELS, 3)) for _ in range(2)]

NUMBERS = [(normal(n), normal(n)) for n in (6, 3)]
PAIRS = [(normal(n, 2), normal(n, 2)) for n in (6, 3)]
TOKENS = [(normal(2, 4, 6), below(6, 2, 4)) for _ in range(2)]
PADDED = [(scores, some(target, -100)) for scores, target in TOKENS]
MASKS = [(normal(2, 4, 3, 3), below(2, 2, 3, 3)) for _ in range(2)]
MASKS_IGNORING = [(scores, some(target, -1)) for scores, target in MASKS]


def score_cases():
    for score in SCORES:
        yield f"Binary{score}", {}, BINARY
        yield f"Binary{score}", {"threshold": 0.3}, BINARY_LOGITS
        yield f"Binary{score}", {}, BINARY_ANSWERS
        yield f"Binary{score}", {"ignore_index": -1}, BINARY_IGNORING
        name = f"Multiclass{score}"
        for average in AVERAGES:
            for top_k in (1, 2):
                options = {"num_classes": CLASSES, "average": average, "top_k": top_k}
                yield name, options, MULTICLASS
                yield name, dict(options, ignore_index=-1), IGNORING
                yield name, dict(options, ignore_index=2), MULTICLASS
            options = {"num_classes": CLASSES, "average": average}
            yield name, options, OF_IMAGES
            yield name, options, AS_CLASSES
            options = {"num_labels": LABELS, "average": average}
            yield f"Multilabel{score}", options, MULTILABEL
            yield f"Multilabel{score}", dict(options, ignore_index=-1), MULTILABEL_IGNORING
            yield f"Multilabel{score}", dict(options, threshold=0.7), MULTILABEL_IMAGES
        if score != "Accuracy":
            yield f"Binary{score}", {"zero_division": 1}, ONLY_NEGATIVE
            for average in AVERAGES:
                options = {"num_classes": CLASSES, "average": average, "zero_division": 1}
                yield name, options, MULTICLASS


def matrix_cases():
    for normalize in ("none", "true", "pred", "all"):
        options = {"normalize": normalize}
        yield "BinaryConfusionMatrix", options, BINARY
        yield "BinaryConfusionMatrix", dict(options, threshold=0.3), BINARY_LOGITS
        yield "BinaryConfusionMatrix", dict(options, ignore_index=-1), BINARY_IGNORING
        options = {"num_classes": CLASSES, "normalize": normalize}
        yield "MulticlassConfusionMatrix", options, MULTICLASS
        yield "MulticlassConfusionMatrix", dict(options, ignore_index=-1), IGNORING
        yield "MulticlassConfusionMatrix", options, AS_CLASSES
        options = {"num_labels": LABELS, "normalize": normalize}
        yield "MultilabelConfusionMatrix", options, MULTILABEL
        yield "MultilabelConfusionMatrix", dict(options, ignore_index=-1), MULTILABEL_IGNORING
        yield "MultilabelConfusionMatrix", options, MULTILABEL_IMAGES


def auroc_cases():
    for thresholds in (None, 5, 40):
        options = {} if thresholds is None else {"thresholds": thresholds}
        for updates in (BINARY, BINARY_LOGITS, BINARY_TIES, ONLY_NEGATIVE):
            yield "BinaryAUROC", options, updates
        yield "BinaryAUROC", dict(options, ignore_index=-1), BINARY_IGNORING
        for average in ("macro", "weighted", "none"):
            several = dict(options, num_classes=CLASSES, average=average)
            for updates in (MULTICLASS, PROBABILITIES, OF_IMAGES):
                yield "MulticlassAUROC", several, updates
            yield "MulticlassAUROC", dict(several, ignore_index=-1), IGNORING
        for average in AVERAGES:
            labels = dict(options, num_labels=LABELS, average=average)
            for updates in (MULTILABEL, MULTILABEL_IMAGES):
                yield "MultilabelAUROC", labels, updates
            yield "MultilabelAUROC", dict(labels, ignore_index=-1), MULTILABEL_IGNORING


def other_cases():
    yield "MeanSquaredError", {}, NUMBERS
    yield "MeanSquaredError", {"squared": False}, PAIRS
    yield "MeanSquaredError", {"num_outputs": 2}, PAIRS
    yield "MeanAbsoluteError", {}, NUMBERS
    yield "MeanAbsoluteError", {"num_outputs": 2}, PAIRS
    yield "Perplexity", {}, TOKENS
    yield "Perplexity", {"ignore_index": -100}, PADDED
    for name in ("LanguageCrossEntropy", "LanguagePerplexity", "MaskedAccuracy"):
        yield name, {}, PADDED
        yield name, {"ignore_index": 2}, TOKENS
    yield "MIoU", {"num_classes": 4}, MASKS_IGNORING
    yield "MIoU", {"num_classes": 4, "ignore_index": 1}, MASKS
    yield "Dice", {"num_classes": 3}, MASKS
    yield "CrossEntropy", {}, MULTICLASS
    yield "CrossEntropy", {"ignore_index": -1}, IGNORING
    yield "LossMetric", {}, NUMBERS


def described(value):
    """Tensors as JSON has them. A float32 keeps its value as a decimal number of double precision."""
    if isinstance(value, torch.Tensor):
        return {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape),
                "elements": value.flatten().tolist()}
    if isinstance(value, dict):
        return {key: described(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    return value


def case_of(metric, updates):
    metric.persistent(True)
    # The test expects this of every metric.
    assert all(not state.any() if isinstance(state, torch.Tensor) else state == []
               for state in metric.state_dict().values())
    for outputs, target in updates:
        metric.update(outputs, target)
    value = torch.as_tensor(metric.compute())
    return {"state_dict": described(metric.state_dict()), "value": described(value)}


def main(checkout, folder):
    sources = [classification, regression, text,
               composer_module(checkout, "metrics"), composer_module(checkout, "nlp")]
    # BinaryF1Score is a class of both; torchmetrics' is meant.
    classes = {name: getattr(source, name) for source in reversed(sources) for name in dir(source)}
    names = {id(updates): name for name, updates in globals().items() if isinstance(updates, list)}
    used, cases = {}, []
    for make in (score_cases, matrix_cases, auroc_cases, other_cases):
        for name, options, updates in make():
            arguments = [torch.nn.functional.mse_loss] if name == "LossMetric" else []
            key = names[id(updates)]
            used[key] = updates
            cases.append({"metric": name, "options": options, "updates": key,
                          **case_of(classes[name](*arguments, **options), updates)})
    lines = ",\n".join(json.dumps(case) for case in cases)
    updates = ",\n".join(f"{json.dumps(key)}: {json.dumps(described(used[key]))}" for key in used)
    versions = json.dumps({"torchmetrics": torchmetrics.__version__, "torch": torch.__version__})
    path = pathlib.Path(folder) / "metrics.json"
    path.write_text(f'{{"versions": {versions},\n"updates": {{{updates}}},\n"cases": [\n{lines}]}}\n')
    print(len(cases), "cases")


if __name__ == "__main__":
    main(*sys.argv[1:])
