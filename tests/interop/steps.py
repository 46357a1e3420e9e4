"""The scenario, step by step. Each step says in words what it saw; what it should see stands in ``expectations``.

A step is a generator: what it does before its ``yield`` is begun for all steps, what comes after it is looked at when
all of them are under way. So a scenario takes as long as its slowest step, not as long as all together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

from tests.interop.stage import Stage
from xwheel.wire import contract
from xwheel.wire.codec import encode_idle_beat

Step = Callable[[Stage], Generator[None, None, str]]
TEXT: Final = "grüße 世界 <&> \"'\\ 🎡"


def beat(stage: Stage) -> Generator[None, None, str]:
    """The beat has no body, and says only that somebody is there."""
    yield
    return f"answers {stage.ask(contract.BEAT, b'').code}"


def idle_beat(stage: Stage) -> Generator[None, None, str]:
    """The idle beat tells whether a job runs there; the node asks it about runs that it hears nothing of."""
    job_id, other_id = stage.job("hold"), stage.job("hold")
    run_id = stage.hold(job_id, "busy")
    busy, idle = (
        stage.ask(contract.IDLE_BEAT, encode_idle_beat(asked)).code != contract.OK for asked in (job_id, other_id)
    )
    yield
    stage.worker.release("busy")
    words = {True: "busy", False: "idle"}
    state = stage.ended(run_id)["state"]
    return f"{words[busy]} while the job runs, {words[idle]} if it never ran; {state}"


def parameter(stage: Stage) -> Generator[None, None, str]:
    """A parameter arrives as it was written, and so does the handler's message."""
    run_id = stage.run(stage.job("echo"), TEXT)
    yield
    run = stage.ended(run_id)
    seen = "as written" if TEXT in stage.worker.executed() else "garbled"
    said = "as said" if run["message"] == f"{TEXT} 0/1" else repr(run["message"])
    return f"{run['state']}, parameter {seen}, message {said}"


def unknown_handler(stage: Stage) -> Generator[None, None, str]:
    """A handler that the executor does not have."""
    run_id = stage.run(stage.job("nobody"), "-")
    yield
    run = stage.ended(run_id)
    words = run["message"].removeprefix(f"{stage.worker.address}: ")
    # every peer has its own; none of them may be lost, and none arrive as the JSON that it travelled in
    is_text = words.strip() and not words.startswith(("{", "["))
    return f"{run['state']} {'with' if is_text else 'without'} the executor's words"


def serial(stage: Stage) -> Generator[None, None, str]:
    """SERIAL_EXECUTION: the second run waits for the first."""
    job_id = stage.job("hold")
    stage.worker.release("second-in-line")
    first = stage.hold(job_id, "first-in-line")
    second = stage.run(job_id, "second-in-line")
    stage.cluster.accepted(second)
    yield
    stage.worker.release("first-in-line")
    states = [stage.ended(run_id)["state"] for run_id in (first, second)]
    notes = [note for note in stage.worker.notes() if note.endswith("in-line")]
    kept = notes == [f"{word} {label}-in-line" for label in ("first", "second") for word in ("start", "end")]
    return f"first {states[0]}, second {states[1]}" + (", one after the other" if kept else "")


def discard(stage: Stage) -> Generator[None, None, str]:
    """DISCARD_LATER: the second run is refused while the first one runs."""
    job_id = stage.job("hold", block_strategy="DISCARD_LATER")
    first = stage.hold(job_id, "kept")
    stage.worker.release("discarded")
    second = stage.run(job_id, "discarded")
    yield
    later = stage.ended(second)["state"]
    stage.worker.release("kept")
    state = stage.ended(first)["state"]
    ran = "ran" if "discarded" in stage.worker.executed() else "never ran"
    return f"first {state}, second {later} and {ran}"


def cover(stage: Stage) -> Generator[None, None, str]:
    """COVER_EARLY: the second run ends the first one."""
    job_id = stage.job("hold", block_strategy="COVER_EARLY")
    first = stage.hold(job_id, "covered")
    stage.worker.release("covers")
    second = stage.run(job_id, "covers")
    yield
    states = [stage.ended(run_id)["state"] for run_id in (first, second)]
    return f"first {states[0]} and {stage.cut('covered')}, second {states[1]}"


def broadcast(stage: Stage) -> Generator[None, None, str]:
    """SHARDING_BROADCAST: each executor gets one shard and knows which."""
    run_id = stage.cluster.run(stage.job("echo", route_strategy="SHARDING_BROADCAST"), "shard")
    yield
    runs = stage.attempts(run_id)
    said = sorted(run["message"].removeprefix("shard ") for run in runs)
    processes = [stage.first, stage.worker, stage.leaver]
    counts = [process.executed().count("shard") for process in processes]
    states = sorted({run["state"] for run in runs})
    return f"{', '.join(states)}: {' '.join(said)}; runs of each executor: {counts}"


