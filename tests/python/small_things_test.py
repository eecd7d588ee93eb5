#!/usr/bin/python3
"""What Python pickled comes back from `cairn convert` as the object that it was.

usage: small_things_test.py CAIRN DATA_FOLDER

Python saves what is easily lost (a Counter, the _metadata of a state_dict, numpy's scalars and the
order of its arrays, settings of torch, objects of classes of its own), cairn writes the file again,
and Python finds the same objects of the same types, and can go on with them. Exits with 77 (ctest:
skipped) where PyTorch or numpy is not installed.
"""
import collections
import enum
import pathlib
import pickle
import subprocess
import sys
import tempfile
import types

try:
    import numpy
    import torch
except ImportError:
    print("SKIPPED: python3-torch or python3-numpy is not installed")
    sys.exit(77)


class Point:
    """A class of the user's, with itself in itself."""

    def __init__(self, x):
        self.x = x
        self.me = self

    class Nested(list):
        pass


class Keyed(dict):
    def __new__(cls, *, size):
        made = super().__new__(cls)
        made.size = size
        return made

    def __getnewargs_ex__(self):
        return (), {"size": self.size}


def numbers(count):
    return numpy.arange(float(count)).reshape(2, -1)


def small_things():
    nested = Point.Nested([1, 2])
    nested.name = "n"
    keyed = Keyed(size=3)
    keyed["a"] = 1
    return {
        "counter": collections.Counter({7: 2, 9: 1}),
        "defaultdict": collections.defaultdict(int, {1: 2}),
        "of lists": collections.defaultdict(list, {"a": [1]}),
        "of texts": collections.defaultdict(str),
        "scalars": [numpy.float64(0.1), numpy.float32(0.1), numpy.int64(-3), numpy.uint8(200),
                    numpy.bool_(True), numpy.complex64(1 + 2j), numpy.float16(0.5)],
        "c": numbers(6),
        "fortran": numpy.asfortranarray(numbers(6)),
        "fortran of bytes": numpy.asfortranarray(numbers(8).astype("u1")),
        "big-endian": numbers(6).astype(">f4"),
        "texts": numpy.array(["a", "bc"]),
        "dates": numpy.array(["2026-11-20"], dtype="M8[D]"),
        "dtype": numpy.dtype("float32"),
        "strided": torch.strided,
        "sparse_coo": torch.sparse_coo,
        "scheme": torch.per_tensor_affine,
        "point": Point(5),
        "class": Point,
        "function": numbers,
        "method": collections.OrderedDict.fromkeys,
        "nested": nested,
        "keyed": keyed,
        "type": set,
        "storage": torch.arange(4.0).storage(),
        "coalesced": torch.sparse_coo_tensor([[1, 2]], [3.0, 4.0], (5,)).coalesce(),
        "namespace": types.SimpleNamespace(a=[1, torch.ones(2)]),
    }


def same(a, b, path, seen):
    """Asserts that two objects are of one type and content."""
    assert type(a) is type(b), (path, type(a), type(b))
    if id(a) in seen:
        assert seen[id(a)] is b, path
        return
    if not isinstance(a, (int, float, str, bytes, type(None))):
        seen[id(a)] = b
    if isinstance(a, numpy.ndarray):
        assert a.tobytes() == b.astype(a.dtype).tobytes(), path
        assert a.flags.f_contiguous == b.flags.f_contiguous, path
        assert a.dtype.kind == b.dtype.kind and a.shape == b.shape, path
    elif isinstance(a, torch.Tensor):
        assert a.layout == b.layout and torch.equal(*(t.to_dense() if t.is_sparse else t
                                                      for t in (a, b))), path
    elif isinstance(a, dict):
        assert list(a) == list(b), path
        for key in a:
            same(a[key], b[key], f"{path}/{key}", seen)
        if isinstance(a, collections.defaultdict):
            assert a.default_factory is b.default_factory, path
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), path
        for i, pair in enumerate(zip(a, b)):
            same(*pair, f"{path}/{i}", seen)
    elif "Storage" in type(a).__name__:
        assert a.tolist() == b.tolist(), path
    elif not hasattr(a, "__dict__") or isinstance(a, (type, types.FunctionType)):
        assert a == b, path
    if hasattr(a, "__dict__") and not isinstance(a, (type, types.FunctionType, torch.Tensor)):
        if "Storage" not in type(a).__name__:
            same(a.__dict__, b.__dict__, path + ".__dict__", seen)


