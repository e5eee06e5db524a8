"""Facts about ProPMLClassifier beyond the contract of all methods."""

import json
import struct
import warnings

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from scipy.special import expit
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import propml
from propml import ProPMLClassifier
from propml.corruption import svm_confusions
from propml.datasets import digits_mosaic
from propml.losses import propml_loss
from propml.metrics import average_precision, hamming_loss
from propml.neural import fitting
from propml.neural.encoding import FeatureScaler
from propml.neural.judgement import HALF_WAY, candidate_sigmoid, middle_threshold

QUICK = {"hidden": (32,), "cv": 3, "epochs": 20, "random_state": 0}


@pytest.fixture(scope="module")
def mosaic():
    train, test = digits_mosaic(400, split="train"), digits_mosaic(200, 1, split="test")
    return train.X, svm_confusions(train.X, train.truth, 1.0), test.X, test.truth


@pytest.fixture(scope="module")
def model(mosaic):
    return ProPMLClassifier(**QUICK).fit(mosaic[0], mosaic[1])


def test_everything_was_chosen_and_is_told(model):
    assert set(model.shares_) == {"ProPML", "ranking", "forest", "linear"}
    assert sum(model.shares_.values()) == pytest.approx(1)
    assert set(model.lam_) == {"ProPML", "ranking"}
    assert model.noise_rates_.shape == (10,)
    assert ((model.noise_rates_ > 0) & (model.noise_rates_ < 1)).all()
    history, ranking = model.history_
    assert ranking["settings"] == [{"lam": 1.0}]
    epochs, folds, seeds, settings = history["criterion"].shape
    assert (folds, seeds, settings) == (3, 1, 1)
    assert epochs <= 20
    assert history["loss"].shape == history["criterion"].shape
    assert np.nanmin(history["loss"]) < np.nanmean(history["loss"][0])


def test_a_named_loss_is_one_network_whose_lambda_is_chosen(mosaic):
    model = ProPMLClassifier("propml", **QUICK).fit(mosaic[0], mosaic[1])
    assert model.shares_ == {"network": 1.0}
    assert not model.noise_rates_.any()
    (history,) = model.history_
    assert model.lam_["network"] in {setting["lam"] for setting in history["settings"]}
    assert len(history["settings"]) == 3


def test_effort_is_one_knob_for_time(mosaic, monkeypatch):
    monkeypatch.setattr("propml.neural.fitting.chosen_weights", lambda members, *_: [1 / len(members)] * len(members))
    X, candidates = mosaic[0][:60], mosaic[1][:60]
    best = ProPMLClassifier(hidden=(8,), cv=2, epochs=2, effort="best", random_state=0).fit(X, candidates)
    assert best.history_[0]["criterion"].shape[1:] == (2, 4, 3)  # folds, networks, λ
    assert next(len(member["roots"]) for member in best.ensemble_["members"] if "roots" in member) == 400
    fast = ProPMLClassifier(hidden=(8,), cv=2, epochs=2, effort="fast", random_state=0).fit(X, candidates)
    assert next(len(member["roots"]) for member in fast.ensemble_["members"] if "roots" in member) == 50


@pytest.mark.parametrize("argument", [{"effort": ["fast"]}, {"effort": "none"}, {"bins": [8]}, {"bins": 10**12}])
def test_a_fitted_model_predicts_whatever_its_arguments_have_become(argument, mosaic):
    """A forged file may hold any arguments."""
    X, candidates = mosaic[0][:60], mosaic[1][:60]
    model = ProPMLClassifier(hidden=(8,), cv=2, epochs=2, random_state=0).fit(X, candidates)
    before = model.predict_proba(X)
    for name, value in argument.items():
        setattr(model, name, value)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_labels_that_are_proposed_at_different_rates_are_told_apart():
    # Label 0 is true in a tenth of the rows and proposed in 60 % of the others; label 1 is never proposed falsely.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    truth = X[:, :2] > 1.2
    candidates = truth.copy()
    candidates[:, 0] |= rng.random(600) < 0.6
    settings = {"hidden": (16,), "epochs": 40, "random_state": 0}
    model = ProPMLClassifier(**settings).fit(X, candidates.astype(int))
    assert model.noise_rates_[0] > 0.2 > 0.05 > model.noise_rates_[1]
    plain = ProPMLClassifier(**settings, noise=False).fit(X, candidates.astype(int))
    negative = ~truth.any(axis=1)
    true, proposed = (expit(m.decision_function(X) + m.threshold_) for m in (model, plain))
    assert true[negative, 0].mean() < proposed[negative, 0].mean() - 0.1
    assert true[truth[:, 0], 0].mean() > proposed[truth[:, 0], 0].mean() - 0.03


