"""Writes tests/data/deepspeed: ZeRO checkpoints of stage 1, 2, 3 and of BF16_Optimizer, laid out as
DeepSpeed 0.19 does it, and the weights that its zero_to_fp32.py would give.

    python3 deepspeed_folders.py OUT          # any PyTorch

DeepSpeed itself does not run here: its classes are stand-ins of the same names, and the cutting is
written after its source. So these files show that cairn does what the source says, no more.
"""
import collections
import enum
import hashlib
import json
import math
import os
import sys
import types

import torch


def stand_in(module, name, base=object, **members):
    cls = type(name, (base,), {"__module__": module, **members}) if base is object else None
    sys.modules.setdefault(module, types.ModuleType(module))
    setattr(sys.modules[module], name, cls)
    return cls


Scaler = stand_in("deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler")
Address = stand_in("deepspeed.utils.tensor_fragment", "fragment_address")
for part in ["deepspeed", "deepspeed.runtime", "deepspeed.runtime.fp16", "deepspeed.utils",
             "deepspeed.runtime.zero", "deepspeed.runtime.zero.config"]:
    sys.modules.setdefault(part, types.ModuleType(part))
Stage = enum.IntEnum("ZeroStageEnum", {"disabled": 0, "optimizer_states": 1, "gradients": 2,
                                       "weights": 3}, module="deepspeed.runtime.zero.config")
sys.modules["deepspeed.runtime.zero.config"].ZeroStageEnum = Stage

GROUPS = [
    {"embed.weight": (5, 3), "layer.weight": (4, 4), "layer.bias": (4,)},
    {"norm.weight": (3,), "scale": ()},
]
FROZEN = {"frozen.weight": (3, 3)}


def tensors(shapes, start):
    out = collections.OrderedDict()
    for name, shape in shapes.items():
        count = math.prod(shape)
        out[name] = torch.arange(start, start + count, dtype=torch.float32).reshape(shape) / 4
        start += count
    return out


def scaler():
    scale = Scaler()
    scale.__dict__.update(cur_scale=65536.0, cur_iter=3, dtype=torch.float16)
    return scale


def address(numel, start):
    where = Address()
    where.__dict__.update(numel=numel, start=start)
    return where


def sizes(shapes):
    return collections.OrderedDict((name, torch.Size(shape)) for name, shape in shapes.items())


def model_states(groups, frozen, fragments, ranks, module):
    return {
        "module": module, "buffer_names": ["norm.running_mean", "norm.count"], "optimizer": None,
        "param_shapes": [sizes(group) for group in groups],
        "frozen_param_shapes": sizes(frozen), "frozen_param_fragments": fragments,
        "shared_params": {"head.weight": "embed.weight"}, "lr_scheduler": None,
        "skipped_steps": 0, "global_steps": 3, "dp_world_size": ranks, "mp_world_size": 1,
        "ds_config": {"zero_optimization": {"stage": 2}}, "ds_version": "0.19.6",
    }


def pad(flat, multiple):
    return torch.cat([flat, torch.zeros(-flat.numel() % multiple)])


def stage_2(folder, ranks, weights, frozen, buffers, stage, bf16):
    slices = []
    for group in weights:
        flat = pad(torch.cat([t.flatten() for t in group.values()]), 2 * ranks)
        slices.append(list(flat.chunk(ranks)))
        used = sum(t.numel() for t in group.values())
        padding = flat.numel() - used
        if padding and not bf16:  # stripped from the last slice
            last = slices[-1][-1]
            slices[-1][-1] = last[:max(0, last.numel() - padding)]
    module = collections.OrderedDict(buffers)
    for group in weights:
        module.update((name, t.half()) for name, t in group.items())
    torch.save(model_states(GROUPS, FROZEN, frozen, ranks, module), folder + "/mp_rank_00_model_states.pt")
    for rank in range(ranks):
        state = {
            "clip_grad": 1.0, "base_optimizer_state": {"state": {}, "param_groups": [{"lr": 0.1}]},
            "single_partition_of_fp32_groups": [own[rank].clone() for own in slices],
            "group_paddings": [0] * len(slices), "partition_count": [ranks] * len(slices),
            "ds_version": "0.19.6",
            "param_slice_mappings": [collections.OrderedDict({"embed.weight": address(15, 0)})],
        }
        if not bf16:
            state.update(loss_scaler=scaler(), dynamic_loss_scale=True, overflow=False,
                         zero_stage=Stage(stage))
        name = f"{'bf16_' if bf16 else ''}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": state, "ds_config": {}, "ds_version": "0.19.6"},
                   f"{folder}/{name}")


def cut_3(tensor, ranks):
    return pad(tensor.flatten(), ranks).chunk(ranks)


def stage_3(folder, ranks, weights, frozen, buffers):
    for rank in range(ranks):
        module = collections.OrderedDict(buffers)
        module.update((name, torch.empty(0)) for group in weights for name in group)
        fragments = {name: cut_3(t, ranks)[rank].clone() for name, t in frozen.items()}
        torch.save(model_states(GROUPS, FROZEN, fragments, ranks, module),
                   f"{folder}/zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        flat = torch.cat([cut_3(t, ranks)[rank] for group in weights for t in group.values()])
        state = {
            "zero_stage": Stage(3), "loss_scaler": scaler(), "dynamic_loss_scale": True,
            "overflow": False, "partition_count": ranks,
            "optimizer_state_dict": {"state": {}, "param_groups": [{"lr": 0.1}]},
            # sub-groups may end inside a parameter
            "fp32_flat_groups": [flat[:7].clone(), flat[7:].clone()],
        }
        torch.save({"optimizer_state_dict": state, "ds_config": {}, "ds_version": "0.19.6"},
                   f"{folder}/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")


def describe(weights):
    items = []
    for name, t in weights.items():
        data = b"".join(bytes(t.contiguous().reshape(-1).view(torch.uint8).tolist()) for _ in [0])
        items.append([{"type": "str", "value": name},
                      {"type": "tensor", "dtype": str(t.dtype)[6:], "shape": list(t.shape),
                       "stride": list(t.stride()), "requires_grad": False,
                       "sha256": hashlib.sha256(data).hexdigest()}])
    return {"type": "OrderedDict", "items": items}


if __name__ == "__main__":
    out = sys.argv[1]
    weights = [tensors(GROUPS[0], 1), tensors(GROUPS[1], 100)]
    frozen = tensors(FROZEN, 200)
    buffers = {"norm.running_mean": torch.tensor([0.5, 1.5, 2.5]), "norm.count": torch.tensor(12)}
    whole = collections.OrderedDict((name, t.float()) for name, t in buffers.items())
    for part in [frozen, *weights]:
        whole.update(part)
    whole["head.weight"] = whole["embed.weight"]
    for name, ranks in [("stage1", 2), ("stage2", 3), ("bf16", 2), ("stage3", 3)]:
        folder = f"{out}/{name}/global_step3"
        os.makedirs(folder)
        if name == "stage3":
            stage_3(folder, ranks, weights, frozen, buffers)
        else:
            stage_2(folder, ranks, weights, frozen, buffers, 1 if name != "stage2" else 2, name == "bf16")
        with open(f"{out}/{name}/latest", "w") as file:
            file.write("global_step3")
        with open(f"{out}/{name}.json", "w") as file:
            json.dump(describe(whole), file, indent=0, sort_keys=True)
            file.write("\n")
