#!/usr/bin/python3
"""`cairn convert --weights-only` of a TorchScript archive gives what its state_dict() has by
torch.jit.load: the same names in the same order, and the same tensors.

usage: torchscript_test.py CAIRN DATA_FOLDER

Archives of this PyTorch, of modules of its own and of those in DATA_FOLDER/write_script.py, and the
ones that are stored there. Exits with 77 (ctest: skipped) where PyTorch is not installed.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("SKIPPED: python3-torch is not installed")
    sys.exit(77)


class Net(torch.nn.Module):
    """All of PyTorch's recurrent modules, attention, and names with digits."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 2, bidirectional=True)
        self.gru = torch.nn.GRU(4, 4, num_layers=2)
        self.cell = torch.nn.LSTMCell(4, 4)
        self.attention = torch.nn.MultiheadAttention(4, 2)
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm1d(3), torch.nn.LayerNorm(4)])
        self.embed = torch.nn.EmbeddingBag(5, 4)

    def forward(self, x):
        y = self.gru(self.lstm(x)[0])[0]
        y = self.attention(y, y, y)[0] + self.cell(y[0])[0]
        for norm in self.norms:
            y = norm(y)
        return y + self.embed(torch.tensor([[1, 2]])).sum()


def compare(cairn, archive, out):
    subprocess.run([cairn, "convert", "--quiet", "--overwrite", "--weights-only", archive, out],
                   check=True)
    found = torch.load(str(out))
    expected = torch.jit.load(str(archive)).state_dict()
    assert list(found) == list(expected), (archive, list(found), list(expected))
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name
    print(f"{archive.name}: {len(expected)} weights")


def main():
    cairn, data = sys.argv[1], pathlib.Path(sys.argv[2])
    sys.path.insert(0, str(data))
    import write_script
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, make in (("net", Net), ("weights", write_script.Weights),
                           ("kinds", write_script.Kinds)):
            archive = folder / f"{name}.script.pt"
            torch.jit.save(torch.jit.script(make()), str(archive))
            compare(cairn, archive, folder / "out.pt")
        for archive in sorted((data / "torch-1.13").glob("script_*.pt")):
            if "frozen" not in archive.name:
                compare(cairn, archive, folder / "out.pt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
