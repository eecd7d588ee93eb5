"""cairn.lightning with a stand-in for Lightning's interface, and both modules without a framework.

The real Composer and Lightning run in tests/python_outside.
"""
import abc
import importlib
import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import cairn  # noqa: E402


class StandIn(abc.ABC):
    """The interface of lightning.fabric.plugins.io.checkpoint_io.CheckpointIO."""

    @abc.abstractmethod
    def save_checkpoint(self, checkpoint, path, storage_options=None):
        ...

    @abc.abstractmethod
    def load_checkpoint(self, path, map_location=None, weights_only=None):
        ...

    @abc.abstractmethod
    def remove_checkpoint(self, path):
        ...

    def teardown(self):
        ...


@pytest.fixture
def plugin(monkeypatch):
    """A plug-in over the stand-in."""
    name = ""
    for part in ("lightning", "fabric", "plugins", "io", "checkpoint_io"):
        name = f"{name}.{part}".lstrip(".")
        module = types.ModuleType(name)
        module.__path__ = []
        monkeypatch.setitem(sys.modules, name, module)
    module.CheckpointIO = StandIn
    monkeypatch.delitem(sys.modules, "cairn.lightning", raising=False)
    yield importlib.import_module("cairn.lightning").CheckpointIO()
    sys.modules.pop("cairn.lightning", None)


def test_a_checkpoint_is_there_after_teardown_and_loads(plugin, tmp_path):
    state = {"state_dict": {"weight": torch.arange(6.0).view(2, 3)}, "epoch": 3,
             "loops": {"fit_loop": {"ready": [1, 2]}}, "pytorch-lightning_version": "2.6"}
    path = tmp_path / "new" / "epoch=3.ckpt"
    plugin.save_checkpoint(state, path)
    state["state_dict"]["weight"].zero_()  # training goes on
    plugin.teardown()
    for loaded in (plugin.load_checkpoint(path), torch.load(path)):
        assert torch.equal(loaded["state_dict"]["weight"], torch.arange(6.0).view(2, 3))
        assert loaded["loops"] == {"fit_loop": {"ready": [1, 2]}}


def test_a_checkpoint_that_is_being_saved_can_be_loaded_and_removed(plugin, tmp_path):
    path = str(tmp_path / "last.ckpt")
    plugin.save_checkpoint({"epoch": 1}, path)
    assert plugin.load_checkpoint(path) == {"epoch": 1}
    plugin.save_checkpoint({"epoch": 2}, path)
    plugin.remove_checkpoint(path)
    plugin.teardown()
    assert not list(tmp_path.iterdir())
    plugin.remove_checkpoint(path)  # nothing there: no error
    with pytest.raises(cairn.NotFoundError):
        plugin.load_checkpoint(path)


def test_a_superfluous_checkpoint_stays_until_the_next_is_durable(plugin, tmp_path, monkeypatch):
    old, new = tmp_path / "epoch=0.ckpt", tmp_path / "epoch=1.ckpt"
    waits = []
    wait = cairn.Saver.wait
    monkeypatch.setattr(cairn.Saver, "wait", lambda saver: (waits.append(saver), wait(saver)))
    plugin.save_checkpoint({"epoch": 0}, old)
    plugin.save_checkpoint({"epoch": 1}, new)
    plugin.remove_checkpoint(old)  # as ModelCheckpoint does after each save
    assert not waits and old.exists()
    plugin.save_checkpoint({"epoch": 2}, tmp_path / "epoch=2.ckpt")
    assert not waits and not old.exists() and new.exists()
    plugin.remove_checkpoint(new)
    plugin.teardown()
    assert [path.name for path in tmp_path.iterdir()] == ["epoch=2.ckpt"]


def test_nothing_is_removed_for_a_save_that_fails(plugin, tmp_path):
    old = tmp_path / "epoch=0.ckpt"
    plugin.save_checkpoint({"epoch": 0}, old)
    (tmp_path / "epoch=1.ckpt" / "in the way").mkdir(parents=True)
    plugin.save_checkpoint({"epoch": 1}, tmp_path / "epoch=1.ckpt")
    plugin.remove_checkpoint(old)
    with pytest.raises(cairn.Error):
        plugin.teardown()
    assert plugin.load_checkpoint(old) == {"epoch": 0}


def test_a_name_that_is_saved_again_is_not_removed(plugin, tmp_path):
    path = tmp_path / "last.ckpt"
    for epoch in range(3):
        plugin.save_checkpoint({"epoch": epoch}, path)
        plugin.remove_checkpoint(path)
        plugin.save_checkpoint({"epoch": epoch + 10}, path)
    plugin.teardown()
    assert plugin.load_checkpoint(path) == {"epoch": 12}


def test_another_plugin_replaces_what_is_there_and_other_folders_wait(plugin, tmp_path):
    path = tmp_path / "last.ckpt"
    other = type(plugin)()
    plugin.save_checkpoint({"epoch": 1}, path)
    plugin.save_checkpoint({"epoch": 2}, tmp_path / "elsewhere" / "last.ckpt")
    assert path.exists()  # one save at a time
    other.save_checkpoint({"epoch": 3}, path)
    other.teardown()
    plugin.teardown()
    assert plugin.load_checkpoint(path) == {"epoch": 3}
    assert plugin.load_checkpoint(tmp_path / "elsewhere" / "last.ckpt") == {"epoch": 2}


def test_storage_options_are_refused(plugin, tmp_path):
    with pytest.raises(TypeError, match="storage_options"):
        plugin.save_checkpoint({}, tmp_path / "a.ckpt", storage_options={"retries": 3})
    assert not list(tmp_path.iterdir())


def test_the_error_of_a_save_is_raised_once(plugin, tmp_path):
    (tmp_path / "file").write_text("in the way")
    plugin.save_checkpoint({"epoch": 1}, tmp_path / "file" / "a.ckpt")
    with pytest.raises(cairn.Error):
        plugin.teardown()
    plugin.teardown()


@pytest.mark.parametrize("name, framework", [("composer", "mosaicml"), ("lightning", "lightning")])
def test_a_missing_framework_is_named(name, framework):
    code = f"""
import sys
import cairn
assert not any(module.split(".")[0] in ("composer", "lightning", "lightning_fabric")
               for module in sys.modules)
sys.modules["composer"] = sys.modules["lightning"] = sys.modules["lightning_fabric"] = None
try:
    import cairn.{name}
except ImportError as error:
    print(error)
"""
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True,
                             text=True).stdout
    assert f"pip install {framework}" in printed
