"""The contract of durable workflows: runs and steps, on every database and in both colours."""

from holdfast.testing.contract.workflows_calls import CallsContract
from holdfast.testing.contract.workflows_ids import IdsContract
from holdfast.testing.contract.workflows_life import ApplicationContract
from holdfast.testing.contract.workflows_methods import MethodsContract
from holdfast.testing.contract.workflows_place import PlaceContract
from holdfast.testing.contract.workflows_replay import ReplayContract


class WorkflowContract(CallsContract, PlaceContract, ApplicationContract, MethodsContract, IdsContract, ReplayContract):
    """Everything an application promises about its runs and their steps."""
