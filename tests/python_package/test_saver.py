"""Saver: in the background, the newest kept, errors once and in order."""
import json
import os
import subprocess
import sys
import textwrap
import threading

import pytest

import cairn


def names(folder):
    return sorted(os.listdir(folder))


def test_keep_every_and_latest(tmp_path):
    with cairn.Saver(tmp_path, keep=2, every=10) as saver:
        assert saver.resume() is None
        done = [step for step in range(1, 51) if saver.save_async({"step": step}, step=step)]
    assert done == [10, 20, 30, 40, 50]
    assert names(tmp_path) == ["latest.pt", "step40.pt", "step50.pt"]
    assert os.readlink(tmp_path / "latest.pt") == "step50.pt"
    assert cairn.load(tmp_path / "latest.pt") == {"step": 50}
    assert cairn.find_latest(tmp_path) == str(tmp_path / "step50.pt")


def test_a_resumed_saver_counts_the_older_ones(tmp_path):
    with cairn.Saver(tmp_path, keep=3, latest=None) as saver:
        for step in range(3):
            saver.save_async({"step": step}, step=step)
    with cairn.Saver(tmp_path, keep=2, latest=None) as saver:
        assert saver.resume() == {"step": 2}
        saver.save_async({"step": 3}, step=3)
    assert names(tmp_path) == ["step2.pt", "step3.pt"]


def test_a_saver_removes_only_its_own(tmp_path):
    cairn.save({"step": 1}, tmp_path / "step1.pt")  # says no run, and no step
    cairn.save({"step": 0}, tmp_path / "mine.pt")
    with cairn.Saver(tmp_path, keep=1, run_name="b", latest=None) as saver:
        for step in (2, 3, 4):
            saver.save_async({"step": step}, step=step)
    assert names(tmp_path) == ["mine.pt", "step1.pt", "step4.pt"]
    with cairn.Saver(tmp_path, keep=1, run_name="c", latest=None) as saver:
        with pytest.warns(cairn.CheckpointWarning, match="step4.pt.*the run b"):
            assert saver.resume() == {"step": 1}  # says no run
        saver.save_async({"step": 9}, step=9)
    assert names(tmp_path) == ["mine.pt", "step1.pt", "step4.pt", "step9.pt"]


def test_nothing_is_replaced_without_being_asked(tmp_path):
    cairn.save({"step": 1}, tmp_path / "step1.pt")
    with cairn.Saver(tmp_path) as saver:
        with pytest.raises(cairn.AlreadyExistsError, match="resume"):
            saver.save_async({"step": 2}, step=1)
    assert cairn.load(tmp_path / "step1.pt") == {"step": 1}
    with cairn.Saver(tmp_path, overwrite=True) as saver:
        saver.save_async({"step": 2}, step=1)
        saver.save_async({"step": 3}, step=1)  # its own
    assert cairn.load(tmp_path / "step1.pt") == {"step": 3}


def test_the_state_may_change_at_once(tmp_path):
    torch = pytest.importorskip("torch")
    weight = torch.zeros(1 << 20)
    with cairn.Saver(tmp_path) as saver:
        for step in range(1, 5):
            weight.fill_(step)
            saver.save_async({"w": weight, "again": weight[5:10]}, step=step)
            weight.fill_(-1)
    for step in range(1, 5):
        loaded = cairn.load(tmp_path / f"step{step}.pt")
        assert float(loaded["w"].min()) == float(loaded["w"].max()) == step
        assert loaded["again"].tolist() == [step] * 5


def test_an_error_comes_once(tmp_path):
    folder = tmp_path / "run"
    saver = cairn.Saver(folder, latest=None)
    saver.save_async({"step": 1}, step=1)
    saver.wait()
    os.rename(folder, tmp_path / "away")
    folder.write_text("a file where the folder was")
    saver.save_async({"step": 2}, step=2)
    with pytest.raises(cairn.Error, match="step2.pt"):
        saver.wait()
    saver.wait()  # told already
    saver.save_async({"step": 3}, step=3)
    with pytest.raises(cairn.Error, match="step3.pt"):
        while True:  # the error of the save before; this one is not done
            saver.save_async({"step": 4}, step=4)
    folder.unlink()
    os.rename(tmp_path / "away", folder)
    saver.save_async({"step": 5}, step=5)
    saver.close()
    assert names(folder) == ["step1.pt", "step5.pt"]


