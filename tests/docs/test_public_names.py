"""Every public name is documented in ``docs/reference``, and shown in an example there."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import holdfast
import holdfast.db
import holdfast.integrations
import holdfast.resilience
import holdfast.serialize
import holdfast.stores
import holdfast.testing.contract
import holdfast.testing.servers
import holdfast.web
from holdfast import AsyncClient, AsyncHoldfast, Client, Handle, Holdfast, Retry, WorkflowStatus, errors
from holdfast.model.workflow import StartOptions, WorkflowState
from holdfast.testing.world import VirtualWorld
from holdfast.workflows.application.configuration import engine_settings

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"

_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_PAGES = [path.read_text(encoding="utf-8") for path in sorted(REFERENCE.glob("*.md"))]
_GUIDES = [path.read_text(encoding="utf-8") for path in sorted((REFERENCE.parent / "how-to").glob("*.md"))]


def _python(pages: list[str]) -> str:
    return "\n".join(
        match["text"] for page in pages for match in _BLOCK.finditer(page) if match["language"] == "python"
    )


_EXAMPLES = _python(_PAGES)
_PROSE = "\n".join(_BLOCK.sub("", page) for page in _PAGES)

MODULES = [
    holdfast,
    holdfast.db,
    holdfast.resilience,
    holdfast.serialize,
    holdfast.stores,
    holdfast.testing.contract,
    holdfast.testing.servers,
    holdfast.web,
]


def _exported(file: Path) -> list[str]:
    """Return ``__all__`` of a module without loading it: an integration loads a whole framework."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


INTEGRATIONS = sorted(Path(holdfast.integrations.__path__[0]).glob("*.py"))
NAMES = [
    *((module.__name__, name) for module in MODULES for name in module.__all__),
    *((f"holdfast.integrations.{file.stem}", name) for file in INTEGRATIONS for name in _exported(file)),
]


def _public(thing: object) -> list[str]:
    return [name for name in dir(thing) if not name.startswith("_")]


def _page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def _mentioned(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[f"{module}.{name}" for module, name in NAMES])
def test_public_name_is_described_and_shown(module: str, name: str) -> None:
    assert re.search(rf"`[^`\n]*\b{re.escape(name)}\b[^`\n]*`", _PROSE), f"{module}.{name} is described nowhere"
    assert _mentioned(name, _EXAMPLES), f"{module}.{name} is in no example"


@pytest.mark.parametrize("name", sorted({*_public(Holdfast), *_public(AsyncHoldfast)}))
def test_method_of_the_application_is_described_and_shown(name: str) -> None:
    assert _mentioned(name, _PROSE)
    shown_otherwise = {"close", "deprecate_patch"}  # by the with block, and in the guide to deployment
    assert _mentioned(name, _python(_PAGES + _GUIDES)) or name in shown_otherwise


@pytest.mark.parametrize("name", sorted({*_public(Client), *_public(AsyncClient)}))
def test_method_of_a_client_is_described(name: str) -> None:
    assert _mentioned(name, _PROSE)


DESCRIBED_ON = {
    "breakers.md": ["CircuitBreakerStateRepository"],
    "checkpoint-store.md": ["CheckpointStore"],
    "dead-letters.md": [
        "AsyncFailedOperationRepository",
        "DLQCompressedEntry",
        "DeadLetterQueue",
        "FailedOperationRepository",
        "ReplayEnd",
    ],
    "event-store.md": ["DBEventStoreBackend"],
    "execution-store.md": ["ExecutionStore"],
    "flow-checkpoints.md": ["CheckpointBackend", "FlowCheckpoint"],
    "idempotency-store.md": ["IdempotencyStore"],
    "idempotency.md": ["IdempotentExecutor"],
    "locks.md": ["DistributedLock", "Lease"],
    "stores.md": ["StoreFactory"],
    "task-queue.md": ["TaskQueue", "TaskWorker"],
}


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, names in DESCRIBED_ON.items() for name in names])
def test_every_member_of_a_store_or_its_records_is_described(page: str, name: str) -> None:
    text = _page(page)
    assert [member for member in _public(getattr(holdfast.stores, name)) if not _mentioned(member, text)] == []


@pytest.mark.parametrize("name", [*_public(Handle), "has_ended"])
def test_member_of_handle_or_status_is_described(name: str) -> None:
    assert _mentioned(name, _page("workflows.md"))


@pytest.mark.parametrize("status", list(WorkflowStatus))
def test_status_is_described(status: WorkflowStatus) -> None:
    assert f"| `{status}` |" in _page("workflows.md")


@pytest.mark.parametrize("name", [*Retry.__slots__, *StartOptions.__slots__, *WorkflowState.__slots__])
def test_field_is_described(name: str) -> None:
    assert f"`{name}`" in _page("workflows.md")


@pytest.mark.parametrize("name", [name for name in inspect.signature(engine_settings).parameters if name != "url"])
def test_setting_is_described_with_its_default(name: str) -> None:
    assert re.search(rf"^\| `{name}` \| [^|]* \| [^|]+ \|$", _page("configuration.md"), re.MULTILINE)


@pytest.mark.parametrize("name", _public(VirtualWorld))
def test_member_of_the_virtual_world_is_described(name: str) -> None:
    assert re.search(rf"`(await )?{name}\b", _page("testing.md"))


@pytest.mark.parametrize(
    "name",
    [name for name, thing in vars(errors).items() if isinstance(thing, type) and thing.__module__ == errors.__name__],
)
def test_error_is_described(name: str) -> None:
    assert _mentioned(name, _page("errors.md"))


def test_every_logger_is_described() -> None:
    sources = Path(holdfast.__path__[0]).rglob("*.py")
    named = {
        name for file in sources for name in re.findall(r'getLogger\("(holdfast\.\w+)"\)', file.read_text("utf-8"))
    }
    assert len(named) > 10
    assert [name for name in sorted(named) if f"`{name}`" not in _page("configuration.md")] == []


def test_error_tree_on_the_page_is_the_one_in_the_code() -> None:
    assert errors.__doc__ is not None
    drawing = re.compile(r"([│├└][│├└─ ]*)([A-Z]\w+)")
    assert drawing.findall(errors.__doc__) == drawing.findall(_page("errors.md"))
    assert len(drawing.findall(errors.__doc__)) > 20
