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
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import numpy as np

from propml.atomic_files import lock_file
from propml.extras import require
from propml.tuning.rungs import ETA, levels

if TYPE_CHECKING:
    import optuna

SQLITE = "sqlite:///"
# Seconds between the heartbeats of a worker, and after which a silent one is given up. That is for other machines only:
# whether a process of this machine lives is known at once, by the lock of its file.
HEARTBEAT, GRACE = 20, 90
LIFELINE = "propml-worker-"
# Marks a trial that only keeps the number of one in a study that was replaced.
REPLACED = "replaced"


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
    """The study of that name, made if it is not there; with ``epochs``, Hyperband prunes single trials of that budget.

    ``facts`` are plain values that all searches on a study must agree on. One that was made with others is refused,
    unless no trial of it can be used: then a new one takes its place.
    """
    optuna = require("optuna", "tune")
    pruner: Any = optuna.pruners.NopPruner()
    if epochs is not None:
        pruner = optuna.pruners.HyperbandPruner(levels(epochs)[0], epochs, reduction_factor=ETA)
    how: dict[str, Any] = {"storage": storage, "pruner": pruner, "direction": "maximize", "load_if_exists": True}
    with quiet():
        study = optuna.create_study(study_name=name, **how)
        known, trials = study.user_attrs.get("propml", {}), study.get_trials(deepcopy=False)
        # A study that does not tell the seed of its folds is not asked for it.
        keys = [key for key in {**facts, **known} if known and (key in known or key != "seed")]
        differing = [key for key in keys if known.get(key) != facts.get(key)]
        if differing and (not trials or any(map(_is_of_use, trials))):
            key = differing[0]
            raise ValueError(
                f"the study {name!r} was made with another {key}: {known.get(key)!r}, now {facts.get(key)!r}; "
                f"give the search another name or another storage"
            )
        if differing:
            optuna.delete_study(study_name=name, storage=storage)
            study = optuna.create_study(study_name=name, **how)
            # Their numbers stay taken: a new trial must not go on from a checkpoint in the folder of an old one.
            placeholder = optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL, user_attrs={"lost": REPLACED})
            study.add_trials([placeholder] * len(trials))
        if differing or not known:
            study.set_user_attr("propml", dict(facts))
        # A search that goes on must not propose once more what it began with.
        own_seed = int(np.random.SeedSequence([seed, len(trials)]).generate_state(1)[0])
        study.sampler = optuna.samplers.TPESampler(seed=own_seed, constant_liar=True)
    return study


def _is_of_use(trial: Any) -> bool:
    """Whether a trial has ended well, is under way, or was stopped after it was worth something."""
    if trial.state.name == "RUNNING" and not is_gone(trial.user_attrs.get("owner", {})):
        return True
    worth = bool(trial.intermediate_values) and "why" not in trial.user_attrs
    return worth or trial.state.name in ("COMPLETE", "PRUNED")


def open_storage(storage: str | Path | None) -> Any:
    """The storage at a path (an SQLite file) or URL; ``None`` is one in memory."""
    optuna = require("optuna", "tune")
    if storage is None:
        return optuna.storages.InMemoryStorage()
    url = str(storage) if "://" in str(storage) else f"{SQLITE}{storage}"
    # Name the PostgreSQL driver that is installed: versions of SQLAlchemy differ in their default.
    driver = next((name for name in ("psycopg", "psycopg2") if importlib.util.find_spec(name) is not None), "psycopg2")
    exact = re.sub("^postgres(ql)?://", f"postgresql+{driver}://", url)
    arguments: dict[str, Any] = {}
    if url.startswith(SQLITE):
        Path(url.removeprefix(SQLITE)).parent.mkdir(parents=True, exist_ok=True)
        arguments["connect_args"] = {"timeout": 60}  # several workers wait for each other
    try:
        with quiet():
            database = optuna.storages.RDBStorage(
                exact, engine_kwargs=arguments, heartbeat_interval=HEARTBEAT, grace_period=GRACE
            )
    except ImportError as error:
        told = f"the storage {url} needs a driver for its database; install one, such as: pip install psycopg2-binary"
        raise ImportError(without_secrets(told, url)) from error
    except Exception as error:
        first = " ".join(str(error).split("\n(Background")[0].split())[:300]
        told = f"the storage {url} cannot be opened: {first}; give a path, or the URL of a running server"
        told = f"{without_secrets(told, url)} such as postgresql://user@host/database"
        raise ValueError(told) from None  # the trace of a driver may have the whole URL in it
    if url.startswith(SQLITE):
        _share(database)
    return database


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


def without_secrets(text: str, url: str) -> str:
    """A text about the URL of a server, such as a driver's message, without user, password and values of arguments.

    >>> without_secrets("no me:p/w@h: invalid port 'p' in mysql://me:p/w@h/db?x=1", "mysql://me:p/w@h/db?x=1")
    "no ***:***/***@h: invalid port '***' in mysql://***@h/db?***"
    """
    scheme, _, rest = url.partition("://")
    if not rest or url.startswith(SQLITE):
        return text
    place, question, arguments = rest.partition("?")
    if "@" in arguments:  # the ? may be one of the password
        shown, hidden = f"{scheme}://***", rest
    else:
        user, at, host = place.rpartition("@")
        shown = f"{scheme}://{at and '***'}{at}{host}{question}{question and '***'}"
        hidden = user + re.sub(r"(?:^|&)[^&=]*=", " ", arguments)
    text = text.replace(url, shown)
    # Drivers split a password that should have been quoted, and name a part of it in their message. A short word is
    # hidden where it stands by itself only: as a part of others it tells nothing.
    words = {word for word in re.split(r"[\s:/?#@&;=]+", f"{hidden} {unquote_plus(hidden)}") if word}
    for word in sorted(map(re.escape, words), key=len, reverse=True):
        text = re.sub(word if len(word) > 3 else rf"\b{word}\b", "***", text)
    return text


@contextmanager
def lifeline() -> Iterator[dict[str, str]]:
    """Who works here, as others on this machine can tell: a file is locked until the block, or this process, ends."""
    with tempfile.NamedTemporaryFile(prefix=LIFELINE) as file:
        with suppress(OSError):  # a file system without locks: then nobody can tell, and heartbeats are left
            lock_file(file.fileno())
        yield {"host": socket.gethostname(), "lifeline": file.name}


def is_gone(worker: Mapping[str, Any]) -> bool | None:
    """Whether a worker has died; None where nobody can tell from here, as of one on another machine."""
    path = Path(worker.get("lifeline", ""))
    if worker.get("host") != socket.gethostname() or not path.name.startswith(LIFELINE) or not path.is_file():
        return None
    with suppress(OSError), path.open("rb") as file:
        return lock_file(file.fileno(), wait=False)
    return None
