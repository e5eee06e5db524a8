"""The methods by name: one line each, from which tests, command line, benchmark and report pick them up."""

import importlib
from pathlib import Path
from typing import NamedTuple

from propml.file_errors import reading
from propml.messages import did_you_mean
from propml.methods.base import FORMER_NAMES, CandidateClassifier
from propml.persistence import State, read_state


class Method(NamedTuple):
    """Where a method lives; it is imported when it is asked for."""

    title: str
    module: str
    name: str


METHODS: dict[str, Method] = {
    "propml": Method("ProPML", "propml.methods.propml", "ProPMLClassifier"),
    "ridge": Method("Ridge", "propml.methods.ridge", "RidgeRegressionClassifier"),
    "kernel-ridge": Method("Kernel ridge", "propml.methods.kernel_ridge", "KernelRidgeClassifier"),
    "cplst": Method("CPLST", "propml.methods.cplst", "CPLSTClassifier"),
    "ml-knn": Method("ML-kNN", "propml.methods.ml_knn", "MLkNNClassifier"),
    "pml-ni": Method("PML-NI", "propml.methods.pml_ni", "PMLNIClassifier"),
    "par-map": Method("PAR-MAP", "propml.methods.particle", "PARMAPClassifier"),
    "par-vls": Method("PAR-VLS", "propml.methods.particle", "PARVLSClassifier"),
    "fpml": Method("fPML", "propml.methods.fpml", "FPMLClassifier"),
    "pml-lrs": Method("PML-LRS", "propml.methods.pml_lrs", "PMLLRSClassifier"),
    "pml-lc": Method("PML-lc", "propml.methods.pml_lc_fp", "PMLlcClassifier"),
    "pml-fp": Method("PML-fp", "propml.methods.pml_lc_fp", "PMLfpClassifier"),
}
# Classifiers that experiments do not compare: this one is for more labels than the others can hold.
OTHERS = {"many-labels": Method("Many labels", "propml.methods.many_labels", "ManyLabelClassifier")}
CLASSES = {method.name: name for name, method in (METHODS | OTHERS).items()}


def method_class(name: str) -> type[CandidateClassifier]:
    """The class of a method.

    >>> method_class("ridge")().get_params()
    {'alpha': 10.0}
    """
    known = METHODS | OTHERS
    if name not in known:
        raise ValueError(f"method {name!r} is not known; {did_you_mean(name, known)}")
    return getattr(importlib.import_module(known[name].module), known[name].name)


def load(path: str | Path) -> CandidateClassifier:
    """Read a saved method, whichever it is."""
    with reading(path, "saved model", "save it again"):
        return method_from_state(*read_state(path))


def method_from_state(kind: str, state: State) -> CandidateClassifier:
    """The fitted method that a saved state describes."""
    name = CLASSES.get(FORMER_NAMES.get(kind, kind))
    if name is None:
        raise ValueError(f"it holds a {kind}, which this version of propml does not know")
    return method_class(name)._from_state(state)
