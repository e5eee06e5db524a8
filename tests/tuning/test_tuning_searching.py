"""The search as a whole, on tasks whose values are known and on a small table."""

import math
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import optuna
import pytest
from fake_tasks import Cliff, Hill, Interrupted, Thirsty

from propml.datasets import digits_mosaic
from propml.tuning.result import SearchResult
from propml.tuning.rungs import Rung
from propml.tuning.searching import run_search, search, work
from propml.tuning.spaces import Range
from propml.tuning.tasks import TableData, make_task
from propml.tuning.trials import TrialQueue, best_trial, sort_out

SMALL = {"hidden": [(16,), (8,)], "dropout": 0.5, "input_dropout": 0.0}


@pytest.fixture(scope="module")
def made():
    return digits_mosaic(120)


def test_importing_propml_imports_neither_optuna_nor_ray():
    code = "import sys, propml, propml.tuning, propml.cli; print({'optuna', 'ray', 'sqlalchemy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_it_finds_the_top_of_the_hill_and_better_than_chance():
    found = run_search(Hill(), trials=40)
    assert len(found.trials) == 40
    assert found.params["x"] == pytest.approx(0.3, abs=0.02)
    assert found.value == pytest.approx(1 - (found.params["x"] - 0.3) ** 2)
    assert found.best.state == "complete"
    # Of uniform proposals 20 % would lie that near to the top, and 40 % of 20 in one search of thirty.
    assert np.mean([abs(each.params["x"] - 0.3) < 0.1 for each in found.trials[20:]]) >= 0.4


