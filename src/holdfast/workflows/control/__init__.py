"""What people ask of runs that are there: cancel, resume, rewind, fork, delete, set delay, attributes."""

from holdfast.workflows.control.control import Control
from holdfast.workflows.queries import control_queries

__all__ = ["Control", "control_queries"]
