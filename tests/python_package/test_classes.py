"""Classes: allowed ones, and all others, of which nothing may run."""
import enum
import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile

import pytest

import cairn
from conftest import Outer, Phase, Point


def test_enums_and_classes_by_allow(path):
    cairn.save({"phase": Phase.FULL, "point": Point(1, [2])}, path, allow=[Phase, Point])
    loaded = cairn.load(path, allow=[Phase, Point])
    assert loaded["phase"] is Phase.FULL
    assert (loaded["point"].x, loaded["point"].y) == (1, [2])


def test_nested_classes(path):
    inner = Outer.Inner()
    inner.value = 3
    cairn.save([inner], path, allow=[Outer.Inner])
    assert cairn.load(path, allow=[Outer.Inner])[0].value == 3
    assert type(cairn.load(path)[0]).__qualname__ == "Outer.Inner"


def test_other_classes_are_refused_with_their_path(path):
    with pytest.raises(cairn.UnsupportedError, match=r"state/1/phase: .*conftest\.Phase.*allow="):
        cairn.save({"state": [0, {"phase": Phase.FULL}]}, path)
    with pytest.raises(cairn.UnsupportedError, match=r"model: .*Point"):
        cairn.save({"model": Point(1, 2)}, path, allow=[Phase])
    for thing in (lambda: 1, (i for i in "ab"), io.StringIO(), sys):
        with pytest.raises(cairn.UnsupportedError, match="deep/0"):
            cairn.save({"deep": [thing]}, path)
    assert not os.path.exists(path)


def test_a_class_that_python_cannot_pickle_is_named_where_it_is(path):
    class Local(enum.Enum):
        A = 1

    with pytest.raises(cairn.UnsupportedError, match="^phase: .*Local"):
        cairn.save({"phase": Local.A}, path, allow=[Local])


def test_a_refused_class_runs_no_code(path):
    class Loud:
        """It would say so."""

        def __reduce_ex__(self, protocol):
            raise AssertionError("this code may not run")

    with pytest.raises(cairn.UnsupportedError, match="Loud"):
        cairn.save([Loud()], path)


def test_allow_takes_classes_only(path):
    for wrong in (Phase, ["conftest.Phase"], [Phase.FULL]):
        with pytest.raises(cairn.UsageError, match="allow="):
            cairn.save(1, path, allow=wrong)


def test_placeholders_hold_what_the_file_has(path):
    cairn.save({"phase": Phase.FULL, "point": Point(1, [2])}, path, allow=[Phase, Point])
    loaded = cairn.load(path)
    assert isinstance(loaded["phase"], cairn.Placeholder)
    assert loaded["phase"].args == ("full",)
    assert loaded["point"].state == {"x": 1, "y": [2]}
    assert repr(loaded["point"]) == "<placeholder for conftest.Point>"
    with pytest.raises(cairn.UnsupportedError, match="placeholder for conftest.Phase"):
        cairn.save(loaded, path)


