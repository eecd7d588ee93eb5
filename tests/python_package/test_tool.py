"""The tool's commands as functions, and as a program."""
import os
import subprocess
import sys

import pytest

import cairn


def test_verify_and_ls(tmp_path):
    with cairn.Saver(tmp_path, latest=None) as saver:
        for step in (1, 2):
            saver.save_async({"step": step}, step=step)
    assert [row["state"] for row in cairn.verify(tmp_path)] == ["ok", "ok"]
    assert [row["batch"] for row in cairn.ls(tmp_path)] == [1, 2]
    with pytest.raises(cairn.NotFoundError, match="nothing.pt"):
        cairn.verify(tmp_path / "nothing.pt")
    (tmp_path / "empty").mkdir()
    assert cairn.ls(tmp_path / "empty") == []


def test_prune(tmp_path):
    with cairn.Saver(tmp_path, latest=None) as saver:
        for step in range(5):
            saver.save_async({"step": step}, step=step)
    assert cairn.prune(tmp_path, keep_last=2)["remove"] == 3
    assert len(os.listdir(tmp_path)) == 5
    assert cairn.prune(tmp_path, keep_last=2, yes=True)["done"]
    assert sorted(os.listdir(tmp_path)) == ["step3.pt", "step4.pt"]
    with pytest.raises(cairn.Error, match="keep-best|metric"):
        cairn.prune(tmp_path, keep_best=["x:y:z"])
    with open(tmp_path / "step4.pt", "r+b") as file:
        file.seek(150)
        file.write(b"zz")
    with pytest.raises(cairn.CorruptError, match="because step4.pt does not .* put it aside"):
        cairn.prune(tmp_path, keep_last=1)


def test_copy_and_convert(tmp_path):
    torch = pytest.importorskip("torch")
    source = tmp_path / "a.pt"
    cairn.save({"w": torch.ones(3), "b": torch.zeros(2)}, source)
    cairn.copy(source, f"{tmp_path}/other/")
    assert (tmp_path / "other" / "a.pt").read_bytes() == source.read_bytes()
    with pytest.raises(cairn.AlreadyExistsError):
        cairn.copy(source, f"{tmp_path}/other/")
    cairn.copy(source, f"{tmp_path}/other/", overwrite=True)
    cairn.convert(source, tmp_path / "a.safetensors", dtype="bf16", exclude=["b"])
    loaded = cairn.load(tmp_path / "a.safetensors")
    assert list(loaded) == ["w"] and loaded["w"].dtype == torch.bfloat16
    with pytest.raises(cairn.UsageError, match="nothing"):
        cairn.convert(source, tmp_path / "b.safetensors", include=["nothing"])


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "cairn", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)


def test_the_program(path):
    cairn.save({"step": 1}, path)
    answered = run("verify", path)
    assert (answered.returncode, answered.stderr) == (0, "")
    assert path in answered.stdout
    assert run("--version").stdout == f"cairn {cairn.__version__}\n"
    failed = run("inspect", path + "x")
    assert failed.returncode == 3 and failed.stderr.startswith("cairn: ")
