"""A node stepped by hand and both applications, with what jobs that code declares take."""

from __future__ import annotations

import dataclasses

import pytest
from xwheel_jobs_as_code.declarations.manager import DeclarationManager
from xwheel_jobs_as_code.declarations.plugin import DeclarationResources

from tests.component.api.conftest import LIMIT, Api, billing, orders
from tests.product.api import product_api
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.api.plugins.site import RouteSite
from xwheel.api.schema.health import HealthReport
from xwheel.clock import ManualClock
from xwheel.node.node import api_parts
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.registries import Registry
from xwheel.storage.database.engine import Database

__all__ = ["api", "billing", "orders"]


class DeclaringNode(HandNode):
    """A node with what declared jobs take."""

    def installed(self, known: Plugins) -> Plugins:
        return dataclasses.replace(
            known, resources=Registry("set of resources", {"declarations": DeclarationResources(self.config)}, {})
        )


@pytest.fixture
def node(db: Database) -> HandNode:
    made = DeclaringNode(db, ManualClock(NOW))
    made.group()
    made.register("http://127.0.0.1:9001")
    return made


def manager_of(node: HandNode) -> DeclarationManager:
    """Return what a node carries syncs out with, the same one each time."""
    if not hasattr(node, "declarations"):
        site = RouteSite(api_parts(node.scheduler, HealthReport))
        node.declarations = DeclarationManager(site, gone_ms=node.config.trigger.dead_after_s * 1000)
    return node.declarations


@pytest.fixture
def api(db: Database) -> Api:
    """Both applications."""
    return product_api(db, {"max_body_bytes": LIMIT})
