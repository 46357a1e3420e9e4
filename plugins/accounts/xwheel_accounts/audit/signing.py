"""Keys that sign: derived from the key file's, or kept next to what they sign, which shows less."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

KEY_BYTES: Final = 32


class SigningKey:
    """A key that signs, under the name by which what it signed names it.

    Its name is its fingerprint. One that ``is_kept_beside`` lies where what it signs lies: anyone who can change that
    can sign, too.
    """

    __slots__ = ("_secret", "is_kept_beside", "name")

    def __init__(self, name: str, secret: bytes, *, is_kept_beside: bool = False) -> None:
        self.name = name
        self._secret = secret
        self.is_kept_beside = is_kept_beside

    def __repr__(self) -> str:
        return f"SigningKey({self.name})"

    def sign(self, data: bytes) -> str:
        """Return the signature of data, 64 hexadecimal digits."""
        return hmac.digest(self._secret, data, "sha256").hex()

    def has_signed(self, data: bytes, signature: str) -> bool:
        """Return whether a signature is this key's of data; compared in constant time."""
        return hmac.compare_digest(self.sign(data).encode(), signature.encode("utf-8", "replace"))


class SigningKeys:
    """Some keys: the first one signs, all of them verify.

    There is at least one key, the present one first.
    """

    def __init__(self, keys: Sequence[SigningKey]) -> None:
        self.first = keys[0]
        self._keys = {key.name: key for key in reversed(keys)}

    def __repr__(self) -> str:
        return f"SigningKeys({', '.join(self._keys)})"

    @property
    def beside(self) -> SigningKey | None:
        """Return the key that is kept next to what it signs although there is a better one, which signs now."""
        if self.first.is_kept_beside:
            return None
        return next((key for key in self._keys.values() if key.is_kept_beside), None)

    def find(self, name: str) -> SigningKey | None:
        """Return the key of a name, or None."""
        return self._keys.get(name)

    def all(self) -> Sequence[SigningKey]:
        """Return all keys."""
        return list(self._keys.values())


def kept_beside(secret: bytes) -> SigningKey:
    """Return a key that lies where what it signs lies."""
    name = hashlib.sha256(b"xwheel signing key " + secret).hexdigest()[:KEY_BYTES]
    return SigningKey(name, secret, is_kept_beside=True)
