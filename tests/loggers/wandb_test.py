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

GOLDEN = pathlib.Path(__file__).parent.parent / "data/wandb/run-goldenid.wandb"


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
    assert kinds == ["header", "run", "config", "history", "history", "summary", "exit"], kinds
    run = records[1].run
    assert (run.run_id, run.entity, run.project) == ("goldenid", "team", "digits"), run
    assert run.display_name == "run" and list(run.tags) == ["a", "b"] and not run.resumed, run
    assert run.start_time.seconds >= 1_700_000_000, run
    assert values(records[2].config.update) == {"lr": 0.1, "name": "adam"}, records[2]
    rows = [values(record.history.item) for record in records[3:5]]
    assert [(row["_step"], row["loss"]) for row in rows] == [(0, 0.75), (300, -2.5)], rows
    assert rows[0]["acc"] == 1 and records[4].history.step.num == 300, rows
    assert values(records[5].summary.update) == {"loss": -2.5, "acc": 1}, records[5]
    assert records[6].exit.exit_code == 0, records[6]
    print("W&B's datastore reads", GOLDEN.name)


if __name__ == "__main__":
    main()