def test_missing_values_are_a_value_of_their_own():
    # Whether the first column is missing is all that there is to learn.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X[rng.random(300) < 0.4, 0] = np.nan
    truth = np.column_stack([np.isnan(X[:, 0]), ~np.isnan(X[:, 0])]).astype(int)
    model = ProPMLClassifier(hidden=(16,), epochs=30, random_state=0).fit(X, truth)
    assert (model.predict(X) == truth).mean() > 0.95
    with pytest.raises(ValueError, match="infinity"):
        model.predict(np.full((1, 3), np.inf))


def test_a_linear_model_starts_where_the_labels_are():
    # Frequent labels, weak features: a linear network must at least know which labels are frequent.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    share = np.linspace(0.02, 0.9, 30)
    S = (rng.random((300, 30)) < share).astype(int)
    S[:, -1] = 1
    for loss in ("propml", "bce"):
        model = ProPMLClassifier(loss, lam=1.0, hidden=(), bins=0, epochs=2, random_state=0).fit(X, S)
        mean = model.decision_function(X).mean(axis=0)
        assert np.corrcoef(mean, share)[0, 1] > 0.8


def test_thresholds_are_good_for_what_they_say(mosaic):
    X, candidates, X_test, truth = mosaic
    settings = {"hidden": (64,), "epochs": 40, "random_state": 0}
    f1, hamming, both = (
        ProPMLClassifier(**settings, threshold=cut).fit(X, candidates) for cut in ("f1", "hamming", "auto")
    )
    labels = (f1.fit_held_out_logits(X, candidates) > 0).sum(axis=1).mean()
    share = labels / (labels + HALF_WAY)
    np.testing.assert_allclose(both.threshold_, share * f1.threshold_ + (1 - share) * hamming.threshold_, rtol=1e-6)

    def of1(model):
        predicted = model.predict(X_test)
        return 2 * (predicted * truth).sum() / (predicted.sum() + truth.sum())

    scores = f1.decision_function(X_test)
    best = max(
        2 * ((scores > cut) * truth).sum() / ((scores > cut).sum() + truth.sum())
        for cut in np.quantile(scores, np.linspace(0, 0.99, 100))
    )
    assert of1(f1) > best - 0.05
    assert hamming_loss(truth, hamming.predict(X_test)) <= hamming_loss(truth, f1.predict(X_test))


@pytest.mark.parametrize("noise", [True, False])
def test_ensemble_weights_know_of_noise_where_it_is_taken_away(noise, mosaic, monkeypatch):
    X, candidates, _, _ = mosaic
    choose, given = fitting.chosen_weights, []

    def recorded(members, states, criterion, weight, plausible):
        given.append(plausible)
        return choose(members, states, criterion, weight, plausible)

    monkeypatch.setattr(fitting, "chosen_weights", recorded)
    ProPMLClassifier(hidden=(16,), epochs=5, random_state=0, noise=noise).fit(X, candidates)
    assert [plausible is not None for plausible in given] == [noise]
    assert not noise or (given[0].shape == candidates.shape and (given[0] <= 1).all())


@pytest.mark.parametrize("loss", ["propml", "bce", "asl", "propall", "power", "rank"])
def test_every_loss_learns(loss, mosaic):
    X, candidates, X_test, truth = mosaic
    lam = 1.0 if loss == "propall" else 0.1  # ProPaLL has no λ
    model = ProPMLClassifier(loss, lam=lam, cv=None, hidden=(64,), epochs=40, random_state=0)
    scores = model.fit(X, candidates).decision_function(X_test)
    assert average_precision(truth, scores) > 0.6  # random scores: 0.45


