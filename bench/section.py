"""Pages of results that programs and people write: a program replaces its own section, and nothing else."""
import re
import textwrap


def split(page, heading):
    """What is before a section's text, the text, and what is after it: the next heading ("## ...") of any level."""
    before, found, after = page.partition(f"{heading}\n")
    following = re.search(r"^#{2,6} ", after, re.M)
    at = following.start() if following else len(after)
    return before + found, after[:at].strip("\n"), after[at:]


def put(path, heading, text):
    """Replaces a section's text, or appends the section."""
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    if f"{heading}\n" not in page:
        page = f"{page}\n{heading}\n".lstrip()
    before, _, after = split(page, heading)
    path.write_text((before + "\n" + text.strip("\n") + "\n\n" + after).rstrip("\n") + "\n", encoding="utf-8")


def wrapped(text):
    """A paragraph or an item of a list in lines of at most 120 letters."""
    words = " ".join(text.split()).replace(" %", "\0%")  # which stays with its number
    return textwrap.fill(words, 120, subsequent_indent="  " if text.startswith("- ") else "",
                         break_long_words=False, break_on_hyphens=False).replace("\0%", " %")