def write_pt(path, pickled):
    """A file of torch.save around a pickle."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", "3\n")


def text(word):
    data = word.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def marker_call(marker, module, name):
    """A pickle that calls module.name("touch marker")."""
    return (b"\x80\x02c" + module + b"\n" + name + b"\n" + text(f"touch {marker}") + b"\x85R.")


@pytest.mark.parametrize("module, name", [
    (b"os", b"system"), (b"posix", b"system"), (b"builtins", b"eval"), (b"builtins", b"exec"),
    (b"builtins", b"__import__"), (b"subprocess", b"getoutput"), (b"cairn._tool", b"main"),
    (b"torch._utils", b"_import_dotted_name"), (b"numpy.testing", b"measure")])
def test_hostile_calls_run_nothing(module, name, path, tmp_path):
    marker = tmp_path / "marker"
    write_pt(path, marker_call(marker, module, name))
    try:
        loaded = cairn.load(path)
    except cairn.Error:
        loaded = None
    assert not marker.exists()
    assert loaded is None or isinstance(loaded, cairn.Placeholder)


def test_hostile_objects_run_nothing(path, tmp_path):
    marker = tmp_path / "marker"
    touch = text(f"touch {marker}")
    pickles = [
        # INST, OBJ and STACK_GLOBAL name a function in other ways.
        b"(" + touch + b"ios\nsystem\n.",
        b"\x80\x02(cos\nsystem\n" + touch + b"o.",
        b"\x80\x04" + text("os") + text("system") + b"\x93" + touch + b"\x85R.",
        # getattr(builtins, "eval"), and an object with a state for its class.
        b"\x80\x02c__builtin__\ngetattr\nc__builtin__\nlist\n" + text("__class__") + b"\x86R.",
        b"\x80\x02ccollections\nOrderedDict\n)R}" + text("__class__") + b"cos\nsystem\nsb.",
        b"\x80\x02ccopy_reg\n__newobj_ex__\ncos\nsystem\n(" + touch + b"t}\x87R.",
        b"\x80\x02cos\nsystem\n(" + touch + b"t\x81.",
    ]
    for pickled in pickles:
        write_pt(path, pickled)
        try:
            cairn.load(path)
        except cairn.Error:
            pass
        assert not marker.exists(), pickled


LARGE = 1 << 36


@pytest.mark.parametrize("called", [
    b"ctorch.storage\nUntypedStorage\n", b"ctorch\nFloatStorage\n", b"cnumpy\nndarray\n",
    b"c__builtin__\nbytearray\n", b"c__builtin__\nint\n", b"c__builtin__\nlist\n"])
def test_hostile_sizes_take_no_memory(called, path):
    number = b"\x8a\x05" + struct.pack("<q", LARGE)[:5]
    for arguments in (number + b"\x85", b"(" + number + b"t\x85"):
        write_pt(path, b"\x80\x02" + called + arguments + b"R.")
        try:
            loaded = cairn.load(path)
        except cairn.Error:
            continue
        assert isinstance(loaded, cairn.Placeholder)


def test_a_hostile_state_does_not_change_an_enum(path):
    write_pt(path, b"\x80\x02cconftest\nPhase\n" + text("full") + b"\x85R}"
             + text("_value_") + b"K\x63sb.")
    with pytest.raises(cairn.CorruptError, match="Phase.FULL"):
        cairn.load(path, allow=[Phase])
    assert Phase.FULL.value == "full"


def test_hostile_copies_take_no_memory(path):
    """A list of 10,000 items, and 10,000 sets of it, which are 12 bytes each."""
    items = b"]q\x00(" + b"K\x01" * 10_000 + b"cos\nsystem\ne"
    sets = b"c__builtin__\nfrozenset\nq\x01h\x00\x85R" + b"h\x01h\x00\x85R" * 10_000
    write_pt(path, b"\x80\x02(" + items + sets + b"t.")
    with pytest.raises(cairn.Error):
        cairn.load(path)


def test_hostile_names_in_what_is_allowed(path, tmp_path):
    """An allowed class opens no way to others in its module."""
    marker = tmp_path / "marker"
    write_pt(path, b"\x80\x02cconftest\nos.system\n" + text(f"touch {marker}") + b"\x85R.")
    try:
        cairn.load(path, allow=[Point])
    except cairn.Error:
        pass
    assert not marker.exists()


def test_a_plain_pickle_of_python_loads_as_data(path):
    with open(path, "wb") as file:
        pickle.dump({"a": [1, 2.5]}, file)
    assert cairn.load(path) == {"a": [1, 2.5]}


def test_checkpoints_of_other_programs(path):
    """What this process can write and never imports: the tree of a class that is nowhere."""
    program = ("import zipfile, pickle, sys, types\n"
               "m = types.ModuleType('lost_module'); sys.modules['lost_module'] = m\n"
               "class Config(dict): pass\n"
               "Config.__module__ = 'lost_module'; m.Config = Config\n"
               "c = Config(a=1); c.extra = 2\n"
               f"z = zipfile.ZipFile({path!r}, 'w')\n"
               "z.writestr('archive/data.pkl', pickle.dumps({'c': c}, 2))\n"
               "z.writestr('archive/version', '3')\n"
               "z.close()")
    subprocess.run([sys.executable, "-c", program], check=True)
    config = cairn.load(path)["c"]
    assert isinstance(config, cairn.Placeholder)
    assert config.entries == {"a": 1} and config.state == {"extra": 2}
    assert "lost_module" not in sys.modules
