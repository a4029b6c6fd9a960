"""A graph that grows: what a person likes now, out of the messages before now. It needs PyTorch: python temporal.py

People write to channels, and each turns to another topic at some time. Each seed has a time of its own, and its part of
a batch has no later message: those of before and after tell apart what a person liked then and likes now.
"""
import os
import tempfile

import numpy as np
import torch

import khop

rng = np.random.default_rng(5)
people, channels, topics, messages, end = 2000, 200, 4, 60_000, 1000
liked, turn = rng.integers(0, topics, (2, people)), rng.integers(0, end, people)


def topic(who, when):
    return np.where(when < turn[who], liked[0][who], liked[1][who])


who, when = rng.integers(0, people, messages), np.sort(rng.integers(0, end, messages))
about = np.where(rng.random(messages) < 0.8, topic(who, when), rng.integers(0, topics, messages))
channel = people + about + topics * rng.integers(0, channels // topics, messages)
asked = rng.integers(end // 4, end, people)  # when we want to know what a person likes
x = np.zeros((people + channels, topics), np.float32)
x[people:] = np.eye(topics)[np.arange(channels) % topics] + rng.normal(0, 0.3, (channels, topics))
y = torch.from_numpy(topic(np.arange(people), asked))


class Model(torch.nn.Module):
    """The mean of what the latest messages say, each looked at with its age."""

    def __init__(self):
        super().__init__()
        self.message, self.out = torch.nn.Linear(topics + 1, 32), torch.nn.Linear(32, topics)

    def forward(self, batch):
        seeds, (source, target) = batch.batch_size, batch.edge_index
        asked_at = torch.from_numpy(asked)[batch.n_id[:seeds]]
        sent = batch.array("edge/0/node:edge:node/time")
        assert (sent <= asked_at[target]).all()  # nobody sees what comes later
        age = (asked_at[target] - sent)[:, None] / end
        told = self.message(torch.cat([batch.x[source], age], 1)).relu()
        return self.out(torch.zeros(seeds, 32).index_add(0, target, told))


torch.manual_seed(5)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 0.01)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "mail.khop")
    khop.write(path, {"edge_index": np.stack([channel, who]), "num_nodes": len(x), "edge_time": when, "x": x})

    def load(ids):
        return khop.Loader(path, [10], sampler="temporal", time="time", recent=True, seeds=ids, input_time=asked[ids],
                           batch_size=100, shuffle=True, edge_columns=["time"])
    with load(np.arange(people // 2)) as train, load(np.arange(people // 2, people)) as test:
        for epoch in range(20):
            for batch in train:
                loss = torch.nn.functional.cross_entropy(model(batch), y[batch.n_id[:batch.batch_size]])
                optimizer.zero_grad(), loss.backward(), optimizer.step()
        right = sum(int((model(b).argmax(1) == y[b.n_id[:b.batch_size]]).sum()) for b in test)
print(f"accuracy {right / (people // 2):.2f}")
assert right / (people // 2) > 0.85
