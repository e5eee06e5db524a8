"""What all tests share: one torch thread per worker, the folder of real datasets, a browser and a Ray cluster."""

import os
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import pytest
import torch

# Two busy workers with two torch threads each fight over two cores: one thread each is much faster.
torch.set_num_threads(1)
# An example may take long on a busy machine without being wrong. Every run draws the same examples, so that a failure
# comes from the change under test; `--hypothesis-profile=new` draws others.
hypothesis.settings.register_profile("new", deadline=None)
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.load_profile("same")


@pytest.fixture(scope="session", autouse=True)
def interruptible():
    """A shell's background job ignores SIGINT, and so would the commands that are to be stopped by it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real datasets; tests that need it are skipped where PROPML_DATA is not set."""
    folder = os.environ.get("PROPML_DATA")
    if not folder:
        pytest.skip("PROPML_DATA is not set: the real datasets are not at hand")
    path = Path(folder)
    assert path.is_dir(), f"PROPML_DATA={folder} is not a folder"
    return path


@pytest.fixture(scope="session")
def chromium():
    """A real browser; tests that need it are skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip(f"no browser is installed (none of {', '.join(names)} is on the path): make browser")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def ray_nodes():
    """``with ray_nodes(folder, NAME="value") as cluster``: two nodes of one CPU; workers import from the folder."""

    @contextmanager
    def started(folder: Path, **environment: str):
        import ray
        from ray.cluster_utils import Cluster

        before = dict(os.environ)
        path = os.pathsep.join([str(folder), *filter(None, [before.get("PYTHONPATH")])])
        os.environ.update(PYTHONPATH=path, RAY_USAGE_STATS_ENABLED="0", **environment)
        arguments = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
        nodes = Cluster(initialize_head=True, head_node_args={**arguments, "include_dashboard": False})
        nodes.add_node(**arguments)
        yield nodes
        ray.shutdown()
        nodes.shutdown()
        os.environ.clear()
        os.environ.update(before)

    return started
