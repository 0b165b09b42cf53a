"""A thread that waits for an answer hears on the line what it would have heard by way of the loop."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import struct
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db.blocking.driving import DrivenLoop, drive, drive_task, hear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LARGE = bytes(range(256)) * 32_768  # 8 MB: more than any socket holds


class Hearer(asyncio.Protocol):
    """Keeps what it hears; so many bytes are an answer. *then* is called with each word."""

    def __init__(self, loop: DrivenLoop, then: Callable[[bytes], None] = lambda _: None) -> None:
        self._then = then
        self._wanted = 0
        self.heard = bytearray()
        self.words = 0
        self.answer: asyncio.Future[bytes] = loop.create_future()
        self.lost: asyncio.Future[Exception | None] = loop.create_future()

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self.words += 1
        self._then(data)
        if self._wanted and len(self.heard) >= self._wanted and not self.answer.done():
            self.answer.set_result(bytes(self.heard))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)

    def wanting(self, count: int) -> asyncio.Future[bytes]:
        self._wanted = count
        return self.answer


class Talk:
    """A connection of a driven loop, and the socket at its other end."""

    def __init__(self, loop: DrivenLoop, server: socket.socket, then: Callable[[bytes], None]) -> None:
        self.loop = loop
        self.hearer = Hearer(loop, then)
        address = server.getsockname()
        connecting = (
            loop.create_unix_connection(lambda: self.hearer, address)
            if isinstance(address, str)
            else loop.create_connection(lambda: self.hearer, *address)
        )
        self.transport: asyncio.Transport = drive_task(loop, connecting)[0]
        self.peer = server.accept()[0]
        self.peer.settimeout(60)

    def wait(self, answer: asyncio.Future[Any]) -> Any:
        async def waiting() -> Any:
            return await answer

        return drive(self.loop, waiting())

    def close(self) -> None:
        self.transport.abort()
        hear(self.loop)
        self.peer.close()


class Stage:
    """Has connections made in one of the ways there are to hear."""

    def __init__(self, loop: DrivenLoop, server: socket.socket, *, on_the_line: bool) -> None:
        self.loop = loop
        self._server = server
        self._on_the_line = on_the_line

    @contextmanager
    def talk(self, then: Callable[[bytes], None] = lambda _: None) -> Iterator[Talk]:
        with closing(Talk(self.loop, self._server, then)) as talk:
            if not self._on_the_line:
                self.loop._line = None
            yield talk


@contextmanager
def _stage(server: socket.socket, *, on_the_line: bool = True) -> Iterator[Stage]:
    loop = DrivenLoop()
    with server, closing(loop):
        yield Stage(loop, server, on_the_line=on_the_line)


@pytest.fixture(params=["on the line", "on the line of a unix socket", "by the loop"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    if "unix" in request.param:
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(tmp_path / "s"))
        server.listen()
    else:
        server = socket.create_server(("127.0.0.1", 0))
    with _stage(server, on_the_line="line" in request.param) as made:
        yield made


@pytest.fixture
def lined() -> Iterator[Stage]:
    with _stage(socket.create_server(("127.0.0.1", 0))) as made:
        yield made


@contextmanager
def _beside(work: Callable[[], object]) -> Iterator[None]:
    """Do *work* on another thread meanwhile."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a line listened to for ever: what needs the loop must not be left waiting there."""
    monkeypatch.setattr("holdfast.db.blocking.lines._PATIENCE", 2**30)


