"""Text as embeddings: encoders by name, the cache, what is saved, and the choice that held-out candidates make."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from propml.tables import embeddings, learn_features, read_table
from propml.tables.features import Features

WORDS = {"sea": 0, "city": 1, "dog": 2}


class Fake:
    """Counts words; remembers how often it was asked."""

    asked = 0

    def __call__(self, texts):
        Fake.asked += 1
        return [[float(word in text) for word in WORDS] + [len(text) / 100] for text in texts]


@pytest.fixture
def fake(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(embeddings, "encoder", lambda name: Fake())
    Fake.asked = 0


def texts_file(path, n=60, seed=0):
    rng = np.random.default_rng(seed)
    rows = ["id,words,vector,tags"]
    for i in range(n):
        word = rng.choice(list(WORDS))
        rows.append(f'{i},"{word} number {rng.integers(9)}","[{WORDS[word]}, {i % 5}]",{word};x')
    path.write_text("\n".join(rows) + "\n")
    return path


def test_a_text_column_becomes_an_embedding_and_is_saved_with_its_encoder(fake, tmp_path):
    table = read_table(
        texts_file(tmp_path / "d.csv"), candidates="tags", text="words", embed="fake", ignore="vector,id"
    )
    learned = learn_features(table)
    assert learned.X.shape == (60, 4)
    np.testing.assert_allclose(learned.X.mean(axis=0), 0, atol=1e-5)
    assert learned.features.describe()["words"] == "text, embedded by fake: vector of 4 numbers, standardised"
    again = Features.from_json(json.loads(json.dumps(learned.features.to_json())))
    X, _ = again.apply(table.source)
    np.testing.assert_array_equal(X, learned.X)


def test_the_cache_goes_by_content(fake, tmp_path):
    first = embeddings.embed(["sea", "city", None], "fake")
    assert np.isnan(first[2]).all()
    np.testing.assert_array_equal(embeddings.embed(["sea", "city", None], "fake"), first)
    assert Fake.asked == 1
    embeddings.embed(["sea", "dog"], "fake")
    embeddings.embed(["sea", "city"], "another")
    assert Fake.asked == 3
    for kept in (tmp_path / "cache" / "propml" / "embeddings").glob("*.npy"):
        kept.write_bytes(kept.read_bytes()[:20])
    np.testing.assert_array_equal(embeddings.embed(["sea", "city", None], "fake"), first)
    assert Fake.asked == 4


def test_a_column_of_numbers_stands_for_the_text(tmp_path):
    table = read_table(texts_file(tmp_path / "d.csv"), candidates="tags", text="words", embed="vector", ignore="id")
    learned = learn_features(table)
    assert learned.X.shape == (60, 2)
    assert learned.features.describe()["words"] == "left out: its embedding is the column 'vector'"
    assert table.texts[0].split()[0] in WORDS  # still shown


def test_held_out_candidates_choose(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "ENCODERS", {"good": "json"})  # a module that is there
    rng = np.random.default_rng(0)
    rows = ["words,tags"]
    for i in range(200):
        word = rng.choice(list(WORDS))
        rows.append(f"{word}{i} {word}{i + 1000},{word};{rng.choice(list(WORDS))}")  # no word repeats
    (tmp_path / "d.csv").write_text("\n".join(rows))
    table = read_table(tmp_path / "d.csv", candidates="tags", text="words", embed="auto")
    assert learn_features(table).X.shape == (200, 4)
    assert any(note.startswith("column 'words' is embedded by good; mean average precision") for note in table.notes)
    monkeypatch.setattr(embeddings, "ENCODERS", {"absent": "no_such_module_here"})
    table = read_table(
        texts_file(tmp_path / "e.csv"), candidates="tags", text="words", embed="auto", ignore="vector,id"
    )
    learn_features(table)
    assert "column 'words' is read by its words; no encoder is installed: pip install 'propml[text]'" in table.notes


def test_of_many_labels_the_most_frequent_choose(fake, monkeypatch):
    monkeypatch.setattr(embeddings, "ENCODERS", {"good": "json"})
    rng = np.random.default_rng(0)
    word = rng.integers(len(WORDS), size=200)
    frequent = sp.csr_array(np.eye(len(WORDS), dtype=np.int8)[word])
    rare = sp.csr_array(np.eye(200, dtype=np.int8))  # each of them in one row
    cells = [list(WORDS)[each] for each in word]
    expected = embeddings.preferred(cells, frequent, None)
    assert embeddings.preferred(cells, sp.hstack([rare, frequent], format="csr"), None) != expected
    monkeypatch.setattr(embeddings, "MOST_LABELS", len(WORDS))
    assert embeddings.preferred(cells, sp.hstack([rare, frequent], format="csr"), None) == expected


def test_an_encoder_that_is_none_and_one_without_a_text_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = texts_file(tmp_path / "d.csv")
    with pytest.raises(ValueError, match="embed='wordllama' is for a column of text; name it with text"):
        read_table(path, candidates="tags", embed="wordllama")

    def broken(name):
        raise OSError(f"{name} has no config.json\nand more")

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=broken))
    table = read_table(path, candidates="tags", text="words", embed="no/such-model")
    with pytest.raises(
        ValueError, match=r"'no/such-model' is no encoder that can be loaded \(no/such-model has no config"
    ):
        learn_features(table)


def test_a_folder_of_model2vec_is_read_by_its_library(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "config.json").write_text('{"model_type": "model2vec"}')
    static = SimpleNamespace(from_pretrained=lambda folder: SimpleNamespace(encode=Fake()))
    monkeypatch.setitem(sys.modules, "model2vec", SimpleNamespace(StaticModel=static))
    assert embeddings.embed(["sea"], str(tmp_path)).tolist() == [pytest.approx([1, 0, 0, 0.03])]


def test_wordllama_needs_no_network(tmp_path, monkeypatch):
    pytest.importorskip("wordllama", reason="needs propml[text]")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sea, ocean, tax = embeddings.embed(["waves at the sea", "the ocean shore", "income tax law"], "wordllama")
    assert sea @ ocean / np.linalg.norm(ocean) > sea @ tax / np.linalg.norm(tax)