def test_close_waits_and_tells(tmp_path):
    folder = tmp_path / "run"
    folder.write_text("no folder")
    saver = cairn.Saver(folder / "below", latest=None)
    saver.save_async(1, step=1)
    with pytest.raises(cairn.Error, match="step1.pt"):
        saver.close()
    saver.close()
    with pytest.raises(cairn.UsageError, match="closed"):
        saver.save_async(1, step=2)


def test_the_error_of_the_block_is_the_one_that_is_raised(tmp_path):
    (tmp_path / "run").write_text("no folder")
    with pytest.warns(cairn.CheckpointWarning, match="step1.pt"):
        with pytest.raises(KeyError):
            with cairn.Saver(tmp_path / "run" / "below") as saver:
                saver.save_async(1, step=1)
                raise KeyError("of the program")


def run_program(program, *arguments):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program), *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True,
                          timeout=120)


def test_a_program_that_ends_waits(tmp_path):
    run_program("""
        import sys, cairn
        saver = cairn.Saver(sys.argv[1])
        saver.save_async({"step": 1, "x": b"x" * 10_000_000}, step=1)
        """, str(tmp_path / "run"))
    assert cairn.load(tmp_path / "run" / "latest.pt")["step"] == 1
    (tmp_path / "file").write_text("no folder")
    ended = run_program("""
        import sys, cairn
        saver = cairn.Saver(sys.argv[1])
        saver.save_async({"step": 1}, step=1)
        """, str(tmp_path / "file" / "below"))
    assert "a save failed" in ended.stderr


def test_a_forked_process_leaves_it_alone(tmp_path):
    run_program("""
        import os, sys, cairn
        saver = cairn.Saver(sys.argv[1])
        saver.save_async({"step": 1}, step=1)
        if os.fork() == 0:
            try:
                saver.save_async({"step": 9}, step=9)
            except cairn.UsageError:
                saver.close()
                del saver
                sys.exit(0)
            sys.exit(1)
        assert os.wait()[1] == 0
        saver.save_async({"step": 2}, step=2)
        """, str(tmp_path))
    assert cairn.load(tmp_path / "latest.pt") == {"step": 2}


def test_names_of_the_callers_own(tmp_path):
    with cairn.Saver(tmp_path, keep=2, latest="last/link.pt") as saver:
        for epoch in range(4):
            saver.save_async({"epoch": epoch}, name=f"ep{epoch}/{{x}}.pt")
        with pytest.raises(cairn.UsageError, match="step"):
            saver.save_async({})
    assert cairn.load(tmp_path / "last" / "link.pt") == {"epoch": 3}
    assert not (tmp_path / "ep1" / "{x}.pt").exists()
    assert cairn.load(tmp_path / "ep2" / "{x}.pt") == {"epoch": 2}


@pytest.mark.parametrize("name", ["../x.pt", "a/../../x.pt", "/tmp/x.pt", "latest.pt", "a\0b.pt",
                                  "./latest.pt", "s3://bucket/x.pt", "a/"])
def test_names_that_are_no_file_in_the_folder(name, tmp_path):
    with cairn.Saver(tmp_path / "run") as saver:
        with pytest.raises(cairn.UsageError):
            saver.save_async({}, name=name)
        saver.save_async({"step": 1}, step=1)
    assert names(tmp_path) == ["run"]
    with pytest.raises(cairn.UsageError, match="link"):
        cairn.Saver(tmp_path, filename="latest.pt")


def test_resume_twice_gives_the_same(tmp_path):
    with cairn.Saver(tmp_path) as saver:
        for step in (1, 2, 3):
            saver.save_async({"step": step}, step=step)
        assert saver.resume() == saver.resume() == {"step": 3}


def test_files_of_others_stay_after_resume(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"step": 1}, tmp_path / "step1.pt")
    cairn.save({"step": 2}, tmp_path / "step2.pt")
    with cairn.Saver(tmp_path, keep=1, latest=None) as saver:
        assert saver.resume() == {"step": 2}
        for step in (3, 4):
            saver.save_async({"step": step}, step=step)
    assert names(tmp_path) == ["step1.pt", "step2.pt", "step4.pt"]


