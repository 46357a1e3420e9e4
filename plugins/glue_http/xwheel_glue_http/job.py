"""One HTTP job: makes its call, writes the answer into the run's log, and judges it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from xwheel.plugin import ExecutorError, RunContext, SecretMask
from xwheel_egress import Answer, EgressCall, EgressClient, EgressError

from xwheel_glue_http.document import SECRET, Call, DocumentError
from xwheel_glue_http.options import Options
from xwheel_glue_http.template import TemplateError

MAX_RESULT: Final = 2000
MAX_SAID: Final = 200
KB: Final = 1024
HIDDEN: Final = "***"
# cookies are credentials, too
_HIDDEN_HEADERS: Final = frozenset({"set-cookie", "www-authenticate", "authorization"})


class HttpJob:
    """A job's call, ready to be made once.

    Args:
        client: Makes the call.
        options: The plugin's options.
        call: What the source says.

    Raises:
        EgressRefusedError: The policy forbids it, whatever the placeholders hold.
        DocumentError: It would send a secret where that may not go.
    """

    def __init__(self, client: EgressClient, options: Options, call: Call) -> None:
        self._client = client
        self._options = options
        self._call = call
        sample = dict.fromkeys(("param", "run_id", "job_id", "shard_index", "shard_total"), "1")
        found = {name: options.secrets[name.removeprefix(SECRET)] for name in call.secrets}
        self._secrets = {name: secret.text for name, secret in found.items()}
        origin = client.policy.target(call.url({**sample, **self._secrets})).origin
        for name, secret in sorted(found.items()):
            if origin not in secret.origins:
                raise DocumentError(
                    f"${{{name}}} may not go to {origin}: "
                    f"plugins.options.glue_http.secrets.{name.removeprefix(SECRET)}.origins does not name it"
                )
        self._mask = SecretMask(self._secrets.values())

    async def run(self, context: RunContext) -> str:
        """Make the call; a kill or a timeout of the run aborts it at once.

        Returns:
            The run's result.

        Raises:
            ExecutorError: There is no complete answer, or it is not what the source expects.
        """
        values = {
            "param": context.param,
            "run_id": str(context.run_id),
            "job_id": str(context.job_id),
            "shard_index": str(context.shard_index),
            "shard_total": str(context.shard_total),
        }
        begun = time.monotonic()
        try:
            values.update(self._secrets)
            call = self._prepare(values)
            context.log(f"{self._call.method} {self._mask.hide(self._call.url(values))}")
            answer, text = await _run(call, self._text)
        except (EgressError, TemplateError) as error:
            raise ExecutorError(self._mask.hide(str(error))) from None
        took_ms = int((time.monotonic() - begun) * 1000)
        context.log(self._describe(answer, text, took_ms))
        return self._judge(answer, text)

    def _prepare(self, values: Mapping[str, str]) -> EgressCall:
        document = self._call.document
        return self._client.call(
            self._call.method,
            self._call.url(values),
            headers=self._call.headers(values),
            body=self._call.body(values),
            timeout_s=document.timeout_s,
            max_answer=self._options.read_kb * KB,
            redirects=document.redirects,
        )

    def _describe(self, answer: Answer, text: str, took_ms: int) -> str:
        lines = [f"HTTP {answer.status} from {answer.origin} in {took_ms} ms"]
        for name, value in answer.headers.items():
            lines.append(f"{name}: {HIDDEN if name in _HIDDEN_HEADERS else self._mask.hide(value)}")
        most = self._options.log_kb * KB
        body = text.encode("utf-8")
        if most and body:
            lines += ["", body[:most].decode("utf-8", "ignore")]
        if answer.truncated or len(body) > most:
            size = f"over {len(answer.body)}" if answer.truncated else str(len(answer.body))
            lines.append(f"[the body has {size} bytes; plugins.options.glue_http.log_kb says how many are kept]")
        return "\n".join(lines)

    def _judge(self, answer: Answer, text: str) -> str:
        """Judge an answer as it is shown: what a pattern met in a secret would give it away bit by bit."""
        document = self._call.document
        short = " ".join(text.split())[:MAX_SAID]
        if not self._call.takes(answer.status):
            wanted = ", ".join(str(item) for item in document.expect_status)
            raise ExecutorError(f"HTTP {answer.status}, expected {wanted}: {short}")
        part = f" in the first {len(answer.body)} bytes" if answer.truncated else ""
        if document.expect_body not in text:
            raise ExecutorError(f"HTTP {answer.status} without what expect_body names{part}: {short}")
        if document.refuse_body and document.refuse_body in text:
            raise ExecutorError(f"HTTP {answer.status} with what refuse_body names: {short}")
        return text[:MAX_RESULT] if document.result == "body" else f"HTTP {answer.status}"

    def _text(self, answer: Answer) -> str:
        """Return the body without our secrets, and without the end that may hold a part of one."""
        text = self._mask.hide(answer.text)
        return text[: max(0, len(text) - self._mask.longest)] if answer.truncated else text


async def _run(call: EgressCall, read: Callable[[Answer], str]) -> tuple[Answer, str]:
    """Run a call and read its answer on a thread of its own: the loop's helper threads are few."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Answer, str]] = loop.create_future()

    def tell(answer: tuple[Answer, str] | None, error: BaseException | None) -> None:
        if future.done():
            return  # the run was ended meanwhile
        if error is not None:
            future.set_exception(error)
        elif answer is not None:
            future.set_result(answer)

    def work() -> None:
        answer, problem = None, None
        try:
            found = call.run()
            answer = found, read(found)
        except BaseException as error:
            problem = error
        with contextlib.suppress(RuntimeError):  # the loop ended with the executor
            loop.call_soon_threadsafe(tell, answer, problem)

    threading.Thread(target=work, name="xwheel-http-job", daemon=True).start()
    try:
        return await future
    except asyncio.CancelledError:
        call.abort()
        raise