def timeout(stage: Stage) -> Generator[None, None, str]:
    """A run that takes longer than its job allows is ended by its executor."""
    run_id = stage.run(stage.job("hold", timeout_s=1), "too-long")
    yield
    state = stage.ended(run_id)["state"]
    return f"{state} and {stage.cut('too-long')}"


def retry(stage: Stage) -> Generator[None, None, str]:
    """A failure is retried as often as the job says."""
    run_id = stage.cluster.run(stage.job("fail", max_retries=1), "again")
    yield
    runs = stage.attempts(run_id)
    said = "with" if all("no luck" in run["message"] for run in runs) else "without"
    ran = stage.first.executed().count("again")
    return f"{', then '.join(run['state'] for run in runs)} {said} the handler's words; ran {ran} times"


def kill(stage: Stage) -> Generator[None, None, str]:
    """A kill ends the running handler."""
    run_id = stage.hold(stage.job("hold"), "killed")
    stage.cluster.call("POST", f"/runs/{run_id}/kill", {})
    yield
    state = stage.ended(run_id)["state"]
    return f"{state} and {stage.cut('killed')}"


def rolling_log(stage: Stage) -> Generator[None, None, str]:
    """The log is read while it grows, to its end: no line is missed or repeated."""
    count = 40
    run_id = stage.hold(stage.job("lines"), f"{count} log")
    yield
    pages: list[str] = []
    line = 1

    def read() -> bool:
        nonlocal line
        page = stage.cluster.log(run_id, line)
        pages.append(page["content"])
        line = page["next_line"]
        return bool(page["is_end"])

    if "log" not in stage.peer.lacks:
        stage.cluster.wait(lambda: read() or f"line {count // 2} of {count}" in "".join(pages), "half of the log")
    for _ in range(3):  # these bring nothing new, which must not move the place to read from
        early = read()
    before = "".join(pages)
    stage.worker.release("log")
    stage.cluster.wait(read, "the end of the log")
    text = "".join(pages)
    once = sum(text.count(f"line {number} of {count}") == 1 for number in range(1, count + 1))
    halves = f"{before.count(f' of {count}')} lines while it ran{', said to be all' if early else ''}"
    return f"{halves}, {once} once in the end"


def glue_shell(stage: Stage) -> Generator[None, None, str]:
    """A script travels with its run; a new version of it counts from the next run on."""
    job_id = stage.job("", glue_type="GLUE_SHELL", glue_source='echo "first: $1, $2/$3"\n')
    run_id = stage.run(job_id, "scripted")
    yield
    first = stage.ended(run_id)
    if first["state"] != "succeeded":
        return f"{first['state']} {first['reason']}"
    stage.cluster.call("POST", f"/jobs/{job_id}/glue", {"source": 'echo "second: $1"\n'})
    second = stage.ended(stage.run(job_id, "rescripted"))
    wanted = ((first["id"], "first: scripted, 0/1"), (second["id"], "second: rescripted"))
    logged = ["logged" if words in stage.whole_log(run_id) else "not logged" for run_id, words in wanted]
    return f"{first['state']} and {logged[0]}; new version {second['state']} and {logged[1]}"


def wrong_token(stage: Stage) -> Generator[None, None, str]:
    """Neither side takes calls with a wrong token."""
    yield
    words = "token missing or wrong"
    refused = stage.cluster.wait(lambda: words in stage.node_log(), "the refusal of the stranger")
    live = stage.stranger.address in stage.cluster.executors(stage.group_id)
    answer = stage.ask(contract.BEAT, b"", "nobody-knows-this-token")
    peer = "refuses calls" if answer.code != contract.OK else "takes any call"
    return f"registration {'refused' if refused and not live else 'taken'}, the executor {peer}"


def removal(stage: Stage) -> Generator[None, None, str]:
    """SIGTERM ends the executor and takes it out of the registry at once."""
    yield
    stage.leaver.terminate()
    # without a farewell it would be live for at least a minute more: 90 seconds from its last beat
    stage.cluster.wait(lambda: stage.leaver.address not in stage.cluster.executors(stage.group_id), "farewell", 40)
    return "gone at once"


SIDE_BY_SIDE: Final[dict[str, Step]] = {
    step.__name__: step
    for step in (
        rolling_log,
        serial,
        discard,
        cover,
        kill,
        timeout,
        beat,
        idle_beat,
        parameter,
        unknown_handler,
        broadcast,
        retry,
        glue_shell,
        wrong_token,
    )
}
ONE_BY_ONE: Final[dict[str, Step]] = {removal.__name__: removal}