def test_the_same_seed_gives_the_same_search():
    runs = [[t.params["x"] for t in run_search(Hill(), trials=15, seed=seed).trials] for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


def test_a_trial_goes_on_from_its_checkpoint_in_the_folder_of_the_search(tmp_path):
    task = Hill(epochs=3, log=tmp_path / "log")
    (tmp_path / "trials" / "0").mkdir(parents=True)
    (tmp_path / "trials" / "0" / "epoch.json").write_text("2")
    assert run_search(task, trials=1, folder=tmp_path).best.curve == {3: task.value(task.lines()[0][0], 3)}


def test_single_trials_that_do_badly_stop_within_an_epoch(tmp_path):
    task = Hill(epochs=9, log=tmp_path / "log")
    found = run_search(task, trials=30)
    begun = {}
    for x, epoch, _ in task.lines():
        begun[x] = max(epoch, begun.get(x, 0))
    pruned = [each for each in found.trials if each.state == "pruned"]
    assert len(pruned) > 5
    assert all(begun[each.params["x"]] == each.epochs < 9 for each in pruned)
    assert all(begun[each.params["x"]] == 9 for each in found.trials if each.state == "complete")
    assert min(abs(each.params["x"] - 0.3) for each in found.trials) == abs(found.params["x"] - 0.3)


def test_an_objective_that_is_no_number_fails_its_trial_and_the_search_goes_on():
    found = run_search(Cliff(), trials=20)
    assert len(found.trials) == 20
    bad = found.failures()
    assert bad
    assert all(each.params["x"] > 0.5 and math.isnan(each.value) for each in bad)
    assert {each.why for each in bad} == {"its objective is nan after epoch 1, which is no number to compare"}
    assert all(each.params["x"] <= 0.5 for each in found.trials if each.state == "complete")


def test_memory_that_runs_out_fails_its_trial_and_the_search_goes_on():
    found = run_search(Thirsty(), trials=12)
    assert len(found.trials) == 12
    assert {each.why for each in found.failures()} == {
        "out of memory: leave out the largest networks or batches, or use fewer workers"
    }


def test_where_all_fail_the_first_reason_is_told():
    task = Thirsty()
    task.space = {"x": Hill().space["x"].__class__(0.6, 0.9)}
    with pytest.raises(ValueError, match="all 4 trials failed, so there is no best one; trial 0: out of memory"):
        run_search(task, trials=4)


def test_what_is_under_way_goes_back_when_a_search_is_interrupted(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_search(Interrupted(), trials=6, storage=tmp_path / "s.db")
    found = run_search(Hill(), trials=6, storage=tmp_path / "s.db")
    assert len(found.trials) == 6
    states = [trial.state.name for trial in found.study.trials]
    assert sorted(states) == ["COMPLETE"] * 6 + ["FAIL"]
    lost = next(trial for trial in found.study.trials if trial.state.name == "FAIL")
    again = [trial for trial in found.study.trials if trial.params == lost.params and trial.number != lost.number]
    assert len(again) == 1


def test_a_search_goes_on_to_the_number_of_trials_and_no_further(tmp_path):
    first = run_search(Hill(), trials=5, storage=tmp_path / "s.db")
    assert len(run_search(Hill(), trials=5, storage=tmp_path / "s.db").trials) == 5
    longer = run_search(Hill(), trials=8, storage=tmp_path / "s.db")
    assert [t.params for t in longer.trials[:5]] == [t.params for t in first.trials]
    assert len(longer.trials) == 8


def test_another_task_does_not_get_into_the_same_study(tmp_path):
    run_search(Hill(), trials=2, storage=tmp_path / "s.db")
    with pytest.raises(ValueError, match="made with another epochs: 1, now 3; give the search another name"):
        run_search(Hill(epochs=3), trials=2, storage=tmp_path / "s.db")
    assert len(run_search(Hill(epochs=3), trials=2, storage=tmp_path / "s.db", name="other").trials) == 2


def test_choices_and_scales_stay_within_a_study_and_ends_may_move(tmp_path, made):
    def again(**space):
        search(made.X, made.candidates, "ridge", trials=2, storage=tmp_path / "s.db", space=space)

    again(alpha=(1, 10))
    again(alpha=(1, 20))
    with pytest.raises(ValueError, match=r"another space of alpha: 'numbers, log scale', now '\[1\.0, 2\.0\]'"):
        again(alpha=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"another space of alpha: 'numbers, log scale', now 'numbers'"):
        again(alpha=Range(1, 10))


def test_a_study_without_a_usable_trial_takes_another_space(tmp_path, made):
    def again(trials=3, **space):
        given = {"hidden": [(4,), (8,)], **space}
        return search(made.X, made.candidates, trials=trials, epochs=3, space=given, storage=tmp_path / "s.db")

    with pytest.raises(ValueError, match="all 3 trials failed"):
        again(loss="zzz")
    found = again(hidden=[(4,), (2,)])
    # Numbers name the folders of trials: those of the failed ones are not used again.
    assert [each.number for each in found.trials] == [3, 4, 5]
    assert found.failures() == []
    assert len(again(4, hidden=[(4,), (2,)]).trials) == 4
    with pytest.raises(ValueError, match="another space of loss"):
        again(loss="propml", hidden=[(4,), (2,)])


def test_a_study_that_was_only_begun_is_not_given_up(tmp_path):
    """Its trial was stopped after an epoch that is kept and worth something."""
    queue = TrialQueue(Hill(epochs=3), 2, tmp_path / "s.db")
    with queue.at_work():
        queue.report(queue.ask(), 1, 0.5)
        with pytest.raises(ValueError, match="another epochs"):
            run_search(Hill(epochs=2), trials=2, storage=tmp_path / "s.db")
    with pytest.raises(ValueError, match="another epochs"):
        run_search(Hill(epochs=2), trials=2, storage=tmp_path / "s.db")
    assert len(run_search(Hill(epochs=3), trials=2, storage=tmp_path / "s.db").trials) == 2


def test_the_folds_of_a_study_are_those_of_one_seed(tmp_path, made):
    def again(trials, seed):
        return search(made.X, made.candidates, "ridge", trials=trials, storage=tmp_path / "s.db", seed=seed)

    study = again(2, 0).study
    with pytest.raises(ValueError, match="another seed: 0, now 1"):
        again(4, 1)
    study.set_user_attr("propml", {key: value for key, value in study.user_attrs["propml"].items() if key != "seed"})
    assert len(again(4, 0).trials) == 4
    with pytest.raises(ValueError, match="another folds"):
        search(made.X, made.candidates, "ridge", trials=4, storage=tmp_path / "s.db", cv=4)


def test_a_trial_that_trained_longer_comes_first():
    task = Hill(epochs=3)
    queue = TrialQueue(task, 3)
    short, whole = queue.ask(), queue.ask()
    assert best_trial(queue.study) is None
    queue.report(short, 1, 0.9)
    queue.end(short, "pruned")
    assert best_trial(queue.study).number == 0
    queue.report(whole, 3, 0.5)
    queue.end(whole, "complete")
    assert best_trial(queue.study).number == 1
    assert SearchResult.of(queue.study, task).value == 0.5


def test_the_bar_shows_the_best_so_far(monkeypatch):
    notes = []

    @contextmanager
    def bar(*_, **__):
        yield SimpleNamespace(advance=lambda steps, note: notes.append((steps, note)))

    monkeypatch.setattr("propml.tuning.searching.progress_bar", bar)
    found = run_search(Hill(), trials=3)
    assert sum(steps for steps, _ in notes) == 3
    assert notes[0] == (0, "")
    assert notes[-1][1] == f"best {found.value:.4f} (trial {found.best.number})"


def test_time_ends_a_search_of_single_trials():
    found = run_search(Hill(epochs=50, seconds=0.02), trials=1000, timeout=0.5)
    assert 0 < len(found.trials) < 40
    assert found.trials[-1].epochs < 50


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"trials": 0}, "trials is 0"),
        ({"timeout": 0}, "timeout is 0"),
        ({"workers": 0}, "workers is 0"),
        ({"workers": 2}, "2 workers share a study, which needs a storage"),
    ],
)
def test_bad_arguments_are_told(arguments, words):
    with pytest.raises(ValueError, match=words):
        run_search(Hill(), **arguments)


