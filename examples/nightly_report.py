"""A report is made every night at three, in the town where its readers sleep, once a night however many workers run.

Nights that were missed while nothing ran can be made up for: each slot is one run with an id of its own, so asking
twice makes no second report.
"""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast import Holdfast

app = Holdfast("reports.sqlite")


@app.step
def orders_before(moment: datetime) -> int:
    return moment.day * 100


@app.workflow
def report(scheduled_at: datetime, context: dict[str, str]) -> str:
    return f"{context['title']} of {scheduled_at:%Y-%m-%d %H:%M} UTC: {orders_before(scheduled_at)} orders"


def main() -> None:
    with app:
        app.create_schedule(
            "nightly", report, "0 0 3 * * *", cron_timezone="Europe/Berlin", context={"title": "Orders"}
        )
        # The nights around the day on which clocks go forward: three o'clock is another hour in UTC.
        start, end = datetime(2026, 3, 27, 12, tzinfo=UTC), datetime(2026, 3, 30, 12, tzinfo=UTC)
        for _ in range(2):
            runs = app.backfill_schedule("nightly", start, end)
        for run in runs:
            print(run.result(timeout=60))


if __name__ == "__main__":
    main()
