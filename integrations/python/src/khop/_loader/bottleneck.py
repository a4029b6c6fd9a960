"""A sentence on what an epoch waited for."""

from __future__ import annotations

from typing import Any, Optional

_LEAST = 8  # batches, before which an epoch is too short to tell
_MOSTLY = 0.2  # the share of an epoch that Python takes, from which on one should know


def sentence(report: Any) -> str:
    """Returns the server's sentence on a run (docs/feed.md, TELL), with the names of options in Python."""
    if not isinstance(report, dict) or not report.get("text"):
        return ""
    option, value, advice, gain = (report.get(k) for k in ("option", "value", "advice", "gain"))
    tries = [f"{str(option).replace('-', '_')}={_spelled(str(value))}"] if option else []
    tries += [str(advice)] if advice else []
    text = str(report["text"])
    if not tries:
        return text
    gained = f": up to {gain:.1f} times as fast" if isinstance(gain, (int, float)) and gain else ""
    return f"{text} Try {', or '.join(tries)}{gained}."


def _spelled(value: str) -> str:
    return value if value.isdecimal() else repr(value)


class Told:
    """The times of an epoch that this process measures, in seconds, from its first batch on."""

    __slots__ = ("began", "ended", "inside", "waited", "batches")

    def __init__(self) -> None:
        self.began: Optional[float] = None
        self.ended = self.inside = self.waited = 0.0
        self.batches = 0

    def took(self, begin: float, end: float) -> None:
        """Records that a batch was taken, from begin to end."""
        if self.began is None:
            self.began, self.waited = end, 0.0  # waiting for the first one is not counted
            return
        self.inside += end - begin
        self.ended = end
        self.batches += 1

    def sentence(self) -> str:
        """Returns a sentence if taking batches in Python takes a large share of the time, else an empty text."""
        if self.began is None or self.batches < _LEAST:
            return ""
        seconds, python = self.ended - self.began, self.inside - self.waited
        if python < _MOSTLY * seconds:
            return ""
        return (f"Python took {python / seconds:.0%} of the time to take {self.batches} batches, "
                f"{python / self.batches * 1e6:.0f} us each: they are small. Try a larger batch_size.")
