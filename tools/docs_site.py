"""A hook of mkdocs: README.md is the site's first page, and links out of docs/ lead to files of the repository."""
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/khop-gnn/khop/blob/main/"


def on_files(files, config):
    """Adds index.md, in place of docs/README.md, which lists the pages as the site's navigation does."""
    kept = files.get_file_from_path("README.md")
    if kept is not None:
        files.remove(kept)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"\]\(docs/README\.md\)", "](index.md)", text)
    files.append(File.generated(config, "index.md", content=re.sub(r"\]\(docs/", "](", text)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links to what is not in docs/ go to the repository."""
    here = (ROOT if page.file.src_uri == "index.md" else ROOT / "docs" / page.file.src_uri).parent
    if page.file.src_uri == "index.md":
        here = ROOT

    def link(match):
        target = match[1]
        if re.match(r"[a-z]+:|#", target) or target.startswith("index.md"):
            return match[0]
        path, _, anchor = target.partition("#")
        at = (here / path).resolve()
        if page.file.src_uri == "index.md" and (ROOT / "docs" / path).exists() or ROOT / "docs" in at.parents:
            return match[0]
        if not at.exists():
            return match[0]  # mkdocs says so
        return f"]({REPOSITORY}{at.relative_to(ROOT)}{'#' + anchor if anchor else ''})"
    return re.sub(r"\]\(([^)\s]+)\)", link, markdown)
