#!/usr/bin/env python3
"""Writes sparse_layouts.pt and quantized_kinds.pt with their descriptions, as the PyTorch that runs
it does.

usage: PYTHONPATH=tests/python write_kinds.py OUT_FOLDER
"""
import json
import pathlib
import sys
import warnings

import torch

from torch_file_test import describe

warnings.simplefilter("ignore")


def coo(indices, values, size):
    return torch.sparse_coo_tensor(torch.tensor(indices), values, size)


def compressed(values):
    batches = torch.tensor([[[1., 0, 2], [0, 3, 0]], [[0., 4, 5], [6, 0, 0]]])
    return {
        "csc": values.to_sparse_csc(),
        "bsr": values.to_sparse_bsr((2, 3)),
        "bsr_rows": values.to_sparse_bsr((1, 2)),
        "bsc": values.to_sparse_bsc((2, 3)),
        "csr_batch": batches.to_sparse_csr(),
        "csc_batch": batches.to_sparse_csc(),
        "csr_dense": torch.sparse_csr_tensor([0, 1, 2], [1, 0], torch.randn(2, 2), (2, 3, 2)),
    }


def sparse():
    values = torch.randn(4, 6) * (torch.rand(4, 6) < 0.4)
    out = {
        "coo": values.to_sparse(),
        "hybrid": coo([[2, 0, 2, 1]], torch.randn(4, 3, 2), (4, 3, 2)),
        "half": coo([[2, 0, 2, 2]], torch.tensor([2048., 1, 1, 1]).half(), (4,)),
        "bfloat16": coo([[2, 0, 2, 2]], torch.tensor([256., 1, 1, 3.5]).bfloat16(), (4,)),
        "complex": coo([[3, 0, 3]], torch.tensor([1 + 2j, -0.0, 3 - 1j]), (4,)),
        "bool": coo([[3, 0, 1]], torch.tensor([True, False, True]), (4,)),
        "int8": coo([[3, 0, 3]], torch.tensor([100, 5, 100], dtype=torch.int8), (4,)),
        "empty": torch.sparse_coo_tensor(size=(3, 2)),
        "expanded": coo([[0, 2], [1, 0]], torch.ones(1).expand(2), (3, 2)),
        "parameter": torch.nn.Parameter(values.to_sparse()),
        "csr": values.to_sparse_csr(),
        "csr_int32": torch.sparse_csr_tensor(
            torch.tensor([0, 1, 1, 3, 3], dtype=torch.int32),
            torch.tensor([5, 0, 2], dtype=torch.int32), torch.tensor([1., 2, 3]), (4, 6)),
    }
    if torch.__version__ >= "2":
        out.update(compressed(values))
        out["scalar"] = torch.sparse_coo_tensor(
            torch.zeros(0, 2, dtype=torch.long), torch.tensor([1., 2.]), ())
    return out


def quantized():
    values = torch.randn(3, 4)
    scales = torch.tensor([0.1, 0.2, 0.25, 0.5])
    per_row = torch.quantize_per_channel(
        values, scales[:3], torch.tensor([0.5, 1, 2]), 0, torch.quint4x2)
    return {
        "quint8": torch.quantize_per_tensor(values, 0.05, 128, torch.quint8),
        "qint32": torch.quantize_per_tensor(values, 1e-6, 0, torch.qint32),
        "transposed": torch.quantize_per_tensor(values, 0.1, 3, torch.qint8).t(),
        "columns": torch.quantize_per_channel(
            values, scales.double(), torch.arange(4), 1, torch.qint8),
        "packed": per_row,
        "odd": torch.quantize_per_channel(
            values[:, :3], scales[:3], torch.zeros(3), 0, torch.quint4x2),
    }


def main(out):
    torch.manual_seed(3)
    for name, value in (("sparse_layouts", sparse()), ("quantized_kinds", quantized())):
        path = pathlib.Path(out, name + ".pt")
        torch.save(value, path)
        description = json.dumps(describe(value), indent=0, sort_keys=True)
        pathlib.Path(str(path) + ".json").write_text(description + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