# -- on a table ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(made):
    return search(made.X, made.candidates, trials=20, epochs=9, space=SMALL)


def test_brackets_of_networks_are_those_of_hyperband(found):
    """9 trials start at epoch 1 and 3 of them go on, 1 to the end; 5 start at 3 and 2 go on; 3 have all epochs."""
    epochs = [each.epochs for each in found.trials]
    assert sorted(epochs[:9]) == [1] * 6 + [3] * 2 + [9]
    assert sorted(epochs[9:14]) == [3] * 3 + [9] * 2
    assert epochs[14:17] == [9] * 3
    for each in found.trials[:9]:
        assert (each.state == "complete") == (each.epochs == 9)
    ranked = sorted(found.trials[:9], key=lambda each: -each.curve[1])
    assert {each.number for each in ranked[:3]} == {each.number for each in found.trials[:9] if each.epochs > 1}


def test_trials_of_a_bracket_share_what_cannot_differ_in_a_stack(found):
    assert len({each.params["hidden"] for each in found.trials[:9]}) == 1
    assert len({each.params["lam"] for each in found.trials[:9]}) == 9


def test_the_best_network_is_the_best_with_the_whole_budget(found):
    whole = [each for each in found.trials if each.epochs == 9]
    assert found.value == max(each.value for each in whole)
    assert found.params["epochs"] == 9
    assert found.params["loss"] == "power"
    assert found.params["forest"] is False


def test_the_winner_can_be_fitted_as_it_is(found, made):
    model = found.estimator(random_state=0).fit(made.X, made.candidates)
    assert model.predict_proba(made.X).shape == (120, 10)
    assert model.lam == found.params["lam"]


def test_true_labels_change_the_search_only_when_they_are_asked_for(made, found):
    truth = np.random.default_rng(0).permutation(made.truth)
    blind = search(made.X, made.candidates, trials=3, epochs=9, space=SMALL, truth=truth)
    assert [t.value for t in blind.trials] == [
        t.value for t in search(made.X, made.candidates, trials=3, epochs=9, space=SMALL).trials
    ]
    oracle = search(made.X, made.candidates, trials=3, epochs=9, space=SMALL, truth=truth, objective="oracle")
    assert [t.value for t in oracle.trials] != [t.value for t in blind.trials]


