"""Checkpoint backends of Dynamiq, one call after the other. file:folder | memory | postgresql://..., then CALLS."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from dynamiq.checkpoints.checkpoint import FlowCheckpoint, NodeCheckpointState


def _backend(url: str) -> Any:
    if url.startswith("file:"):
        from dynamiq.checkpoints.backends.filesystem import FileSystem

        return FileSystem(base_path=url.removeprefix("file:"))
    if url == "memory":
        from dynamiq.checkpoints.backends.in_memory import InMemory

        return InMemory()
    from dynamiq.checkpoints.backends.postgresql import PostgreSQL
    from dynamiq.connections import PostgreSQL as Connection

    parts = urlsplit(url)
    login = {"user": parts.username, "password": parts.password or "x"}
    return PostgreSQL(
        connection=Connection(host=parts.hostname, port=parts.port, database=parts.path.strip("/"), **login)
    )


def _made(flow: str, output: Any) -> FlowCheckpoint:
    state = NodeCheckpointState(node_id="n1", node_type="T", status="success", input_data={}, output_data=output)
    return FlowCheckpoint(flow_id=flow, run_id="run", node_states={"n1": state}, completed_node_ids=["n1"])


def _nested() -> dict[str, Any]:
    return {"rows": [{"id": n, "role": "user", "text": f"some words here {n}", "score": n * 0.5} for n in range(13500)]}


def _median(call: Callable[[int], Any], calls: int) -> float:
    spans = []
    for number in range(calls):
        begun = time.perf_counter()
        call(number)
        spans.append((time.perf_counter() - begun) * 1000)
    return statistics.median(spans)


def main() -> None:
    backend, calls = _backend(sys.argv[1]), int(sys.argv[2])
    few = max(3, calls // 10)
    kept: list[str] = []
    small = [_made("flow", {"text": "y" * 500}) for _ in range(calls)]
    flat = [_made("flat", {"text": "y" * 2**20}) for _ in range(few)]
    nested = [_made("nested", _nested()) for _ in range(few)]
    found = {"save small": _median(lambda n: kept.append(backend.save(small[n])), calls)}
    found["save 1 MB"] = _median(lambda n: backend.save(flat[n]), few)
    found["save 1 MB nested"] = _median(lambda n: backend.save(nested[n]), few)
    found["load small"] = _median(lambda n: backend.load(kept[n]), calls)
    found["load 1 MB nested"] = _median(lambda n: backend.load(nested[n].id), few)
    found["list 10"] = _median(lambda _: backend.get_list_by_flow("flow", limit=10), few)
    found["delete"] = _median(lambda n: backend.delete(kept[n]), calls)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
