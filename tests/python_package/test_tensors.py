"""Tensors: what torch.load and torch.save say of the same files."""
import collections
import ctypes
import threading

import pytest

import cairn
from cairn import _encode, _library, _torch

torch = pytest.importorskip("torch")

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
          "bool", "complex64", "complex128", "uint16", "uint32", "float8_e4m3fn", "float8_e5m2"]


def load_as_torch(path):
    """torch.load, which asks for weights_only since PyTorch 2.6."""
    try:
        return torch.load(path, weights_only=False)
    except TypeError:
        return torch.load(path)


def bytes_of(tensor):
    """The elements in row-major order."""
    tensor = tensor.detach().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def assert_same(a, b):
    """Equal in type, shape, strides and every bit."""
    assert type(a) is type(b)
    assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
    assert a.requires_grad == b.requires_grad
    assert bytes_of(a) == bytes_of(b)


def sample(name):
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"this PyTorch has no {name}")
    return torch.arange(24).reshape(4, 6).to(dtype)


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_both_ways(name, path):
    tensor = sample(name)
    cairn.save({"t": tensor}, path)
    assert_same(load_as_torch(path)["t"], tensor)
    assert_same(cairn.load(path)["t"], tensor)
    torch.save({"t": tensor}, path)
    assert_same(cairn.load(path)["t"], tensor)
    assert_same(cairn.load(path, mmap=True)["t"], tensor)


def shapes():
    base = torch.arange(60.).reshape(3, 4, 5)
    return {"scalar": torch.tensor(3.), "empty": torch.zeros(0, 3), "none": torch.zeros(2, 0, 2),
            "transposed": base.t() if base.dim() < 3 else base.transpose(0, 2),
            "slice": base[1:, ::2, 1], "expanded": torch.ones(3, 1).expand(3, 4),
            "channels": torch.ones(1, 3, 4, 4).to(memory_format=torch.channels_last),
            "grad": torch.ones(2, requires_grad=True),
            "conjugate": torch.tensor([1 + 2j, 3 - 4j]).conj(),
            "negative": torch.tensor([1 + 2j, 3 - 4j]).conj().imag}


@pytest.mark.parametrize("name", shapes())
def test_shapes_and_strides(name, path):
    tensor = shapes()[name]
    cairn.save(tensor, path)
    loaded = cairn.load(path)
    assert torch.equal(loaded, tensor)
    assert torch.equal(load_as_torch(path), tensor)
    assert loaded.stride() == load_as_torch(path).stride()
    assert loaded.requires_grad == tensor.requires_grad


def storage_of(tensor):
    return tensor.storage().data_ptr()


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_views_share_their_storage_again(path):
    base = torch.arange(10.)
    cairn.save({"base": base, "view": base[2:5], "other": torch.zeros(3)}, path)
    for options in ({}, {"mmap": True}, {"verify": False}):
        loaded = cairn.load(path, **options)
        assert storage_of(loaded["base"]) == storage_of(loaded["view"])
        assert storage_of(loaded["base"]) != storage_of(loaded["other"])
        loaded["base"][3] = 100
        assert loaded["view"][1] == 100
    assert cairn.load(path)["view"][1] == 3  # not even the mapped file has changed


def test_a_tensor_outlives_all_else(path):
    cairn.save({"a": torch.arange(1000.), "b": torch.ones(5)}, path)
    for options in ({}, {"mmap": True}):
        tensor = cairn.load(path, **options)["a"]
        assert float(tensor.sum()) == 499500
        tensor += 1
        assert float(tensor.sum()) == 500500


def trained():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 6)).sum().backward()
        optimizer.step()
    return model, optimizer


def assert_same_state(a, b):
    model, optimizer = trained()
    model.load_state_dict(a["model"])
    optimizer.load_state_dict(a["optimizer"])
    for name, tensor in b["model"].items():
        assert_same(a["model"][name], tensor)
    for key, state in b["optimizer"]["state"].items():
        for name, value in state.items():
            assert torch.equal(torch.as_tensor(a["optimizer"]["state"][key][name]),
                               torch.as_tensor(value))
    assert a["optimizer"]["param_groups"] == b["optimizer"]["param_groups"]


def test_the_state_of_training_both_ways(path):
    model, optimizer = trained()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 2}
    cairn.save(state, path)
    assert_same_state(cairn.load(path), state)
    assert_same_state(load_as_torch(path), state)
    loaded = cairn.load(path)["model"]
    assert isinstance(loaded, collections.OrderedDict)
    assert loaded._metadata == state["model"]._metadata
    torch.save(state, path)
    assert_same_state(cairn.load(path), state)


@pytest.mark.skipif(not hasattr(torch.serialization, "add_safe_globals"),
                    reason="weights_only came later")
def test_weights_only_takes_what_it_takes_from_torch(path):
    model, optimizer = trained()
    cairn.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    assert list(torch.load(path, weights_only=True)) == ["model", "optimizer"]


