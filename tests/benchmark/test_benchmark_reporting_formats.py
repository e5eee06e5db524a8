"""Facts about the formats: the same numbers in all of them, and what comes from data stays data."""

import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from noisy_published import HOSTILE, fold_results, noisy_published

from propml.benchmark.reporting import FORMATS, build_report, write_report
from propml.benchmark.reporting.formats import render_html, render_long, render_markdown, render_tables
from propml.benchmark.results import Results
from propml.benchmark.wording import MINUS, dataset_title


@pytest.fixture(scope="module")
def report():
    return build_report(noisy_published(), command="propml benchmark report results")


@pytest.fixture(scope="module")
def page(report):
    return render_html(report)


class Tables(HTMLParser):
    """The texts of all cells of all tables of a page."""

    def __init__(self):
        super().__init__()
        self.tables, self.inside = [], False

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.tables[-1][-1][-1] += data


def test_the_numbers_agree_in_all_formats(report, page):
    reader = Tables()
    reader.feed(page)
    # The first table with these heads; that of average precision by our own conventions comes later.
    wide_html = {tuple(map(str.strip, table[0])): table[1:] for table in reversed(reader.tables)}
    lines = list(csv.DictReader(io.StringIO(render_long(report))))
    markdown, latex = render_markdown(report), render_tables(report)
    (section,) = report.sections
    table = next(table for table in section.tables if table.metric == "average_precision:paper")
    heads = [f"{dataset_title(row.setting.dataset)}{row.setting.noise.title}" for row in table.rows]
    html_rows = wide_html["Method", *heads]
    assert [row[0] for row in html_rows] == list(table.methods)
    checked = 0
    for number, row in enumerate(table.rows):
        for place, cell in enumerate(row.cells):
            text = " ".join(html_rows[place][1 + number].split())
            (line,) = [
                line
                for line in lines
                if (line["dataset"], line["noise"], line["method"], line["metric"])
                == (row.setting.dataset, str(row.setting.noise), cell.method, table.metric)
            ] or [None]
            if cell.ours is None or cell.published is None:
                continue
            ours, std, paper = (f"{v:.2f}" for v in (cell.ours.mean, cell.ours.std, cell.published.mean))
            gap = float(ours) - float(paper)
            sign = "" if abs(gap) < 0.005 else "+" if gap > 0 else MINUS
            assert text == f"{ours} ± {std} paper {paper} {sign}{abs(gap):.2f}"
            assert (line["ours_mean"], line["ours_std"], line["published_mean"]) == (ours, std, paper)
            assert float(line["difference"]) == pytest.approx(gap)
            bare = markdown.replace("*", "")
            assert f"{ours} ({paper}, {sign}{abs(gap):.2f})" in bare
            assert rf"{ours}\,({std})" in latex
            checked += 1
    assert checked == 6 * 7  # settings of two datasets, methods of the paper and the oracle


def test_bold_agrees_in_all_formats(report, page):
    (section,) = report.sections
    table = section.tables[0]
    cells = [cell for row in table.rows for cell in row.cells]
    best = next(cell for cell in cells if cell.ours_mark == "best")
    second = next(cell for cell in cells if cell.ours_mark == "second")
    assert f'<span class="best">{best.ours.mean:.2f}</span>' in page
    assert f'<span class="second">{second.ours.mean:.2f}</span>' in page
    assert f"**{best.ours.mean:.2f}**" in render_markdown(report)
    assert f"***{second.ours.mean:.2f}***" in render_markdown(report)
    assert rf"\textbf{{{best.ours.mean:.2f}\,({best.ours.std:.2f})}}" in render_tables(report)
    assert rf"\textbf{{\textit{{{second.ours.mean:.2f}\,({second.ours.std:.2f})}}}}" in render_tables(report)


def test_the_page_says_everything(report, page):
    for text in (
        "Artificial candidate labels",
        "Which differences are significant",
        "LinAlgError: no rank",
        "propml benchmark run artificial --workers 2",
        "0123456789",
        "numpy: 2.1.0",
        "Which λ was chosen",
        "Time and memory",
        "3.0 GiB",
        "published cells have no number of ours",
        "propml benchmark report results",
        "--methods &#39;ProPML (oracle)&#39; --out reproduced",
    ):
        assert text in page, text
    for finding in report.sections[0].summary:
        assert finding.topic in page


def test_the_page_is_one_file(page):
    addresses = re.findall(r"https?://[^\"'\s<]+", page)
    assert all(address.startswith("http://www.w3.org/") for address in addresses), addresses  # names, not addresses
    assert not re.search(r"<(script|img|iframe|audio|video|source|object|embed)[^>]*\ssrc=", page)
    assert re.findall(r"<link[^>]*>", page) == ['<link rel="icon" href="data:,">']
    assert "@import" not in page
    assert "url(http" not in page


