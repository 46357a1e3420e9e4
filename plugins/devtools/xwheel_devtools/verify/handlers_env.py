"""How an executor of ``xwheel verify`` is told where its handlers write, in its environment."""

from __future__ import annotations

from typing import Final

FILE_VARIABLE: Final = "VERIFY_EXECUTIONS"
NAME_VARIABLE: Final = "VERIFY_EXECUTOR"