def load(path):
    try:
        return torch.load(path, weights_only=False)
    except TypeError:
        return torch.load(path)


def converted(cairn, source, folder):
    target = folder + "/again.pt"
    subprocess.run([cairn, "convert", "--quiet", "--overwrite", source, target], check=True,
                   stdout=subprocess.DEVNULL)
    return load(target)


def check_protocols(cairn, folder):
    for protocol in (2, 3, 4, 5):
        things = small_things()
        if protocol >= 4:  # before, Python cannot pickle it
            things["format"] = torch.channels_last
        torch.save(things, folder + "/things.pt", pickle_protocol=protocol)
        same(things, converted(cairn, folder + "/things.pt", folder), f"{protocol}:", {})
    plain = {"a": numbers(6), "p": Point(1)}
    with open(folder + "/plain.pkl", "wb") as file:
        pickle.dump(plain, file, 5)
    same(plain, converted(cairn, folder + "/plain.pkl", folder), "plain:", {})


def check_scheduler(cairn, folder):
    def scheduler():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 7, 7])

    torch.save(scheduler().state_dict(), folder + "/scheduler.pt")
    live = scheduler()
    live.load_state_dict(converted(cairn, folder + "/scheduler.pt", folder))
    live.step(7)
    assert abs(live.get_last_lr()[0] - 1e-3) < 1e-12, live.get_last_lr()


def check_quantized(cairn, folder):
    def module():
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        return torch.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)

    if not torch.backends.quantized.supported_engines:
        return
    first = module()
    torch.save(first.state_dict(), folder + "/quantized.pt")
    state = converted(cairn, folder + "/quantized.pt", folder)
    assert state._metadata == first.state_dict()._metadata
    second = module()
    second.load_state_dict(state)
    x = torch.ones(1, 4)
    assert torch.equal(first(x), second(x))


def check_whole_module(cairn, folder):
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).eval()
    torch.save(module, folder + "/module.pt")
    again = converted(cairn, folder + "/module.pt", folder)
    x = torch.ones(2, 2)
    assert torch.equal(module(x), again(x))


def define_torchmetrics():
    """What the checkpoints of Composer 0.10 and 0.13 name of torchmetrics, without its code."""
    def define(module, name, thing):
        parts = module.split(".")
        for i in range(len(parts)):
            made = sys.modules.setdefault(".".join(parts[:i + 1]), types.ModuleType(parts[i]))
        thing.__module__, thing.__qualname__ = module, name
        setattr(made, name, thing)

    class Metric:
        def __new__(cls, *_):
            return object.__new__(cls)

    class DataType(enum.Enum):
        MULTICLASS = "multi-class"

    for name in ("Accuracy", "MulticlassAccuracy"):
        define("torchmetrics.classification.accuracy", name, type(name, (Metric,), {}))
    define("torchmetrics.utilities.enums", "DataType", DataType)
    define("torchmetrics.utilities.data", "dim_zero_sum", lambda x: x.sum(0))
    define("torchmetrics.metric", "jit_distributed_available", lambda: False)


def check_composer(cairn, data, folder):
    define_torchmetrics()
    files = sorted(path for release in ("v0.10.1", "v0.13.5")
                   for path in (pathlib.Path(data) / "composer-releases" / release).rglob("ep*.pt"))
    assert len(files) >= 2
    for path in files:
        before = load(path)
        (metric,) = before["state"]["train_metrics"].values()
        assert type(metric).__module__ == "torchmetrics.classification.accuracy"
        assert isinstance(metric.tp, torch.Tensor)
        same(before, converted(cairn, path, folder), path.parent.parent.name + ":", {})


def main(cairn, data):
    with tempfile.TemporaryDirectory() as folder:
        check_protocols(cairn, folder)
        check_scheduler(cairn, folder)
        check_quantized(cairn, folder)
        check_whole_module(cairn, folder)
        check_composer(cairn, data, folder)
    print(f"torch {torch.__version__}, numpy {numpy.__version__}: as they were")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
