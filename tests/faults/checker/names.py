"""How an executor is told where its handlers write, in its environment."""

from __future__ import annotations

from typing import Final

FILE_VARIABLE: Final = "CHECKER_EXECUTIONS"
NAME_VARIABLE: Final = "CHECKER_EXECUTOR"
