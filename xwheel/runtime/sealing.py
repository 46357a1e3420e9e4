"""Secrets at rest: sealed under the keys of a file, or plain where there is none.

What is sealed here must be read again, since executors are called with it; what only has to be recognised is kept as a
digest and not here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from stat import S_IMODE, S_ISREG
from types import ModuleType
from typing import Final

from xwheel.errors import ConfigError
from xwheel.extras import extra

SETTING: Final = "security.key_file"
MAX_FILE: Final = 64 * 1024
OTHERS: Final = 0o077
PLAIN: Final = "plain:"
SEALED: Final = "fernet:"
MAKE: Final = "'xwheel secret key FILE' makes one"


class KeyRing:
    """The keys of a cluster: the first one seals, all of them open. Without any, secrets are kept plain.

    Its keys are Fernet keys, the present one first. Raises ConfigError: one of them is no key.
    """

    def __init__(self, keys: Sequence[str] = ()) -> None:
        try:
            made = [_fernet().Fernet(key) for key in keys]
        except ValueError:
            raise ConfigError(f"{SETTING}: a line is no key; {MAKE}") from None
        self._fernet = _fernet().MultiFernet(made) if made else None
        self._keys = tuple(keys)
        self.fingerprints: Sequence[str] = tuple(
            hashlib.sha256(f"xwheel key {key}".encode()).hexdigest()[:32] for key in keys
        )

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self.fingerprints)})"

    def derive(self, label: str) -> Sequence[tuple[str, bytes]]:
        """Return the names of all and keys made of them, the present one first; another label gives other keys."""
        return [
            (name, hmac.digest(base64.urlsafe_b64decode(key), label.encode(), "sha256"))
            for name, key in zip(self.fingerprints, self._keys, strict=True)
        ]

    def seal(self, secret: str) -> str:
        """Return what is stored of a secret."""
        if self._fernet is None:
            return f"{PLAIN}{secret}"
        return f"{SEALED}{self._fernet.encrypt(secret.encode()).decode()}"

    def open(self, sealed: str) -> str:
        """Return a secret. Raises ConfigError: it was sealed under another key; the message holds nothing of it."""
        if sealed.startswith(PLAIN):
            return sealed.removeprefix(PLAIN)
        if self._fernet is None:
            raise ConfigError(f"an executor secret is encrypted, but {SETTING} is not set")
        try:
            return str(self._fernet.decrypt(sealed.removeprefix(SEALED)), "utf-8")
        except _fernet().InvalidToken:
            raise ConfigError(f"{SETTING}: an executor secret was encrypted under another key") from None


def _fernet() -> ModuleType:
    """Return the library, which takes 7 MB, and which no node needs whose secrets are plain."""
    with extra("server", lambda why: ConfigError(f"sealing secrets {why}")):
        from cryptography import fernet
    return fernet


def read_keys(path: Path | None) -> KeyRing:
    """Return the keys of a file, one a line, the present one first; without a file, none.

    Raises ConfigError: the file is not there, is no plain file, can be read by others, or holds something else; the
    message holds nothing of it.
    """
    if path is None:
        return KeyRing()
    try:
        mode = path.stat().st_mode
        if not S_ISREG(mode):
            raise ConfigError(f"{SETTING}: {path} is no plain file")
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{SETTING}: cannot read {path}: {error.strerror}; {MAKE}") from None
    if S_IMODE(mode) & OTHERS:
        raise ConfigError(f"{SETTING}: others may read or write {path}: run 'chmod 600 {path}'")
    lines = [line.strip() for line in data.decode("ascii", "replace").splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys or len(data) > MAX_FILE:
        raise ConfigError(f"{SETTING}: {path} holds no keys; {MAKE}")
    return KeyRing(keys)


def make_key() -> str:
    """Return a new key, for a line of a key file."""
    return str(_fernet().Fernet.generate_key(), "utf-8")


def is_plain(sealed: str) -> bool:
    """Return whether a secret is stored as it is."""
    return sealed.startswith(PLAIN)
