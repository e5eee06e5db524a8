"""Scores against noise: the paper's plot from its own coordinates, and ours beside published numbers."""

import numpy as np
import pytest
from figure_facts import all_inside, measured_like

from propml.benchmark.figures import noise_curve_data, noise_curves, training_curve_data, training_curves
from propml.noise import Noise
from propml.paper import load_published


def test_noise_rows_hold_every_published_number_and_every_mean_of_ours():
    published = load_published("artificial")
    rows = noise_curve_data([*published, *measured_like(published)])
    assert len(rows) == 2 * 5 * 3 * 6
    # Table II: Birds at 50 %, ProPML
    ours, printed = (row for row in rows if row[1:4] == ("birds", Noise("svm", 0.5), "ProPML"))
    assert printed in published
    assert ours.mean == pytest.approx(printed.mean - 1)
    assert ours.std == pytest.approx(0.5)
    levels = [row.noise.level for row in rows if (row.dataset, row.method, row.n) == ("birds", "ProPML", 2)]
    assert levels == [0.5, 1.0, 1.5]


def test_datasets_with_one_noise_level_or_real_candidates_are_left_out():
    published = [row for row in load_published() if row.noise in (Noise("svm", 0.5), None)]
    assert not noise_curve_data(published)


def test_the_papers_figure_of_voc2007():
    published = [row for row in load_published("vision") if row.dataset == "voc2007"]
    top_five = ["BCE", "ASL", "Query2Label", "CDCR", "ProPML"]
    figure, (axis,) = noise_curves(published, "mAP", methods=top_five)
    drawn = {line.get_label(): [tuple(xy) for xy in line.get_xydata()] for line in axis.lines}
    # the coordinates of the paper's plot
    assert drawn == {
        "published: BCE": [(0.1, 84.04), (0.2, 80.43), (0.4, 71.35)],
        "published: ASL": [(0.1, 86.62), (0.2, 83.89), (0.4, 74.99)],
        "published: Query2Label": [(0.1, 87.14), (0.2, 84.81), (0.4, 79.90)],
        "published: CDCR": [(0.1, 90.12), (0.2, 88.94), (0.4, 86.15)],
        "published: ProPML": [(0.1, 89.43), (0.2, 88.96), (0.4, 86.82)],
    }
    assert [text.get_text() for text in axis.get_xticklabels()] == ["0.1", "0.2", "0.4"]
    assert {line.get_linestyle() for line in axis.lines} == {"-"}
    assert all_inside(figure)


def test_ours_are_solid_and_published_numbers_dashed():
    published = load_published("artificial")
    figure, axes = noise_curves([*measured_like(published), *published], columns=3)
    assert len(axes) == 5
    for axis in axes:
        styles = {line.get_label(): line.get_linestyle() for line in axis.lines}
        assert len(styles) == 12
        assert all(style == ("-" if name.startswith("ours") else "--") for name, style in styles.items())
        colors = {name.split(": ")[1]: set() for name in styles}
        for line in axis.lines:
            colors[line.get_label().split(": ")[1]].add(line.get_color())
        assert all(len(color) == 1 for color in colors.values())
    assert all_inside(figure)


def test_metrics_with_the_papers_conventions_stand_beside_published_ones():
    published = load_published("artificial")
    results = [row._replace(metric=f"{row.metric}:paper") for row in measured_like(published)]
    rows = noise_curve_data([*results, *published], "coverage:paper", methods=["ProPML"])
    assert {(row.n, row.metric) for row in rows} == {(2, "coverage:paper"), (0, "coverage")}


# -- training: means over the networks of a λ, epoch by epoch ---------------------------------------------------------


LAMS = (0.01, 0.1, 1.0)


def history(n_epochs=8, n_folds=3, lams=LAMS, orders=(None,)):
    rng = np.random.default_rng(0)
    settings = [{"lam": lam} if order is None else {"lam": lam, "order": order} for order in orders for lam in lams]
    shape = (n_epochs, n_folds, 1, len(settings))
    return {"settings": settings, "criterion": rng.random(shape), "loss": rng.random(shape)}


def test_training_rows_are_means_over_folds_of_epochs_that_all_have():
    part = history()
    part["criterion"][2] = np.nan
    part["criterion"][5:, 1, 0, 0] = np.nan
    rows = training_curve_data([part])
    of = {lam: [row for row in rows if row.lam == lam] for lam in LAMS}
    assert [row.epoch for row in of[0.01]] == [1, 2, 4, 5]
    assert [row.epoch for row in of[1.0]] == [1, 2, 4, 5, 6, 7, 8]
    values = [100 * (1 - part["criterion"][3, fold, 0, 1]) for fold in range(3)]
    row = of[0.1][2]
    assert (row.mean, row.std, row.n) == (pytest.approx(sum(values) / 3), pytest.approx(np.std(values)), 3)


def test_the_loss_and_other_criteria_are_drawn_as_recorded():
    part = history()
    assert training_curve_data([part], "loss")[0].mean == pytest.approx(part["loss"][0, :, 0, 0].mean())
    row = training_curve_data([part], criterion="bce")[0]
    assert row.mean == pytest.approx(part["criterion"][0, :, 0, 0].mean())


def test_a_panel_per_network_and_a_line_per_lambda_with_the_chosen_one_set_off():
    parts = [history(orders=(0.5, 1.0)), history(orders=(0.5, 1.0))]
    chosen = {"deep, order 0.5": 0.1, "deep, order 1": 1.0, "wide, order 0.5": 0.01, "wide, order 1": 0.1}
    figure, axes = training_curves(parts, lams=chosen)
    assert [axis.get_title(loc="left") for axis in axes] == list(chosen)
    for axis, lam in zip(axes, chosen.values(), strict=True):
        assert [len(line.get_xydata()) for line in axis.lines] == [8, 8, 8]
        widths = {line.get_label(): line.get_linewidth() for line in axis.lines}
        assert max(widths, key=widths.get) == f"λ = {lam:.2g}, chosen"
    assert all_inside(figure)


def test_networks_without_names_are_numbered():
    _, axes = training_curves([history(), history()], "loss")
    assert [axis.get_title(loc="left") for axis in axes] == ["network 1", "network 2"]
    _, (axis,) = training_curves([history()])
    assert axis.get_title(loc="left") == ""


def test_the_history_of_a_classifier_can_be_drawn():
    from propml.datasets import digits_mosaic
    from propml.methods.propml import ProPMLClassifier

    data = digits_mosaic(80)
    model = ProPMLClassifier(hidden=(8,), epochs=4, cv=2, random_state=0).fit(data.X, data.candidates)
    _, axes = training_curves(model.history_, lams=model.lam_)
    assert [axis.get_title(loc="left") for axis in axes] == list(model.lam_)
    n_settings = sum(len(part["settings"]) for part in model.history_)
    assert sum(len(axis.lines) for axis in axes) == n_settings
    for axis, lam in zip(axes, model.lam_.values(), strict=True):
        chosen = "" if len(axis.lines) == 1 else ", chosen"  # the ranking loss has but one
        assert any(line.get_label() == f"λ = {lam:.2g}{chosen}" for line in axis.lines)


def test_without_folds_there_is_no_criterion():
    part = history()
    part["criterion"][:] = np.nan
    with pytest.raises(ValueError, match="only the loss"):
        training_curves([part])


def test_an_unknown_quantity_is_an_error():
    with pytest.raises(ValueError, match='"criterion" or "loss"'):
        training_curve_data([history()], "accuracy")
