"""What one must know of the paper's numbers to read them rightly, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

__all__ = ["ORACLE_SUFFIX", "listed", "published_method", "reading_notes", "slips_note"]

# A method whose λ was chosen on test labels, as the paper's was.
ORACLE_SUFFIX = " (oracle)"
# The same on the paper's own network: no dropout, 500 epochs, the last one taken.
AS_PUBLISHED_SUFFIX = " (as published)"
# Methods whose printed Hamming loss is 52 to 99 % because of how predictions were coded.
SLIPPED_HAMMING_LOSS = ("CPLST", "ML-kNN")

CONVENTIONS = (
    "The published numbers follow the tie rule of the MATLAB functions of the field and, for the Hamming loss of "
    "ML-kNN and CPLST, a slip in the coding of predictions. The numbers of ours that stand beside them were computed "
    "the same way, with one exception: the published Hamming loss of PML-NI cuts scores by the true labels of training "
    "rows, and ours does so in the row PML-NI (oracle) only. What is best where, the ranks and the second table of "
    "each metric follow our own conventions (ties averaged, predictions of 0 and 1)."
)
MIRFLICKR = "MIRFlickr circulates in copies of 5000 and of 10433 rows; the paper used the latter."


def published_method(method: str) -> str:
    """The name under which the paper prints a method of ours.

    >>> published_method("ProPML (oracle)")
    'ProPML'
    """
    return method.removesuffix(ORACLE_SUFFIX).removesuffix(AS_PUBLISHED_SUFFIX)


def listed(items: Sequence[str], limit: int = 6) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], limit=2)
    ('a, b and c', 'a, b and 2 more')
    """
    if len(items) > limit:
        return f"{', '.join(items[:limit])} and {len(items) - limit} more"
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def slips_note(methods: Collection[str]) -> str:
    """That the Hamming losses of some of these methods follow slips in coding; nothing where none does.

    >>> slips_note(["Ridge", "ML-kNN"])
    "The Hamming losses of ML-kNN follow the paper's slips in coding, and so do their ranks."
    """
    slipped = [name for name in SLIPPED_HAMMING_LOSS if name in methods]
    if not slipped:
        return ""
    return f"The Hamming losses of {listed(slipped)} follow the paper's slips in coding, and so do their ranks."


def reading_notes(
    methods: Iterable[str], datasets: Collection[str], tuned: Collection[str] = (), *, compared: bool, paper_rules: bool
) -> list[str]:
    """What a reader must know to read tables rightly.

    Parameters
    ----------
    methods, datasets
        What the tables show; ``datasets`` only of tables that stand beside the paper.
    tuned : collection of str
        The methods that were tuned on test labels.
    compared : bool
        Whether published numbers stand beside ours.
    paper_rules : bool
        Whether those of ours were computed by the paper's conventions.
    """
    notes = [CONVENTIONS] if paper_rules else []
    names = list(dict.fromkeys(methods))
    oracles = [method for method in names if method in tuned]
    if oracles:
        notes.append(
            f"{listed(oracles)}: what was tuned, such as λ, was tuned on true labels. It takes no part in bold, first "
            f"places and ranks."
        )
    ours = [method for method in names if published_method(method) == "ProPML"]
    if compared and ours:
        notes.append(f"The paper chose the λ of ProPML on test labels. {_like_for_like(ours, tuned)}")
    return [*notes, MIRFLICKR] if "mirflickr" in datasets else notes


def _like_for_like(methods: Sequence[str], tuned: Collection[str]) -> str:
    oracles = [method for method in methods if method in tuned]
    honest = [method for method in methods if method not in tuned]
    if not oracles:
        return "Ours was chosen on held-out candidate labels, so that the published row has an advantage."
    beside = (
        f" {listed(honest)} chose it on held-out candidate labels and stands beside the same row." if honest else ""
    )
    return f"{listed(oracles)} did the same and is the like-for-like comparison with its row.{beside}"
