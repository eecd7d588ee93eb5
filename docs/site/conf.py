"""Sphinx's settings. tools/site runs it, after it has written the sources into build/site_work."""
import pathlib

WORK = pathlib.Path(__file__).resolve().parents[2] / "build/site_work"

project = "cairn"
extensions = ["breathe", "myst_parser"]
breathe_projects = {"cairn": str(WORK / "xml")}
breathe_default_project = "cairn"
breathe_default_members = ("members", "undoc-members")
primary_domain = "cpp"
highlight_language = "text"
myst_heading_anchors = 6  # GitHub's anchors
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "cairn"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_show_sourcelink = False
