"""An agent thinks, uses tools and thinks again. It is killed in the middle, and goes on without asking the model twice.

Every call of the model and of a tool is a step, so its answer is in the record. The program starts itself as a worker,
kills that worker with SIGKILL while a tool runs, and starts another.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from holdfast import Holdfast

app = Holdfast("agent.sqlite", lease=1)
TALK = Path("model-calls.txt")  # a ledger that Holdfast knows nothing of: what the model was asked


@app.step
def ask_model(messages: list[str]) -> dict[str, str]:
    with TALK.open("a") as ledger:
        ledger.write(f"{len(messages)} messages\n")
    plan = ["weather in Oslo", "weather in Rome"]
    used = sum(message.startswith("tool:") for message in messages)
    return {"tool": plan[used]} if used < len(plan) else {"answer": "Go to Rome."}


@app.step
def use_tool(call: str) -> str:
    if call.endswith("Rome") and os.environ.get("FRAGILE"):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"tool: {call}: {'rain' if call.endswith('Oslo') else 'sun'}"


@app.workflow
def agent(question: str) -> list[str]:
    messages = [question]
    while True:
        thought = ask_model(messages)
        if "answer" in thought:
            return [*messages, thought["answer"]]
        messages.append(use_tool(thought["tool"]))


def work() -> None:
    with app:
        run = agent.options(workflow_id="journey").start("Oslo or Rome?")
        print(json.dumps(run.result(timeout=60)))


def main() -> None:
    first = subprocess.run([sys.executable, __file__, "worker"], env={**os.environ, "FRAGILE": "1"}, check=False)
    print(f"The first worker was killed (signal {-first.returncode}).")
    second = subprocess.run([sys.executable, __file__, "worker"], check=True, capture_output=True, text=True)
    for message in json.loads(second.stdout):
        print(message)
    print(f"The model was asked {len(TALK.read_text().splitlines())} times.")


if __name__ == "__main__":
    work() if sys.argv[1:] == ["worker"] else main()
