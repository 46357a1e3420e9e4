"""Executor secrets at rest: the key file, and what it opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from xwheel.errors import ConfigError
from xwheel.runtime.sealing import KeyRing, is_plain, make_key, read_keys

SECRET = "the-secret-of-the-orders-group"


def write(folder: Path, *lines: str, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_text("\n".join(lines) + "\n")
    path.chmod(mode)
    return path


def test_what_is_sealed_is_not_readable_and_opens_again(tmp_path: Path) -> None:
    keys = read_keys(write(tmp_path, "# of the cluster", make_key(), ""))
    sealed = keys.seal(SECRET)
    assert SECRET not in sealed
    assert not is_plain(sealed)
    assert keys.open(sealed) == SECRET
    assert keys.seal(SECRET) != sealed


def test_without_a_file_secrets_are_plain(tmp_path: Path) -> None:
    del tmp_path
    keys = read_keys(None)
    assert is_plain(keys.seal(SECRET))
    assert keys.open(keys.seal(SECRET)) == SECRET


def test_the_next_key_opens_what_the_one_before_sealed() -> None:
    old, new = make_key(), make_key()
    sealed = KeyRing([old]).seal(SECRET)
    assert KeyRing([new, old]).open(sealed) == SECRET
    for keys in (KeyRing([new]), KeyRing()):
        with pytest.raises(ConfigError, match="security.key_file") as caught:
            keys.open(sealed)
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    key = make_key()
    with pytest.raises(ConfigError, match="chmod 600") as caught:
        read_keys(write(tmp_path, key, mode=mode))
    assert key not in str(caught.value)


@pytest.mark.parametrize("lines", [[], ["# nothing"], ["short"], ["x" * 44], [make_key(), "no key"]])
def test_a_key_file_with_something_else_is_refused(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(ConfigError, match="security.key_file.*xwheel secret key FILE"):
        read_keys(write(tmp_path, *lines))


def test_a_key_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read .*none"):
        read_keys(tmp_path / "none")
    with pytest.raises(ConfigError, match="no plain file"):
        read_keys(tmp_path)
