"""The ``xwheel`` command, also as ``python -m xwheel``."""

import logging
import os
import sys
import threading
import time
from typing import Final

from xwheel import __version__
from xwheel.errors import ConfigError

END_S: Final = 5


def main() -> None:
    """Run the command; without the extra that it needs, say so in one line."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"{__version__}\n")
        return
    try:
        from xwheel.cli.main import main as run
    except ConfigError as error:
        sys.stderr.write(f"xwheel: {error}\n")
        raise SystemExit(2) from None
    status = 1
    try:
        run()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    finally:
        threading.Thread(target=_end, args=(status,), name="xwheel-end", daemon=True).start()


def _end(status: int) -> None:
    """End this process if it has not ended by then: Python waits for threads and processes that handlers left."""
    time.sleep(END_S)
    here = threading.main_thread()
    left = [thread.name for thread in threading.enumerate() if not (thread.daemon or thread is here)]
    if (processes := sys.modules.get("multiprocessing")) is not None:
        left += [f"process {child.pid}" for child in processes.active_children()]
    text = "ending without waiting for what handlers left: %s"
    logging.getLogger("xwheel").warning(text, ", ".join(left) or "code that ends with Python")
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
