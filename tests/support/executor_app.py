"""An executor process for tests that kill it: ``python -m tests.support.executor_app ADMIN_URL DATA_DIR [key=value]``.

Handlers append ``start <id>`` and ``end <id>`` to the file ``executed`` in the data directory, so that a test can count
what really ran, whatever the executor says.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.support.admins import APP_NAME, TOKEN
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.executor import Executor, JobContext, job

FOLDER = os.environ.get("EXECUTOR_APP_FOLDER")


def note(word: str, run_id: int) -> None:
    if FOLDER:
        with (Path(FOLDER) / "executed").open("a") as file:
            file.write(f"{word} {run_id}\n")


@job("quick")
def quick(ctx: JobContext) -> str:
    note("start", ctx.run_id)
    return "ok"


@job("slow")
def slow(ctx: JobContext) -> str:
    note("start", ctx.run_id)
    time.sleep(float(ctx.param or "60"))
    note("end", ctx.run_id)
    return "ok"


@job("waits")
def waits(ctx: JobContext) -> str:
    """Wait for the file ``go``."""
    note("start", ctx.run_id)
    while not (Path(str(FOLDER)) / "go").exists():
        time.sleep(0.01)
    return "ok"


@job("prints", process=True)
def prints(ctx: JobContext) -> str:
    """Wait for the file ``go``, then print more than the disk holds."""
    waits(ctx)
    for _ in range(100):
        print("x" * 100_000)
    return "printed"


@job("process", process=True)
def in_process(ctx: JobContext) -> str:
    note("start", ctx.run_id)
    ctx.log("from the child")
    print("printed by the child")
    time.sleep(float(ctx.param or "0"))
    return f"pid {os.getpid()}"


@job("stubborn", process=True)
def stubborn(ctx: JobContext) -> None:
    """Ignore TERM, with a grandchild that ignores it too; both tell their ids."""
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        " print('ready', flush=True); time.sleep(300)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(ctx.param).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(300)


@job("leaves-child", process=True)
def leaves_child(ctx: JobContext) -> str:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    return str(child.pid)


DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        with open(sys.argv[1] + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        time.sleep(300)
os._exit(0)
"""


@job("daemonizes", process=True)
def daemonizes(ctx: JobContext) -> str:
    """Start a daemon that left group and session and ignores TERM; then end as the parameter says."""
    path, how = ctx.param.split()
    subprocess.run([sys.executable, "-c", DAEMON, path], check=True)
    while not Path(path).exists():
        time.sleep(0.01)
    if how == "exits":
        os._exit(3)
    if how == "crashes":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(300)
    return "done"


@job("blocks-helper")
async def blocks_helper(ctx: JobContext) -> None:
    """Block a helper thread of the event loop for ever."""
    note("start", ctx.run_id)
    await asyncio.to_thread(threading.Event().wait)


@job("exits", process=True)
def exits(ctx: JobContext) -> None:
    os._exit(int(ctx.param))


@job("raises", process=True)
def raises(ctx: JobContext) -> None:
    raise ValueError(ctx.param)


HANDLERS = [quick, slow, waits, prints, in_process, stubborn, leaves_child, daemonizes, blocks_helper, exits, raises]


def main() -> None:
    admin_url, data_dir, *options = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(message)s")
    executor = Executor(
        handlers=HANDLERS,
        glue_types={"BEAN": BeanGlue()},
        app_name=APP_NAME,
        admin_addresses=[admin_url],
        access_token=TOKEN,
        port=0,
        data_dir=data_dir,
        **{"kill_grace_s": 0.3, "leave_s": 0, **dict(option.split("=", 1) for option in options)},
    )
    sys.exit(0 if executor.run_forever() else 1)


if __name__ == "__main__":
    main()