def test_hostile_names_stay_text():
    results = [
        each
        for method, dataset, value in (
            (f"{HOSTILE}|*a*`b`", "</script><b>", 10),
            ("=cmd()\\end{document}$&%#_^~", "birds", 20),
            ("Plain", "birds", 30),
        )
        for each in fold_results(HOSTILE, dataset, 50, method, "one_error", [value])
    ]
    report = build_report(Results(results), title="</title><script>alert(1)</script>")
    page = render_html(report)
    assert "<img" not in page
    assert "<b>" not in page
    assert page.count("<script") == page.count("</script>") == 1
    markdown = render_markdown(report)
    assert "<img" not in re.sub(r"`+[^`]*`+", "", markdown).replace("\\<img", "")  # in code it is harmless
    assert "\\|\\*a\\*\\`b\\`" in markdown
    for block in re.findall(r"(?:^\|.*\n)+", markdown, flags=re.MULTILINE):
        assert len({line.replace("\\|", "").count("|") for line in block.splitlines()}) == 1
    latex = render_tables(report)
    assert r"\textbackslash{}end\{document\}\$\&\%\#\_\textasciicircum{}\textasciitilde{}" in latex
    methods = {line["method"] for line in csv.DictReader(io.StringIO(render_long(report)))}
    assert "'=cmd()\\end{document}$&%#_^~" in methods
    assert not [name for name in methods if name.startswith("=")]


def test_differences_stay_numbers(report):
    told = [line["difference"] for line in csv.DictReader(io.StringIO(render_long(report))) if line["difference"]]
    assert any(float(difference) < 0 for difference in told)


def test_missing_and_failed_cells(report):
    markdown = render_markdown(report)
    assert "not run (***54.06***)" in markdown  # CPLST on Bibtex at 50 %
    failed = [line for line in csv.DictReader(io.StringIO(render_long(report))) if line["state"] == "failed"]
    assert {(line["dataset"], line["noise"], line["method"]) for line in failed} == {("birds", "50", "fPML")}
    assert "& failed" in render_tables(report)


def test_markdown_tables_are_whole(report):
    for block in re.findall(r"(?:^\|.*\n)+", render_markdown(report), flags=re.MULTILINE):
        lines = block.splitlines()
        assert len({len(line) for line in lines}) == 1, lines[0]
        assert re.fullmatch(r"\|( :?-+:? \|)+", lines[1])


def test_latex_tables_are_whole(report):
    text = render_tables(report)
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    tables = re.findall(r"\\begin\{tabular\}\{@\{\}([lr]+)@\{\}\}\n(.*?)\\end\{tabular\}", text, flags=re.DOTALL)
    # One for each metric at each of three noise levels.
    assert len(tables) == 3 * len(report.sections[0].tables) == text.count(r"\begin{tabular}")
    for columns, body in tables:
        rows = [line.replace(r"\&", "") for line in body.splitlines() if line.endswith(r"\\")]
        assert rows
        assert {line.count("&") + 1 for line in rows} == {len(columns)}
        for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
            assert rule in body
    assert all(ord(character) < 0x180 for character in text)


