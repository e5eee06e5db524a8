"""Where studies are stored (in memory, in an SQLite file, on a server that Optuna supports), and who works on them."""

from __future__ import annotations

import importlib.util
import re
import socket
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import numpy as np

from propml.atomic_files import lock_file
from propml.extras import require
from propml.tuning.rungs import ETA, levels

if TYPE_CHECKING:
    import optuna

__all__ = ["is_gone", "lifeline", "masked", "open_storage", "open_study", "quiet", "without_secrets"]

SQLITE = "sqlite:///"
# Seconds between the heartbeats of a worker, and after which a silent one is given up. That is for other machines only:
# whether a process of this machine lives is known at once, by the lock of its file.
HEARTBEAT, GRACE = 20, 90
LIFELINE = "propml-worker-"
# Marks a trial that only keeps the number of one in a study that was replaced.
REPLACED = "replaced"

HIDDEN = "***"
# A shorter word of a password is hidden where it stands by itself: as a part of other words it tells nothing.
SHORT = 3


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna without its log lines and its notes on what is experimental."""
    optuna = require("optuna", "tune")
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def open_study(
    storage: Any, name: str, facts: Mapping[str, Any], *, seed: int = 0, epochs: int | None = None
) -> optuna.Study:
    """The study of that name, made if it is not there.

    One that was made with other facts is refused, unless no trial of it can be used: then a new one takes its place.

    Parameters
    ----------
    storage : optuna.storages.BaseStorage
        From :func:`open_storage`.
    facts : mapping
        What all searches on this study must agree on, as plain values.
    seed : int
        Of the sampler.
    epochs : int, optional
        Prune single trials by Hyperband with this whole budget; by default nobody prunes.
    """
    optuna = require("optuna", "tune")
    _replace_unusable(storage, name, facts)
    pruner: Any = optuna.pruners.NopPruner()
    if epochs is not None:
        pruner = optuna.pruners.HyperbandPruner(levels(epochs)[0], epochs, reduction_factor=ETA)
    with quiet():
        study = optuna.create_study(
            storage=storage, study_name=name, pruner=pruner, direction="maximize", load_if_exists=True
        )
        # A search that goes on must not propose once more what it began with.
        begun = len(study.get_trials(deepcopy=False))
        own_seed = int(np.random.SeedSequence([seed, begun]).generate_state(1)[0])
        study.sampler = optuna.samplers.TPESampler(seed=own_seed, constant_liar=True)
    known = study.user_attrs.get("propml")
    if known is None:
        study.set_user_attr("propml", dict(facts))
        return study
    for key in _differing(known, facts):
        raise ValueError(
            f"the study {name!r} was made with another {key}: {known.get(key)!r}, now {facts.get(key)!r}; "
            f"give the search another name or another storage"
        )
    return study


def _differing(known: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """What a study and a search disagree on; a study that does not tell the seed of its folds is not asked for it."""
    keys = [key for key in {**facts, **known} if key in known or key != "seed"]
    return [key for key in keys if known.get(key) != facts.get(key)]


def _replace_unusable(storage: Any, name: str, facts: Mapping[str, Any]) -> None:
    """Put a new study in the place of one with other facts in which no trial can be used."""
    optuna = require("optuna", "tune")
    try:
        study_id = storage.get_study_id_from_name(name)
        known = storage.get_study_user_attrs(study_id).get("propml")
        trials = storage.get_all_trials(study_id)
    except KeyError:  # there is none
        return
    if known is None or not _differing(known, facts) or not trials or any(map(_is_of_use, trials)):
        return
    with quiet():
        try:
            storage.delete_study(study_id)  # the one that was looked at, whatever has its name now
            study = optuna.create_study(study_name=name, storage=storage, direction="maximize")
        except (KeyError, optuna.exceptions.DuplicatedStudyError):
            return  # another search has done so
        # Their numbers stay taken: a new trial must not go on from a checkpoint in the folder of an old one.
        placeholder = optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL, user_attrs={"lost": REPLACED})
        study.add_trials([placeholder] * len(trials))


def _is_of_use(trial: Any) -> bool:
    """Whether a trial has ended well, is under way, or was stopped after it was worth something."""
    if trial.state.name == "RUNNING" and not is_gone(trial.user_attrs.get("owner", {})):
        return True
    if trial.state.name in ("FAIL", "WAITING", "RUNNING"):
        return bool(trial.intermediate_values) and "why" not in trial.user_attrs
    return True


def open_storage(storage: str | Path | None) -> Any:
    """The storage at a path (an SQLite file) or URL; ``None`` is one in memory."""
    optuna = require("optuna", "tune")
    if storage is None:
        return optuna.storages.InMemoryStorage()
    url = str(storage) if "://" in str(storage) else f"{SQLITE}{storage}"
    arguments: dict[str, Any] = {}
    if url.startswith(SQLITE):
        Path(url.removeprefix(SQLITE)).parent.mkdir(parents=True, exist_ok=True)
        arguments["connect_args"] = {"timeout": 60}  # several workers wait for each other
    try:
        with quiet():
            database = optuna.storages.RDBStorage(
                _with_driver(url), engine_kwargs=arguments, heartbeat_interval=HEARTBEAT, grace_period=GRACE
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
        _share(database)
    return database


def _with_driver(url: str) -> str:
    """Name the PostgreSQL driver that is installed: versions of SQLAlchemy differ in their default."""
    scheme, _, rest = url.partition("://")
    drivers = [name for name in ("psycopg", "psycopg2") if importlib.util.find_spec(name) is not None]
    return f"postgresql+{drivers[0]}://{rest}" if scheme in ("postgres", "postgresql") and drivers else url


def _share(storage: Any) -> None:
    """Make an SQLite file one that several workers can use, and quick.

    It locks no rows: what a worker read could be changed before it writes, and two would begin the same queued trial,
    or give the same lost one back. So every transaction waits for the others from its start. It writes ahead and does
    not wait for the disk: a killed process loses nothing, and trials cost less.
    """
    from sqlalchemy import event, text

    with storage.engine.connect() as connection:
        connection.execute(text("PRAGMA journal_mode=WAL"))
        # Optuna makes it after its table: killed in between, it never does, and a name may have two studies.
        connection.execute(text("CREATE UNIQUE INDEX IF NOT EXISTS ix_studies_study_name ON studies (study_name)"))
        connection.commit()

    @event.listens_for(storage.engine, "connect")
    def _(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # Python's driver would begin only before the first change
        connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(storage.engine, "begin")
    def _(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    storage.engine.dispose()


def masked(url: str) -> str:
    """A URL as it may be shown: of a server without its user, its password and its arguments.

    >>> masked("postgresql://me:secret@host/db"), masked("postgresql://host/db?user=me&password=secret")
    ('postgresql://***@host/db', 'postgresql://host/db?***')
    """
    return _parted(url)[0]


def without_secrets(text: str, url: str) -> str:
    """A message about a URL, such as a driver's, without what is not shown of that URL.

    >>> without_secrets("invalid port 'p' in me:p/w@h", "mysql://me:p/w@h/db")
    "invalid port '***' in ***:***/***@h"
    """
    shown, secrets = _parted(url)
    text = text.replace(url, shown)
    # Drivers split a password that should have been quoted, and name a part of it in their message.
    for word in sorted(set(filter(None, secrets)), key=len, reverse=True):
        text = re.sub(re.escape(word) if len(word) > SHORT else rf"\b{re.escape(word)}\b", HIDDEN, text)
    return text


def _parted(url: str) -> tuple[str, list[str]]:
    """A URL as it may be shown, and the words that it then lacks."""
    scheme, _, rest = url.partition("://")
    if not rest or url.startswith(SQLITE):
        return url, []
    place, question, arguments = rest.partition("?")
    if "@" in arguments:  # the ? may be one of the password
        shown, hidden = f"{scheme}://{HIDDEN}", rest
    else:
        user, at, host = place.rpartition("@")
        shown = f"{scheme}://{at and HIDDEN}{at}{host}{question}{question and HIDDEN}"
        hidden = user + re.sub(r"(?:^|&)[^&=]*=", " ", arguments)
    return shown, re.split(r"[\s:/?#@&;=]+", f"{hidden} {unquote_plus(hidden)}")


def lifeline() -> IO[bytes]:
    """A file whose lock is held until it is closed, at the latest by the death of this process."""
    file = tempfile.NamedTemporaryFile(prefix=LIFELINE)  # noqa: SIM115 - whoever has it closes it
    lock_file(file.fileno())
    return file


def is_gone(worker: Mapping[str, Any]) -> bool | None:
    """Whether a worker has died; None where nobody can tell from here, as of one on another machine."""
    path = Path(worker.get("lifeline", ""))
    if worker.get("host") != socket.gethostname() or not path.name.startswith(LIFELINE) or not path.is_file():
        return None
    with suppress(OSError), path.open("rb") as file:
        return lock_file(file.fileno(), wait=False)
    return None
