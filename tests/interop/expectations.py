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
    "broadcast": Usual("broadcast over three processes", "succeeded: 0/3 1/3 2/3; runs of each executor: [1, 1, 1]"),
    "timeout": Usual("time limit", "timed_out and cut short"),
    "retry": Usual("failure with a retry", "failed, then failed with the handler's words; ran 2 times"),
    "kill": Usual("kill", "killed and cut short"),
    "rolling_log": Usual("rolling log to its end", "20 lines while it ran, 40 once in the end"),
    "glue_shell": Usual("GLUE shell", "succeeded and logged; new version succeeded and logged"),
    "wrong_token": Usual("wrong token", "registration refused, the executor refuses calls"),
    "removal": Usual("removal at shutdown", "gone at once"),
    "callback_while_down": Usual("callback while xwheel is down", "succeeded"),
    "registration_after_restart": Usual(
        "registration after xwheel restarted", "comes by itself, the next run succeeded"
    ),
}

UNCHECKED: Final = Odd(
    "registration refused, the executor takes any call",
    "it does not check the token of calls that it gets: let it listen where only xwheel reaches it",
)
NO_SCRIPTS: Final = Odd(
    "refused executor_refused", "it knows no scripts and looks for a handler instead, which it does not find"
)
NO_TIMEOUT: Final = Odd(
    "failed and cut short",
    "it reports a run that it ended at its time limit as failed; only Java executors and xwheel tell the two apart",
)

# The numbers are those of section 10, traps for third-party peers, of the protocol reference.
ODD: Final[dict[tuple[str, str], Odd]] = {
    # 10.1, busy job: both strategies answer 500 "There are tasks running", there is no queue
    ("go-1.2.0", "serial"): Odd(
        "first succeeded, second refused",
        "it has no queue and refuses while the job runs: give such jobs retries with a delay, or "
        "`block_scope: cluster`, with which runs wait in xwheel",
    ),
    # 10.1, callback: runs of a job share one record, so what was covered reports under the newer run's id
    ("go-1.2.0", "cover"): Odd(
        "first lost and cut short, second succeeded",
        "it reports the end of the covered run under the id of the newer one, which has ended; xwheel keeps the newer "
        "run's outcome, and finds out that the first one no longer runs",
    ),
    # 10.1, callback: code 500 for whatever went wrong
    ("go-1.2.0", "timeout"): NO_TIMEOUT,
    # 10.1, glue: the glue type is ignored, it always looks up the handler
    ("go-1.2.0", "glue_shell"): NO_SCRIPTS,
    # 10.1, token: incoming calls are not checked
    ("go-1.2.0", "wrong_token"): UNCHECKED,
    # 10.1, callback: sent once, no retry
    ("go-1.2.0", "callback_while_down"): Odd(
        "lost no_report",
        "it sends an outcome once: xwheel asks it about the run, hears that nothing runs and closes it as lost; "
        "`recover_lost` runs it again",
    ),
    # 10.2, headers: no inbound token check
    ("pyxxl", "wrong_token"): UNCHECKED,
    # 10.2, timeout and cancel: code 500 with TimeoutError, never 502
    ("pyxxl", "timeout"): NO_TIMEOUT,
    # 10.2, /run: the handler's name is what counts
    ("pyxxl", "glue_shell"): NO_SCRIPTS,
    ("xwheel", "cover"): Odd(
        "first killed and cut short, second succeeded", "xwheel's own executor reports a kill as a kill"
    ),
}


def expected(peer: Peer) -> dict[str, str]:
    """Return what the scenario should see with a peer."""
    return {
        name: ODD[peer.name, name].seen if (peer.name, name) in ODD else usual.seen for name, usual in USUAL.items()
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