def test_another_run_is_not_replaced(tmp_path):
    with cairn.Saver(tmp_path, run_name="a") as saver:
        for step in (1, 2, 3):
            saver.save_async({"run": "a"}, step=step)
    with cairn.Saver(tmp_path, run_name="b") as saver:
        with pytest.warns(cairn.CheckpointWarning, match="the run a"):
            assert saver.resume() is None
        with pytest.raises(cairn.AlreadyExistsError, match="step1.pt.*the run \"b\""):
            saver.save_async({"run": "b"}, step=1)
    assert os.readlink(tmp_path / "latest.pt") == "step3.pt"
    with cairn.Saver(tmp_path, run_name="a") as saver:
        assert saver.resume() == {"run": "a"}
        saver.save_async({"run": "again"}, step=2)
    assert cairn.load(tmp_path / "step2.pt") == {"run": "again"}


@pytest.mark.parametrize("size", [0, 5, 300])
def test_a_damaged_checkpoint_does_not_block_its_name(size, tmp_path):
    with cairn.Saver(tmp_path) as saver:
        for step in range(1, 4):
            saver.save_async({"step": step}, step=step)
    os.truncate(tmp_path / "step3.pt", size)
    with cairn.Saver(tmp_path) as saver:
        with pytest.warns(cairn.CheckpointWarning) as warned:
            assert saver.resume() == {"step": 2}
        assert all(str(w.message).count("step3.pt") == 1 for w in warned)
        saver.save_async({"step": 3}, step=3)
    assert cairn.load(tmp_path / "step3.pt") == {"step": 3}
    assert os.path.getsize(tmp_path / "step3.pt.damaged") == size


def test_the_folder_stays_when_the_program_changes_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with cairn.Saver("run") as saver:
        saver.save_async({"step": 1}, step=1)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        saver.save_async({"step": 2}, step=2)
    assert names(tmp_path / "run") == ["latest.pt", "step1.pt", "step2.pt"]
    assert names(tmp_path / "elsewhere") == []


def test_many_threads_may_use_one_saver(tmp_path):
    state = {"x": b"x" * 100_000}
    with cairn.Saver(tmp_path, keep=2, latest=None) as saver:
        def save_some(first):
            for step in range(first, 80, 4):
                saver.save_async(state, step=step)
                saver.wait()

        threads = [threading.Thread(target=save_some, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(names(tmp_path)) == 2


def test_wrong_options(tmp_path):
    for wrong in ({"keep": 0}, {"every": 0}, {"filename": "{nothing}.pt"}, {"filename": ""}):
        with pytest.raises(cairn.UsageError):
            cairn.Saver(tmp_path, **wrong)
    with cairn.Saver(tmp_path) as saver:
        for wrong in (-1, 2**64 + 5, 1.0, "1"):
            with pytest.raises(cairn.UsageError, match="step is"):
                saver.save_async({}, step=wrong)
        with pytest.raises(cairn.UnsupportedError):
            saver.save_async({"f": print}, step=1)


def test_a_store_in_memory():
    place = "memory://saver/run"
    with cairn.Saver(place, keep=2) as saver:
        for step in range(5):
            saver.save_async({"step": step}, step=step)
    again = cairn.Saver(place)
    assert again.resume() == {"step": 4}
    assert [row["name"] for row in cairn.ls(place)] == ["step3.pt", "step4.pt"]
    again.close()


@pytest.mark.skipif(not os.path.exists(os.environ.get("CAIRN_FAKE_STORE", "")),
                    reason="no fake of a store is built")
def test_a_bucket(tmp_path, monkeypatch):
    with subprocess.Popen([os.environ["CAIRN_FAKE_STORE"], "s3", str(tmp_path / "log")],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        said = json.loads(server.stdout.readline())
        for name, value in (("S3_ENDPOINT_URL", said["url"]), ("AWS_ACCESS_KEY_ID", said["key"]),
                            ("AWS_SECRET_ACCESS_KEY", said["secret"]),
                            ("AWS_REGION", said["region"])):
            monkeypatch.setenv(name, value)
        place = "s3://bucket/run"
        with cairn.Saver(place, keep=2) as saver:
            for step in range(4):
                saver.save_async({"step": step, "x": b"y" * 100_000}, step=step)
        assert cairn.load(f"{place}/step3.pt")["step"] == 3
        assert [row["name"] for row in cairn.ls(place)] == ["step2.pt", "step3.pt"]
        with cairn.Saver(place, keep=1) as again:
            assert again.resume()["step"] == 3
            again.save_async({"step": 3}, step=3)
        assert [row["name"] for row in cairn.ls(place)] == ["step3.pt"]
        cairn.copy(f"{place}/step3.pt", tmp_path / "a.pt")
        assert cairn.load(tmp_path / "a.pt")["step"] == 3
        server.stdin.close()
