"""One self-contained HTML page: text, tables and figures in a single file that opens anywhere."""

import base64
import io
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from propml.extras import require


@dataclass
class Section:
    """A heading with what stands under it, in this order: text, table, figure."""

    title: str
    text: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figure: str = ""
    caption: str = ""


@dataclass
class Page:
    """A page that is built section by section and then written.

    Parameters
    ----------
    title : str
    lead : str
        What the reader sees, in a sentence or two.
    facts : mapping of str to str
        Small print at the foot: versions, seed, command.
    """

    title: str
    lead: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)

    def add(self, title: str, text: str = "", **content: Any) -> None:
        """Append a section; see :class:`Section` for what it may hold."""
        self.sections.append(Section(title, text, **content))

    def render(self) -> str:
        """The page as HTML; everything that comes from data is escaped."""
        jinja2 = require("jinja2", "report")
        template = resources.files("propml.benchmark").joinpath("page.html").read_text(encoding="utf-8")
        environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(template).render(page=self)

    def write(self, path: str | Path) -> Path:
        """Write the page, whole or not at all."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(self.render())
        os.replace(temporary, path)
        path.chmod(0o644)
        return path


def embedded(figure: Any) -> str:
    """A matplotlib figure as a ``data:`` address that needs no second file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, bbox_inches="tight")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
