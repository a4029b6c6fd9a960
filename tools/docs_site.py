"""A hook of mkdocs: README.md is the site's first page, links out of docs/ lead to files of the repository, and pages
of reference come from code: names of Python with their first sentences, and Go's packages."""
import ast
import json
import pathlib
import re
import subprocess

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/khop-gnn/khop/blob/main/"

STYLE = """.md-typeset a:not(.headerlink, .md-button) { text-decoration: underline }
.md-tabs__link { opacity: 1 }
"""  # what axe-core asks for

# Browsers start no workers on pages that are files. The theme takes a stand-in from elsewhere; this is one of the site.
WORKER = """if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.appendChild(frame)
    this.inner = frame.contentWindow
    const load = url => new Promise((done, failed) => {
      const script = this.inner.document.createElement("script")
      Object.assign(script, {src: new URL(url, location.href).href, onload: done, onerror: failed})
      this.inner.document.body.appendChild(script)
    })
    this.inner.importScripts = async (...urls) => { for (const url of urls) await load(url) }
    this.inner.postMessage = data => {
      const m = new MessageEvent("message", {data})
      this.dispatchEvent(m)
      if (this.onmessage) this.onmessage(m)
    }
    this.ready = load(url)
  }
  postMessage(data) { this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", {data}))) }
  terminate() { this.inner.frameElement.remove() }
}
addEventListener("load", () => setTimeout(() => { // who has no mouse moves wide tables, too
  for (const e of document.querySelectorAll(".md-typeset__scrollwrap")) e.tabIndex = 0
}, 300))
"""


def on_post_page(output, page, config):
    """Names the theme's search and sections for who does not see them, and has its worker come from the site; no
    heading is empty."""
    up = "../" * page.file.src_uri.count("/")
    for number, section in enumerate(config.nav, 1):  # a section with a page of its own has a label without text
        output = output.replace(f'aria-labelledby="__nav_{number}_label"', f'aria-label="{next(iter(section))}"')
    return (output.replace('role="dialog"', 'role="dialog" aria-label="Search"')
            .replace("<th></th>", "<td></td>")
            .replace("https://unpkg.com/iframe-worker/shim", f"{up}assets/worker.js"))


def on_files(files, config):
    """Adds index.md, the repository's README, and docs/README.md as tasks.md."""
    kept = files.get_file_from_path("README.md")
    if kept is not None:
        files.remove(kept)
    tasks = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "tasks.md", content=tasks))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"\]\(docs/README\.md\)", "](tasks.md)", text)
    files.append(File.generated(config, "index.md", content=re.sub(r'(\]\(|src=")docs/', r"\1", text)))
    files.append(File.generated(config, "assets/site.css", content=STYLE))
    files.append(File.generated(config, "assets/worker.js", content=WORKER))
    files.append(File.generated(config, "reference/python.md", content=python_names()))
    files.append(File.generated(config, "reference/go.md", content=go_packages()))
    return files


def sentence(text):
    """The first sentence of a comment, for a table."""
    return re.split(r"(?<=[.:])\s", " ".join((text or "").split()), maxsplit=1)[0].replace("|", "\\|")


def python_names():
    """What the package says of itself: its modules, and the classes and functions that have no _ in front."""
    package = ROOT / "integrations/python/src/khop"
    out = ["# Python's names", "", "Made from the code. [khop in Python](../python.md) is the guide.", ""]
    for path in sorted(package.rglob("*.py")):
        name = "khop." + ".".join(path.relative_to(package).with_suffix("").parts)
        name = name.removesuffix(".__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        public = [n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and n.name[0] != "_"
                  and ast.get_docstring(n)]
        if "._" in name or not public:
            continue
        out += [f"## {name}", "", sentence(ast.get_docstring(tree)), "", "| | |", "|---|---|"]
        for n in public:
            known = f"class `{n.name}`" if isinstance(n, ast.ClassDef) else f"`{n.name}({ast.unparse(n.args)})`"
            out.append(f"| {known.replace('|', chr(92) + '|')} | {sentence(ast.get_docstring(n))} |")
        out.append("")
    return "\n".join(out)


def go_packages():
    """The packages that programs in Go import, with the first sentence of each."""
    listed = subprocess.run(["go", "list", "-json=ImportPath,Doc", "./..."], cwd=ROOT, capture_output=True, text=True)
    out = ["# Go's packages", "", "Made from the code. `go doc PACKAGE NAME` has all names.", "", "| | |", "|---|---|"]
    decoder, at = json.JSONDecoder(), 0
    while listed.returncode == 0 and listed.stdout[at:].strip():
        package, end = decoder.raw_decode(listed.stdout[at:].lstrip())
        at += len(listed.stdout[at:]) - len(listed.stdout[at:].lstrip()) + end
        path = package["ImportPath"]
        if "/internal/" not in path + "/" and "Doc" in package and "/bench" not in path and "/tests" not in path:
            out.append(f"| `{path}` | {sentence(package['Doc'])} |")
    return "\n".join(out) + "\n"


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
        if at == ROOT / "README.md":
            return f"]({'../' * page.file.src_uri.count('/')}index.md)"
        if not at.exists():
            return match[0]  # mkdocs says so
        return f"]({REPOSITORY}{at.relative_to(ROOT)}{'#' + anchor if anchor else ''})"
    return re.sub(r"\]\(([^)\s]+)\)", link, markdown)
