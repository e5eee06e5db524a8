"""The page and its pictures."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import optuna
import pytest
from fake_tasks import Cliff, Hill

from propml.tuning.charts import coordinates_chart, history_chart, importance_chart
from propml.tuning.importance import importances, position
from propml.tuning.page import render_page
from propml.tuning.result import TrialRecord
from propml.tuning.search import run_search
from propml.tuning.spaces import Choice, Number, When


def records(n=80, seed=0):
    """value = 3·log10(a) + b: `a` matters most, `b` a little, `c` not at all; `d` is there only sometimes."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(n):
        params = {"a": float(10 ** rng.uniform(-2, 0)), "b": float(rng.random()), "c": str(rng.choice(["x", "y"]))}
        if params["c"] == "x":
            params["d"] = float(rng.random())
        value = 3 * np.log10(params["a"]) + params["b"]
        curve = {1: value, 3: value + 0.5} if number % 3 else {1: value}
        state = "complete" if number % 3 else "pruned"
        made.append(TrialRecord(number, state, curve[max(curve)], max(curve), 0.1, params, "", curve))
    return made


SPACE = {
    "a": Number(0.01, 1.0, log=True),
    "b": Number(0.0, 1.0),
    "c": Choice(("x", "y")),
    "d": Number(0.0, 1.0, when=When("c", ("x",))),
}


def test_importance_ranks_what_matters_as_optuna_s_fanova_does():
    told = importances(records(), SPACE)
    assert list(told.shares)[:2] == ["a", "b"]
    assert sum(told.shares.values()) == pytest.approx(1)
    assert told.shares["c"] + told.shares["d"] < 0.05
    assert (told.epoch, told.trials) == (3, 53)
    study = optuna.create_study(direction="maximize")
    kinds = {
        "a": optuna.distributions.FloatDistribution(0.01, 1, log=True),
        "b": optuna.distributions.FloatDistribution(0, 1),
        "c": optuna.distributions.CategoricalDistribution(["x", "y"]),
    }
    for each in records():
        params = {name: each.params[name] for name in kinds}
        study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=each.curve[1]))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    assert list(optuna.importance.get_param_importances(study, evaluator=evaluator)) == ["a", "b", "c"]


def test_too_few_trials_or_equal_ones_say_nothing():
    assert importances(records(5), SPACE) is None
    flat = [TrialRecord(i, "complete", 1.0, 1, 0.1, {"b": i / 20}, "", {1: 1.0}) for i in range(20)]
    assert importances(flat, {"b": SPACE["b"]}) is None
    assert importances(records(), {"c": Choice(("x",))}) is None


def test_positions_lie_between_the_ends():
    assert position(SPACE["a"], 0.01) == 0
    assert position(SPACE["a"], 1.0) == 1
    assert position(SPACE["a"], None) < 0
    assert position(Choice((1,)), 2) < 0


def test_pictures_are_well_formed_and_show_every_trial():
    made = [*records(30), TrialRecord(30, "failed", float("nan"), 0, 0.1, {"a": 0.1}, 'no "memory" <here>', {})]
    history = ET.fromstring(history_chart(made))
    assert len(history.findall("circle")) == 30
    assert [path.get("data-trial") for path in history.findall("path")] == ["30"]
    assert history.find("path/title").text == 'trial 30 failed: no "memory" <here>'
    lines = ET.fromstring(coordinates_chart(made, SPACE, list(SPACE)))
    groups = lines.findall("g")
    assert len(groups) == 30
    # The line of a trial without d is in two pieces: before it, and what is left is one point, which is no line.
    by_trial = {int(g.get("data-trial")): g for g in groups}
    for each in made[:30]:
        points = [len(p.get("points").split()) for p in by_trial[each.number].findall("polyline")]
        assert points == ([5] if "d" in each.params else [3])
    winner = next(g for g in groups if "winner" in g.get("class"))
    best = max(made[:30], key=lambda each: (each.epochs, each.value))
    assert int(winner.get("data-trial")) == best.number
    bars = ET.fromstring(importance_chart(importances(records(), SPACE))).findall("rect")
    widths = [float(bar.get("width")) for bar in bars]
    assert widths == sorted(widths, reverse=True)


def test_the_best_line_of_the_history_only_rises():
    chart = ET.fromstring(history_chart(records(40)))
    points = [tuple(map(float, p.split(","))) for p in chart.find("polyline").get("points").split()]
    heights = [-y for _, y in points]
    assert heights == sorted(heights)


def test_the_page_is_one_file_with_everything():
    found = run_search(Cliff(), trials=25)
    page = render_page(found, 'propml tune "x" <y>')
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert "@import" not in page
    assert "propml tune &#34;x&#34; &lt;y&gt;" in page
    for word in ("History", "Importance", "Parallel coordinates", "What failed", "no number to compare"):
        assert word in page
    assert page.count("<tr data-trial=") == 25

    class Balanced(HTMLParser):
        open, seen = [], []

        def handle_starttag(self, tag, attrs):
            if tag not in ("meta", "link", "line", "circle", "rect", "path", "polyline"):
                self.open.append(tag)

        def handle_endtag(self, tag):
            if tag in ("circle", "path", "polyline", "line", "rect"):
                return
            assert self.open.pop() == tag

    parser = Balanced()
    parser.feed(page)
    assert parser.open == []


def test_the_page_says_whose_labels_were_looked_at(tmp_path):
    found = run_search(Hill(), trials=2)
    assert "no true label was looked at" in render_page(found)
    found.facts["objective"] = "oracle"
    assert "TRUE labels" in render_page(found)