def test_latex_compiles(report, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed: the structure of the tables is checked elsewhere")
    write_report(report, tmp_path, formats=["tex"])
    around = r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{tables}\end{document}"
    (tmp_path / "report.tex").write_text(around)
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_real_candidates_need_no_column_of_noise():
    report = build_report(noisy_published("real-world", datasets=("yeastcc",)))
    reader = Tables()
    reader.feed(render_html(report))
    heads = [[text.strip() for text in table[0]] for table in reader.tables]
    assert ["Method", "MIRFlickr", "Music-emotion", "Music-style", "YeastBP", "YeastCC"] in heads
    assert not any("Noise" in head for head in heads[:4])
    assert r" & MIRFlickr & Music-emotion & Music-style & YeastBP & YeastCC \\" in render_tables(report)


def test_a_value_that_is_not_finite_is_a_dash():
    unknown = fold_results("artificial", "birds", 50, "ProPML", "average_precision", [float("nan")])
    known = fold_results("artificial", "birds", 50, "PML-NI", "average_precision", [60.0])
    report = build_report(Results([*unknown, *known]))
    assert "– (**66.88**)" in render_markdown(report)
    assert 'data-sort=""' in render_html(report)
    (line,) = [r for r in csv.DictReader(io.StringIO(render_long(report))) if r["method"] == "ProPML" and r["ours_n"]]
    assert (line["ours_mean"], line["difference"]) == ("", "")


def test_the_long_csv_says_which_code_made_a_number():
    def made(method, *origins):
        (cell,) = fold_results("artificial", "birds", 50, method, "average_precision", [60.0])
        return [
            replace(cell, seed=seed, commit=commit, fingerprint=code) for seed, (commit, code) in enumerate(origins)
        ]

    cells = [*made("Ridge", ("c1", "f1"), ("c1", "f1")), *made("BCE", ("c1", "f1"), ("c2", "f2"))]
    cells += made("PML-NI", ("c1", "f1"), ("", ""))
    lines = list(csv.DictReader(io.StringIO(render_long(build_report(Results(cells))))))
    told = {line["method"]: (line["commit"], line["code"]) for line in lines if line["state"] == "measured"}
    assert told == {"Ridge": ("c1", "f1"), "BCE": ("c1 c2", "f1 f2"), "PML-NI": ("", "")}


def test_files(report, tmp_path):
    files = write_report(report, tmp_path / "deep" / "report")
    names = ["report.html", "report.md", "tables.tex", "results-long.csv"]
    assert [path.name for path in files] == names
    assert sorted(path.name for path in (tmp_path / "deep" / "report").iterdir()) == sorted(names)
    assert write_report(report, tmp_path, formats=["csv", "csv"]) == [tmp_path / "results-long.csv"]
    with pytest.raises(ValueError, match="there is no format 'doc'; choose from html, md, tex, csv, svg, png, pdf"):
        write_report(report, tmp_path, formats=["doc"])
    with pytest.raises(ValueError, match="no format is given"):
        write_report(report, tmp_path, formats=[])
    assert FORMATS == ("html", "md", "tex", "csv")


def test_every_figure_of_the_page_is_written_as_a_file(report, page, tmp_path):
    files = write_report(report, tmp_path, formats=["png", "svg"])
    assert len(files) == 2 * page.count("<figure")
    assert len({path.name for path in files}) == len(files)
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in files if path.suffix == ".png")
    curves = [path for path in files if path.name == f"{report.sections[0].name}-noise-ours.svg"]
    assert "<svg" in curves[0].read_text()
    assert all(method in curves[0].read_text() for method in ("PML-NI", "ProPML"))


def test_the_same_results_make_the_same_files(report, page):
    again = build_report(noisy_published(), command="propml benchmark report results")
    assert render_html(again) == page
    assert render_markdown(again) == render_markdown(report)


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_text_needs_no_extra_and_a_page_names_it(report, tmp_path, monkeypatch, module):
    import sys

    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    assert len(write_report(report, tmp_path, formats=["md", "tex", "csv"])) == 3
    with pytest.raises(ImportError, match=module):
        write_report(report, tmp_path, formats=["html"])
    assert not (tmp_path / "report.html").exists()


def test_several_experiments_in_one_page():
    one, two = noisy_published(datasets=("birds",)), noisy_published("real-world", datasets=("yeastcc",))
    report = build_report(Results([*one.cells, *two.cells]))
    page = render_html(report)
    assert "Benchmark report" in page
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert {link for link in re.findall(r'href="#([^"]+)"', page) if "-" not in link[:3]} <= set(ids)
    assert page.count(">The numbers<") == 2


def test_vision_metrics():
    report = build_report(noisy_published("vision", datasets=("voc2007",)))
    assert [table.title for table in report.sections[0].tables if table.compared] == ["mAP", "CF1", "OF1"]
    page = render_html(report)
    assert not re.search(r"\bnan\b", page)  # the paper prints no deviations there


def test_datasets_with_different_noise_levels_stand_in_tables_of_their_level():
    settings = [("birds", 50), ("birds", 100), ("scene", 100), ("yeastcc", None)]
    results = [
        each
        for value, setting in enumerate(settings, start=1)
        for each in fold_results("x", *setting, "A", "one_error", [value])
    ]
    report = build_report(Results(results))
    text = render_tables(report)
    assert [line for line in text.splitlines() if line.endswith(r"\\")] == [
        r" & YeastCC \\",
        r"A & 4.00 \\",
        r"50 \% & Birds \\",
        r"A & 1.00 \\",
        r"100 \% & Birds & Scene \\",
        r"A & 2.00 & 3.00 \\",
    ]


def test_only_failures_make_a_report():
    report = build_report(Results(noisy_published().failed))
    assert report.sections[0].summary[0].text == "1 cell failed; what they said stands below."
    assert "LinAlgError" in render_markdown(report)
    assert "No diagram: there are no numbers to compare." in render_html(report)
    assert r"\begin" not in render_tables(report)
    assert render_long(report).count("\n") == 1


def test_code_in_markdown_keeps_its_backticks():
    run = {"command": "echo `date` | wc"}
    rows = fold_results("x", "birds", 50, "A", "one_error", [1.0])
    assert r"`` echo `date` \| wc ``" in render_markdown(build_report(Results(rows, [run])))
