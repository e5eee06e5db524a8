"""Words against embeddings, ProPMLClassifier against logistic regression, on texts with candidate labels.

    python paper/text.py redv2
    python paper/text.py goemotions --rows 20000 --noise 0.1 0.2 --features words

Everything is trained on candidates: flips of the true labels for GoEmotions, the union of three annotators for REDv2.
True labels of the test rows enter the metrics only. REDv2 is learned on its part ``test`` (818 texts) and judged on
``valid`` (543), because the part ``train`` is not among the files. Embeddings: wordllama and minilm, where installed.
Prints a Markdown table.
"""

import argparse
import importlib.util
import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from propml import ProPMLClassifier
from propml.corruption import corrupt
from propml.datasets.text_sets import read_texts
from propml.metrics import evaluate
from propml.tables.embeddings import ENCODERS, Embedded
from propml.tables.treatments import Text
from propml.targets import Candidates

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def problems(name: str, rows: int, noise: list[float], seed: int):
    """By level of noise: texts to learn from and their candidates, texts to judge by and their true labels."""
    read = read_texts(name)
    rng = np.random.default_rng(seed)
    if name == "redv2":
        learn, judge = (np.flatnonzero(read.split == part) for part in ("test", "valid"))
        yield "three annotators", read, learn, judge, read.candidates[learn]
        return
    learn = rng.permutation(np.flatnonzero(read.split == "train"))[:rows]
    judge = rng.permutation(np.flatnonzero(read.split == "test"))[: max(1000, rows // 4)]
    for rate in noise:
        made = corrupt("flips", None, read.truth[learn], labels=read.label_names, random_state=seed, rate=rate)
        yield f"flips {rate:g}", read, learn, judge, made


def features(names: list[str], read, learn: np.ndarray, judge: np.ndarray):
    """By name: features of the rows to learn from and of those to judge, learned on the first."""
    texts, others = ([read.texts[i] for i in rows] for rows in (learn, judge))
    for name in names:
        made = Text.learn("text", texts) if name == "words" else Embedded.of("text", texts, name)
        yield name, made.apply(texts, []), made.apply(others, [])


def logistic(X, candidates: Candidates, X_test):
    """One logistic regression per label, predicted from a half on; its strength ranks held-out candidates best."""
    given = (candidates.states > 0).toarray().astype(int)
    cut = len(given) * 3 // 4

    def fitted(strength: float, rows: slice):
        return OneVsRestClassifier(LogisticRegression(C=strength, max_iter=2000)).fit(X[rows], given[rows])

    def held_out(strength: float) -> float:
        scores = fitted(strength, slice(cut)).predict_proba(X[cut:])
        return evaluate(given[cut:], scores, scores > 0.5)["mAP"]

    scores = fitted(max(STRENGTHS, key=held_out), slice(None)).predict_proba(X_test)
    return scores, scores > 0.5


def ours(X, candidates: Candidates, X_test):
    model = ProPMLClassifier(random_state=0).fit(X, candidates)
    return model.predict_proba(X_test), model.predict(X_test)


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("dataset", choices=("redv2", "goemotions"))
    parse.add_argument("--rows", type=int, default=4000)
    parse.add_argument("--noise", type=float, nargs="+", default=[0.1, 0.2])
    installed = [name for name, module in ENCODERS.items() if importlib.util.find_spec(module) is not None]
    parse.add_argument("--features", nargs="+", default=["words", *installed])
    parse.add_argument("--methods", nargs="+", default=["logistic regression", "ProPMLClassifier"])
    parse.add_argument("--seed", type=int, default=0)
    given = parse.parse_args()
    print("| candidates | features | model | mean average precision | micro F1 | macro F1 | seconds |")
    print("|---|---|---|---|---|---|---|")
    methods = {"logistic regression": logistic, "ProPMLClassifier": ours}
    for level, read, learn, judge, candidates in problems(given.dataset, given.rows, given.noise, given.seed):
        for name, X, X_test in features(given.features, read, learn, judge):
            for method in given.methods:
                start = time.perf_counter()
                scores, predicted = methods[method](X, candidates, X_test)
                took = time.perf_counter() - start
                found = evaluate(read.truth[judge], scores, predicted.astype(int))
                shown = [f"{found[metric]:.3f}" for metric in ("mAP", "OF1", "CF1")]
                print(f"| {level} | {name} | {method} | {' | '.join(shown)} | {took:.0f} |", flush=True)


if __name__ == "__main__":
    main()