def test_a_method_without_epochs(made):
    found = search(made.X, made.candidates, "ml-knn", trials=4, space={"k": (3, 9)})
    assert all(3 <= each.params["k"] <= 9 for each in found.trials)
    assert all(each.epochs == 1 for each in found.trials)
    with pytest.raises(ValueError, match="ml-knn has no epochs"):
        search(made.X, made.candidates, "ml-knn", epochs=9)


def test_sparse_features(made):
    import scipy.sparse as sp

    found = search(sp.csr_array(made.X), made.candidates, trials=3, epochs=2, space=SMALL)
    assert len(found.trials) == 3


def test_time_ends_a_bracket_between_two_epochs(made, monkeypatch):
    """The clock jumps past the limit in the middle of the first rung that is longer than an epoch."""
    looked = []

    def is_over(self):
        looked.append(0)
        return len(looked) > 4

    monkeypatch.setattr(TrialQueue, "is_over", is_over)
    found = search(made.X, made.candidates, trials=20, epochs=9, space=SMALL)
    assert found.trials
    assert all(each.state == "pruned" and each.epochs <= 3 for each in found.trials)
    assert not any(trial.state == optuna.trial.TrialState.RUNNING for trial in found.study.trials)
    assert len(found.trials) + len(sort_out(found.study.trials)[1]) <= 20


def test_no_time_at_all_is_told(made, monkeypatch):
    monkeypatch.setattr(TrialQueue, "is_over", lambda self: True)
    with pytest.raises(ValueError, match="no trial came far enough"):
        search(made.X, made.candidates, trials=20, epochs=9, space=SMALL)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"space": {"epochs": 3}}, "epochs is the search's own argument"),
        ({"epochs": 0}, "epochs is 0"),
        ({"method": "rigde"}, "did you mean 'ridge'"),
        ({"space": {"learning_rat": 1}}, "did you mean 'learning_rate'"),
    ],
)
def test_bad_searches_are_told(made, arguments, words):
    with pytest.raises(ValueError, match=words):
        search(made.X, made.candidates, **arguments)


def test_another_criterion_goes_into_the_result(made):
    found = search(made.X, made.candidates, trials=2, epochs=2, space=SMALL, criterion="bce")
    assert found.params["criterion"] == "bce"
    assert found.value < 0


def test_networks_of_a_bad_setting_fail_and_the_bracket_goes_on(made):
    wild = {**SMALL, "learning_rate": Range(1e-3, 1e30, log=True)}
    found = search(made.X, made.candidates, trials=9, epochs=9, space=wild)
    assert 0 < len(found.failures()) < 9
    assert all("training loss is no number" in each.why for each in found.failures())
    with pytest.raises(ValueError, match=r"all 3 trials failed.*dropout is 1\.5; it lies in"):
        search(made.X, made.candidates, trials=3, epochs=9, space={**SMALL, "dropout": 1.5})


def test_a_trial_on_its_last_try_trains_by_itself(made, monkeypatch):
    """Two workers died with it; whoever trains beside it would be taken along by a third death."""
    task = make_task("propml", TableData(made.X, made.candidates), SMALL, epochs=3)
    queue = TrialQueue(task, 5)
    queue.study.enqueue_trial({"lam": 0.5})
    for _ in range(2):  # its worker dies
        queue._give_up(queue.ask().handle.number)
    queue.under_way.clear()
    sizes = []
    monkeypatch.setattr(
        "propml.tuning.searching.Rung", lambda table, some, epochs: sizes.append(len(some)) or Rung(table, some, epochs)
    )
    work(queue)
    assert sizes[0] == 1
    assert sum(sizes) == 5
    assert all(trial.state.is_finished() for trial in queue.study.trials)
    done = [trial for trial in queue.study.trials if trial.state.name != "FAIL"]
    assert [trial.params["lam"] for trial in done].count(0.5) == 1
