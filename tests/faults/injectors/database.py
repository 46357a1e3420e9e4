"""What befalls a database server: it is stopped, killed, frozen or read-only for a while.

Each fault takes the server of :mod:`tests.support.servers` that a URL names, as it is when the fault begins: another
fault may have started it again. One that needs to speak to a server that is away raises, and can be tried again.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import make_url, text

from tests.faults.injectors import processes
from tests.faults.injectors.fault import Fault
from tests.support import servers
from xwheel.storage.database.engine import Database

PLAIN = "plain"

Injector = Callable[[str], Fault]
"""Makes a fault of the server that a URL names."""


def stopping(url: str) -> Fault:
    """Return a fault that stops the server in good order and starts it again, on its data and port."""
    port = _port(url)
    return Fault("stop database", lambda: _stop(port), lambda: _start(port))


def killing(url: str) -> Fault:
    """Return a fault that kills all processes of the server at once and starts it again, on its data and port."""
    port = _port(url)
    return Fault("kill database", lambda: _kill(port), lambda: _start(port))


def freezing(url: str) -> Fault:
    """Return a fault that stops all processes of the server in their tracks; connections are taken, and hang."""
    port = _port(url)
    return processes.freezing(lambda: servers.RUNNING[port].pid)


def refusing_writes(url: str) -> Fault:
    """Return a fault that makes the server read-only for all but its administrators.

    MariaDB says so as an old primary does whose replica was promoted (``read_only``, error 1290): connections live on,
    transactions that have written fail at their commit. PostgreSQL has the answer of a standby (SQLSTATE 25006) by
    ``default_transaction_read_only``, but what only a real standby does is missing: it breaks all connections, and
    ``pg_is_in_recovery()`` is true. Transactions that are open go on there.

    Args:
        url: As an administrator. Only other users are refused at MariaDB: :func:`plain_user` makes one.
    """
    return Fault("read-only database", lambda: _forbid_writes(url, yes=True), lambda: _forbid_writes(url, yes=False))


def plain_user(url: str) -> str:
    """Return the URL for a user that may not write where the server is read-only; of MariaDB's the admin may."""
    real = make_url(url)
    if real.get_backend_name() == "postgresql":
        return url
    db = Database(url, pool_size=1)
    with db.write() as conn:
        conn.execute(text(f"CREATE USER IF NOT EXISTS {PLAIN}@'127.0.0.1' IDENTIFIED BY '{real.password}'"))
        conn.execute(text(f"GRANT ALL ON {real.database}.* TO {PLAIN}@'127.0.0.1'"))
    db.close()
    return real.set(username=PLAIN).render_as_string(hide_password=False)


def _port(url: str) -> int:
    return make_url(url).port or 0


def _stop(port: int) -> None:
    if servers.RUNNING[port].poll() is None:
        servers.stop(servers.RUNNING[port])


def _kill(port: int) -> None:
    process = servers.RUNNING[port]
    if process.poll() is None:
        processes.kill(process.pid)
        process.wait()


def _start(port: int) -> None:
    if servers.RUNNING[port].poll() is not None:
        servers.start_again(port)


def _forbid_writes(url: str, *, yes: bool) -> None:
    db = Database(url, pool_size=1)
    try:
        with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            if db.backend == "postgresql":
                value = "on" if yes else "off"
                conn.execute(text(f"ALTER SYSTEM SET default_transaction_read_only = {value}"))
                conn.execute(text("SELECT pg_reload_conf()"))
            else:
                conn.execute(text(f"SET GLOBAL read_only = {int(yes)}"))
    finally:
        db.close()
