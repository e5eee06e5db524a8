"""The page and its pictures."""

import base64
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import matplotlib
import numpy as np
import optuna
import pytest
from fake_tasks import Cliff, Hill
from optuna.distributions import CategoricalDistribution, FloatDistribution

from propml.tuning.result import SearchResult, compared_trials, pictures, render_page
from propml.tuning.searching import run_search
from propml.tuning.spaces import Choice, Number, When

SPACE = {
    "a": Number(0.01, 1.0, log=True),
    "b": Number(0.0, 1.0),
    "c": Choice(("x", "y")),
    "d": Number(0.0, 1.0, when=When("c", ("x",))),
}
STORED = {
    "a": FloatDistribution(0.01, 1, log=True),
    "b": FloatDistribution(0, 1),
    "c": CategoricalDistribution(["x", "y"]),
    "d": FloatDistribution(0, 1),
}


def result(n=80, scale=1.0, seed=0):
    """value = 3·log10(a) + b: `a` matters most, `b` a little, `c` not at all; `d` is there only sometimes.

    Every third trial is stopped after epoch 1.
    """
    rng = np.random.default_rng(seed)
    study = optuna.create_study(direction="maximize")
    for number in range(n):
        params = {"a": float(10 ** rng.uniform(-2, 0)), "b": float(rng.random()), "c": str(rng.choice(["x", "y"]))}
        if params["c"] == "x":
            params["d"] = float(rng.random())
        value = scale * (3 * np.log10(params["a"]) + params["b"])
        curve = {1: value, 3: value + 0.5} if number % 3 else {1: value}
        study.add_trial(
            optuna.create_trial(
                state=optuna.trial.TrialState.COMPLETE if number % 3 else optuna.trial.TrialState.PRUNED,
                params=params,
                distributions={name: STORED[name] for name in params},
                value=curve[max(curve)],
                intermediate_values=curve,
            )
        )
    task = Hill(epochs=3)
    task.space = SPACE
    return SearchResult.of(study, task)


def titles(found):
    return [title for title, _, _ in pictures(found)]


def test_trials_are_compared_at_the_last_epoch_that_half_of_them_reached():
    epoch, study = compared_trials(result())
    assert (epoch, len(study.trials)) == (3, 53)
    shares = optuna.importance.get_param_importances(study)
    assert next(iter(shares)) == "a"
    few = result()
    del few.trials[1:30]  # of the rest, 17 of 51 were stopped; then most were
    few.trials[:] = [each for each in few.trials if each.epochs == 1 or each.number % 4 == 1]
    epoch, study = compared_trials(few)
    assert (epoch, len(study.trials)) == (1, len(few.trials))


def test_every_picture_is_well_formed_and_matplotlib_stays_as_it_was():
    before = dict(matplotlib.rcParams)
    drawn = list(pictures(result()))
    assert [title for title, _, _ in drawn] == ["History", "Epoch by epoch", "Importance", "Parallel coordinates"]
    assert all(ET.fromstring(svg).tag.endswith("svg") for _, _, svg in drawn)
    assert "over the 53 trials that were compared after epoch 3" in drawn[2][1]
    assert dict(matplotlib.rcParams) == before


def test_too_few_trials_or_equal_ones_say_nothing_about_importance():
    assert titles(result(7)) == ["History", "Epoch by epoch"]
    assert "Importance" not in titles(result(scale=0.0))
    assert titles(run_search(Hill(), trials=2)) == ["History"]


class Balanced(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.open, self.rows = [], 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.rows += tag == "tr"
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_one_file_with_everything():
    found = run_search(Cliff(), trials=25)
    page = render_page(found, 'propml tune "x" <y>')
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert "propml tune &quot;x&quot; &lt;y&gt;" in page
    for word in ("History", "Importance", "Parallel coordinates", "no number to compare"):
        assert word in page
    for picture in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page):
        ET.fromstring(base64.b64decode(picture))
    parser = Balanced(page)
    assert parser.open == []
    assert parser.rows == 1 + 25


def test_the_page_says_whose_labels_were_looked_at():
    found = run_search(Hill(), trials=2)
    assert "no true label was looked at" in render_page(found)
    found.facts["objective"] = "oracle"
    assert "TRUE labels" in render_page(found)


@pytest.mark.filterwarnings("error")
def test_pictures_are_drawn_without_a_warning():
    assert len(titles(result(20))) == 4
