"""Where tests outside of the build tree get `import cairn`, Composer and Lightning from."""
import os
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import newer_torch  # noqa: E402  # pylint: disable=wrong-import-position

SKIPPED = newer_torch.SKIPPED
# Where the modules are in the folder that fetch_frameworks fills.
SOURCES = ("composer/composer", "torchmetrics/src/torchmetrics",
           "utilities/src/lightning_utilities", "pytorch-lightning/src/lightning",
           "pytorch-lightning/src/version.info")
# A client of a service that Composer logs to, and a maker of run names: only imported here.
STAND_INS = ("mcli.py", "coolname.py")


def copy_package(library, folder):
    """Puts the package with its library into folder/cairn, as the wheel does."""
    shutil.copytree(ROOT / "python" / "cairn", folder / "cairn",
                    ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(library, folder / "cairn" / "libcairn-c.so")


def torch_folders(*modules):
    """Each Debian of CAIRN_TORCH_ROOT that has Debian's part of what those modules import."""
    found = [root for root in newer_torch.roots()
             if all((root.path / "usr/lib/python3/dist-packages" / name).exists()
                    for name in modules)]
    if not found:
        print(f"skipped: no Debian in CAIRN_TORCH_ROOT has {', '.join(modules) or 'PyTorch'}")
        sys.exit(SKIPPED)
    return found


def copy_frameworks(folder):
    """Puts Composer, Lightning and their modules that Debian lacks into the folder."""
    sources = os.environ.get("CAIRN_FRAMEWORKS")
    if not sources:
        print("skipped: CAIRN_FRAMEWORKS names no folder of fetch_frameworks")
        sys.exit(SKIPPED)
    for name in SOURCES:
        source = pathlib.Path(sources, name)
        if source.is_dir():
            shutil.copytree(source, folder / source.name)
        else:
            shutil.copy(source, folder)
    for name in STAND_INS:
        (folder / name).touch()
