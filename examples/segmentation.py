"""Candidate labels per pixel: several masks were drawn over an image, and only some of them are right."""

import torch

from propml.losses import ProPMLLoss

torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 4, 3, padding=1)
)
images = torch.rand(8, 3, 32, 32)
truth = images.argmax(dim=1)  # the brightest channel is the class; class 3 is never true
candidates = torch.nn.functional.one_hot(truth, 4).movedim(-1, 1)
candidates[:, 3] = torch.rand(8, 32, 32) < 0.4  # a careless annotator

loss = ProPMLLoss(lam=1.0, label_dim=1)
optimiser = torch.optim.Adam(network.parameters(), lr=1e-2)
for _ in range(150):
    optimiser.zero_grad()
    loss(network(images), candidates).backward()
    optimiser.step()
right = (network(images)[:, :3].argmax(dim=1) == truth).float().mean()
print(f"pixels with the right class among the three: {100 * right:.0f} %")
