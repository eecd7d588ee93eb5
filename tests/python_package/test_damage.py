"""Damaged files, and what is left of a process that was killed."""
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

import cairn


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def state(size=100_000):
    torch = pytest.importorskip("torch")
    return {"w": torch.arange(size, dtype=torch.uint8), "step": 1}


def test_a_flipped_byte_is_found(path):
    cairn.save(state(), path)
    at = os.path.getsize(path) // 2
    flip(path, at)
    for options in ({}, {"mmap": True}):
        with pytest.raises(cairn.CorruptError, match="tensor w") as caught:
            cairn.load(path, **options)
        assert caught.value.exit_code == 4
    with pytest.raises(cairn.CorruptError, match="w, bytes"):
        cairn.verify(path)
    assert cairn.load(path, verify=False)["step"] == 1


def test_a_truncated_file_is_found(path):
    cairn.save(state(), path)
    os.truncate(path, os.path.getsize(path) - 10)
    with pytest.raises(cairn.CorruptError):
        cairn.load(path)


def test_the_newest_good_one_is_found(tmp_path):
    with cairn.Saver(tmp_path) as saver:
        for step in (1, 2, 3):
            saver.save_async({**state(), "step": step}, step=step)
    newest = tmp_path / "step3.pt"
    assert cairn.find_latest(tmp_path) == str(newest)
    flip(newest, os.path.getsize(newest) // 2)
    with pytest.warns(cairn.CheckpointWarning, match="step3.pt"):
        assert cairn.find_latest(tmp_path) == str(tmp_path / "step2.pt")
    saver = cairn.Saver(tmp_path)
    with pytest.warns(cairn.CheckpointWarning, match="step3.pt"):
        assert saver.resume()["step"] == 2
    assert saver.resumed_from == str(tmp_path / "step2.pt")
    saver.close()


KILLED = textwrap.dedent("""
    import os, sys, threading, cairn, torch
    place, delay = sys.argv[1], float(sys.argv[2])
    saver = cairn.Saver(place, keep=2)
    found = saver.resume()
    step = found["step"] if found else 0
    print(step, flush=True)
    threading.Timer(delay, lambda: os.kill(os.getpid(), 9)).start()
    while True:
        step += 1
        saver.save_async({"step": step, "w": torch.full((1 << 20,), step % 100.)}, step=step)
    """)


def test_kill_leaves_the_previous_checkpoint(tmp_path):
    pytest.importorskip("torch")
    last = 0
    for delay in (0.05, 0.2):
        ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(delay)],
                               stdout=subprocess.PIPE, text=True, check=False)
        assert ended.returncode == -signal.SIGKILL
        assert int(ended.stdout.splitlines()[-1]) >= last
        path = cairn.find_latest(tmp_path)
        if path is None:
            continue
        loaded = cairn.load(path)
        last = loaded["step"]
        assert float(loaded["w"][0]) == float(loaded["w"][-1]) == last % 100
    assert last > 0


def test_a_kill_while_a_file_is_replaced(tmp_path):
    """The old file or the new one is there, whole."""
    program = textwrap.dedent("""
        import os, sys, threading, cairn
        threading.Timer(float(sys.argv[2]), lambda: os.kill(os.getpid(), 9)).start()
        while True:
            cairn.save({"w": b"x" * (4 << 20)}, sys.argv[1])
        """)
    path = tmp_path / "a.pt"
    cairn.save({"w": [0]}, path)
    for delay in ("0.01", "0.04", "0.1"):
        subprocess.run([sys.executable, "-c", program, str(path), delay], check=False)
        cairn.verify(path)
        cairn.load(path)


def test_a_full_disk_keeps_the_previous_file(tmp_path):
    """RLIMIT_FSIZE stands for a full disk."""
    path = tmp_path / "a.pt"
    cairn.save({"step": 1}, path)
    program = textwrap.dedent(f"""
        import resource, cairn
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            cairn.save({{"x": "y" * 1_000_000}}, {str(path)!r})
        except cairn.StorageError as error:
            print(error.number)
        """)
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                           check=True)
    assert int(ended.stdout) > 0
    assert cairn.load(path) == {"step": 1}
    assert sorted(os.listdir(tmp_path)) == ["a.pt"]
    shutil.rmtree(tmp_path)
