"""The error of a start that failed, in the words of a Revision's conditions."""

from krun.errors import KrunError


class StartError(KrunError):
    """An instance could not be started.

    Arguments: reason, the word for the condition (knative/serving's ContainerMissing, Kubernetes' CreateContainerError,
    CreateContainerConfigError, RunContainerError); message, one line for the developer.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
