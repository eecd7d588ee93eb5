"""Trees without tensors: they need neither PyTorch nor numpy."""
import collections
import datetime
import os
import subprocess
import sys
import textwrap

import pytest

import cairn

UTC = datetime.timezone.utc
OBJECTS = {
    "none": None, "true": True, "int": 7, "negative": -1, "large": 2**80, "float": 0.1,
    "nan": float("inf"), "complex": 1 + 2j, "text": "grüße", "bytes": b"\x00\xff",
    "bytearray": bytearray(b"xy"), "list": [1, [2, [3]]], "tuple": (1, (2, ()), []),
    "set": {1, 2}, "frozenset": frozenset("ab"), "keys": {1: "a", (2, 3): "b", None: "c"},
    "ordered": collections.OrderedDict([("z", 1), ("a", 2)]),
    "counter": collections.Counter("aab"),
    "default": collections.defaultdict(list, {"a": [1]}),
    "datetime": datetime.datetime(2024, 2, 29, 12, 30, 1, 5),
    "aware": datetime.datetime(2024, 2, 29, tzinfo=UTC),
    "date": datetime.date(2024, 2, 29), "time": datetime.time(1, 2, 3),
    "delta": datetime.timedelta(days=-1, microseconds=3),
    "zone": datetime.timezone(datetime.timedelta(hours=2)),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_what_is_loaded_equals_what_was_saved(name, path):
    cairn.save(OBJECTS[name], path)
    loaded = cairn.load(path)
    assert loaded == OBJECTS[name]
    assert type(loaded) is type(OBJECTS[name])


def test_order_and_factories_are_kept(path):
    cairn.save(OBJECTS, path)
    loaded = cairn.load(path)
    assert list(loaded) == list(OBJECTS)
    assert list(loaded["ordered"]) == ["z", "a"]
    assert loaded["default"].default_factory is list


def test_one_object_at_two_places_stays_one(path):
    shared = [1]
    cairn.save({"a": shared, "b": [shared]}, path)
    loaded = cairn.load(path)
    assert loaded["a"] is loaded["b"][0]


def test_an_existing_file_may_be_kept(path):
    cairn.save({"step": 1}, path)
    with pytest.raises(cairn.AlreadyExistsError):
        cairn.save({"step": 2}, path, overwrite=False)
    assert cairn.load(path) == {"step": 1}
    cairn.save({"step": 2}, path)
    assert cairn.load(path) == {"step": 2}


@pytest.mark.parametrize("extension", [".pt.gz", ".pt.zst", ".pt.xz", ".pt.bz2", ".pt.lz4", ".tar"])
def test_the_extension_selects_a_container(extension, tmp_path):
    place = tmp_path / f"a{extension}"
    cairn.save(list(range(1000)), place)
    assert cairn.load(place) == list(range(1000))


@pytest.mark.parametrize("place", ["memory://plain/run/a.pt", "file://{}/b/c.pt"])
def test_a_place_may_be_a_uri(place, tmp_path):
    place = place.format(tmp_path)
    cairn.save({"step": 3}, place)
    assert cairn.load(place) == {"step": 3}
    assert cairn.find_latest(place.rpartition("/")[0]) is not None
    assert cairn.remove(place)
    assert not cairn.remove(place)
    with pytest.raises(cairn.NotFoundError):
        cairn.load(place)


def test_a_scheme_without_a_store_is_refused():
    with pytest.raises(cairn.UnsupportedError, match="nowhere"):
        cairn.save(1, "nowhere://bucket/a.pt")


def test_places_that_are_no_paths(path):
    for wrong in ("a.pt\0evil", 3, None):
        for use in (lambda place: cairn.save(1, place), cairn.load, cairn.find_latest,
                    cairn.verify):
            with pytest.raises(cairn.UsageError):
                use(wrong)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(cairn.UnsupportedError, match="deep"):
        cairn.save(deep, path)


def test_errors_are_of_their_class_and_say_where(path, tmp_path):
    with pytest.raises(cairn.NotFoundError, match="missing.pt") as caught:
        cairn.load(tmp_path / "missing.pt")
    assert caught.value.exit_code == 3
    (tmp_path / "text.pt").write_text("this is no checkpoint")
    with pytest.raises(cairn.CorruptError, match="text.pt"):
        cairn.load(tmp_path / "text.pt")
    (tmp_path / "file").write_text("")
    with pytest.raises(cairn.Error):
        cairn.save(1, tmp_path / "file" / "a.pt")
    assert issubclass(cairn.UnreadableError, cairn.StorageError)
    assert issubclass(cairn.StorageError, cairn.Error)


def test_neither_torch_nor_numpy_is_imported(path):
    program = textwrap.dedent(f"""
        import sys
        sys.modules["torch"] = sys.modules["numpy"] = None  # importing them fails
        import cairn
        cairn.save({{"step": (1, [2.5, "x"]), "raw": memoryview(b"ab")}}, {path!r})
        assert cairn.load({path!r}) == {{"step": (1, [2.5, "x"]), "raw": b"ab"}}
        """)
    subprocess.run([sys.executable, "-c", program], check=True)


def test_help_and_version():
    assert cairn.__version__[0].isdigit()
    for name in cairn.__all__:
        assert name == "__version__" or getattr(cairn, name).__doc__, name
    marker = os.path.join(os.path.dirname(cairn.__file__), "py.typed")
    assert os.path.exists(marker)
