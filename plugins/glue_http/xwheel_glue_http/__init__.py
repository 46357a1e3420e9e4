"""The glue type GLUE_HTTP: a job whose source describes one HTTP call, which an executor makes.

Where it may go is the executor's egress policy, and it runs only if ``executor.allowed_glue_types`` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import ExecutorError, GlueRequest, HandlerLookup, hookimpl
from xwheel_egress import EgressClient, EgressPolicy, EgressRefusedError

from xwheel_glue_http.document import DocumentError, read_document
from xwheel_glue_http.job import HttpJob
from xwheel_glue_http.options import Options, read_options

if TYPE_CHECKING:
    from xwheel import Config

__all__ = ["HttpGlue", "xwheel_register_glue_types"]


class HttpGlue:
    """HTTP calls as jobs.

    Args:
        client: Makes the calls.
        options: The plugin's options.
    """

    name = "GLUE_HTTP"
    takes_source = True

    def __init__(self, client: EgressClient, options: Options) -> None:
        self._client = client
        self._options = options

    def check_source(self, source: str) -> None:
        """Refuse a source that no executor can use; secrets and networks are the executors' own.

        Raises:
            ExecutorError: Says what is wrong.
        """
        try:
            read_document(source)
        except DocumentError as error:
            raise ExecutorError(str(error)) from None

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> Callable[..., object]:
        """Return what makes the call.

        Raises:
            ExecutorError: The source is no description of a call, the policy does not allow the call, or a secret
                is not for it.
        """
        del handlers
        try:
            document = read_document(request.source, self._options.secrets)
            return HttpJob(self._client, self._options, document).run
        except (DocumentError, EgressRefusedError) as error:
            raise ExecutorError(f"{self.name} of job {request.job_id}: {error}") from None


@hookimpl
def xwheel_register_glue_types(config: Config) -> Iterable[HttpGlue]:
    """Register GLUE_HTTP."""
    client = EgressClient(EgressPolicy.from_config(config))
    return [HttpGlue(client, read_options(config, client))]
