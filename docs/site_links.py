"""MkDocs hook: what pages link to outside docs/ becomes part of the site, and Markdown written for GitHub fits it."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
OUTSIDE = ["[CS]*.md", "CITATION.cff", "paper/*.md", "paper/results/*", "examples/*.*"]  # README.md is not index.md


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in sorted(path for pattern in OUTSIDE for path in ROOT.glob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links are written for the repository, in which docs/ is a folder; on the site it is the root."""
    here = Path(str(page.file.abs_src_path)).parent

    def on_site(match: re.Match[str]) -> str:
        target = (here / match[1]).resolve()
        place = target.relative_to(DOCS if target.is_relative_to(DOCS) else ROOT).as_posix()
        return "](" + posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")

    # GitHub wants | escaped in the code of a table; Python-Markdown would show the backslash.
    markdown = re.sub(r"`[^`\n]*`", lambda code: code[0].replace(r"\|", "|"), markdown)
    return re.sub(r"\]\(((?!\w+:)[^)#\s]+)", on_site, markdown)
