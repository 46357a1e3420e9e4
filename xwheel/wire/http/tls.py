"""The files of TLS between nodes and executors: what our calls trust, and the certificate that they show."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from xwheel.errors import ConfigError
from xwheel.private_files import warn_if_open

if TYPE_CHECKING:
    from xwheel.config.sections import TlsSection


class TlsFiles(NamedTuple):
    """Paths of PEM files, empty for none; read again with each connection, so that a renewal needs no restart."""

    # certificates of the only authorities that are trusted; without it, the public ones are
    ca_file: str = ""
    cert_file: str = ""  # the client certificate, and those between it and its authority
    key_file: str = ""  # its private key


NO_FILES: Final = TlsFiles()


def check_tls(section: TlsSection) -> TlsFiles:
    """Return the files that the settings name, if they can be used; a key that others can read is warned of.

    Raises ConfigError: one is missing, unreadable or something else, or key and certificate do not belong together.
    """
    if section.cert_file is None and section.key_file is not None:
        raise ConfigError("tls.cert_file: is missing: the certificate of tls.key_file")
    if section.key_file is None and section.cert_file is not None:
        raise ConfigError("tls.key_file: is missing: the private key of tls.cert_file")
    if section.ca_file is not None:
        _check_certificates("tls.ca_file", section.ca_file)
    if section.cert_file is not None and section.key_file is not None:
        _check_certificates("tls.cert_file", section.cert_file)
        _check_pair(section.cert_file, section.key_file)
        warn_if_open("the private key", section.key_file)
    paths = (section.ca_file, section.cert_file, section.key_file)
    return TlsFiles(*("" if path is None else str(path.absolute()) for path in paths))


def _check_certificates(name: str, path: Path) -> None:
    _check_readable(name, path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{name}: {path} holds no certificate in PEM, '-----BEGIN CERTIFICATE-----'") from None


def _check_pair(cert_file: Path, key_file: Path) -> None:
    _check_readable("tls.key_file", key_file)

    def refuse() -> NoReturn:
        raise ConfigError(
            f"tls.key_file: {key_file} is encrypted, and there is no one to type its passphrase: store it without one, "
            "readable for this account alone"
        )

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert_file, key_file, password=refuse)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(
                f"tls.key_file: {key_file} is not the key of the first certificate in {cert_file}"
            ) from None
        raise ConfigError(f"tls.key_file: {key_file} holds no private key in PEM ({error.reason})") from None


def _check_readable(name: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}") from None
