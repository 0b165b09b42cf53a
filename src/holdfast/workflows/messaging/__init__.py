"""Messages to runs, and events of runs.

``message.py`` has what users give and get, ``sending.py``, ``receiving.py`` and ``setting.py`` the facts for the commit
pipeline, ``messages.py`` and ``events.py`` the operations, ``bells.py`` those who wait, ``methods.py`` the face of it.
"""

from holdfast.workflows.messaging.message import Message, NotificationInfo
from holdfast.workflows.queries import messaging_queries

__all__ = ["Message", "NotificationInfo", "messaging_queries"]
