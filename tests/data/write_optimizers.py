#!/usr/bin/python3
"""Writes optimizer_steps.pt: what every optimizer of the PyTorch that runs it does with given
gradients, and adafactor.pt: the same of Adafactor (PyTorch 2.5), by numpy after its documentation.

usage: write_optimizers.py OUT_FOLDER

A case is a dict: "class"; "start", a list of weights; "gradients", for each step one (None: none; a
dict of "rows" and "values" of a sparse one) per weight; "weights" after each step; "state_dict"
before the first step, after step 3 and after the last. Of LBFGS, which asks for gradients itself,
"gradients" is empty; its loss is `loss` below.
"""
import copy
import pathlib
import sys

import numpy
import torch

STEPS = 6


def weights_of(shapes, dtype):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


def sparse(gradient):
    return torch.sparse_coo_tensor(gradient["rows"][None], gradient["values"], (5, 3))


def gradients_of(start, kind):
    generator = torch.Generator().manual_seed(6)
    steps = []
    for step in range(STEPS):
        gradients = [torch.randn(w.shape, generator=generator, dtype=w.dtype) for w in start]
        if kind == "sparse":
            rows = [torch.tensor(r) for r in ([0, 2], [4], [2, 0, 3], [1], [1, 4], [0])][step]
            gradients = [{"rows": rows, "values": gradients[0][:len(rows)]}]
        elif step in (0, 3):
            gradients[1] = None  # the second weight begins late, and is left out once
        steps.append(gradients)
    return steps


def loss(weights):
    return sum(((w.square() - 1).square()).sum() for w in weights) + weights[0].sum() * 0.1


