"""The same network trained with BCE and with ProPML on candidate labels: one line differs."""

import torch

from propml.corruption import independent_flips
from propml.datasets import digits_mosaic
from propml.losses import CandidateBCELoss, ProPMLLoss
from propml.metrics import average_precision

train, test = digits_mosaic(1000, split="train"), digits_mosaic(500, split="test")
candidates = independent_flips(train.truth, rate=0.4).to_torch()
X, X_test = torch.tensor(train.X, dtype=torch.float32), torch.tensor(test.X, dtype=torch.float32)

for loss in (CandidateBCELoss(), ProPMLLoss(lam=0.1)):
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(128, 10)
    )
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(30):
        for batch in torch.randperm(len(X)).split(64):
            optimiser.zero_grad()
            loss(network(X[batch]), candidates[batch]).backward()
            optimiser.step()
    network.eval()
    with torch.no_grad():
        score = average_precision(test.truth, network(X_test))
    print(f"{type(loss).__name__:12} average precision {100 * score:.1f} %")
