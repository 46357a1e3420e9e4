"""What each step of the scenario should see with each peer; the tests assert it and the docs show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.interop.peers import Peer


@dataclass(frozen=True, slots=True)
class Usual:
    """A step: how the table calls it, and what is seen with a peer that can all of it."""

    title: str
    seen: str


@dataclass(frozen=True, slots=True)
class Odd:
    """What is seen instead with some peer, and why, for readers of the docs."""

    seen: str
    why: str


USUAL: Final[dict[str, Usual]] = {
    "beat": Usual("beat", "answers 200"),
    "idle_beat": Usual("idle beat", "busy while the job runs, idle if it never ran; succeeded"),
    "parameter": Usual("run with a parameter", "succeeded, parameter as written, message as said"),
    "unknown_handler": Usual("unknown handler", "refused with the executor's words"),
    "serial": Usual("block strategy: serial", "first succeeded, second succeeded, one after the other"),
    "discard": Usual("block strategy: discard later", "first succeeded, second refused and never ran"),
    "cover": Usual("block strategy: cover early", "first failed and cut short, second succeeded"),
    "broadcast": Usual(
        "broadcast over three processes", "succeeded: 0/3 1/3 2/3; runs of each executor: [1, 1, 1]"
    ),
    "timeout": Usual("time limit", "timed_out and cut short"),
    "retry": Usual("failure with a retry", "failed, then failed with the handler's words; ran 2 times"),
    "kill": Usual("kill", "killed and cut short"),
    "rolling_log": Usual("rolling log to its end", "20 lines while it ran, 40 once in the end"),
    "wrong_token": Usual("wrong token", "registration refused, the executor refuses calls"),
    "removal": Usual("removal at shutdown", "gone at once"),
    "callback_while_down": Usual("callback while xwheel is down", "succeeded"),
    "registration_after_restart": Usual(
        "registration after xwheel restarted", "comes by itself, the next run succeeded"
    ),
}

UNCHECKED: Final = Odd(
    "registration refused, the executor takes any call",
    "it does not look at the token of calls that it gets; bind it to an address that only xwheel reaches",
)

ODD: Final[dict[tuple[str, str], Odd]] = {
    # 10.2, headers: no inbound token check
    ("pyxxl", "wrong_token"): UNCHECKED,
    ("xwheel", "cover"): Odd(
        "first killed and cut short, second succeeded", "xwheel's own executor tells a kill from a failure"
    ),
    # 10.2, timeout and cancel: code 500 with TimeoutError, never 502
    ("pyxxl", "timeout"): Odd(
        "failed and cut short",
        "it reports a run that it ended at its time limit as failed, with the message `TimeoutError`",
    ),
}


def expected(peer: Peer) -> dict[str, str]:
    """Return what the scenario should see with a peer."""
    return {
        name: ODD[peer.name, name].seen if (peer.name, name) in ODD else usual.seen
        for name, usual in USUAL.items()
    }


def table(peers: Sequence[Peer]) -> str:
    """Return the table of the docs: who does what as usual, and what the others do instead."""
    notes: list[Odd] = []
    lines = [f"| | {' | '.join(peer.title for peer in peers)} |", "|---" * (len(peers) + 1) + "|"]
    for name, usual in USUAL.items():
        cells = []
        for peer in peers:
            odd = ODD.get((peer.name, name))
            if odd is not None and odd not in notes:
                notes.append(odd)
            cells.append("yes" if odd is None else f"note {notes.index(odd) + 1}")
        lines.append(f"| {usual.title} | {' | '.join(cells)} |")
    lines += ["", '| | what "yes" means: the scenario sees |', "|---|---|"]
    lines += [f"| {usual.title} | {usual.seen} |" for usual in USUAL.values()]
    lines += ["", "| note | the scenario sees | because |", "|---|---|---|"]
    lines += [f"| {number} | {odd.seen} | {odd.why} |" for number, odd in enumerate(notes, 1)]
    return "\n".join(lines)
