"""An application with a transaction over SQLAlchemy in another database: makes one, and waits until it is killed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, text

from holdfast import Holdfast
from holdfast.testing.clocks import mend_sleep

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


def main() -> None:
    """Run a workflow under the id that was given; say so when it has ended."""
    settings = json.loads(sys.argv[1])
    engine = create_engine(settings["data"])
    app = Holdfast(settings["url"], application_version="1")

    @app.transaction(engine=engine)
    def pay(session: Session) -> int:
        session.execute(text("SELECT 1"))
        return 1

    @app.workflow
    def paying() -> int:
        return pay()

    with app:
        paying.options(workflow_id=settings["id"]).start().result(timeout=60)
        print(json.dumps(["paid"]), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    mend_sleep()
    main()
