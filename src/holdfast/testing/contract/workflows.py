"""The contract of durable workflows: runs and steps, on every database and in both colours."""

from holdfast.testing.contract.workflows_calls import CallsContract
from holdfast.testing.contract.workflows_life import ApplicationContract
from holdfast.testing.contract.workflows_methods import MethodsContract
from holdfast.testing.contract.workflows_place import PlaceContract


class WorkflowContract(CallsContract, PlaceContract, ApplicationContract, MethodsContract):
    """Everything an application promises about its runs and their steps."""
