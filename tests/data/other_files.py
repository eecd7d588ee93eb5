#!/usr/bin/env python3
"""Writes other-files/: what is no plain torch.save file of today, or not read as one.

other_files.py FOLDER, with PyTorch 1.13 and with 2.14, into the same folder."""

import dataclasses
import os
import pickle
import sys
import types
import warnings
import zipfile

import torch

warnings.filterwarnings("ignore")
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
torch.manual_seed(1)


def path(name):
    return os.path.join(folder, name)


def write_old():
    model = torch.nn.Linear(3, 2)
    torch.save({"model": model, "w": torch.arange(3.0)}, path("whole_module_legacy.pt"),
               _use_new_zipfile_serialization=False)


def write_mcore():
    """A torch_dist folder as Megatron-core 0.15 writes it, whose metadata has a class of its own."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import metadata
    dcp.save({"decoder.w": torch.arange(6.0).view(2, 3)}, checkpoint_id=path("mcore"), no_dist=True)
    file = path("mcore/.metadata")
    with open(file, "rb") as old:
        plain = pickle.load(old)
    name = "megatron.core.dist_checkpointing.strategies.torch"
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        sys.modules[".".join(parts[:i])] = types.ModuleType(name)

    @dataclasses.dataclass
    class MCoreMetadata(metadata.Metadata):
        mcore_data: dict = dataclasses.field(default_factory=dict)

    MCoreMetadata.__module__, MCoreMetadata.__qualname__ = name, "MCoreMetadata"
    sys.modules[name].MCoreMetadata = MCoreMetadata
    more = {"decoder.w": {"nd_reformulated_orig_global_shape": (2, 3)}}
    with open(file, "wb") as new:
        pickle.dump(MCoreMetadata(mcore_data=more, **vars(plain)), new)


def write_big_endian():
    """float8 needs no turning round; of uint16 nobody knows."""
    plain = path("plain.pt")
    torch.save({"f": torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn),
                "b": torch.tensor([True, False]),
                "u": torch.tensor([1, 2], dtype=torch.uint16)}, plain)
    with zipfile.ZipFile(plain) as old:
        writer = torch._C.PyTorchFileWriter(path("big_endian_float8.pt"))
        for name in old.namelist():
            record = name.split("/", 1)[1]
            data = b"big" if record == "byteorder" else old.read(name)
            if not record.startswith(".") and record != "version":
                writer.write_record(record, data, len(data))
        writer.write_end_of_file()
    os.remove(plain)


def write_new():
    tagged = torch.nn.Parameter(torch.ones(2))
    tagged.partition_dim, tagged.tag = 0, "x"
    plain = torch.zeros(3)
    plain.note = "n"
    torch.save({"p": tagged, "t": plain, "b": torch.ones(2)}, path("attributes.pt"))
    with torch.serialization.skip_data():
        torch.save({"w": torch.ones(5), "b": torch.ones(3)}, path("skip_data.pt"))
    with torch.package.PackageExporter(path("package.pt")) as out:
        out.extern("torch.**")
        out.save_pickle("m", "m.pkl", {"w": torch.ones(2)})
    model = torch.nn.Linear(3, 2)
    torch.export.save(torch.export.export(model, (torch.ones(1, 3),)), path("export.pt2"))
    torch.jit.save(torch.jit.script(model), path("script.pt"))
    write_mcore()
    write_big_endian()


if torch.__version__.startswith("1."):
    write_old()
else:
    write_new()
