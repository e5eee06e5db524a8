"""What a reader of the paper's numbers must know: how λ was chosen, and which numbers follow other rules."""

from propml.paper.notes import published_method, reading_notes, slips_note


def notes(methods, tuned=(), datasets=(), compared=True, paper_rules=False):
    return reading_notes(methods, datasets, tuned, compared=compared, paper_rules=paper_rules)


def test_notes_say_how_lam_was_chosen():
    assert notes(["ProPML"]) == [
        "The paper chose the λ of ProPML on test labels. Ours was chosen on held-out candidate labels, "
        "so that the published row has an advantage."
    ]
    both = " ".join(notes(["ProPML", "ProPML (oracle)"], {"ProPML (oracle)"}))
    assert "ProPML (oracle) did the same and is the like-for-like comparison" in both
    assert "ProPML chose it on held-out candidate labels" in both
    assert "ProPML did the same" in " ".join(notes(["ProPML"], {"ProPML"}))


def test_the_papers_own_network_stands_beside_the_papers_row():
    assert published_method("ProPML (as published)") == published_method("ProPML (oracle)") == "ProPML"


def test_a_method_tuned_on_test_labels_is_named_whatever_stands_beside_it():
    (note,) = notes(["Mine", "Ridge"], {"Mine"}, compared=False)
    assert note.startswith("Mine: what was tuned, such as λ, was tuned on true labels.")


def test_numbers_by_the_papers_rules_and_its_rows_of_mirflickr():
    assert (
        "computed the same way, with one exception: the published Hamming loss of PML-NI"
        in (notes(["Ridge"], paper_rules=True)[0])
    )
    assert "10433" in notes(["Ridge"], datasets={"mirflickr"})[0]
    assert notes(["Ridge"], datasets={"birds"}) == []


def test_slips_in_coding_are_those_of_two_methods():
    assert slips_note({"ProPML", "Ridge"}) == ""
    assert slips_note({"ML-kNN", "CPLST"}).startswith("The Hamming losses of CPLST and ML-kNN follow")
