#!/usr/bin/env python3
"""Reads the golden .wandb file with W&B's own datastore.py.

    CAIRN_WANDB=TREE wandb_test.py

TREE is a checkout of github.com/wandb/wandb. Its protocol buffers are compiled with protoc. Needs
Debian's protobuf-compiler and python3-protobuf. Without CAIRN_WANDB there is nothing to do (77).
"""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).parent.parent / "data/wandb/run-run1.wandb"


def read_records(tree, folder):
    (folder / "wandb/proto").mkdir(parents=True)
    for proto in (tree / "wandb/proto").glob("wandb_*.proto"):
        shutil.copy(proto, folder / "wandb/proto")
    protos = [str(path.relative_to(folder)) for path in folder.rglob("*.proto")]
    subprocess.run(["protoc", "-I.", "--python_out=.", *protos], cwd=folder, check=True)
    sys.path.insert(0, str(folder))
    from wandb.proto import wandb_internal_pb2
    spec = importlib.util.spec_from_file_location("datastore",
                                                  tree / "wandb/sdk/internal/datastore.py")
    datastore = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(datastore)
    shutil.copy(GOLDEN, folder)  # it is opened for writing, too
    store = datastore.DataStore()
    store.open_for_scan(str(folder / GOLDEN.name))
    while (data := store.scan_data()) is not None:
        yield wandb_internal_pb2.Record.FromString(data)


def values(items):
    return {item.key: json.loads(item.value_json) for item in items}


def main():
    if not os.environ.get("CAIRN_WANDB"):
        print("no CAIRN_WANDB")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as made:
        tree = pathlib.Path(os.environ["CAIRN_WANDB"]).resolve()
        records = list(read_records(tree, pathlib.Path(made)))
    kinds = [record.WhichOneof("record_type") for record in records]
    rows = ["history"] * 3
    assert kinds == ["run", "config", *rows, "config", "summary", "exit"], kinds
    assert [record.num for record in records] == list(range(1, 9))
    run = records[0].run
    assert (run.run_id, run.entity, run.project) == ("run1", "team", "digits"), run
    assert run.display_name == "night" and list(run.tags) == ["small", "cpu"] and run.resumed, run
    assert run.start_time.seconds == 1_764_448_200 and run.starting_step == 7, run
    assert values(records[1].config.update) == {"lr": 0.1, "layers": [64, 10]}, records[1]
    for step, record in zip((7, 8, 9), records[2:5]):
        row = values(record.history.item)
        assert (row["_step"], row["loss/train/total"]) == (step, 1 / step), row
        assert record.history.step.num == step, record
    assert values(records[5].config.update) == {"long": 70_000 * "x"}
    assert values(records[6].summary.update) == {"loss/train/total": 0.125}, records[6]
    assert (records[7].exit.exit_code, records[7].exit.runtime) == (0, 12), records[7]
    print("W&B's datastore reads", GOLDEN.name)


if __name__ == "__main__":
    main()
