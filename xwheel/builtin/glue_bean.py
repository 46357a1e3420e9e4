"""The glue type BEAN: the job names a function that the executor registered."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xwheel.plugin import GlueRequest, HandlerLookup, hookimpl


class BeanGlue:
    """Finds the handler by its name; the source is ignored."""

    name = "BEAN"
    takes_source = False

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> Callable[..., object]:
        """Return the function; raises :class:`~xwheel.errors.HandlerNotFoundError` if it is not registered."""
        return handlers.get(request.handler)


@hookimpl
def xwheel_register_glue_types() -> Iterable[BeanGlue]:
    """Register BEAN."""
    return [BeanGlue()]
