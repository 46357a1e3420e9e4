"""Ask plugins and executors between the attempts of a transaction, never inside: the answers are the same each time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar, cast

from xwheel.errors import StorageError
from xwheel.runtime.foreign import PluginThreads

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

ATTEMPTS: Final = 6

_Answer = tuple[object, Exception | None]


class PluginQuestion(NamedTuple, Generic[T_co]):
    """A question to code such as ``schedule type CRON``: called at once if it is trusted, or else on another thread."""

    name: str
    is_trusted: bool
    call: Callable[[], T_co]


class _MissingAnswersError(BaseException):
    """A transaction needs answers to these questions; no handler for errors of plugins may catch it."""

    def __init__(self, questions: Mapping[Hashable, PluginQuestion[object]]) -> None:
        super().__init__()
        self.questions = questions


class PluginQuestions:
    """Answers for transactions, by what was asked; plugins that are not trusted are asked on threads.

    Thread-safety: each thread has its own answers, and only inside :meth:`around`.
    """

    def __init__(self, threads: PluginThreads) -> None:
        self._threads = threads
        self._local = threading.local()

    def around(self, transact: Callable[[], T]) -> T:
        """Return what a transaction returns; one that needs an answer is given up, and done again with it.

        ``transact`` runs it from its begin to its end, and has no effect if it raises. Raises StorageError if each
        attempt needed other answers than the one before.
        """
        answers: dict[Hashable, _Answer] = {}
        for _ in range(ATTEMPTS):
            self._local.answers = answers
            try:
                return transact()
            except _MissingAnswersError as missing:
                self._local.answers = None
                for key, question in missing.questions.items():
                    answers[key] = self._try(question)
            finally:
                self._local.answers = None
        raise StorageError(f"what plugins are asked about changed {ATTEMPTS} times: try again")

    def ask(self, key: Hashable, question: PluginQuestion[T]) -> T:
        """Return an answer, or raise what the plugin raised; inside :meth:`around` it comes from before, by its key."""
        answers = getattr(self._local, "answers", None)
        if answers is None:
            return self._now(question)
        self.need({key: question})
        value, error = answers[key]
        if error is not None:
            raise error
        return cast(T, value)

    def answered(self, key: Hashable) -> object:
        """Return what was answered before an earlier attempt, or None; what raised is no answer."""
        answers = getattr(self._local, "answers", None)
        return None if answers is None else answers.get(key, (None,))[0]

    def need(self, questions: Mapping[Hashable, PluginQuestion[object]]) -> None:
        """Have many questions answered at once, ahead of :meth:`ask`."""
        answers = getattr(self._local, "answers", None)
        if answers is None:
            return
        if missing := {key: question for key, question in questions.items() if key not in answers}:
            raise _MissingAnswersError(missing)

    def _try(self, question: PluginQuestion[object]) -> _Answer:
        try:
            return self._now(question), None
        except Exception as error:  # raised inside the transaction, where it is asked
            return None, error

    def _now(self, question: PluginQuestion[T]) -> T:
        if question.is_trusted:
            return question.call()
        return self._threads.call(question.name, lambda _: question.call())