def test_what_else_torch_has(path):
    things = {"size": torch.Size([1, 2]), "device": torch.device("cpu"), "dtype": torch.bfloat16,
              "layout": torch.strided, "version": torch.__version__,
              "parameter": torch.nn.Parameter(torch.ones(2), requires_grad=False),
              "sparse": torch.eye(3).to_sparse(),
              "quantized": torch.quantize_per_tensor(torch.arange(4.), 0.5, 1, torch.qint8)}
    cairn.save(things, path)
    for loaded in (cairn.load(path), load_as_torch(path)):
        for name in ("size", "device", "dtype", "layout", "version"):
            assert loaded[name] == things[name]
        assert type(loaded["parameter"]) is torch.nn.Parameter
        assert not loaded["parameter"].requires_grad
        assert torch.equal(loaded["sparse"].to_dense(), torch.eye(3))
        assert torch.equal(loaded["quantized"].dequantize(), things["quantized"].dequantize())


def test_map_location(path):
    cairn.save(torch.ones(2), path)
    seen = []

    def take(storage, location):
        seen.append(location)
        return storage

    for where in (None, "cpu", torch.device("cpu"), {"cpu": "cpu"}, take):
        assert torch.equal(cairn.load(path, map_location=where), torch.ones(2))
    assert seen == ["cpu"]


def test_two_dtypes_of_one_storage_are_refused(path):
    base = torch.zeros(4)
    with pytest.raises(cairn.UnsupportedError, match="share a storage"):
        cairn.save({"a": base, "b": base.view(torch.int32)}, path)


def test_other_threads_run_during_a_save_and_a_load(path):
    state = {"w": torch.zeros(64 << 20, dtype=torch.uint8)}
    count = [0]
    ended = threading.Event()

    def counts():
        while not ended.is_set():
            count[0] += 1

    thread = threading.Thread(target=counts)
    thread.start()
    try:
        for work in (lambda: cairn.save(state, path), lambda: cairn.load(path)):
            before = count[0]
            work()
            # With the lock held throughout, it would run for a few moments of 5 ms at most.
            assert count[0] - before > 1000
    finally:
        ended.set()
        thread.join()


def test_a_damaged_sparse_tensor_is_found(path):
    make = getattr(torch, "_sparse_coo_tensor_unsafe", None) or torch.sparse_coo_tensor
    options = {"check_invariants": False} if make is torch.sparse_coo_tensor else {}
    torch.save({"s": make(torch.tensor([[10_000_000]]), torch.ones(1), (3,), **options)}, path)
    with pytest.raises(cairn.CorruptError, match="sparse"):
        cairn.load(path)
    torch.save({"s": torch.eye(2).to_sparse()}, path)
    assert torch.equal(cairn.load(path)["s"].to_dense(), torch.eye(2))
    assert not torch._utils._sparse_tensors_to_validate


@pytest.mark.skipif(not hasattr(torch.serialization, "add_safe_globals"),
                    reason="PyTorch 1.13 drops them itself")
def test_attributes_that_are_lost_are_told(path):
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.partition_dim = 1
    with pytest.warns(cairn.CheckpointWarning, match="w: partition_dim"):
        cairn.save({"w": parameter}, path)
    torch.save({"w": parameter}, path)
    with pytest.warns(cairn.CheckpointWarning, match="w: partition_dim"):
        assert torch.equal(cairn.load(path)["w"], parameter)


def test_tensors_that_are_refused(path):
    class Own(torch.Tensor):
        """A subclass of a user's."""

    own = torch.ones(2).as_subclass(Own)
    for tensor, allow in ((own, ()), (own, [Own]),
                          (torch.nested.nested_tensor([torch.ones(2)]), ()),
                          (torch.empty(2, device="meta"), ())):
        with pytest.raises(cairn.UnsupportedError, match="^t: |meta"):
            cairn.save({"t": tensor}, path, allow=allow)


@pytest.mark.skipif(not hasattr(torch.Tensor, "has_names"), reason="PyTorch has them no more")
@pytest.mark.filterwarnings("ignore:Named tensors")
def test_names_of_dimensions_are_refused(path):
    with pytest.raises(cairn.UnsupportedError, match="names"):
        cairn.save({"t": torch.zeros(2, names=("N",))}, path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu(path):
    state = {"a": torch.arange(100., device="cuda"), "b": torch.ones(3)}
    state["view"] = state["a"][10:20]
    cairn.save(state, path)
    assert cairn.load(path)["a"].device.type == "cuda"
    loaded = cairn.load(path, map_location="cpu")
    assert torch.equal(loaded["a"], torch.arange(100.))
    assert torch.equal(loaded["view"], torch.arange(10., 20.))


def test_staging_places_each_storage():
    """What a GPU's tensors go through, without one."""
    tensors = [torch.arange(n, dtype=torch.uint8) for n in (5, 64, 100)]
    storages = _encode._Storages(torch)
    array = (_library.Bytes * len(tensors))()
    elsewhere = [(i, _torch.untyped_storage(tensor)) for i, tensor in enumerate(tensors)]
    owner = storages._stage(elsewhere, _encode.Pinned(), array)
    for tensor, place in zip(tensors, array):
        assert place.data % 64 == owner.data_ptr() % 64
        assert ctypes.string_at(place.data, place.size) == bytes_of(tensor)
