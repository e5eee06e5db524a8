"""Provenance: enough to measure again, and nothing that tells where it was measured."""

import getpass
import json
import os
import platform
import re
import socket
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
import torch

import propml
from propml.benchmark import provenance
from propml.benchmark.provenance import run_provenance

ROOT = Path(__file__).parents[2]


def test_versions_and_time_are_right():
    made = run_provenance(["propml", "benchmark", "run", "quick"], workers=3)
    assert made["propml"] == propml.__version__
    assert made["packages"]["numpy"] == np.__version__
    assert made["packages"]["torch"] == torch.__version__
    assert made["python"] == platform.python_version()
    assert made["workers"] == 3
    assert made["cpus"] == len(os.sched_getaffinity(0))
    age = datetime.now(UTC) - datetime.fromisoformat(made["started"])
    assert 0 <= age.total_seconds() < 60
    assert made["run"] != run_provenance()["run"]
    assert json.loads(json.dumps(made)) == made


def test_no_path_and_no_host_is_told():
    made = run_provenance(
        [
            "/usr/bin/propml",
            "run",
            f"{ROOT}/paper/quick.toml",
            "--out",
            "~/results/quick",
            "--ray-address",
            "10.1.2.3:6379",
        ]
    )
    assert made["command"] == "propml run quick.toml --out quick --ray-address HOST"
    text = json.dumps(made)
    assert str(ROOT) not in text
    assert str(Path.home()) not in text or Path.home() == Path("/")
    assert socket.gethostname() not in re.findall(r"[\w.-]+", text.replace(made["processor"], ""))
    assert "10.1.2.3" not in text
    assert getpass.getuser() not in re.findall(r"\w+", text)


def test_the_commit_is_that_of_the_checkout():
    git = ["git", "-C", str(ROOT)]
    inside = subprocess.run([*git, "ls-files", "src/propml/__init__.py"], capture_output=True, text=True)
    if inside.returncode or not inside.stdout:
        assert run_provenance()["commit"] is None
        return
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", "src/propml"], capture_output=True, text=True, check=True)
    made = run_provenance()
    assert made["commit"] == head
    assert made["dirty"] == bool(changed.stdout)


@pytest.fixture
def fresh():
    provenance._commit.cache_clear()
    yield
    provenance._commit.cache_clear()


def test_outside_a_checkout_no_commit_is_claimed(monkeypatch, fresh):
    monkeypatch.setenv("PATH", "")
    assert provenance._commit() == (None, None)


def test_a_package_inside_another_checkout_claims_none_of_its_commits(monkeypatch, fresh):
    monkeypatch.setattr(subprocess, "run", lambda *given, **more: subprocess.CompletedProcess(given, 0, "\n", ""))
    assert provenance._commit() == (None, None)


def test_what_cannot_be_known_is_left_out(monkeypatch):
    def missing(package):
        raise PackageNotFoundError(package)

    def unreadable(self, **how):
        raise OSError

    monkeypatch.setattr("importlib.metadata.version", missing)
    monkeypatch.setattr(Path, "read_text", unreadable)
    monkeypatch.delattr(os, "sched_getaffinity")
    made = run_provenance([])
    assert made["packages"] == {}
    assert made["processor"] == platform.processor()
    assert made["cpus"] == os.cpu_count()


def test_the_arguments_of_the_process_are_the_default(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/opt/bin/propml", "benchmark", "run", "my own.toml"])
    assert run_provenance()["command"] == "propml benchmark run 'my own.toml'"
