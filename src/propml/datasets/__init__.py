"""Datasets: a registry of those in the paper, readers for their formats, and downloads."""

from propml.datasets.array_files import read_mat
from propml.datasets.catalogue import load, lookup, names, verify
from propml.datasets.dataset import Dataset, Entry, ImageDataset, Statistics
from propml.datasets.download import fetch
from propml.datasets.mosaic import digits_mosaic, digits_mosaic_images
from propml.datasets.mulan import read_mulan
from propml.datasets.registry import REGISTRY

__all__ = [
    "REGISTRY", "Dataset", "Entry", "ImageDataset", "Statistics", "digits_mosaic", "digits_mosaic_images", "fetch",
    "load", "lookup", "names", "read_mat", "read_mulan", "verify",
]  # fmt: skip
