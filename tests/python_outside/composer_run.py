"""A run of MosaicML's Composer that saves through cairn.composer. Runs where Composer is.

usage: composer_run.py DATA FOLDER OUT [--until 8ba] [--load CHECKPOINT | --autoresume]

The run `adamw_cosine` of tests/data/composer-0.33: three epochs of five batches. Saves after each
batch into FOLDER, keeps the newest three checkpoints, and writes the final weights to OUT.
"""
import argparse

import torch

import composer
from composer import algorithms, models, optim

import cairn.composer


def data_loader(file):
    data = torch.load(file)
    dataset = torch.utils.data.TensorDataset(data["x"], data["y"])
    # The order of epoch e is a permutation seeded with 1 + e, as in C++.
    sampler = torch.utils.data.DistributedSampler(dataset, num_replicas=1, rank=0, seed=1)
    return torch.utils.data.DataLoader(dataset, batch_size=8, sampler=sampler)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("folder")
    parser.add_argument("out")
    parser.add_argument("--until", default="3ep")
    parser.add_argument("--load")
    parser.add_argument("--autoresume", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    composer.utils.reproducibility.seed_all(1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(),
                              torch.nn.Linear(16, 4))
    saver = cairn.composer.CheckpointSaver(arguments.folder, save_interval="1ba",
                                           num_checkpoints_to_keep=3)
    trainer = composer.Trainer(
        model=models.ComposerClassifier(net, num_classes=4),
        train_dataloader=data_loader(arguments.data),
        optimizers=optim.DecoupledAdamW(net.parameters(), lr=0.02, betas=(0.9, 0.95),
                                        weight_decay=1e-4),
        schedulers=optim.CosineAnnealingWithWarmupScheduler(t_warmup="3ba", t_max="3ep"),
        algorithms=algorithms.GradientClipping(clipping_type="norm", clipping_threshold=0.5),
        step_schedulers_every_batch=True, max_duration=arguments.until, seed=1, device="cpu",
        run_name="through-cairn", callbacks=[saver], progress_bar=False, log_to_console=False,
        load_path=arguments.load, autoresume=arguments.autoresume)
    trainer.fit()
    print("saved", *trainer.saved_checkpoints)
    trainer.close()
    torch.save(trainer.state.model.state_dict(), arguments.out)


if __name__ == "__main__":
    main()
