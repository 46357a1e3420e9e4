"""Which mutants there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Mutant:
    """A guard that is taken out.

    Attributes:
        role: The command that it changes, ``server`` or ``executor``; the other one stays as it is.
        module: Where in this package the function of its name is.
        breaks: What does not work even without a fault; empty if all does.
    """

    role: str
    module: str
    breaks: str = ""


MUTANTS: Final[Mapping[str, Mutant]] = {
    "no_fence": Mutant("server", "fire"),
    "epoch_unchecked": Mutant("server", "fire"),
    "revision_unchecked": Mutant("server", "fire"),
    "plan_outside_transaction": Mutant("server", "plan"),
    "no_journal": Mutant("executor", "journal"),
    "reroute_unknown": Mutant("server", "sends"),
    "no_adopt": Mutant("server", "plan", "retries, child runs and runs by hand stay planned for ever"),
    "forgetful_handover": Mutant("server", "plan"),
    "no_check": Mutant("server", "sends", "kills of runs that were sent never reach their executors"),
    "outcome_before_commit": Mutant("server", "sends"),
}
