"""The error of a start that failed, in the words of a Revision's conditions; what the worker says of its own errors."""

import sys

from krun.errors import KrunError


class StartError(KrunError):
    """An instance could not be started.

    Arguments: reason, the word for the condition (knative/serving's ContainerMissing, Kubernetes' CreateContainerError,
    CreateContainerConfigError, RunContainerError); message, one line for the developer.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def complain(text: str) -> None:
    """Write a text to standard error, the worker's log. A full disk loses the text, and nothing else."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass


class WorkerGone(KrunError):
    """The worker does not run any more; it says nothing about what was asked of it. The server starts another one."""
