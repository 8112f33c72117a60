"""Trains the small networks of `millrace bench nn` with PyTorch, as told line by line.

Each line of the input is `NET MODE BATCH THREADS SECONDS`; the answer is one line of JSON with
`images_per_s`, or with `error`. Networks, data in memory and optimiser are those of the benchmark;
a network stays ready once it was made, so that rounds can take turns with the other side.
"""

import json
import sys
import time

import torch
from torch import nn

BATCHES = 16
WARM_UP = 3
LEARNING_RATE = 0.01


def network(name):
    """The layers, and the shape of an image."""
    relu, pool = nn.ReLU, lambda: nn.MaxPool2d(2)
    if name == "D":
        layers = [nn.Conv2d(1, 4, 3), relu(), pool(), nn.Flatten(), nn.Linear(676, 10)]
        return nn.Sequential(*layers), (1, 28, 28)
    if name == "N1":
        layers = [nn.Conv2d(1, 8, 3), relu(), pool(), nn.Conv2d(8, 16, 3), relu(), pool()]
        layers += [nn.Flatten(), nn.Linear(400, 10)]
        return nn.Sequential(*layers), (1, 28, 28)
    if name == "N2":
        layers = [nn.Conv2d(1, 32, 5, padding=2), relu(), pool()]
        layers += [nn.Conv2d(32, 64, 5, padding=2), relu(), pool()]
        layers += [nn.Flatten(), nn.Linear(3136, 512), relu(), nn.Linear(512, 10)]
        return nn.Sequential(*layers), (1, 28, 28)
    if name == "N3":
        layers = []
        for inputs, outputs in [(3, 32), (32, 64)]:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), relu()]
            layers += [nn.Conv2d(outputs, outputs, 3, padding=1), relu(), pool()]
        layers += [nn.Flatten(), nn.Linear(4096, 256), relu(), nn.Linear(256, 10)]
        return nn.Sequential(*layers), (3, 32, 32)
    raise ValueError(f"no network {name}")


class Training:
    """One network in one mode with its data."""

    def __init__(self, name, mode, batch):
        torch.manual_seed(1)
        model, shape = network(name)
        self.batches = []
        for _ in range(BATCHES):
            images = torch.rand(batch, *shape)
            if mode == "channels_last":
                images = images.to(memory_format=torch.channels_last)
            self.batches.append((images, torch.randint(0, 10, (batch,))))
        if mode == "channels_last":
            model = model.to(memory_format=torch.channels_last)
        self.optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
        self.model = torch.compile(model) if mode == "compile" else model
        self.loss = nn.CrossEntropyLoss()
        self.batch = batch
        self.steps = 0
        for _ in range(WARM_UP):
            self.step()

    def step(self):
        images, labels = self.batches[self.steps % BATCHES]
        self.steps += 1
        self.optimiser.zero_grad(set_to_none=True)
        self.loss(self.model(images), labels).backward()
        self.optimiser.step()

    def rate(self, seconds):
        begin, steps = time.perf_counter(), 0
        while steps == 0 or time.perf_counter() - begin < seconds:
            self.step()
            steps += 1
        return steps * self.batch / (time.perf_counter() - begin)


def main():
    ready = {}
    for line in sys.stdin:
        try:
            name, mode, batch, threads, seconds = line.split()
            torch.set_num_threads(int(threads))
            key = name, mode, batch, threads
            if key not in ready:
                ready[key] = Training(name, mode, int(batch))
            answer = {"images_per_s": ready[key].rate(float(seconds))}
        except Exception as error:  # the other side tells the user
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), flush=True)


main()
