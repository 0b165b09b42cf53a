"""The state of event dispatchers: a value a key, where a higher ``update_seq`` wins."""

from holdfast.workflows.dispatch_state.store import DispatchState, DispatchStates
from holdfast.workflows.queries import dispatch_state_queries

__all__ = ["DispatchState", "DispatchStates", "dispatch_state_queries"]