def test_a_function_of_ones_own_is_a_loss(mosaic):
    def mine(logits, candidates, *, lam):
        return propml_loss(logits, candidates, lam=lam)

    X, candidates, X_test, _ = mosaic
    settings = {**QUICK, "lam": 0.1}
    ours = ProPMLClassifier("propml", **settings).fit(X, candidates).decision_function(X_test)
    theirs = ProPMLClassifier(mine, **settings).fit(X, candidates)
    np.testing.assert_allclose(theirs.decision_function(X_test), ours)
    with pytest.raises(ValueError, match="loss is a function, which cannot be saved"):
        theirs.save("nowhere.safetensors")


def test_the_papers_network_is_plain(mosaic):
    X, candidates, X_test, _ = mosaic
    paper = ProPMLClassifier(
        "propml", lam=0.1, hidden=(16, 16), dropout=0.0, ema=0.0, cv=None, epochs=3, random_state=0
    ).fit(X, candidates)
    assert paper.lam_ == {"network": 0.1}
    assert paper.threshold_ == 0.0
    assert paper.shares_ == {"network": 1.0}
    logits = paper.to_torch()(torch.as_tensor(X_test, dtype=torch.float32))
    np.testing.assert_allclose(logits.detach(), paper.decision_function(X_test), atol=1e-4)


def test_predictions_cut_where_a_threshold_that_knows_the_truth_would(mosaic):
    X, candidates, X_test, truth = mosaic
    model = ProPMLClassifier(hidden=(128,), epochs=60, threshold="hamming", random_state=0).fit(X, candidates)
    scores = model.decision_function(X_test)
    best = min(
        hamming_loss(truth, (scores > cut).astype(int)) for cut in np.quantile(scores, np.linspace(0.2, 0.99, 80))
    )
    at_candidates = hamming_loss(truth, (scores > np.quantile(scores, 1 - candidates.sizes().mean() / 10)).astype(int))
    ours = hamming_loss(truth, model.predict(X_test))
    assert ours < best + 0.05
    assert ours < at_candidates


def test_more_models_are_averaged(mosaic):
    X, candidates, _X_test, _ = mosaic
    model = ProPMLClassifier(**QUICK, n_models=2).fit(X, candidates)
    assert model.history_[0]["loss"].shape[2] == 2
    assert len(model.ensemble_["members"][0]["weights"][0]) == 6  # 3 folds × 2 seeds


def test_seeds(mosaic, model):
    X, candidates, X_test, _ = mosaic
    other = ProPMLClassifier(**{**QUICK, "random_state": 1}).fit(X, candidates)
    assert not np.allclose(other.decision_function(X_test), model.decision_function(X_test))
    state = np.random.RandomState(0)
    drawn = ProPMLClassifier(**{**QUICK, "random_state": state, "epochs": 2}).fit(X, candidates)
    again = ProPMLClassifier(**{**QUICK, "random_state": state, "epochs": 2}).fit(X, candidates)
    assert not np.allclose(drawn.decision_function(X_test), again.decision_function(X_test))


def test_a_warm_start_goes_on(mosaic):
    X, candidates, _, _ = mosaic
    model = ProPMLClassifier(**{**QUICK, "epochs": 5}, warm_start=True).fit(X, candidates)
    lams, before = dict(model.lam_), model.history_
    model.fit(X, candidates)
    assert model.lam_ == lams
    for old, new in zip(before, model.history_, strict=True):
        for number, setting in enumerate(new["settings"]):
            same = old["settings"].index(setting)
            assert new["loss"][0, ..., number].mean() < old["loss"][0, ..., same].mean()
    fresh = ProPMLClassifier(**{**QUICK, "epochs": 5}).fit(X, candidates)
    np.testing.assert_allclose(fresh.history_[0]["loss"], before[0]["loss"])


