"""Mistakes in packages of jobs: what is taken, whose it is, and how it is built and run."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old="        if size > self.most:\n",
        new="        if size > self.limits.unpacked_bytes:\n",
        why="A small archive could unpack to a thousand times its size.",
        tests=("plugins/job_package/tests/test_archive.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old='folded = unicodedata.normalize("NFC", path).casefold()\n        if',
        new='folded = unicodedata.normalize("NFC", path)\n        if',
        why="Two members that are one file where case does not count would be taken.",
        tests=("plugins/job_package/tests/test_archive.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old="    counter.check_folders()\n    return counter\n\n\ndef _check_wheel",
        new="    return counter\n\n\ndef _check_wheel",
        why="A source distribution whose file is also a folder would be taken.",
        tests=("plugins/job_package/tests/test_archive.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old="or _DRIVE.match(path)",
        new="",
        why="A member could name a drive.",
        tests=("plugins/job_package/tests/test_archive.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old="counter.add(item.orig_filename, is_folder",
        new="counter.add(item.filename, is_folder",
        why="The name that the library repaired would be judged, not what stands in the archive.",
        tests=("plugins/job_package/tests/test_archive.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old="if not 0 <= size <= MAX_TEXT:",
        new="if size < 0:",
        why="A header of a tar archive could ask for all memory.",
        tests=("plugins/job_package/tests/test_archive.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old=(
            "        while unpacked.read(PIECE):  # to its end, where the checksum is\n"
            "            counter.judge(unpacked.tell())\n"
        ),
        new="",
        why="A source distribution would be taken whose checksum is wrong.",
        tests=("plugins/job_package/tests/test_archive.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old="if member is None or path in listed:",
        new="if member is None:",
        why="A wheel whose record lists a file twice would be taken.",
        tests=("plugins/job_package/tests/test_archive.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old="if missing := sorted(set(archive.members) - listed - unlisted):",
        new="if missing := sorted(listed - set(archive.members)):",
        why="A wheel could hold files that its record does not list.",
        tests=("plugins/job_package/tests/test_archive.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old="if (project, version) != (named.project, named.version):",
        new="if project != named.project:",
        why="A wheel could be of another version than its name.",
        tests=("plugins/job_package/tests/test_archive.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old="if size > most or self._kept > MAX_KEPT:",
        new="if size > most:",
        why="The modules of a package could fill memory together.",
        tests=("plugins/job_package/tests/test_archive.py", "plugins/job_package/tests/test_scan.py"),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/archive.py",
        old='            left -= check_wheel(copy, name.rpartition("/")[2], left).unpacked_bytes',
        new='            check_wheel(copy, name.rpartition("/")[2], left)',
        why="Wheels in a package could be as large as the limit each.",
        tests=(
            "plugins/job_package/tests/test_archive.py",
            "plugins/job_package/tests/test_packages.py",
            "plugins/job_package/tests/test_resolution.py",
        ),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/scan.py",
        old="for name, _ in [*marks, *owners]):",
        new="for name, _ in marks):",
        why="A job of a disabled class would be found.",
        tests=("plugins/job_package/tests/test_scan.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/scan.py",
        old="node.module == _AUTHORS and not node.level:",
        new="node.module == _AUTHORS:",
        why="A decorator of the package's own module of that name would count as ours.",
        tests=("plugins/job_package/tests/test_scan.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/scan.py",
        old="if any(value is None for value in arguments.kw_defaults) or (skip",
        new="if (skip",
        why="A function that takes a keyword no one gives would be a job.",
        tests=("plugins/job_package/tests/test_scan.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/scan.py",
        old="if len(scheduled) > 1 or not isinstance",
        new="if not isinstance",
        why="Of two decorators of one function the first would count, and the second be forgotten.",
        tests=("plugins/job_package/tests/test_scan.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/scan.py",
        old=('if unknown := sorted(given.keys() - set(ARGUMENTS)) or ["a second value"] * (len(call.args) > 1):'),
        new="if unknown := sorted(given.keys() - set(ARGUMENTS)):",
        why="A second value in a decorator's brackets would be dropped without a word.",
        tests=("plugins/job_package/tests/test_scan.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/signatures.py",
        old='"\\n".join((project, version, sha256)).encode()',
        new='"\\n".join((project, sha256)).encode()',
        why="A signature would count for another version.",
        tests=("plugins/job_package/tests/test_signatures.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/signatures.py",
        old="        if not self._keys:\n            return\n",
        new="        if not self._keys or not signature:\n            return\n",
        why="A package without a signature would be taken where only signed ones are.",
        tests=("plugins/job_package/tests/test_signatures.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/signatures.py",
        old='"\\n".join((project, version, sha256)).encode()',
        new='"".join((project, version, sha256)).encode()',
        why="A signature of one name and version would count for another cut of the two.",
        tests=("plugins/job_package/tests/test_signatures.py",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/operations.py",
        old='reason in {"timeout", "superseded"}:',
        new='reason == "superseded":',
        why="A timeout would stop a job that a node may be starting.",
        tests=("plugins/job_package/tests/test_distribution.py::test_no_answer_in_time",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/operations.py",
        old="        if not is_last:\n",
        new='        if not is_last and state == "Startup":\n',
        why="An operation that failed late would stop a job that was started since.",
        tests=("plugins/job_package/tests/test_distribution.py::test_a_newer_operation_stays_when_an_older_fails",),
    ),
    Mistake(
        file="plugins/job_package/xwheel_job_package/installation.py",
        old='words = ["--no-index"] if index == "none" else []',
        new="words: list[str] = []",
        why="An installer would ask the public index though the node allows none (S13).",
        tests=("plugins/job_package/tests/test_resolution.py::test_each_command_names_the_index_that_the_node_allows",),
    ),
]
