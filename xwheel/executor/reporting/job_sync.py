"""Keeps the scheduler's jobs what this application's code declares, and says that its release is alive."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from xwheel.config.sections import ExecutorSection
from xwheel.errors import AuthError, FieldError, WireError, XwheelError
from xwheel.executor.declarations import Declaration, declared_body, digest_of, problem_line
from xwheel.wire.http.rest import RestClient
from xwheel.wire.http.tls import NO_FILES, TlsFiles

logger = logging.getLogger(__name__)

PATH: Final = "/api/v1/declarations/sync"
RETRY_MS: Final = 5000
POLL_MS: Final = 200
CALL_S: Final = 10
ANSWER_S: Final = 60  # a thousand new jobs take a while
OWNS: Final = "owns"
CONFLICTS: Final = "conflicts"
SHOWN: Final = 8  # characters of a digest that people see


class JobSync:
    """Sends what code declares once the executor is registered, and from then on signs of life.

    A node answers each of them: whether these declarations own the jobs of the group, and whether it wants all of them
    again. What is wrong is logged once, and again when it changes; nothing here ends the executor. ``token`` is one of
    the group; ``is_registered`` says whether a scheduler confirmed a beat.
    """

    def __init__(
        self,
        settings: ExecutorSection,
        *,
        token: str,
        declarations: Sequence[Declaration],
        instance: str,
        is_registered: Callable[[], bool],
        tls: TlsFiles = NO_FILES,
    ) -> None:
        addresses = settings.sync_addresses
        self._clients = [RestClient(address, token, timeout_s=CALL_S, tls=tls) for address in addresses]
        for client in self._clients:
            client.allow(ANSWER_S)
        self._token = token
        self._declarations = {item.name: item for item in declarations}
        self._app_name = settings.app_name
        self.release, self.digest = settings.release.strip(), digest_of(declarations)
        self._head = {"app_name": self._app_name, "release": self.release, "digest": self.digest, "instance": instance}
        self._is_registered = is_registered
        self._interval_ms = int(settings.sync_s * 1000)
        self._wants_all = True
        self._said: dict[str, str] = {}
        self.is_taken = False  # whether a node took a call: from then on the beats say what is declared here

    def step(self, _now_ms: int) -> int:
        """Make one call; return the time until the next, in milliseconds."""
        if not self._is_registered():
            return POLL_MS
        body = dict(self._head)
        if self._wants_all:
            body |= declared_body(self._declarations.values())
        try:
            report = self._call(body)
            self._take(report)
        except (XwheelError, KeyError, TypeError, ValueError) as error:
            said = str(error).replace(self._token, "…")
            self._say("call", logging.ERROR, "the jobs that code declares are not synced: %s", said)
            return min(RETRY_MS, self._interval_ms)
        self._say("call", logging.INFO, "the jobs that code declares can be synced again", "")
        if report.get("needs_jobs") and not self._wants_all:
            self._wants_all = True
            return 0
        self._wants_all = False
        return self._interval_ms

    def _call(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the first node says that can be reached; raises XwheelError if none can be, or one refuses."""
        problem: XwheelError | None = None
        for client in self._clients:
            try:
                answer = client.call("POST", PATH, body)
                if not isinstance(answer, dict):
                    raise WireError("a node answers with something else than a report")
                return answer
            except AuthError as error:
                detail = str(error).partition("Authorization: ")[2].partition("; 'xwheel login'")[0]
                raise AuthError(
                    f"executor.sync_token is refused: {detail or error}; 'xwheel token create NAME --group "
                    f"{self._app_name} --to-file FILE' makes one for executor.sync_token_file"
                ) from None
            except FieldError as error:
                name = "executor.release" if error.field == "release" else error.field
                raise FieldError(name, error.reason) from None
            except WireError as error:
                said = str(error).partition("; --url")[0].partition(": nothing takes")[0]
                problem = problem or WireError(f"executor.sync_addresses: {said}")
        raise problem or WireError("executor.sync_addresses: none is given")

    def _take(self, report: Mapping[str, Any]) -> None:
        self.is_taken = True
        standing, other = report["standing"], report["other"] or {}
        who = f"release {other.get('release')} ({str(other.get('digest'))[:SHOWN]})"
        if standing == OWNS:
            self._say("standing", logging.INFO, "release %s owns the jobs that it declares", self.release)
        elif standing == CONFLICTS:
            text = (
                "not synced: %s declares other jobs than this build (%s) of the same release, and came first: give "
                "this build a release of its own, or the executors of this group the same modules"
            )
            self._say("standing", logging.WARNING, text, who, self.digest[:SHOWN])
        else:
            kept = "is kept a while, though gone" if report["until_ms"] else "has a live executor"
            self._say("standing", logging.INFO, "release %s waits: %s %s", self.release, who, kept)
        others = ", ".join(str(item["digest"])[:SHOWN] for item in report["conflicts"])
        if others and standing == OWNS:
            text = "live executors of the same release %s declare other jobs than this build (%s), which came first: %s"
            self._say("others", logging.WARNING, text, self.release, self.digest[:SHOWN], others)
        elif not others:
            self._said.pop("others", None)
        for step in report["steps"]:
            changes = step["changes"] if step["action"] == "update" else ()
            fields = ", ".join(change["field"] for change in changes)
            logger.info("declared job %s: %s%s", step["name"], step["action"], fields and f" {fields}")
        for problem in report["problems"] if self._wants_all else ():
            known = self._declarations.get(problem["name"])
            if known is not None and known.problem is not None:
                continue  # the start has said so
            line = problem_line(known, problem)
            self._say(f"job {problem['name']}", logging.ERROR, "%s; until then its job stays as it is", line)

    def _say(self, about: str, level: int, text: str, *words: str) -> None:
        line = text % tuple(words) if "%" in text else text
        before = self._said.get(about)
        if before == line or (before is None and about == "call" and level == logging.INFO):
            return
        self._said[about] = line
        logger.log(level, "%s", line)
