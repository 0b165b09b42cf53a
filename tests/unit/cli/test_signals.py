"""Signals as events: none waits for the next one."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import signal, threading
from pathlib import Path
from queue import SimpleQueue
from holdfast.cli.signals import heard

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who runs the tests by nohup has it ignored, and that is left so
events, main = SimpleQueue(), threading.get_native_id()

def is_asleep():
    return Path(f"/proc/self/task/{main}/stat").read_text().rpartition(")")[2].split()[0] == "S"

def signal_this_thread():
    while not all(is_asleep() for _ in range(100)):
        pass
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

with heard(events):
    sender = threading.Thread(target=signal_this_thread)
    sender.start()
    print(events.get(timeout=30).name)
    signal.raise_signal(signal.SIGHUP)
    print(events.get(timeout=30).name)
    signal.raise_signal(signal.SIGINT)
    print(events.get(timeout=30).name)
sender.join()  # it may still be on its way out when its signal has been heard
print(signal.getsignal(signal.SIGTERM).name, signal.set_wakeup_fd(-1), threading.active_count())
"""


def test_signal_is_heard_while_the_main_thread_waits_whichever_thread_gets_it() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.stdout.split(), ended.stderr) == (["SIGTERM", "HANGUP", "SIGINT", "SIG_DFL", "-1", "1"], "")
