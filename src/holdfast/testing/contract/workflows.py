"""The contract of durable workflows: runs and steps, on every database and in both colours.

Run like the other suites, by a subclass and a fixture ``venue``; the database must be one that two clients can share,
since what one executor has begun another must be able to end. Some values it records are pydantic models.
"""

from holdfast.testing.contract.workflows_again import AgainContract
from holdfast.testing.contract.workflows_branches import BranchesContract
from holdfast.testing.contract.workflows_calls import CallsContract
from holdfast.testing.contract.workflows_children import ChildrenContract
from holdfast.testing.contract.workflows_deadlines import DeadlinesContract
from holdfast.testing.contract.workflows_durations import DurationsContract
from holdfast.testing.contract.workflows_ids import IdsContract
from holdfast.testing.contract.workflows_life import ApplicationContract
from holdfast.testing.contract.workflows_methods import MethodsContract
from holdfast.testing.contract.workflows_parking import ParkingContract
from holdfast.testing.contract.workflows_patches import PatchContract
from holdfast.testing.contract.workflows_place import PlaceContract
from holdfast.testing.contract.workflows_replay import ReplayContract
from holdfast.testing.contract.workflows_replay_differs import ReplayDiffersContract
from holdfast.testing.contract.workflows_saga import SagaContract
from holdfast.testing.contract.workflows_saga_again import SagaAgainContract
from holdfast.testing.contract.workflows_steps import StepsContract
from holdfast.testing.contract.workflows_tables import TablesContract
from holdfast.testing.contract.workflows_time import TimeContract
from holdfast.testing.contract.workflows_time_limits import TimeLimitsContract
from holdfast.testing.contract.workflows_unfit import UnfitContract
from holdfast.testing.contract.workflows_versions import VersionsContract


class WorkflowContract(
    CallsContract,
    PlaceContract,
    ApplicationContract,
    MethodsContract,
    IdsContract,
    ReplayContract,
    ReplayDiffersContract,
    BranchesContract,
    TimeLimitsContract,
    ChildrenContract,
    StepsContract,
    AgainContract,
    SagaContract,
    SagaAgainContract,
    TimeContract,
    DeadlinesContract,
    DurationsContract,
    ParkingContract,
    TablesContract,
    UnfitContract,
    VersionsContract,
    PatchContract,
):
    """Everything an application promises about its runs and their steps."""
