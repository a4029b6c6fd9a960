"""Lightning: python lightning_train.py DATASET [DEVICES [NODES]], or the same by srun or torchrun. Lightning starts the
processes and initialises torch.distributed; loaders are made after that, in train_dataloader, and find their rank. Of
the graph that train.py names it reaches an accuracy of 0.9."""
import sys

import lightning
import torch

import khop
import khop.torch
from sage import Sage


class Training(lightning.LightningModule):
    def __init__(self, dataset: str) -> None:
        super().__init__()
        self.dataset, self.loader, self.state, self.tests = dataset, None, None, None
        info = khop.info(dataset)
        self.model = Sage(info["feature_dim"], info["classes"])

    def train_dataloader(self):
        self.loader = khop.Loader(self.dataset, fanouts=[10, 5], batch_size=512, shuffle=True)
        print(self.loader.rank_reason, flush=True)
        if self.state is not None:
            self.loader.load_state_dict(self.state)
        # Lightning wants a DataLoader: one that hands batches on. use_distributed_sampler=False leaves them alone.
        return torch.utils.data.DataLoader(khop.torch.Dataset(self.loader), batch_size=None)

    def training_step(self, batch, number):
        loss = torch.nn.functional.cross_entropy(self.model(batch), batch.y.long())
        self.log("loss", loss, batch_size=batch.batch_size, prog_bar=True)
        return loss

    def test_dataloader(self):
        self.tests = khop.Loader(self.dataset, fanouts=[10, 5], batch_size=512, seeds="test")
        return torch.utils.data.DataLoader(khop.torch.Dataset(self.tests), batch_size=None)

    def test_step(self, batch, number):
        if not batch.padded:  # each node once
            right = (self.model(batch).argmax(1) == batch.y).float()
            self.log("accuracy", right.mean(), batch_size=len(right), sync_dist=True)

    def transfer_batch_to_device(self, batch, device, _):
        return batch.to(device)

    def configure_optimizers(self):
        return torch.optim.Adam(self.model.parameters(), 0.01)

    def on_save_checkpoint(self, checkpoint):
        checkpoint["khop"] = self.loader.state_dict()

    def on_load_checkpoint(self, checkpoint):
        self.state = checkpoint["khop"]

    def teardown(self, stage):
        for loader in (self.loader, self.tests):
            if loader is not None:
                loader.close()


if __name__ == "__main__":
    devices, nodes = (int(n) for n in [*sys.argv[2:], 1, 1][:2])
    trainer = lightning.Trainer(max_epochs=4, strategy="ddp" if devices * nodes > 1 else "auto", devices=devices,
                                num_nodes=nodes, use_distributed_sampler=False)
    training = Training(sys.argv[1])
    trainer.fit(training)
    trainer.test(training)
