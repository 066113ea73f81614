"""Locks on which neither a signal handler nor a forked child gets stuck.

A signal handler runs in the middle of what its thread does, maybe under a lock, and may need the same one: so a thread
can take a lock that it has. A forked child has none of the other threads of its parent, and what they had locked would
stay so: there it becomes free.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


def lock(forget: Callable[[], None] | None = None, awaited: bool = False) -> Any:
    """A lock of these.

    Parameters
    ----------
    forget : function, optional
        Called in a forked child when another thread had the lock: what that was doing will never be finished.
    awaited : bool
        A fork waits until no other thread has the lock: for state that nobody could mend in the child.
    """
    made: Any = threading.RLock()

    def in_child() -> None:
        if made.acquire(blocking=False):  # free, or this thread's, which goes on in the child
            made.release()
            return
        made._at_fork_reinit()
        if forget is not None:
            forget()

    if hasattr(os, "register_at_fork"):
        if awaited:
            os.register_at_fork(before=made.acquire, after_in_parent=made.release, after_in_child=made.release)
        else:
            os.register_at_fork(after_in_child=in_child)
    return made
