#!/usr/bin/env python3
"""Reads the golden event file with TensorBoard's own EventFileLoader.

    CAIRN_TENSORBOARD=TREE tensorboard_test.py

TREE is a checkout of github.com/tensorflow/tensorboard. Its protocol buffers are compiled with
protoc into a copy of its package. Needs Debian's protobuf-compiler, python3-protobuf, python3-absl
and python3-numpy. Without CAIRN_TENSORBOARD there is nothing to do (77).
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).parent.parent / "data/tensorboard/events.out.tfevents.golden"
# What write_examples() of tensorboard_test.cpp logs: (step, tag) of each value, in order.
EXPECTED = [(1, "loss/train/total"), (300, "loss/train/total"), (2, "notes/text_summary"),
            (3, "weights"), (0, "_hparams_/experiment"), (0, "_hparams_/session_start_info")]


def compile_protos(tree, folder):
    shutil.copytree(tree / "tensorboard", folder / "tensorboard",
                    ignore=shutil.ignore_patterns("node_modules", "*.ts", "webapp"))
    protos = [str(path.relative_to(folder)) for path in folder.rglob("*.proto")]
    subprocess.run(["protoc", "-I.", "--python_out=.", *protos], cwd=folder, check=True)


def check(events, numpy):
    assert events[0].file_version == "brain.Event:2", events[0]
    start = events[1]
    assert start.step == 7 and start.session_log.status == start.session_log.START, start
    values = [(event.step, value) for event in events for value in event.summary.value]
    assert [(step, value.tag) for step, value in values] == EXPECTED, values
    times = [event.wall_time for event in events]
    assert times == sorted(times) and times[0] == 1.7e9 + 0.5, times
    # The loader turns each value into a tensor.
    tensors = [value.tensor for _, value in values]
    assert [tensor.float_val[0] for tensor in tensors[:2]] == [0.75, -2.5], tensors
    assert tensors[2].string_val == ["**bold** \u00fc".encode()], tensors[2]
    buckets = numpy(tensors[3])  # rows of left, right, count
    assert buckets[:, 2].sum() == 5 and (buckets[:, 0] <= buckets[:, 1]).all(), buckets
    assert buckets[0, 0] < -1.4 and buckets[-1, 1] >= 3, buckets
    return [value.metadata.plugin_data.content for _, value in values]


def main():
    if not os.environ.get("CAIRN_TENSORBOARD"):
        print("no CAIRN_TENSORBOARD")
        sys.exit(77)
    tree = pathlib.Path(os.environ["CAIRN_TENSORBOARD"]).resolve()
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        compile_protos(tree, folder)
        sys.path.insert(0, made)
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        from tensorboard.plugins.hparams import plugin_data_pb2
        from tensorboard.util import tensor_util
        contents = check(list(EventFileLoader(str(GOLDEN)).Load()), tensor_util.make_ndarray)
        experiment, session = map(plugin_data_pb2.HParamsPluginData.FromString, contents[-2:])
        names = [info.name for info in experiment.experiment.hparam_infos]
        assert names == ["lr", "name"], experiment
        assert experiment.experiment.metric_infos[0].name.tag == "hparams/loss", experiment
        hparams = session.session_start_info.hparams
        assert {name: hparams[name].string_value for name in hparams} == {
            "lr": "0.1000", "name": "adam"}, session
    print("TensorBoard reads", GOLDEN.name)


if __name__ == "__main__":
    main()
