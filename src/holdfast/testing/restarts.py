"""One executor after another: each is taken down by a poisonous run, or closed, while long sleepers run beside it.

The database's clock is a row of a table of the test's own, so that a sleep of a day takes no time: the next executor
finds it over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from holdfast.testing.stage import Stage

DAY = 86_400.0
_CLOCK = "test_clock"


class Restarts:
    """A stage whose executors do not live long. All runs have *cap* as the cap on their recovery attempts."""

    def __init__(self, scene: Stage, *, cap: int, lease: float, colours: tuple[str, ...] = ("async", "sync")) -> None:
        self._scene = scene
        self._cap = cap
        self._lease = lease
        self._colours = colours
        self._clock = f"{'public.' if scene.url.startswith('postgresql') else ''}{_CLOCK}"
        # With a key: PostgreSQL sessions that may not walk tables would take a second to plan a walk through this one.
        scene.execute(f"CREATE TABLE {self._clock} (ms bigint PRIMARY KEY)")
        scene.execute(f"INSERT INTO {self._clock} VALUES (0)")
        self.executors = 0
        self.deaths = 0
        self.worker = self.recruit()

    def recruit(self) -> Worker:
        """Start the next executor, in the other colour."""
        colour = self._colours[self.executors % len(self._colours)]
        self.executors += 1
        app: dict[str, Any] = {"lease": self._lease, "clock_offset_ms": f"SELECT ms FROM {self._clock}"}
        self.worker = self._scene.ready(colour, app=app, cap=self._cap)
        return self.worker

    def start(self, name: str, run_id: str, *args: Any) -> None:
        """Start a run on the executor of the moment; whether it was heard is not known if that one dies."""
        self.worker.tell("start", name, run_id, *args)

    def pass_days(self, days: int) -> None:
        """Let the database's clock go on."""
        self._scene.execute(f"UPDATE {self._clock} SET ms = ms + ?", int(days * DAY * 1000))

    def until_given_up(self, run_id: str) -> None:
        """Replace each executor that dies, a day later, until *run_id* has taken so many down that it is given up."""

        def given_up() -> bool:
            if not self.worker.alive:
                self.deaths += 1
                self.worker.close()  # hundreds of them would use up the test's files
                self.pass_days(1)
                self.recruit()
            return self._scene.statuses().get(run_id) == "MAX_RECOVERY_ATTEMPTS_EXCEEDED"

        until(given_up, patience=60 + 20 * self._cap * self._lease)

    def roll(self) -> None:
        """Close the executor, which hands its runs over, and start the next one a day later."""
        self.worker.tell("close")
        self.worker.hear("closed")
        self.worker.close()
        self.pass_days(1)
        self.recruit()

    def until_begun_again(self, run_id: str, before: int) -> None:
        """Wait until a run that was begun *before* times is begun once more, or is seen to have ended well."""
        until(lambda: self.executions(run_id) > before or self._scene.statuses()[run_id] == "SUCCESS")

    def executions(self, run_id: str) -> int:
        """Return how often a run was begun."""
        return int(self._scene.run(run_id)["executions"])


def check_that_only_poison_is_given_up(scene: Stage, *, cap: int, sleeps: int, lease: float) -> None:
    """Have a run take down ``cap + 1`` executors beside sleepers, then restart until the sleepers have had enough.

    One of them sleeps *sleeps* times, for a day each; the others sleep once and record nothing till the end. All have
    the same cap as the poison, and lose as many executors.
    """
    restarts = Restarts(scene, cap=cap, lease=lease)
    sleepers = ["often", *(f"once-{number}" for number in range(3))]
    for run_id in sleepers:
        restarts.start("rest", run_id, *((sleeps, DAY) if run_id == "often" else (1, 10_000 * DAY)))
        restarts.worker.hear("started", run_id)
    # Each knows until when it sleeps: one that began its sleep after the days have passed would sleep for as many more.
    until(lambda: len(scene.fetch("SELECT DISTINCT workflow_uuid FROM {steps}")) == len(sleepers))
    restarts.start("poison", "poison")
    restarts.until_given_up("poison")
    assert "MAX_RECOVERY_ATTEMPTS_EXCEEDED" not in {scene.statuses()[run_id] for run_id in sleepers}
    assert restarts.deaths == len(scene.ledger.of("poison")) == cap + 1

    while restarts.executors <= sleeps or scene.statuses()["often"] != "SUCCESS":
        assert restarts.executors <= 2 * (cap + sleeps) + 2, "The sleeper does not get on."
        assert scene.statuses()["often"] != "ERROR", scene.run("often")["error"]
        before = restarts.executions("often")
        restarts.roll()
        restarts.until_begun_again("often", before)
    assert {scene.statuses()[run_id] for run_id in sleepers[1:]} <= {"PENDING", "ENQUEUED", "DELAYED"}
    restarts.pass_days(10_000)
    restarts.roll()
    until(lambda: {scene.statuses()[run_id] for run_id in sleepers} == {"SUCCESS"})
    assert scene.statuses()["poison"] == "MAX_RECOVERY_ATTEMPTS_EXCEEDED"
    assert scene.run("often")["output"] == str(sleeps)
    assert len(scene.fetch("SELECT 1 AS one FROM {steps} WHERE workflow_uuid = ?", "often")) == sleeps
    assert restarts.executions("often") > 1
