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

_PROGRAM_THAT_BEGINS_ANEW = """
import os, signal, sys, threading
from queue import SimpleQueue
from holdfast.cli.signals import heard, keep_hang_ups

signal.signal(signal.SIGHUP, signal.SIG_DFL)
threading.Thread(target=threading.Event().wait, daemon=True).start()  # gets what the main thread does not take
with heard(SimpleQueue()):
    keep_hang_ups()
os.kill(os.getpid(), signal.SIGHUP)
os.execv(sys.executable, [sys.executable, "-c", "print('anew')"])
"""


def test_hang_up_that_another_thread_takes_does_not_end_a_process_that_begins_anew() -> None:
    command = [sys.executable, "-c", _PROGRAM_THAT_BEGINS_ANEW]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.stdout.split(), ended.stderr, ended.returncode) == (["anew"], "", 0)


def test_signal_is_heard_while_the_main_thread_waits_whichever_thread_gets_it() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.stdout.split(), ended.stderr) == (["SIGTERM", "HANGUP", "SIGINT", "SIG_DFL", "-1", "1"], "")
