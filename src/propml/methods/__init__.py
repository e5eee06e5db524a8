"""Every method of the literature as a scikit-learn classifier of candidate labels; one file each, and a registry."""

from propml.methods.base import CandidateClassifier
from propml.methods.registry import METHODS, load, method_class

__all__ = ["METHODS", "CandidateClassifier", "load", "method_class"]
