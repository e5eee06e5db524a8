"""Every method of the literature as a scikit-learn classifier of candidate labels; one file each, and a registry.

In go features and candidate labels, out come scores and predictions. All of them have the contract of
:class:`~propml.methods.base.CandidateClassifier`; :data:`METHODS` names them for command line and benchmark. Published
numbers were made on features in [−1, 1] (:class:`propml.range_scaler.RangeScaler`).
"""

from typing import TYPE_CHECKING, Any

from propml.messages import warn_renamed
from propml.methods.base import FORMER_NAMES, CandidateClassifier
from propml.methods.registry import CLASSES, METHODS, load, method_class

if TYPE_CHECKING:
    from propml.methods.cplst import CPLSTClassifier
    from propml.methods.fpml import FPMLClassifier
    from propml.methods.kernel_ridge import KernelRidgeClassifier
    from propml.methods.many_labels import ManyLabelClassifier
    from propml.methods.ml_knn import MLkNNClassifier
    from propml.methods.particle import PARMAPClassifier, PARVLSClassifier
    from propml.methods.pml_lc_fp import PMLfpClassifier, PMLlcClassifier
    from propml.methods.pml_lrs import PMLLRSClassifier
    from propml.methods.pml_ni import PMLNIClassifier
    from propml.methods.propml import ProPMLClassifier
    from propml.methods.ridge import RidgeRegressionClassifier

__all__ = [
    "METHODS",
    "CPLSTClassifier",
    "CandidateClassifier",
    "FPMLClassifier",
    "KernelRidgeClassifier",
    "MLkNNClassifier",
    "ManyLabelClassifier",
    "PARMAPClassifier",
    "PARVLSClassifier",
    "PMLLRSClassifier",
    "PMLNIClassifier",
    "PMLfpClassifier",
    "PMLlcClassifier",
    "ProPMLClassifier",
    "RidgeRegressionClassifier",
    "load",
    "method_class",
]


def __getattr__(name: str) -> Any:
    """A class is imported when it is first asked for: one of them needs torch, which takes seconds."""
    if name in FORMER_NAMES:
        warn_renamed(f"{__name__}.{name}", FORMER_NAMES[name])
        name = FORMER_NAMES[name]
    if name not in CLASSES:
        raise AttributeError(f"module 'propml.methods' has no attribute {name!r}")
    return method_class(CLASSES[name])