class NAdam(torch.optim.NAdam):
    """As its documentation, and PyTorch 2, have it: 1.13's step() multiplies the momentum of step t
    into the product of step t + 1 twice."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=torch.tensor(0.), mu_product=torch.tensor(1.),
                                 exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                t = state["step"].item()
                g = p.grad + group["weight_decay"] * p
                mu, mu_next = (beta1 * (1 - 0.5 * 0.96 ** (k * group["momentum_decay"]))
                               for k in (t, t + 1))
                state["mu_product"] *= mu
                product = state["mu_product"].item()
                m, v = state["exp_avg"], state["exp_avg_sq"]
                m.copy_(beta1 * m + (1 - beta1) * g)
                v.copy_(beta2 * v + (1 - beta2) * g * g)
                m_hat = mu_next * m / (1 - product * mu_next) + (1 - mu) * g / (1 - product)
                p.sub_(group["lr"] * m_hat / ((v / (1 - beta2 ** t)).sqrt() + group["eps"]))


def class_of(name):
    return NAdam if name == "NAdam" else getattr(torch.optim, name)


def run(kind, name, **options):
    shapes = [(5, 3)] if kind == "sparse" else [(3, 4), (4,)]
    start = weights_of(shapes, torch.complex128 if kind == "complex" else torch.float64)
    parameters = [w.clone().requires_grad_() for w in start]
    optimizer = class_of(name)(parameters, **options)
    case = {"class": name, "start": start, "weights": [], "gradients": [],
            "state_dict": [copy.deepcopy(optimizer.state_dict())]}
    if name != "LBFGS":
        case["gradients"] = gradients_of(start, kind)
    for step in range(STEPS):
        def closure():
            optimizer.zero_grad()
            value = loss(parameters)
            value.backward()
            return value
        if name == "LBFGS":
            optimizer.step(closure)
        else:
            for parameter, gradient in zip(parameters, case["gradients"][step]):
                parameter.grad = sparse(gradient) if kind == "sparse" else copy.copy(gradient)
            optimizer.step()
        case["weights"].append([p.detach().clone() for p in parameters])
        if step in (2, STEPS - 1):
            case["state_dict"].append(copy.deepcopy(optimizer.state_dict()))
    return case


CASES = {
    "SGD": dict(lr=1e-3),
    "SGD_momentum": dict(lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.1),
    "SGD_nesterov": dict(lr=0.1, momentum=0.9, nesterov=True),
    "Adam": {}, "Adam_options": dict(lr=0.1, betas=(0.8, 0.9), weight_decay=0.1, amsgrad=True),
    "AdamW": {}, "AdamW_options": dict(lr=0.1, weight_decay=0.1, amsgrad=True),
    "RMSprop": {}, "RMSprop_options": dict(lr=0.1, alpha=0.9, weight_decay=0.1, momentum=0.5,
                                           centered=True),
    "Adagrad": {}, "Adagrad_options": dict(lr=0.1, lr_decay=0.1, weight_decay=0.1,
                                           initial_accumulator_value=0.5),
    "Adadelta": {}, "Adadelta_options": dict(lr=0.5, rho=0.8, eps=1e-5, weight_decay=0.1,
                                             maximize=True),
    "Adamax": {}, "Adamax_options": dict(lr=0.1, betas=(0.8, 0.9), weight_decay=0.1,
                                         maximize=True),
    "NAdam": {}, "NAdam_options": dict(lr=0.1, betas=(0.8, 0.9), weight_decay=0.1,
                                       momentum_decay=0.1),
    "RAdam": {}, "RAdam_options": dict(lr=0.1, betas=(0.8, 0.5), weight_decay=0.1),
    "ASGD": {}, "ASGD_options": dict(lr=0.1, lambd=0.01, alpha=0.5, t0=2.0, weight_decay=0.1,
                                     maximize=True),
    "Rprop": {}, "Rprop_options": dict(lr=0.1, etas=(0.4, 1.5), step_sizes=(0.01, 0.2),
                                       maximize=True),
    "LBFGS": {}, "LBFGS_options": dict(lr=0.5, max_iter=3, history_size=2,
                                       line_search_fn="strong_wolfe"),
    "SparseAdam": {}, "SparseAdam_options": dict(lr=0.1, betas=(0.8, 0.9), maximize=True),
    "SGD_sparse": dict(lr=0.1), "Adagrad_sparse": dict(lr=0.1),
    "SGD_complex": dict(lr=0.1, momentum=0.9), "Adam_complex": dict(lr=0.1),
    "AdamW_complex": dict(lr=0.1),
    "RMSprop_complex": dict(lr=0.1, momentum=0.5, centered=True),
    "Adagrad_complex": dict(lr=0.1), "Adadelta_complex": {}, "Adamax_complex": dict(lr=0.1),
    "ASGD_complex": dict(lr=0.1), "Rprop_complex": {},
}


def adafactor(lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0):
    """arXiv:1804.04235, algorithms 4 and 5, with PyTorch's names and its decoupled decay."""
    start = weights_of([(3, 4), (4,)], torch.float64)
    weights = [w.numpy().copy() for w in start]
    gradients = gradients_of(start, "dense")
    eps1 = numpy.finfo(numpy.float64).eps if eps[0] is None else eps[0]
    states, trajectory, state_dicts = {}, [], []

    def rms(x):
        return numpy.sqrt(numpy.mean(x ** 2))

    def state_dict():
        group = dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay,
                     foreach=None, maximize=False, params=[0, 1])
        tensors = {i: {key: torch.tensor(float(value)) if key == "step" else torch.tensor(value)
                       for key, value in state.items()} for i, state in states.items()}
        return {"state": tensors, "param_groups": [group]}

    state_dicts.append(state_dict())
    for step, of_step in enumerate(gradients):
        for i, gradient in enumerate(of_step):
            if gradient is None:
                continue
            g = gradient.numpy()
            shapes = ({"row_var": (3, 1), "col_var": (1, 4)} if g.ndim > 1 else {"variance": 4})
            state = states.setdefault(i, {"step": 0, **{k: numpy.zeros(s) for k, s in
                                                        shapes.items()}})
            state["step"] += 1
            beta2 = 1 - state["step"] ** beta2_decay
            alpha = max(eps[1], rms(weights[i])) * min(lr, state["step"] ** -0.5)
            weights[i] *= 1 - lr * weight_decay
            if g.ndim > 1:
                for key, axis in (("row_var", 1), ("col_var", 0)):
                    mean = numpy.mean(g ** 2, axis=axis, keepdims=True)
                    state[key] = beta2 * state[key] + (1 - beta2) * mean
                v = state["row_var"] * state["col_var"] / max(numpy.mean(state["row_var"]), eps1)
            else:
                state["variance"] = beta2 * state["variance"] + (1 - beta2) * g ** 2
                v = state["variance"]
            u = g / numpy.sqrt(numpy.maximum(v, eps1 ** 2))
            weights[i] -= alpha * u / max(1.0, rms(u) / d)
        trajectory.append([torch.tensor(w) for w in weights])
        if step in (2, STEPS - 1):
            state_dicts.append(state_dict())
    return {"class": "Adafactor", "start": start, "gradients": gradients, "weights": trajectory,
            "state_dict": state_dicts}


def kind_of(case):
    name = case.split("_")[0]
    return case.split("_")[1] if case.endswith(("sparse", "complex")) else \
        "sparse" if name == "SparseAdam" else "dense"


def main(folder):
    cases = {case: run(kind_of(case), case.split("_")[0], **options)
             for case, options in CASES.items()}
    torch.save(cases, pathlib.Path(folder) / "optimizer_steps.pt")
    torch.save({"Adafactor": adafactor(),
                "Adafactor_options": adafactor(lr=0.5, beta2_decay=-0.5, eps=(1e-4, 1e-2), d=1.5,
                                               weight_decay=0.1)},
               pathlib.Path(folder) / "adafactor.pt")


if __name__ == "__main__":
    main(sys.argv[1])
