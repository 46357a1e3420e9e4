"""What the pages deny is denied on purpose: each such sentence is in a list that says why it is true.

A page that says "there is no console" outlives the day on which there is one: no code changes with it. So sentences
that deny a feature, and what stands under "What is missing", are found here and compared with ``DENIED``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from xwheel_alarms.records import RULE_KINDS

from tests.support.paths import DOCS, DOCS_PAGES, ROOT
from xwheel.config.sections import EgressSection, ExecutorSection

PAGES = [
    *(page for page in sorted(ROOT.glob("*.md")) if page.name != "CHANGELOG.md"),
    *DOCS_PAGES,
    *sorted((ROOT / "plugins").glob("*/README.md")),
]
DENIAL = re.compile(
    r"\b(?:no|not|none|nothing|no one|never|neither|cannot)\b.*\b(?:yet|so far)\b"
    r"|\bso far\b"
    r"|\bnot (?:yet )?(?:supported|implemented|possible|available)\b|\bunsupported\b|\bdoes not support\b"
    r"|\bNot there\b|\bThere (?:is|are) (?:no|none|neither|not)\b|\bNo command\b"
    r"|\bin a later version\b|\bis planned for\b"
)
I18N = ROOT / "plugins" / "console" / "xwheel_console" / "static" / "i18n"
COMMANDS = (DOCS / "reference" / "cli.md").read_text()


class Denied(NamedTuple):
    """Why a denial is true.

    Attributes:
        why: The reason.
        holds: Asks the code; None where no code can answer.
    """

    why: str
    holds: Callable[[], bool] | None = None


STATE = Denied("says of a run, a row, a file or a server what its state is; denies no feature")
LINUX = Denied(
    "process groups, file locks and /proc are used as Linux has them",
    lambda: "Operating System :: POSIX :: Linux" in (ROOT / "pyproject.toml").read_text(),
)
IMPORTS = Denied(
    "issue 32 is about moving in; until then no command imports",
    lambda: not re.search(r"^#+ .*\bimport\b", COMMANDS, re.MULTILINE),
)
DENIED = {
    # states
    "not sent yet": STATE,
    "has had no due time yet": STATE,
    "answers *not yet*": STATE,
    "answer *not yet*": STATE,
    "WSREP has not yet prepared node": STATE,
    "not yet sent": STATE,
    "not yet on disk": STATE,
    "no place yet": STATE,
    "was not written there yet": STATE,
    "not sealed yet": STATE,
    "has not announced yet": STATE,
    "If the server is not there yet": STATE,
    "the name does not resolve yet": STATE,
    "no one may have it yet": STATE,
    "no one may have it *yet*": STATE,
    "if no one got it yet": STATE,
    "the one that has it is gone or not ready yet": STATE,
    "the cluster has not been told yet": STATE,
    "a database of SQLite that has none of them yet": STATE,
    "got the fewest runs of the job so far": STATE,
    "There is no job in it": STATE,
    "There is no log without a log handler of yours": STATE,
    "Where that is not possible, note what was done": STATE,
    # rules
    "There is none in configuration, code or database": Denied("rule R1: no secret by default"),
    "There is no default token": Denied(
        "rule R1", lambda: ExecutorSection.model_fields["access_token"].default is None
    ),
    "There is no default secret": Denied("rule R1"),
    "There are no rules about digits and signs": Denied("NIST SP 800-63B advises against them"),
    "There are no tags and no merge keys": Denied("of YAML: tags name classes, merge keys hide what is merged"),
    "There is no field for seconds": Denied("of crontab, which has five fields; Quartz's has seconds"),
    "There is no setting for a proxy either": Denied(
        "a proxy would resolve names and so get around the policy",
        lambda: not any("proxy" in name for name in EgressSection.model_fields),
    ),
    "Not there: a defence against many complete": Denied("a proxy's rate limit is the place for it"),
    "Not there: signed requests between": Denied("tokens travel with calls, and TLS protects them"),
    "Not there: who types a hundred wrong ones": Denied("a lock is lifted by an admin"),
    # what is missing, for people who come from elsewhere
    "A scheduler in memory alone": Denied("a fire is a row first"),
    "Stores in MongoDB, Redis": Denied("SQL is what fences and leases are made of"),
    "Combined triggers": Denied("calendars do a part of it"),
    "Any callable with any arguments": Denied("nothing is pickled"),
    "Schedulers for Qt, gevent": Denied("threads and asyncio are there"),
    "Other systems than Linux": LINUX,
    "nodes and executors run on Linux": LINUX,
    "Few dependencies": Denied("a node serves HTTP and speaks SQL"),
    "Celery's workers": Denied("the broker's work stays Celery's"),
    "The Django admin": Denied("the console takes its place"),
    "Solar schedules": Denied("a schedule type in a plugin can have them"),
    "An import** of `beat_schedule`": IMPORTS,
    "No import command": IMPORTS,
    "No command of xwheel reads XXL-JOB's tables": IMPORTS,
    "It is a service to run": Denied("cron needs no database"),
    "`@reboot`": Denied("a job belongs to no machine"),
    "A user for each line": Denied(
        "run_as is a setting of the executor, not of a job", lambda: "--run-as" not in COMMANDS
    ),
    "Mail with the output of success": Denied(
        "rules have no kind for it", lambda: "succeeded" not in {str(kind) for kind in RULE_KINDS}
    ),
    "Groovy** runs on Java executors alone": Denied("it needs a JVM"),
    "Executors before 2.2 speak another protocol": Denied(
        "another wire; and words are in English, the console's in two languages",
        lambda: {"zh-CN", "en"} == {path.name for path in I18N.iterdir()},
    ),
}


def denials(text: str) -> Iterator[str]:
    """Yield what a page denies: sentences, and the points under "What is missing"; listings aside."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\]\([^)\s]*\)", "]", text)  # the words of links, and not their addresses
    is_missing = False
    for block in re.split(r"\n\s*\n|\n(?=[-|#]|\d+\. )", text):
        if block.startswith("#"):
            is_missing = block.strip().endswith("What is missing")
        words = " ".join(block.split())
        if is_missing and words.startswith("- "):
            yield words
            continue
        yield from (part for part in re.split(r"(?<=[.;!?])\s+|\s\|\s", words) if DENIAL.search(part))


