"""Arrays of numpy, and of others by DLPack and the buffer protocol."""
import subprocess
import sys
import textwrap

import pytest

import cairn

numpy = pytest.importorskip("numpy")

CODES = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("code", CODES)
def test_arrays_and_scalars(code, path):
    array = numpy.arange(12).reshape(3, 4).astype(code)
    scalar = array[1, 1]
    cairn.save({"c": array, "f": numpy.asfortranarray(array), "s": array[:, ::2], "x": scalar},
               path)
    loaded = cairn.load(path)
    for name, wanted in (("c", array), ("f", array), ("s", array[:, ::2])):
        assert loaded[name].dtype == wanted.dtype
        assert numpy.array_equal(loaded[name], wanted)
        loaded[name][0] = 1  # writable
    assert loaded["x"] == scalar
    assert type(loaded["x"]) is type(scalar)


def test_empty_and_big_endian_arrays(path):
    cairn.save([numpy.zeros((0, 3)), numpy.array(5.), numpy.array([1, 2], ">i4")], path)
    empty, scalar, swapped = cairn.load(path)
    assert empty.shape == (0, 3)
    assert scalar.shape == () and scalar == 5
    assert swapped.tolist() == [1, 2]


def test_a_state_of_numpys_generators(path):
    numpy.random.seed(3)
    state = numpy.random.get_state()
    expected = numpy.random.rand(5)
    cairn.save(state, path)
    numpy.random.set_state(cairn.load(path))
    assert numpy.array_equal(numpy.random.rand(5), expected)


def test_texts_are_refused(path):
    for what, thing in (("array of <U1", numpy.array(["a"])),
                        ("scalar of datetime64", numpy.datetime64("2024-01-01")),
                        ("dtype of", numpy.dtype([("a", "i4")]))):
        with pytest.raises(cairn.UnsupportedError, match=f"names: a numpy {what}.*numbers"):
            cairn.save({"names": thing}, path)
    cairn.save(numpy.dtype("f4"), path)
    assert cairn.load(path) == numpy.dtype("f4")
    torch = pytest.importorskip("torch")
    torch.save({"names": numpy.array(["a"])}, path)
    with pytest.raises(cairn.UnsupportedError, match="a.pt: .*'U1'.*numbers"):
        cairn.load(path)


def test_memory_of_others(path):
    class Array:
        """An array of another library."""

        def __init__(self):
            self._array = numpy.arange(6.).reshape(2, 3)

        def __dlpack__(self, **how):
            return self._array.__dlpack__(**how)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    cairn.save({"memory": memoryview(numpy.arange(4, dtype="i2")), "array": Array()}, path)
    loaded = cairn.load(path)
    assert loaded["memory"].tolist() == [0, 1, 2, 3]
    assert loaded["array"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_tensors_without_torch_are_arrays(path):
    torch = pytest.importorskip("torch")
    base = torch.arange(12.).reshape(3, 4)
    cairn.save({"t": base.t(), "p": torch.nn.Parameter(base), "n": torch.zeros(2, 0),
                "size": torch.Size([2])}, path)
    program = textwrap.dedent(f"""
        import sys
        sys.modules["torch"] = None  # importing it fails
        import cairn, numpy
        loaded = cairn.load({path!r})
        wanted = numpy.arange(12, dtype="f4").reshape(3, 4)
        assert numpy.array_equal(loaded["t"], wanted.T)
        assert numpy.array_equal(loaded["p"], wanted)
        assert loaded["n"].shape == (2, 0) and loaded["size"] == (2,)
        loaded["p"][0] = 1
        """)
    subprocess.run([sys.executable, "-c", program], check=True)
