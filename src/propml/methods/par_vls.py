"""PAR-VLS: PARTICLE with a virtual label that separates what is relevant from what is not.

Fang and Zhang, "Partial Multi-Label Learning via Credible Label Elicitation", AAAI 2019; Zhang and Fang, TPAMI 2021.

Two stages are shared with PAR-MAP (:mod:`propml.methods.particle`): credible labels K by propagation, and machines for
all pairs of labels; here each label also meets the virtual label V, against which it wins in the rows where it is
credible and loses in those where it is no candidate. The vote of a machine counts as much as its accuracy on the rows
that it was trained on, a_jk:

    votes_j = Σ_{k ≠ j} a_jk [machine jk votes for j] + a_jV [machine jV votes for j]
    votes_V = Σ_j a_jV [machine jV votes for V]
    score_j = ½ + (votes_j − votes_V) / q,     predicted above ½, i.e. where votes_j > votes_V

Reconstructed from the released code and from the paper as it is recalled; published numbers are on features scaled to
[−1, 1].

Deviations: those of :mod:`propml.methods.particle`, and

- The release rounds all sums of votes up to whole numbers, so that many labels tie; ``paper=True`` does the same.
- The release scales the scores to [0, 1] in each row, which leaves their order as it is, and so the metrics.
"""

from __future__ import annotations

import numpy as np

from propml.methods.base import Features
from propml.methods.particle import ParticleClassifier
from propml.methods.particle_pairs import count_votes


class PARVLSClassifier(ParticleClassifier):
    """PARTICLE with virtual label splitting.

    Parameters
    ----------
    k, alpha, threshold, C, tol, inner_folds, random_state, verbose
        As in :class:`~propml.methods.particle.ParticleClassifier`.
    paper : bool
        Do as the released code does: no propagation, credible labels that are no candidates, and its rounding.

    Attributes
    ----------
    credible_, machines_
        As in :class:`~propml.methods.particle.ParticleClassifier`; the virtual label is the last of the machines.

    Examples
    --------
    >>> X = np.array([[-1.0], [-0.9], [-0.8], [0.8], [0.9], [1.0]])
    >>> candidates = np.array([[1, 0], [1, 1], [1, 0], [0, 1], [1, 1], [0, 1]])
    >>> PARVLSClassifier(k=2).fit(X, candidates).predict(X)
    array([[1, 0],
           [1, 0],
           [1, 0],
           [0, 1],
           [0, 1],
           [0, 1]])
    """

    _virtual = True

    def _scores(self, X: Features) -> np.ndarray:
        votes = count_votes(X, self.machines_, weighted=True)
        if self.paper:
            votes = np.ceil(votes)
        return 0.5 + (votes[:, :-1] - votes[:, -1:]) / len(self.labels_)
