"""What a newcomer runs first: code blocks, commands and examples run as they stand, and links lead somewhere."""

import re
import runpy
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from propml.cli import app, main

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
COMMAND = typer.main.get_command(app)
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def named(path):
    return path.relative_to(ROOT).as_posix()


def blocks(path, *languages):
    return [block for block in BLOCK.findall(path.read_text(encoding="utf-8")) if block[0] in languages]


def commands(text):
    """The lines of a console block that a reader types, without comments."""
    return [shlex.split(line[2:], comments=True) for line in text.splitlines() if line.startswith("$ ")]


def check_command(words, monkeypatch):
    """Run a command of ours in this process; of ``pip`` and ``make``, see that what they name is there."""
    if words[0] == "propml":
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code in (0, None), words
    elif words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "optional-dependencies"
        ]
        asked = re.fullmatch(r"(?:\.|propml)(?:\[([\w,]+)\])?", words[2])
        assert asked, words
        assert set((asked[1] or "").split(",")) - {""} <= set(extras), words
    else:
        assert words[0] == "make", f"{words} cannot be checked"
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8"), words


def run_blocks(path, languages, monkeypatch, folder):
    """Run the blocks of a page in their order, in a folder that holds the example files."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    monkeypatch.chdir(folder)
    names: dict = {}
    for number, (language, text) in enumerate(blocks(path, *languages)):
        if language == "python":
            exec(compile(text, f"{named(path)}, block {number}", "exec"), names)
        else:
            for words in commands(text):
                check_command(words, monkeypatch)


# Commands on other pages name files of the reader's own, which nobody has.
@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *TUTORIALS], ids=named)
def test_code_and_commands_run(path, monkeypatch, tmp_path):
    assert blocks(path, "python", "console")
    run_blocks(path, ("python", "console"), monkeypatch, tmp_path)


@pytest.mark.parametrize("path", [path for path in PAGES if path not in TUTORIALS], ids=named)
def test_code_runs(path, monkeypatch, tmp_path):
    run_blocks(path, ("python",), monkeypatch, tmp_path)


def test_the_readme_shows_three_things():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"## {heading}\n" in text for heading in ("Clean my labels", "Train a model", "Swap the loss"))
    assert len(blocks(ROOT / "README.md", "python")) >= 2


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "paper" / "README.md", *PAGES], ids=named)
def test_commands_and_options_exist(path):
    shown = "".join(re.findall(r"^```\w*\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL))
    for line in re.findall(r"^(?:\$ )?(propml .+)$", shown, flags=re.MULTILINE):
        command, words = COMMAND, shlex.split(line, comments=True)[1:]
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, line
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options, line


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(script, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_the_example_tables_are_what_their_script_writes(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "make_tables.py"), run_name="__main__")
    shipped = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.csv")}
    assert shipped == {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.csv")}


def anchors(path):
    """The anchors of a page's headings, as GitHub and Python-Markdown make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize(
    "path", [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "paper").glob("*.md")), *PAGES], ids=named
)
def test_links_lead_somewhere(path):
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(((?!\w+:)[^)#\s]*)(?:#([^)\s]+))?\)", text):
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{named(path)} links to {target}, which is not there"
        assert not anchor or anchor in anchors(file), f"{named(path)} links to {target}#{anchor}: no such heading"


def test_every_public_room_has_a_page_of_its_functions_on_the_site():
    places = set(re.findall(r"[\w/]+\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {named(path).removeprefix("docs/") for path in PAGES} <= places
    rooms = re.findall(r"\]\((\w+)\.md\)", (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8"))
    assert {"targets", "tables", "losses", "methods", "auditing", "vision", "benchmark", "tuning"} <= set(rooms)
    assert {"metrics", "corruption", "datasets"} <= set(rooms)
    for room in rooms:
        assert f"::: propml.{room}\n" in (ROOT / "docs" / "api" / f"{room}.md").read_text(encoding="utf-8")
