"""Looks at the site in Chromium, from files, without a network: python site_check.py [PAGE..] (make docs-site-check)

At 400 and at 1,400 pixels no page (default: all) is wider than the window, and axe-core, where KHOP_AXE names its
axe.min.js, finds nothing: no text of too little contrast, no link without words. For what people search the first
result is a page that answers.
"""
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SEARCHES = {  # words -> pages that answer
    "minisign": ["stability.html"],
    "NeighborLoader": ["start/pyg.html", "migrating.html", "results/cpu.html", "python.html"],
    "out of memory": ["troubleshooting.html", "loader.html", "memory.html", "machines.html"],
    "resume": ["tasks.html", "loader.html", "python.html", "machines.html", "index.html"],
    "S3": ["machines.html"],
}
SITE = pathlib.Path(__file__).resolve().parent.parent / "dist" / "site"
LOOK = """<script>%s</script><script>setTimeout(() => { const d = document, r = d.documentElement
const wide = [...d.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 &&
    !e.closest(".md-typeset__scrollwrap, pre, .md-sidebar, .md-search, .md-tabs, .md-header")).map(e => e.tagName)
const say = v => parent.postMessage(JSON.stringify([innerWidth, r.scrollWidth, wide.slice(0, 3), v]), "*")
if (window.axe) axe.run({exclude: [".highlight"]}).then(a => say(a.violations.map(
    v => v.id + ": " + v.nodes.slice(0, 2).map(n => n.html.slice(0, 160)).join(" ")))); else say([])
}, 1500)</script></body>"""


FRAME = """<body><script>addEventListener("message", m => { if (typeof m.data == "string" && m.data[0] == "[")
    document.body.dataset.seen = m.data })</script><iframe width="%d" height="900" src="%s"></iframe></body>"""


def dom(address):
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={home}",
             "--allow-file-access-from-files", "--window-size=1500,1000", "--virtual-time-budget=20000",
             "--proxy-server=127.0.0.1:9", "--dump-dom", address], capture_output=True, text=True, timeout=240).stdout


def main():
    if not shutil.which("chromium"):
        sys.exit("chromium is not installed")
    axe = os.environ.get("KHOP_AXE")
    script = pathlib.Path(axe).read_text(encoding="utf-8") if axe else ""
    bad = 0
    for page in sys.argv[1:] or sorted(str(p.relative_to(SITE)) for p in SITE.rglob("*.html") if p.name != "404.html"):
        path = SITE / page
        copy, frame = path.with_name("seen-" + path.name), path.with_name("frame-" + path.name)
        copy.write_text(path.read_text(encoding="utf-8").replace("</body>", LOOK % script.replace("</", "<\\/")),
                        encoding="utf-8")
        try:
            for width in (400, 1400):
                frame.write_text(FRAME % (width, copy.name))
                seen = re.search(r'data-seen="([^"]*)"', dom(frame.as_uri()))
                inner, scroll, wide, found = json.loads(html.unescape(seen[1])) if seen else (width, 0, [], ["silence"])
                fine = scroll <= inner and not found
                bad += not fine
                print(page, "at", inner, "pixels:", "fine" if fine else (scroll, wide, found), flush=True)
        finally:
            copy.unlink(), frame.unlink()
    for words, wanted in SEARCHES.items():
        results = dom((SITE / "index.html").as_uri() + "?q=" + words.replace(" ", "%20"))
        found = re.findall(r'<a href="([^"#?]*)[^"]*" class="md-search-result__link', results)
        found = [address.split("/site/")[-1] for address in found]
        fine = bool(found) and found[0] in wanted
        bad += not fine
        found = found[0] if fine else f"{found[:3]} in place of {wanted}"
        print(f"search for {words!r}, from a file:", found, flush=True)
    sys.exit(bool(bad))


main()