def _no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a round of the loop fail."""

    def refused(_: object) -> None:
        raise AssertionError("The loop was run.")

    monkeypatch.setattr("holdfast.db.blocking.driving._run", refused)


@pytest.mark.usefixtures("patience")
def test_answer_takes_no_round_of_the_loop(lined: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    with lined.talk() as talk, monkeypatch.context() as patched:
        _no_round(patched)
        talk.transport.write(b"question")
        with _beside(lambda: talk.peer.sendall(talk.peer.recv(100).upper())):
            assert talk.wait(talk.hearer.wanting(8)) == b"QUESTION"


@pytest.mark.usefixtures("patience")
def test_next_connection_of_a_loop_has_a_line_too(lined: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    with lined.talk() as talk:
        talk.peer.close()
        talk.wait(talk.hearer.lost)
    with lined.talk() as talk, monkeypatch.context() as patched:
        _no_round(patched)
        talk.peer.sendall(b"word")
        assert talk.wait(talk.hearer.wanting(4)) == b"word"


def test_long_answer_comes_whole_and_in_order(stage: Stage) -> None:
    with stage.talk() as talk, _beside(lambda: talk.peer.sendall(LARGE)):
        assert talk.wait(talk.hearer.wanting(len(LARGE))) == LARGE


@pytest.mark.usefixtures("patience")
def test_long_question_goes_out_while_its_answer_is_waited_for(stage: Stage) -> None:
    def listen() -> None:
        heard = bytearray()
        while len(heard) < len(LARGE):
            heard += talk.peer.recv(1 << 20)
        talk.peer.sendall(b"same" if heard == LARGE else b"else")

    with stage.talk() as talk, _beside(listen):
        talk.transport.write(LARGE)
        assert talk.wait(talk.hearer.wanting(4)) == b"same"


@pytest.mark.usefixtures("patience")
def test_end_of_a_connection_is_told_after_what_was_said_before(stage: Stage) -> None:
    with stage.talk() as talk:
        talk.peer.sendall(b"half")
        talk.peer.close()
        assert talk.wait(talk.hearer.lost) is None
        assert talk.hearer.heard == b"half"
        assert talk.hearer.words == 1


@pytest.mark.parametrize("on_the_line", [True, False])
def test_error_of_a_connection_is_told(*, on_the_line: bool) -> None:
    with _stage(socket.create_server(("127.0.0.1", 0)), on_the_line=on_the_line) as stage, stage.talk() as talk:
        talk.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # the end is a reset
        talk.peer.close()
        assert isinstance(talk.wait(talk.hearer.lost), ConnectionResetError)


@pytest.mark.usefixtures("patience")
def test_connection_that_has_ended_is_not_listened_to(stage: Stage) -> None:
    with stage.talk() as talk:
        talk.transport.abort()
        assert talk.wait(talk.hearer.lost) is None
        stage.loop.call_later(0, talk.hearer.answer.set_result, b"late")
        assert talk.wait(talk.hearer.answer) == b"late"


def test_time_is_up_in_silence(stage: Stage) -> None:
    with stage.talk() as talk:
        stage.loop.call_later(0.01, talk.hearer.answer.cancel)
        with pytest.raises(asyncio.CancelledError):
            talk.wait(talk.hearer.answer)


@pytest.mark.usefixtures("patience")
def test_time_is_up_though_the_peer_never_stops_talking(stage: Stage) -> None:
    def chatter() -> None:
        with suppress(OSError):
            while True:
                talk.peer.sendall(b"word" * 1000)

    with stage.talk() as talk, _beside(chatter):
        stage.loop.call_later(0.01, talk.hearer.answer.cancel)
        with pytest.raises(asyncio.CancelledError):
            talk.wait(talk.hearer.answer)
        talk.close()


@pytest.mark.usefixtures("patience")
def test_protocol_that_has_paused_hears_nothing_until_it_resumes(stage: Stage) -> None:
    heard = []

    def resume() -> None:
        heard.append(bytes(talk.hearer.heard))
        talk.transport.resume_reading()

    with stage.talk() as talk:
        talk.transport.pause_reading()
        talk.peer.sendall(b"word")
        stage.loop.call_later(0.05, resume)
        assert talk.wait(talk.hearer.wanting(4)) == b"word"
        assert heard == [b""]


@pytest.mark.usefixtures("patience")
def test_protocol_that_fails_loses_its_connection(stage: Stage) -> None:
    told: list[dict[str, Any]] = []
    stage.loop.set_exception_handler(lambda _, context: told.append(context))

    def fail(_: bytes) -> None:
        raise ValueError("what is this?")

    with stage.talk(fail) as talk:
        talk.peer.sendall(b"word")
        talk.wait(talk.hearer.lost)
    assert [str(context["exception"]) for context in told] == ["what is this?"]


def test_interruption_of_a_protocol_is_passed_on(stage: Stage) -> None:
    def interrupt(_: bytes) -> None:
        raise KeyboardInterrupt

    with stage.talk(interrupt) as talk:
        talk.peer.sendall(b"word")
        with pytest.raises(KeyboardInterrupt):
            talk.wait(talk.hearer.answer)
        assert talk.hearer.answer.cancelled()
        assert asyncio._get_running_loop() is None


class _Interruption(BaseException):
    """What a signal does to a thread that waits."""


def test_signal_ends_the_wait_of_a_thread(stage: Stage) -> None:
    begun, raised = threading.Event(), threading.Event()

    def interrupt(*_: object) -> None:
        if not raised.is_set():
            raised.set()
            raise _Interruption

    def knock() -> None:
        assert begun.wait(60)
        while not raised.wait(0.01):  # one that comes just before the wait would not end it
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    async def waiting() -> None:
        begun.set()
        await talk.hearer.answer

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with stage.talk() as talk, _beside(knock), pytest.raises(_Interruption):
            drive(stage.loop, waiting())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert asyncio._get_running_loop() is None


def test_protocol_finds_its_loop_running_and_nobody_afterwards(stage: Stage) -> None:
    loops: list[object] = []
    with stage.talk(lambda _: loops.append(asyncio.get_running_loop())) as talk:
        talk.peer.sendall(b"word")
        talk.wait(talk.hearer.wanting(4))
    assert set(loops) == {stage.loop}
    assert asyncio._get_running_loop() is None


def test_what_an_answer_calls_is_called_before_who_waits_goes_on(stage: Stage) -> None:
    called: list[bytes] = []
    with stage.talk() as talk:
        talk.hearer.answer.add_done_callback(lambda done: called.append(done.result()))
        talk.peer.sendall(b"word")
        talk.wait(talk.hearer.wanting(4))
        assert called == [b"word"]


@pytest.mark.usefixtures("patience")
def test_what_was_to_be_called_soon_is_called_while_a_thread_waits(stage: Stage) -> None:
    with stage.talk() as talk:
        stage.loop.call_soon(talk.hearer.answer.set_result, b"soon")
        assert talk.wait(talk.hearer.answer) == b"soon"


@pytest.mark.usefixtures("patience")
def test_what_the_answer_leaves_to_a_task_is_done_while_a_thread_waits(stage: Stage) -> None:
    async def later() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        talk.hearer.lost.set_result(None)

    def begin(_: bytes) -> None:
        tasks.append(asyncio.get_running_loop().create_task(later()))

    tasks: list[asyncio.Task[None]] = []
    with stage.talk(begin) as talk:
        talk.peer.sendall(b"word")
        assert talk.wait(talk.hearer.lost) is None
        talk.hearer.lost = stage.loop.create_future()


def test_word_of_another_thread_reaches_the_loop(stage: Stage) -> None:
    with (
        stage.talk() as talk,
        _beside(lambda: stage.loop.call_soon_threadsafe(talk.hearer.answer.set_result, b"from there")),
    ):
        assert talk.wait(talk.hearer.answer) == b"from there"


def test_answers_of_two_connections_are_heard(stage: Stage) -> None:
    with stage.talk() as one, stage.talk() as other:
        other.peer.sendall(b"other")
        assert other.wait(other.hearer.wanting(5)) == b"other"
        one.peer.sendall(b"one")
        assert one.wait(one.hearer.wanting(3)) == b"one"


def test_timeouts_that_were_not_needed_do_not_pile_up(stage: Stage) -> None:
    with stage.talk() as talk:
        for _ in range(2000):
            timeout = stage.loop.call_later(3600, talk.hearer.answer.cancel)
            talk.peer.sendall(b"word")
            talk.wait(talk.hearer.wanting(4))
            timeout.cancel()
            talk.hearer.heard.clear()
            talk.hearer.answer = stage.loop.create_future()
        assert len(stage.loop._scheduled) < 500  # type: ignore[attr-defined]


def _without_certificates(side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:@SECLEVEL=0")
    return context


@pytest.mark.parametrize("begins", ["with TLS", "without"])
def test_words_under_tls_are_left_to_the_loop(begins: str) -> None:
    theirs, ours = _without_certificates(ssl.PROTOCOL_TLS_SERVER), _without_certificates(ssl.PROTOCOL_TLS_CLIENT)
    loop = DrivenLoop()
    hearer = Hearer(loop)

    def answer() -> None:
        with server.accept()[0] as plain, theirs.wrap_socket(plain, server_side=True) as peer:
            peer.sendall(peer.recv(100).upper())
            with suppress(OSError):
                peer.recv(100)

    async def connected() -> Any:
        where = server.getsockname()
        if begins == "with TLS":
            return (await loop.create_connection(lambda: hearer, *where, ssl=ours))[0]
        plain = (await loop.create_connection(lambda: hearer, *where))[0]
        return await loop.start_tls(plain, hearer, ours)

    async def conversation() -> bytes:
        transport.write(b"question")
        return await hearer.wanting(8)

    with closing(loop), socket.create_server(("127.0.0.1", 0)) as server, _beside(answer):
        transport = drive_task(loop, connected())
        try:
            assert drive(loop, conversation()) == b"QUESTION"
        finally:
            transport.abort()
            hear(loop)
