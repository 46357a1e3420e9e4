"""The ``xwheel`` command, also as ``python -m xwheel``."""

import sys

from xwheel import __version__
from xwheel.errors import ConfigError


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
    run()


if __name__ == "__main__":
    main()
