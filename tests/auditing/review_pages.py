"""What a review page in the browser shows, and what it should show by plain loops over the report."""

import tempfile
import time
from pathlib import Path

from propml.auditing.decisions import Decision
from propml.auditing.review import write_review


def render_review(report, **shown):
    """The page as text."""
    with tempfile.TemporaryDirectory() as folder:
        return write_review(report, Path(folder) / "review.html", **shown).read_text(encoding="utf-8")


def entries(page):
    """(item, label, verdict) of all that is shown, entry by entry, gathered while scrolling."""
    return page.evaluate(
        """async () => {
             const seen = new Map();
             const look = () => {
               for (const each of document.querySelectorAll(".entry")) {
                 const id = each.querySelector(".id").textContent;
                 const rows = [...each.querySelectorAll(".label")];
                 const told = rows.map((row) => [id, row.querySelector(".name").textContent, row.dataset.verdict]);
                 seen.set(Number(each.ariaPosInSet), told);
               }
             };
             const frame = () => new Promise((done) => requestAnimationFrame(done));
             scrollTo(0, 0);
             for (let at = -1; at < scrollY; ) {
               at = scrollY;
               await frame();
               look();
               scrollBy(0, 700);
             }
             scrollTo(0, 0);
             await frame();
             return [...seen].sort(([a], [b]) => a - b).flatMap(([, told]) => told);
           }"""
    )


def by_suspicion(row, place):
    """As the page opens; what looks equal in the page stands as in the report."""
    whole = round(1e4 * row[4])
    return (1e4 - whole if row[2] == "missing" else whole), place


def expected(report, fits, order=None):
    """The same by a plain loop over the verdicts of the report."""
    told = report.verdicts()
    rows = [
        (report.item_ids[i], report.label_names[j], str(verdict), float(sure), float(chance))
        for i, j, verdict, sure, chance in zip(
            told.row, told.label, told.verdict, told.confidence, told.probability, strict=True
        )
    ]
    places = [place for place, row in enumerate(rows) if fits(*row)]
    if order is not None:
        places.sort(key=lambda place: order(rows[place], place))
    return [list(rows[place][:3]) for place in places]


def voters_of(report):
    told = report.candidates.annotations
    votes = {}
    for i, j, who in zip(told.row, told.label, told.annotator, strict=True):
        votes.setdefault((report.item_ids[i], report.label_names[j]), set()).add(told.names[who])
    return votes


def current(page):
    """(item, label, verdict) of what a key would decide on."""
    return page.eval_on_selector(
        ".label.current",
        """row => [row.closest(".entry").querySelector(".id").textContent, row.querySelector(".name").textContent,
                   row.dataset.verdict]""",
    )


def until(page, fact, seconds=10):
    """Wait for an expression to be true; the browser's own waiting is refused by the policy of the page."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(fact):
        assert time.monotonic() < deadline, f"waited in vain for {fact}"
        time.sleep(0.02)


def press(page, keys):
    for each in keys:
        page.keyboard.press(each)


def reviewed(page):
    """How many suspicious labels are decided, as the page tells."""
    return int(page.inner_text("#progress").split(" of ")[0])


def downloaded(page, folder):
    with page.expect_download() as waiting:
        page.click("#download")
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def suspicious(item, label, verdict, sure, chance):
    return verdict != "keep"


def decided_in(order, keys):
    words = {"k": True, "d": False}
    return [Decision(*entry[:2], words[key], entry[2]) for entry, key in zip(order, keys, strict=False)]


def without_time(decisions):
    return {(each.item, each.label, each.belongs, each.verdict, each.note) for each in decisions}


def faults(page, smallest):
    """Sentences on what keeps people from reading, pointing at or listening to the page; see accessibility.js."""
    return page.evaluate(Path(__file__).with_name("accessibility.js").read_text(encoding="utf-8"), smallest)
