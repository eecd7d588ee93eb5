#!/usr/bin/env python3
"""Writes tensorboard/python/: event files of PyTorch's SummaryWriter and of TensorBoard's own writer.

    write_event_files.py FOLDER

Needs PyTorch and TensorBoard. tests/cli/event_files_test.cpp reads the files.
"""
import sys

import tensorboard.summary
from torch.utils.tensorboard import SummaryWriter


def write_pytorch(folder):
    with SummaryWriter(folder) as writer:
        for step in range(5):
            writer.add_scalar("loss/train", 1 / 2**step, step)
            writer.add_scalar("lr", 0.25 * step, step, new_style=True)
        writer.add_text("notes", "**bold**", 1)
        writer.add_hparams({"lr": 0.5, "name": "adam", "flag": True}, {"best": 0.125}, run_name=".")
    with SummaryWriter(folder, purge_step=3, filename_suffix=".resumed") as writer:
        writer.add_scalar("loss/train", 10, 3)


def write_tensorboard(folder):
    writer = tensorboard.summary.Writer(folder)
    for step in range(3):
        writer.add_scalar("accuracy", step / 2, step)
    writer.close()


if __name__ == "__main__":
    write_pytorch(sys.argv[1])
    write_tensorboard(sys.argv[1])
