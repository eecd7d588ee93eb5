#!/usr/bin/env python3
"""cpack makes the package `cairn` of a build, twice with the same bytes, and what is in it works.

    tool_package_test.py CPACK BUILD_FOLDER WORK_FOLDER SOURCE_FOLDER

Exits with 77 where dpkg-dev or file is missing. tools/try_packages tries all packages in a clean
Debian.
"""
import gzip
import pathlib
import shutil
import subprocess
import sys


def output_of(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def make_package(cpack, build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    output_of(cpack, "-G", "DEB", "-D", "CPACK_COMPONENTS_ALL=tool", "-B", folder,
              "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip",  # xz takes ten seconds
              "--config", build / "CPackConfig.cmake")
    (package,) = folder.glob("*.deb")
    return package


def check_tool(root, source):
    tool = root / "usr/bin/cairn"
    checkpoint = source / "tests/data/composer-0.33/adam_steplr/ep2-ba15-rank0.pt"
    assert output_of(tool, "--version").startswith("cairn "), tool
    assert checkpoint.name in output_of(tool, "ls", checkpoint.parent)
    output_of(tool, "verify", "--full", checkpoint)
    assert "torch" not in output_of("ldd", tool)
    assert "Usage" in output_of(root / "usr/bin/cairn-run", "--help")


def check_files(root):
    share = root / "usr/share"
    for page in ("cairn", "cairn-ls", "cairn-verify"):
        with gzip.open(share / f"man/man1/{page}.1.gz", "rt", encoding="utf-8") as text:
            assert ".SH NAME" in text.read(), page
    output_of("bash", "-n", share / "bash-completion/completions/cairn")
    for name in ("zsh/site-functions/_cairn", "fish/vendor_completions.d/cairn.fish",
                 "doc/cairn/copyright", "doc/cairn/changelog.Debian.gz"):
        assert (share / name).stat().st_size > 0, name
    assert not list(share.rglob("*.1")), "a man page is not compressed"


def main():
    if None in (shutil.which("dpkg-shlibdeps"), shutil.which("file")):
        print("skipped: dpkg-dev or file is not installed")
        return 77
    cpack = sys.argv[1]
    build, work, source = map(pathlib.Path, sys.argv[2:5])
    package = make_package(cpack, build, work / "first")
    again = make_package(cpack, build, work / "second")
    assert package.read_bytes() == again.read_bytes(), f"{package} and {again} differ"
    needs = output_of("dpkg-deb", "--field", package, "Depends")
    assert "libc6" in needs and "torch" not in needs, needs
    shutil.rmtree(work / "root", ignore_errors=True)
    output_of("dpkg-deb", "--extract", package, work / "root")
    check_tool(work / "root", source)
    check_files(work / "root")
    print(f"{package.name}: {needs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
