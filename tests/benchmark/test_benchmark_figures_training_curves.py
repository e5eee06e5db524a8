"""Training curves: means over the networks of a λ, epoch by epoch."""

import numpy as np
import pytest
from figure_facts import all_inside

from propml.benchmark.figures import training_curve_data, training_curves

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
