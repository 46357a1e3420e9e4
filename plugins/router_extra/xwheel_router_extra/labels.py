"""LABELS: only executors whose labels fit, and then another router chooses among them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from xwheel.plugin import NoExecutorYetError, RegisteredExecutor, RouteContext, RouteError

from xwheel_router_extra.selector import Requirement, parse_selector

BAR: Final = "|"
DEFAULT: Final = "ROUND"
KNOWN: Final = 10_000
LISTS: Final = 256


class Plan(NamedTuple):
    """What a job's options say."""

    selector: tuple[Requirement, ...]
    then: str


class Labels:
    """Chooses among the executors whose labels meet a selector, by another router that the job names after a bar.

    ``route_options`` are such as ``gpu=yes,zone in (a,b),!spot | LEAST_LOADED``; ROUND chooses where none is named. A
    run that no executor fits waits as long as its job waits for an executor, and is refused then. LABELS_ASKING is the
    same for routers that ask executors.

    Args:
        name: What jobs call it.
        asks: Whether the other router may be one that asks executors.
    """

    def __init__(self, name: str, *, asks: bool) -> None:
        self.name = name
        self.asks = asks
        self._lock = threading.Lock()
        self._plans: dict[str, Plan] = {}
        self._fitting: OrderedDict[tuple[int, str], tuple[object, Sequence[RegisteredExecutor]]] = OrderedDict()

    def check(self, options: str) -> None:
        """Refuse a selector that cannot be read, and a router that cannot be used with it."""
        self._parse(options)

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor] | Sequence[str]:
        """Return what the other router chooses among those that fit."""
        options = context.job.route_options
        plan = self._plans.get(options) or self._remember(options)
        fitting = self._fit(context, options, plan)
        if not fitting:
            text = options.partition(BAR)[0].strip()
            raise NoExecutorYetError(f"none of {len(context.executors)} executors has the labels {text}")
        router = context.routers.get(plan.then)
        if router is None:
            raise RouteError(f"route_options name the router {plan.then}, which is not installed")
        if router.asks and not self.asks:
            raise RouteError(f"{plan.then} asks executors: use it with LABELS_ASKING")
        return router.route(msgspec.structs.replace(context, executors=fitting))

    def _remember(self, options: str) -> Plan:
        plan = self._parse(options)
        with self._lock:
            if len(self._plans) >= KNOWN:
                self._plans.clear()
            self._plans[options] = plan
        return plan

    def _parse(self, options: str) -> Plan:
        selector, bar, then = (part.strip() for part in options.partition(BAR))
        if not selector:
            raise RouteError(f"{self.name} needs a selector of labels, such as gpu=yes,zone in (a,b) | {DEFAULT}")
        if bar and (not then or any(sign.isspace() or sign == BAR for sign in then)):
            raise RouteError(f"after {BAR} comes the name of one router, such as {DEFAULT}")
        if then.startswith("LABELS"):
            raise RouteError("after the selector comes another router, not one for labels again")
        if then in {"FAILOVER", "BUSYOVER"} and not self.asks:
            raise RouteError(f"{then} asks executors: use it with LABELS_ASKING")
        return Plan(parse_selector(selector), then or DEFAULT)

    def _fit(self, context: RouteContext, options: str, plan: Plan) -> Sequence[RegisteredExecutor]:
        """Return the executors that fit, in the same order; computed once for each list that the scheduler passes."""
        executors = context.executors
        key = (id(executors), options)
        # the list is kept too, so no other one can have its id
        known = self._fitting.get(key)
        if known is not None and known[0] is executors:
            return known[1]
        fitting = [item for item in executors if all(want.holds(item.labels) for want in plan.selector)]
        with self._lock:
            self._fitting[key] = (executors, fitting)
            if len(self._fitting) > LISTS:
                self._fitting.popitem(last=False)
        return fitting