def test_weights_scale_the_loss_of_their_rows():
    # Two groups disagree about the same features; the heavier one is believed.
    X = np.tile(np.eye(2), (60, 1))
    S = np.zeros((120, 2), int)
    S[:60] = np.tile(np.eye(2, dtype=int), (30, 1))
    S[60:] = 1 - S[:60]
    for heavy in (slice(0, 60), slice(60, 120)):
        weight = np.full(120, 0.02)
        weight[heavy] = 1.0
        model = ProPMLClassifier(**{**QUICK, "epochs": 60}, batch_size=16).fit(X, S, sample_weight=weight)
        scores = model.decision_function(X[:2])
        believed = S[heavy][:2].astype(bool)
        assert (scores[believed] > scores[~believed]).all()
    with pytest.raises(ValueError, match="at least one non-zero"):
        ProPMLClassifier(**QUICK).fit(X, S, sample_weight=np.zeros(120))
    with pytest.raises(ValueError, match="Negative values"):
        ProPMLClassifier(**QUICK).fit(X, S, sample_weight=-np.ones(120))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_of_weight_0_is_as_good_as_not_there(sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    S = (X[:, :4] + rng.normal(size=(120, 4)) > 0.3).astype(int)
    S[S.sum(axis=1) == 0, 0] = 1
    wild, odd, weight = np.full((80, 5), 2.5), np.tile([1, 1, 1, 0], (80, 1)), np.r_[np.zeros(80), np.full(120, 0.3)]
    rows = sp.csr_array if sparse else np.asarray
    order = rng.permutation(200)
    mixed, marks, weight = np.vstack([wild, X])[order], np.vstack([odd, S])[order], weight[order]
    places = np.flatnonzero(weight)
    model = ProPMLClassifier(**{**QUICK, "epochs": 5})
    held = model.fit_held_out_logits(rows(mixed), marks, sample_weight=weight)
    alone = ProPMLClassifier(**{**QUICK, "epochs": 5}).fit(rows(mixed[places]), marks[places])
    np.testing.assert_allclose(model.decision_function(rows(X)), alone.decision_function(rows(X)), atol=1e-4)
    assert model.lam_ == alone.lam_
    assert np.isfinite(held[places]).all()
    assert np.isnan(np.delete(held, places, axis=0)).all()


def test_pairs_of_rows_are_numbers_of_all_rows_where_some_weigh_nothing(mosaic):
    X, candidates, _, _ = mosaic
    X, candidates, weight = X[:60], candidates[:60], np.ones(60)
    weight[::4] = 0
    pairs = [(np.setdiff1d(np.arange(60), part), part) for part in np.array_split(np.arange(60), 3)]
    held = ProPMLClassifier(**{**QUICK, "cv": pairs, "epochs": 2}).fit_held_out_logits(
        X, candidates, sample_weight=weight
    )
    assert np.array_equal(np.isfinite(held[:, 0]), weight > 0)


def test_weights_that_leave_nothing_to_learn_are_told():
    X, S = np.random.default_rng(0).normal(size=(40, 3)), np.tile([1, 0], (40, 1))
    S[:20] = 0
    weight = np.repeat([1.0, 0.0], 20)
    with pytest.raises(ValueError, match="no row has a candidate label"):
        ProPMLClassifier(**QUICK).fit(X, S, sample_weight=weight)
    halves = [(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]
    with pytest.raises(ValueError, match="all train rows of entry 1 of cv have sample_weight 0"):
        ProPMLClassifier(**{**QUICK, "cv": halves}).fit(X, 1 - S, sample_weight=weight)


def test_a_constant_feature_of_many_rows_says_nothing():
    X = np.c_[np.full(100_000, 0.1), np.arange(100_000) % 7.0]
    scaler = FeatureScaler(2).fit(X)
    assert scaler.scale[0] == 0
    assert scaler.scale[1] > 0


def test_the_exported_module_takes_whole_numbers(model, mosaic):
    rows = mosaic[2][:5].round().astype(int)
    whole = model.to_torch()(torch.as_tensor(rows))
    torch.testing.assert_close(whole, model.to_torch()(torch.as_tensor(rows, dtype=torch.float32)))


def test_heavy_rows_set_the_threshold():
    scores = np.array([[2.0, 0.0], [12.0, 10.0]])
    states = np.array([[1, 0], [1, 0]])
    assert middle_threshold(scores, states) == 6.0
    assert middle_threshold(scores, states, np.array([1.9, 0.1])) == pytest.approx(1.5)
    z, y = np.random.default_rng(0).normal(size=(50, 2)), np.random.default_rng(1).integers(0, 2, (50, 2))
    twice = candidate_sigmoid(np.vstack([z, z[:10]]), np.vstack([y, y[:10]]))
    weighted = candidate_sigmoid(z, y, np.r_[np.full(10, 2.0), np.ones(40)])
    assert weighted == pytest.approx(twice, abs=1e-4)


@pytest.mark.parametrize("offset", [1e8, -1.7e9])
def test_features_far_from_zero_keep_what_they_say(offset):
    Z = np.random.default_rng(0).normal(size=(150, 4))
    S = (Z > 0).astype(int)
    S[S.sum(axis=1) == 0, 0] = 1
    near = ProPMLClassifier(**{**QUICK, "epochs": 5})
    far = ProPMLClassifier(**{**QUICK, "epochs": 5})
    held, held_far = near.fit_held_out_logits(Z, S), far.fit_held_out_logits(offset + Z, S)
    np.testing.assert_allclose(held_far, held, atol=1e-3)
    np.testing.assert_allclose(far.decision_function(offset + Z), near.decision_function(Z), atol=1e-3)


def test_unknown_entries_teach_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    S = (X > 0).astype(int)
    S[:, 0] = np.where(rng.random(200) < 0.5, -1, S[:, 0])
    S[S.max(axis=1) <= 0, 2] = 1
    model = ProPMLClassifier(**{**QUICK, "epochs": 60}).fit(X, S)
    scores = model.decision_function(X)
    assert np.corrcoef(scores[:, 0], X[:, 0])[0, 1] > 0.75


# --- inside scikit-learn ---------------------------------------------------------------------------------------------


def test_in_a_pipeline_a_search_and_cross_validation(mosaic):
    X, candidates, _, _ = mosaic
    y = candidates.to_matrix(int)
    quick = ProPMLClassifier("propml", hidden=(16,), cv=2, epochs=3, random_state=0)
    pipeline = make_pipeline(StandardScaler(), quick)
    chances = cross_val_predict(pipeline, X, y, cv=3, method="predict_proba")
    assert chances.shape == (400, 10)
    search = GridSearchCV(quick, {"lam": [0.05, 0.5]}, cv=2, scoring="roc_auc").fit(X, y)
    assert search.best_params_["lam"] in (0.05, 0.5)


def test_sample_weight_is_routed(mosaic):
    X, candidates, _, _ = mosaic
    with config_context(enable_metadata_routing=True):
        quick = ProPMLClassifier(**{**QUICK, "epochs": 2}).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, quick)
        pipeline.fit(X, candidates.to_matrix(int), sample_weight=np.ones(400))
    assert pipeline[-1].labels_ == tuple(range(10))


# --- large and strange -----------------------------------------------------------------------------------------------


def test_sparse_features_are_never_densified_as_a_whole(monkeypatch):
    X = sp.random_array((300, 20_000), density=0.002, rng=np.random.default_rng(0), format="csr")
    S = (np.random.default_rng(1).random((300, 4)) < 0.4).astype(int)
    dense = sp.csr_array.toarray

    def guarded(self, *args, **kwargs):
        assert self.shape[0] * self.shape[1] <= 2**24, f"a sparse matrix of shape {self.shape} was made dense"
        return dense(self, *args, **kwargs)

    monkeypatch.setattr(sp.csr_array, "toarray", guarded)
    model = ProPMLClassifier(hidden=(8,), cv=2, epochs=2, random_state=0).fit(X, S)
    assert model.predict_proba(sp.vstack([X] * 4, format="csr")).shape == (1200, 4)


def test_ten_thousand_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    S = sp.csr_array((np.ones(180, int), (np.repeat(np.arange(60), 3), rng.integers(10_000, size=180))), (60, 10_000))
    S.data[:] = 1
    S = (S > 0).astype(int)
    model = ProPMLClassifier(hidden=(8,), cv=2, epochs=2, lam=0.001, random_state=0).fit(X, S)
    assert model.predict_proba(X[:3]).shape == (3, 10_000)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_rows(n):
    X = np.arange(2.0 * n).reshape(n, 2)
    S = np.tile([[1, 0, 1]], (n, 1))
    model = ProPMLClassifier(epochs=5, random_state=0).fit(X, S)
    assert model.predict_proba(X).shape == (n, 3)


# --- saved, exported -------------------------------------------------------------------------------------------------


def test_a_damaged_file_is_refused(model, tmp_path):
    path = tmp_path / "model.safetensors"
    model.save(path)
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"]["kind"] = "RidgeRegressionClassifier"
    forged = json.dumps(header).encode()
    flipped = bytearray(data)
    flipped[-100] ^= 1
    other_kind = struct.pack("<Q", len(forged)) + forged + data[8 + length :]
    for damaged in (data[: len(data) // 2], data[:20], b"", bytes(flipped), other_kind):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"not a readable saved model|checksum"):
            propml.load(path)
    with pytest.raises(FileNotFoundError, match="no saved model at"):
        propml.load(tmp_path / "nowhere")


def test_a_file_of_another_kind_or_a_newer_version_is_told(model, tmp_path, monkeypatch):
    from propml.methods.ridge import RidgeRegressionClassifier

    path = tmp_path / "model.safetensors"
    model.save(path)
    with pytest.raises(ValueError, match="holds a ProPMLClassifier, not a RidgeRegressionClassifier"):
        RidgeRegressionClassifier.load(path)
    monkeypatch.setattr("propml.persistence.FORMAT", 99)
    model.save(path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="format 99"):
        propml.load(path)


def test_a_failed_save_leaves_the_old_file(model, tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    path.write_text("old")

    def full(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr("propml.atomic_files.os.replace", full)
    with pytest.raises(OSError, match="no space"):
        model.save(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_onnx_gives_the_same_probabilities(model, mosaic, tmp_path):
    X = mosaic[2].astype(np.float32)
    model.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for rows in (1, 7, 200):
        logits, chances = session.run(["logits", "probabilities"], {"X": X[:rows]})
        np.testing.assert_allclose(logits, model.decision_function(X[:rows]), atol=2e-4)
        np.testing.assert_allclose(chances, model.predict_proba(X[:rows]), atol=1e-4)


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"loss": "hinge"}, "loss is 'hinge'; choose one of propml"),
        ({"lam": -1}, "lam is -1"),
        ({"lam": "best"}, "lam is 'best'"),
        ({"loss": "propml", "cv": None}, 'lam="auto" needs held-out rows'),
        ({"cv": 1}, "cv is 1"),
        ({"epochs": 0}, "epochs is 0"),
        ({"epochs": 2.5}, "epochs is 2.5"),
        ({"n_models": 0}, "n_models is 0"),
        ({"batch_size": -3}, "batch_size is -3"),
        ({"threshold": 2.0}, "threshold is 2.0"),
        ({"criterion": "accuracy"}, "criterion is 'accuracy'"),
        ({"dropout": 1.5}, "dropout is 1.5"),
    ],
)
def test_bad_settings_are_told(settings, told):
    with pytest.raises(ValueError, match=told):
        ProPMLClassifier(**settings).fit(np.random.default_rng(0).normal(size=(20, 2)), np.tile([[1, 0]], (20, 1)))


def test_a_threshold_of_ones_own(mosaic, model):
    X, candidates, X_test, _ = mosaic
    strict = ProPMLClassifier(**QUICK, threshold=0.9).fit(X, candidates)
    np.testing.assert_array_equal(strict.predict(X_test), model.predict_proba(X_test) > 0.9)


@pytest.mark.slow
def test_the_default_settings_pass_scikit_learns_checks():
    from sklearn.utils.estimator_checks import check_estimator

    expected = {f"check_sample_weight_equivalence_on_{kind}_data": "see the contract" for kind in ("dense", "sparse")}
    for result in check_estimator(
        ProPMLClassifier(random_state=0), expected_failed_checks=expected, on_skip=None, on_fail=None
    ):
        assert result["status"] in ("passed", "skipped", "xfail"), (result["check_name"], result["exception"])


# --- arguments that mean nothing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"forest": "no"}, "forest is 'no'; give True, False, or \"auto\""),
        ({"noise": "yes"}, "noise is 'yes'; give True, False, or \"auto\""),
        ({"effort": "most"}, "effort is 'most'; choose one of fast, auto, best"),
        ({"bins": -1}, "bins is -1; give a whole number of at least 1"),
        ({"threshold": "F1"}, "threshold is 'F1'; give a probability between 0 and 1"),
        ({"loss": "power", "order": -1}, "order is -1; give a number of at least 0"),
        ({"lam": [0.1, 0.2]}, r"lam is \[0.1, 0.2\]; give a number of at least 0"),
        ({"threshold": [0.5]}, r"threshold is \[0.5\]; give a probability between 0 and 1"),
        ({"threshold": 1.0}, "threshold is 1.0; give a probability between 0 and 1"),
        ({"hidden": 8}, "hidden is 8; give the widths of the layers"),
        ({"hidden": "big"}, "hidden is 'big'; give the widths of the layers"),
        ({"hidden": (8, 0)}, "a width in hidden is 0; give a whole number of at least 1"),
        ({"cv": "abc"}, "cv is 'abc'; give at least 2 folds"),
        ({"cv": 1}, "cv is 1; give at least 2 folds"),
        ({"cv": []}, "cv holds no"),
        (
            {"cv": [([0, 1], [99])]},
            "the held-out rows of entry 0 of cv are array.*; give row numbers from 0 to 19",
        ),
        ({"cv": [([0, 1, 2], [2, 3])]}, "entry 0 of cv trains on rows that it holds out, such as 2"),
        ({"cv": [([0, 1], [])]}, "the held-out rows of entry 0 of cv are"),
        ({"learning_rate": float("inf")}, "learning_rate is inf; it must be positive and finite"),
        ({"weight_decay": -1}, "weight_decay is -1; give a number of at least 0"),
    ],
)
def test_what_makes_no_sense_is_told(arguments, told):
    X, S = np.random.default_rng(0).normal(size=(20, 3)), np.tile([1, 0], (20, 1))
    with pytest.raises(ValueError, match=told):
        ProPMLClassifier(**arguments).fit(X, S)