FOUND = [(str(page.relative_to(ROOT)), words) for page in PAGES for words in denials(page.read_text())]


def unlisted(found: list[tuple[str, str]]) -> list[str]:
    """Return the denials that no entry of the list is about, or that deny something else besides."""
    return [f"{page}: {words}" for page, words in found if not _is_listed(words)]


def _is_listed(words: str) -> bool:
    rest = words
    for known in DENIED:
        rest = rest.replace(known, "")
    return rest != words and DENIAL.search(rest) is None


def test_what_pages_deny_is_in_the_list() -> None:
    assert unlisted(FOUND) == [], (
        "a page denies something. Is it true? If the feature is there, say so on the page; if it is not, add some "
        "words of the sentence to DENIED in tests/test_denials.py, with the reason and, where the code can answer, "
        "a function that asks it"
    )


@pytest.mark.parametrize("known", DENIED)
def test_an_entry_of_the_list_stands_on_a_page_and_holds(known: str) -> None:
    assert any(known in words for _, words in FOUND), (
        f"no page says {known!r} any more: take it out of DENIED in tests/test_denials.py"
    )
    holds = DENIED[known].holds
    assert holds is None or holds(), (
        f"the code has what a page denies with {known!r}: mend the page, and take the entry out of DENIED"
    )


@pytest.mark.parametrize(
    "words",
    [
        "There is no console yet.",
        "**There are no accounts and roles yet**: a token opens everything.",
        "The Django admin, and any console so far.",
        "Jobs cannot be uploaded as archives yet.",
        "**Not there yet:** the scan.",
        "## What is missing\n\n- **A console.** Use the commands.",
    ],
)
def test_sentences_that_were_false_once_are_found(words: str) -> None:
    assert unlisted([("page", found) for found in denials(words)])


def test_other_sentences_pass() -> None:
    assert not list(denials("The node answers.\n\n```sh\necho there is no console yet\n```\n\nIt has yet to say no."))
