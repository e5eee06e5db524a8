"""Where studies live: in memory, in an SQLite file, or on any server that Optuna speaks to.

A study outlives its searches: one that was killed goes on where it stopped, and several may work on one study (see
:mod:`propml.tuning.lost_trials`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from propml.extras import require
from propml.tuning import lost_trials
from propml.tuning.database_url import SQLITE, masked, storage_url, with_driver, without_secrets

if TYPE_CHECKING:
    import optuna

__all__ = ["open_study", "quiet", "replace_unusable"]


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna without its log lines and its notes on what is experimental."""
    optuna = require("optuna", "tune")
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            warnings.filterwarnings("ignore", message="Heartbeat of storage")  # we beat the heart ourselves
            yield
    finally:
        optuna.logging.set_verbosity(before)


def open_study(
    storage: str | Path | None, name: str, facts: Mapping[str, Any], *, seed: int = 0, epochs: int | None = None
) -> optuna.Study:
    """The study of that name, made if it is not there.

    Parameters
    ----------
    storage : path, URL or None
    name : str
    facts : mapping
        What all searches on this study must agree on, as plain values.
    seed : int
        Of the sampler.
    epochs : int, optional
        Prune single trials by Hyperband with this whole budget; by default nobody prunes.
    """
    optuna = require("optuna", "tune")
    pruner: Any = optuna.pruners.NopPruner()
    if epochs is not None:
        from propml.tuning.brackets import ETA, levels

        pruner = optuna.pruners.HyperbandPruner(levels(epochs)[0], epochs, reduction_factor=ETA)
    with quiet():
        study = optuna.create_study(
            storage=_opened(storage_url(storage)),
            study_name=name,
            pruner=pruner,
            direction="maximize",
            load_if_exists=True,
        )
        # A search that goes on must not propose once more what it began with.
        begun = len(study.get_trials(deepcopy=False))
        own_seed = int(np.random.SeedSequence([seed, begun]).generate_state(1)[0])
        study.sampler = optuna.samplers.TPESampler(seed=own_seed, constant_liar=True)
    _agree(study, facts)
    return study


def _opened(url: str | None) -> Any:
    optuna = require("optuna", "tune")
    if url is None:
        return optuna.storages.InMemoryStorage()
    arguments: dict[str, Any] = {}
    if url.startswith(SQLITE):
        Path(url.removeprefix(SQLITE)).parent.mkdir(parents=True, exist_ok=True)
        arguments["connect_args"] = {"timeout": 60}  # several workers wait for each other
    try:
        storage = optuna.storages.RDBStorage(
            with_driver(url),
            engine_kwargs=arguments,
            heartbeat_interval=lost_trials.HEARTBEAT,
            grace_period=lost_trials.GRACE,
        )
    except ImportError as error:
        raise ImportError(
            f"the storage {masked(url)} needs a driver for its database; install one, such as: "
            f"pip install psycopg2-binary"
        ) from error
    except Exception as error:
        first = " ".join(str(error).split("\n(Background")[0].split())[:300]
        raise ValueError(
            f"the storage {masked(url)} cannot be opened: {without_secrets(first, url)}; give a path, or the URL of a "
            f"running server such as postgresql://user@host/database"
        ) from None  # the trace of a driver may have the whole URL in it
    if url.startswith(SQLITE):
        _share(storage)
    return storage


def _share(storage: Any) -> None:
    """Make an SQLite file one that several workers can use, and quick.

    It locks no rows: what a worker read could be changed before it writes, and two would begin the same queued trial,
    or give the same lost one back. So every transaction waits for the others from its start. It writes ahead and does
    not wait for the disk: a killed process loses nothing, and trials cost less.
    """
    from sqlalchemy import event, text

    with storage.engine.connect() as connection:
        connection.execute(text("PRAGMA journal_mode=WAL"))

    @event.listens_for(storage.engine, "connect")
    def _(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # Python's driver would begin only before the first change
        connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(storage.engine, "begin")
    def _(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    storage.engine.dispose()


def _agree(study: optuna.Study, facts: Mapping[str, Any]) -> None:
    known = study.user_attrs.get("propml")
    if known is None:
        study.set_user_attr("propml", dict(facts))
        return
    for key in _differing(known, facts):
        raise ValueError(
            f"the study {study.study_name!r} was made with another {key}: {known.get(key)!r}, now {facts.get(key)!r}; "
            f"give the search another name or another storage"
        )


def _differing(known: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """What a study and a search disagree on; a study that does not tell the seed of its folds is not asked for it."""
    asked = [key for key in {**facts, **known} if key in known or key != "seed"]
    return [key for key in asked if known.get(key) != facts.get(key)]


def replace_unusable(storage: str | Path | None, name: str, facts: Mapping[str, Any]) -> None:
    """Put a new study in the place of one with other facts in which no trial can be used."""
    if storage is None:
        return
    optuna = require("optuna", "tune")
    with quiet():
        try:
            kept = optuna.load_study(study_name=name, storage=_opened(storage_url(storage)))
        except KeyError:
            return
    known = kept.user_attrs.get("propml")
    if known is None or not _differing(known, facts):
        return
    lost_trials.reclaim(kept)
    trials, state = kept.get_trials(deepcopy=False), optuna.trial.TrialState
    stopped = [trial for trial in trials if trial.state in (state.FAIL, state.WAITING)]
    begun = any(trial.intermediate_values and "why" not in trial.user_attrs for trial in stopped)
    if not trials or len(stopped) < len(trials) or begun:
        return
    with quiet():
        try:
            kept._storage.delete_study(kept._study_id)  # the one that was looked at, whatever has its name now
            fresh = optuna.create_study(study_name=name, storage=kept._storage, direction="maximize")
        except (KeyError, optuna.exceptions.DuplicatedStudyError):
            return  # another search has done so
    # Their numbers stay taken: a new trial must not go on from a checkpoint in the folder of an old one.
    fresh.add_trials([optuna.trial.create_trial(state=state.FAIL, user_attrs={"lost": "replaced"}) for _ in trials])
