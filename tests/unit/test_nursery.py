"""Children of a nursery are processes like any other, and have nothing of each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import Unavailable
from holdfast.testing.nursery import Child, Nursery
from holdfast.testing.workers import PATIENCE, Worker, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Call with the text of a program for its file."""

    def to_file(text: str) -> Path:
        file = tmp_path / "program.py"
        file.write_text(text, encoding="utf-8")
        return file

    return to_file


def said(nursery: Nursery, program: Path, *words: str, **options: Any) -> str:
    done = nursery.run(program, *words, timeout=PATIENCE, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sleeper(nursery: Nursery, program: Path) -> Child:
    with TemporaryFile() as nothing:
        return nursery.start(program, streams=(nothing, nothing, nothing))


def test_program_has_arguments_folder_environment_and_input_of_its_own(
    nursery: Nursery, write: Callable[[str], Path], tmp_path: Path
) -> None:
    program = write(
        "import os, sys\n"
        "print(__name__, sys.argv, sys.path[0], os.getcwd(), dict(os.environ), sys.stdin.read(), sep='|')\n"
    )
    found = said(nursery, program, "a", "b", given="in", environment={"ONLY": "this"}, folder=tmp_path)
    argv = [str(program), "a", "b"]
    assert found == f"__main__|{argv}|{tmp_path}|{tmp_path}|{{'ONLY': 'this'}}|in\n"


def test_program_is_the_main_module(nursery: Nursery, write: Callable[[str], Path]) -> None:
    program = write(
        "import pickle, __main__\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is __main__.A)\n"
    )
    assert said(nursery, program) == "True\n"


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("pass", 0),
        ("sys.exit(7)", 7),
        ("raise ValueError('oh')", 1),
        ("os._exit(9)", 9),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("os.kill(os.getpid(), 2)", -signal.SIGINT),
        ("import no_such_module", 1),
        ("def broken(:", 1),
    ],
)
def test_exit_code_is_that_of_an_interpreter(
    nursery: Nursery, write: Callable[[str], Path], last: str, code: int
) -> None:
    program = write(f"import os, sys\n{last}\n")
    done = nursery.run(program, timeout=PATIENCE)
    alone = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == alone.returncode == code
    assert done.stderr.splitlines()[-1:] == alone.stderr.splitlines()[-1:]


def test_program_ends_as_an_interpreter_does(nursery: Nursery, write: Callable[[str], Path]) -> None:
    program = write(
        "import atexit, threading, time\n"
        "atexit.register(print, 'at exit')\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
        "print('main')\n"
    )
    assert said(nursery, program).split("\n") == ["main", "thread", "at exit", ""]


def test_children_have_nothing_of_each_other(nursery: Nursery, write: Callable[[str], Path]) -> None:
    program = write(
        "import os, random, uuid, holdfast\n"
        "from holdfast.model.world import RealWorld\n"
        "print(hasattr(holdfast, 'mark'), os.environ.get('MARK'))\n"
        "holdfast.mark = os.environ['MARK'] = '1'\n"
        "print(random.random(), uuid.uuid4(), RealWorld().new_id())\n"
    )
    first, second = (said(nursery, program).splitlines() for _ in range(2))
    assert first[0] == second[0] == "False None"
    assert not set(first[1].split()) & set(second[1].split())


def test_child_is_born_with_no_descriptor_but_its_own(nursery: Nursery, write: Callable[[str], Path]) -> None:
    with Worker(write("import sys\nsys.stdin.read()\n"), nursery):
        program = write("import os\nprint(sorted(int(each) for each in os.listdir('/proc/self/fd'))[:-1])\n")
        assert said(nursery, program) == "[0, 1, 2]\n"


def test_program_that_has_changed_is_read_again(nursery: Nursery, write: Callable[[str], Path]) -> None:
    assert said(nursery, write("print(1)\n")) == "1\n"
    assert said(nursery, write("print(22)\n")) == "22\n"


def test_child_that_was_killed_keeps_its_id_until_it_was_waited_for(
    nursery: Nursery, write: Callable[[str], Path]
) -> None:
    child = sleeper(nursery, write("import time\ntime.sleep(600)\n"))
    assert child.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.01)
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: _state(child.pid) == "Z")
    os.kill(child.pid, signal.SIGSTOP)  # a zombie does not mind
    assert child.wait(PATIENCE) == child.poll() == -signal.SIGKILL
    child.kill()
    until(lambda: _state(child.pid) is None)


def test_nursery_that_is_gone_says_so(write: Callable[[str], Path]) -> None:
    with Nursery() as nursery:
        child = sleeper(nursery, write("import time\ntime.sleep(600)\n"))
        os.kill(nursery.pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match="nursery has ended"):
            child.wait(PATIENCE)
        os.kill(child.pid, signal.SIGKILL)


def test_nursery_with_options_has_children_with_them(write: Callable[[str], Path]) -> None:
    program = write("import warnings\nwarnings.warn('oh')\n")
    with Nursery("-W", "error") as strict:
        assert strict.run(program, timeout=PATIENCE).returncode == 1


def _state(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:  # noqa: PTH123 -- not a file of ours
            return stat.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None
