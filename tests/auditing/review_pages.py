"""What a review page in the browser shows, and what it should show by plain loops over the report."""

import time

from propml.auditing.decisions import Decision


def entries(page):
    """(item, label, verdict) of all that is shown, gathered while scrolling."""
    return page.evaluate(
        """async () => {
             const seen = new Map();
             const look = () => {
               for (const each of document.querySelectorAll(".entry")) {
                 const text = (part) => each.querySelector(part).textContent;
                 seen.set(Number(each.dataset.position), [text(".id"), text(".name"), text(".verdict")]);
               }
             };
             const frame = () => new Promise((done) => requestAnimationFrame(done));
             scrollTo(0, 0);
             for (let at = -1; at < scrollY; ) {
               at = scrollY;
               await frame();
               look();
               scrollBy(0, 900);
             }
             scrollTo(0, 0);
             await frame();
             return [...seen].sort(([a], [b]) => a - b).map(([, entry]) => entry);
           }"""
    )


def by_confidence(row, place):
    """High first, as the page opens; what looks equal in the page stands from last to first."""
    return -round(1e4 * row[3]), -place


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
    """(item, label, verdict) of the entry that a key would decide on."""
    return page.eval_on_selector(
        ".entry.current", "each => ['.id', '.name', '.verdict'].map(part => each.querySelector(part).textContent)"
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


def downloaded(page, folder):
    with page.expect_download() as waiting:
        page.click("#download")
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def suspicious(item, label, verdict, sure, chance):
    return verdict != "keep"


def decided_in(order, keys):
    words = {"a": True, "r": False}
    return [Decision(*entry[:2], words[key], entry[2]) for entry, key in zip(order, keys, strict=False)]


def without_time(decisions):
    return {(each.item, each.label, each.accept, each.verdict) for each in decisions}