def test_without_held_out_rows_there_are_networks_and_nothing_else(mosaic):
    X, candidates, _, _ = mosaic
    model = ProPMLClassifier(cv=None, lam=0.3, hidden=(8,), epochs=2, random_state=0).fit(X[:50], candidates[:50])
    assert model.shares_ == {"ProPML": 0.5, "ranking": 0.5}
    ranking = ProPMLClassifier("rank", cv=None, hidden=(8,), epochs=2, random_state=0).fit(X[:50], candidates[:50])
    assert ranking.shares_ == {"network": 1.0}


def test_a_warm_start_keeps_to_what_is_given(mosaic):
    X, candidates, _, _ = mosaic
    X, candidates = X[:60], candidates[:60]
    model = ProPMLClassifier(**{**QUICK, "epochs": 2}, warm_start=True).fit(X, candidates)
    model.set_params(lam=0.9).fit(X, candidates)
    assert model.lam_["ProPML"] == 0.9
    for changed in ({"hidden": (5,)}, {"loss": "propml"}):
        with pytest.raises(ValueError, match="warm_start goes on from the networks of the last fit"):
            model.set_params(**changed).fit(X, candidates)
    with pytest.raises(ValueError, match="give the same layers, features and labels"):
        model.set_params(loss="auto", hidden=QUICK["hidden"]).fit(X[:, 1:], candidates)


def test_a_table_of_pandas_gives_no_warning(mosaic):
    X, candidates, _, _ = mosaic
    model = ProPMLClassifier(**{**QUICK, "epochs": 2}).fit(pd.DataFrame(X), candidates)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(pd.DataFrame(X))


def test_a_numpy_seed_is_saved(mosaic, tmp_path):
    X, candidates, _, _ = mosaic
    model = ProPMLClassifier(**{**QUICK, "epochs": 2, "random_state": np.int64(3)}).fit(X[:40], candidates[:40])
    model.save(tmp_path / "model.safetensors")
    assert propml.load(tmp_path / "model.safetensors").random_state == 3
