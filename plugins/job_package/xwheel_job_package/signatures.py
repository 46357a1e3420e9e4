"""Signatures of packages: Ed25519 (RFC 8032) over project, version and the file's SHA-256.

A key is a line ``ed25519:BASE64``; which of several keys signed is said by the first half of its public key's hash.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from xwheel.plugin import ConfigError, XwheelError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

KIND: Final = "ed25519:"
MOST_SIGNATURE: Final = 200
_SIGNATURE: Final = re.compile(r"[0-9a-f]{32}:[A-Za-z0-9+/]{86}==")
_PURPOSE: Final = b"xwheel package 1\n"


class SignatureError(XwheelError):
    """A package is not signed, or not by somebody who is trusted.

    Attributes:
        reason: ``unsigned_package`` or ``bad_signature``.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason


class TrustedKeys:
    """Public keys whose signatures count; without any, nothing is checked.

    Args:
        lines: Each ``ed25519:BASE64``.

    Raises:
        ConfigError: One is no public key.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._keys: dict[str, Ed25519PublicKey] = {}
        for line in lines:
            data = _raw(line)
            self._keys[key_id(data)] = _public(data)

    def check(self, signature: str, project: str, version: str, sha256: str) -> None:
        """Refuse a package that no trusted key has signed.

        Raises:
            SignatureError: It is so.
        """
        if not self._keys:
            return
        from cryptography.exceptions import InvalidSignature

        what = f"{project} {version}"
        if not signature:
            text = f"{what} has no signature, and only signed packages are taken: 'xwheel package sign' makes one"
            raise SignatureError("unsigned_package", text)
        if len(signature) > MOST_SIGNATURE or not _SIGNATURE.fullmatch(signature):
            raise SignatureError("bad_signature", f"the signature of {what} is none")
        name, _, value = signature.partition(":")
        key = self._keys.get(name)
        if key is None:
            raise SignatureError("bad_signature", f"{what} is signed with key {name}, which is not trusted here")
        try:
            key.verify(base64.b64decode(value), _message(project, version, sha256))
        except InvalidSignature:
            text = f"{what} is signed with key {name}, but not this file under this name and version"
            raise SignatureError("bad_signature", text) from None


def new_key() -> tuple[str, str]:
    """Return a new private key and its public one, each a line."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    return _line(key.private_bytes_raw()), _line(key.public_key().public_bytes_raw())


def sign(private: str, project: str, version: str, sha256: str) -> str:
    """Return a signature: which key made it, and its value.

    Raises:
        ConfigError: It is no private key.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(_raw(private))
    value = key.sign(_message(project, version, sha256))
    return f"{key_id(key.public_key().public_bytes_raw())}:{base64.b64encode(value).decode()}"


def key_id(public: bytes) -> str:
    """Return how signatures name a key."""
    return hashlib.sha256(public).hexdigest()[:32]


def _message(project: str, version: str, sha256: str) -> bytes:
    # none of the three has a line break
    return _PURPOSE + "\n".join((project, version, sha256)).encode()


def _public(data: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(data)


def _line(data: bytes) -> str:
    return KIND + base64.b64encode(data).decode()


def _raw(line: str) -> bytes:
    try:
        data = base64.b64decode(line.strip().removeprefix(KIND), validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != 32 or not line.strip().startswith(KIND):  # noqa: PLR2004 -- Ed25519's keys
        raise ConfigError("a key of packages is ed25519: and 32 bytes in Base64: 'xwheel package key' makes one")
    return data
