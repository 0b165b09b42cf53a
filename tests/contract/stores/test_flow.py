"""Flow checkpoints, held to their contract on every backend and in both colours."""

from __future__ import annotations

from holdfast.testing.contract import store_flow_stage
from holdfast.testing.contract.store_flow import FlowContract
from holdfast.testing.contract.store_flow_cancels import FlowCancelContract
from holdfast.testing.contract.store_flow_claims import FlowClaimContract, FlowRetentionContract
from holdfast.testing.contract.store_flow_door import FlowDoorContract
from holdfast.testing.contract.store_flow_steps import FlowStepsContract
from holdfast.testing.contract.store_flow_steps_faults import FlowStepsFaultsContract

BACKENDS = store_flow_stage.BACKENDS


class TestFlowCheckpoints(FlowContract):
    """One suite, every column."""


class TestFlowDoor(FlowDoorContract):
    """What is refused."""


class TestFlowClaims(FlowClaimContract):
    """One winner."""


class TestFlowCancels(FlowCancelContract):
    """Tasks that are cancelled."""


class TestFlowRetention(FlowRetentionContract):
    """What goes and what stays."""


class TestFlowSteps(FlowStepsContract):
    """Lists of callables."""


class TestFlowStepsFaults(FlowStepsFaultsContract):
    """What goes wrong in them, or around them."""
