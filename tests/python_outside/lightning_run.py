"""Lightning's Trainer with cairn.lightning's plug-in. Runs where Lightning is.

usage: lightning_run.py FOLDER
"""
import pathlib
import sys

import torch

import lightning  # pylint: disable=import-error

import cairn.lightning


class Line(lightning.LightningModule):
    """Fits a line; the data's order is fixed."""

    def __init__(self, width=4):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Linear(width, 1)

    def training_step(self, batch, index):  # pylint: disable=arguments-differ
        x, y = batch
        return torch.nn.functional.mse_loss(self.net(x), y)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.05)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def fit(folder, epochs, load=None):
    lightning.seed_everything(3)
    x = torch.randn(32, 4)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    saver = lightning.pytorch.callbacks.ModelCheckpoint(
        folder, filename="{epoch}-{step}", every_n_epochs=1, save_top_k=2, monitor="step",
        mode="max", save_last=True)
    model = Line()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", plugins=[cairn.lightning.CheckpointIO()],
        callbacks=[saver], logger=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8), ckpt_path=load)
    return model.state_dict()


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1])
    whole = fit(folder / "whole", 4)
    fit(folder / "first", 2)
    first = sorted(path.name for path in (folder / "first").iterdir())
    assert first == ["epoch=0-step=4.ckpt", "epoch=1-step=8.ckpt", "last.ckpt"], first
    kept = sorted(path.name for path in (folder / "whole").iterdir())
    assert kept == ["epoch=2-step=12.ckpt", "epoch=3-step=16.ckpt", "last.ckpt"], kept

    resumed = fit(folder / "second", 4, load=folder / "first" / "last.ckpt")
    for name, tensor in whole.items():
        assert torch.equal(tensor, resumed[name]), name

    # Lightning's own plug-in and PyTorch read the same.
    last = folder / "whole" / "last.ckpt"
    theirs = torch.load(last, weights_only=True)
    assert theirs["hyper_parameters"] == {"width": 4}, theirs["hyper_parameters"]
    loaded = Line.load_from_checkpoint(last)
    for name, tensor in loaded.state_dict().items():
        assert torch.equal(tensor, whole[name]), name
    for path in kept:
        assert [row["state"] for row in cairn.verify(folder / "whole" / path)] == ["ok"]
    print("Lightning", lightning.__version__, "saved and resumed")


if __name__ == "__main__":
    main()
