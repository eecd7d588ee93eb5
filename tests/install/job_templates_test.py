#!/usr/bin/env python3
"""The templates of jobs for schedulers are well formed, and use the codes of exit_code.h.

    tests/install/job_templates_test.py SOURCE_FOLDER
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    yaml = None

SOURCE = None
# A new start that follows one of these codes gives the same answer.
FINAL = ["kNotFound", "kDamaged", "kIncompatible", "kDenied", "kBusy"]
STOPPED = 75


class JobTemplatesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.jobs = SOURCE / "examples/jobs"
        header = (SOURCE / "include/cairn/exit_code.h").read_text(encoding="utf-8")
        codes = {name: int(code) for name, code in re.findall(r"^  (k\w+) = (\d+)", header, re.M)}
        cls.final = [codes[name] for name in FINAL]

    def text(self, name):
        return (self.jobs / name).read_text(encoding="utf-8")

    def test_slurm(self):
        subprocess.run(["bash", "-n", self.jobs / "slurm.sbatch"], check=True)
        cases = re.findall(r"^  ([\d |]+)\)", self.text("slurm.sbatch"), re.M)
        codes = [[int(code) for code in case.split("|")] for case in cases]
        self.assertEqual(codes, [[0], [STOPPED], self.final])

    def ends_of_slurm_job(self, codes):
        """Runs the script once for each exit code of srun: whether it asked for a requeue."""
        requeued = []
        with tempfile.TemporaryDirectory() as folder:
            for program, text in {"srun": "exit $CODE", "scontrol": 'echo "$@" >> asked'}.items():
                path = pathlib.Path(folder) / program
                path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
                path.chmod(0o755)
            asked = pathlib.Path(folder) / "asked"
            for code in codes:
                ran = subprocess.run(
                    ["bash", self.jobs / "slurm.sbatch"], cwd=folder, check=False,
                    env={"PATH": f"{folder}:{os.environ['PATH']}", "CODE": str(code),
                         "SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train",
                         "SLURM_CPUS_PER_TASK": "1"})
                self.assertEqual(ran.returncode, code)
                text = asked.read_text(encoding="utf-8") if asked.exists() else ""
                self.assertIn(text, ["", "requeue 7\n"])
                requeued.append(bool(text))
                asked.unlink(missing_ok=True)
        return requeued

    def test_slurm_starts_again_only_what_helps(self):
        self.assertEqual(self.ends_of_slurm_job([STOPPED] * 9), [True] * 9)
        self.assertFalse(any(self.ends_of_slurm_job([0, *self.final])))
        self.assertEqual(self.ends_of_slurm_job([137, 2, 7, STOPPED, 8, 143, 137]),
                         [True] * 6 + [False])

    @unittest.skipIf(yaml is None, "python3-yaml is not installed")
    def test_kubernetes(self):
        parts = {part["kind"]: part for part in yaml.safe_load_all(self.text("kubernetes.yaml"))}
        job = parts["Job"]["spec"]
        rules = [(rule["action"], rule["onExitCodes"]["values"])
                 for rule in job["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
        self.assertEqual(rules, [("Ignore", [STOPPED]), ("FailJob", self.final)])
        pod = job["template"]["spec"]
        self.assertEqual(pod["restartPolicy"], "Never")
        self.assertEqual(pod["subdomain"], parts["Service"]["metadata"]["name"])
        variables = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
        self.assertEqual(variables["WORLD_SIZE"], str(job["completions"]))
        self.assertEqual(job["parallelism"], job["completions"])

    def test_systemd(self):
        text = self.text("cairn-train.service")
        codes = re.search(r"^RestartPreventExitStatus=(.*)$", text, re.M)[1].split()
        self.assertEqual([int(code) for code in codes], self.final)
        for key in ("SuccessExitStatus", "RestartForceExitStatus"):
            self.assertIn(f"\n{key}={STOPPED}\n", text)

    @unittest.skipIf(shutil.which("systemd-analyze") is None, "systemd is not installed")
    def test_systemd_takes_the_unit(self):
        text = re.sub(r"^ExecStart=.*$", "ExecStart=/bin/true", self.text("cairn-train.service"),
                      flags=re.M)
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / "cairn-train.service"
            unit.write_text(text, encoding="utf-8")
            ran = subprocess.run(["systemd-analyze", "verify", unit], text=True, check=False,
                                 capture_output=True)
        self.assertNotIn("cairn-train.service", ran.stdout + ran.stderr)


if __name__ == "__main__":
    SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
