"""The exceptions: one for each thing that a caller can do differently, as in cairn/error.h."""


class Error(Exception):
    """Root of everything that cairn raises.

    The message says what happened, what was expected and found, where, and what to do next.
    ``exit_code`` is the code with which the tool ends for such an error.
    """

    exit_code: int = 2


class UsageError(Error):
    """The caller passed something impossible. Fix the program; the message names the argument."""


class NotFoundError(Error):
    """The file, folder or object that was named does not exist."""


class AlreadyExistsError(Error):
    """Something of that name exists, and it may not be replaced."""


class CorruptError(Error):
    """The bytes are damaged. Use an older checkpoint."""


class UnsupportedError(Error):
    """The input is valid, but cairn cannot read or write it. The message names the class."""


class MismatchError(Error):
    """The stored state is whole, but does not fit what it is loaded into."""


class StorageError(Error):
    """A disk or a store failed. Existing files are unchanged.

    ``number`` is errno, or the HTTP status. ``retryable``: the same call may succeed later.
    """

    number: int = 0
    retryable: bool = False


class UnreadableError(StorageError):
    """A file exists, but some of its bytes cannot be read."""


class OutOfMemoryError(Error):
    """An allocation failed. Existing files are unchanged."""


class BusyError(Error):
    """Another process is training the run."""


class CancelledError(Error):
    """The operation was asked to stop before it finished."""


class TrainingError(Error):
    """Training cannot go on."""


class CheckpointWarning(UserWarning):
    """Something that the program may want to know, and that stopped nothing.

    A checkpoint was passed over, a save failed whose error nothing else tells, or something is not
    kept in a file.
    """


# In the order of cairn_status.
BY_STATUS: tuple = (
    None, UsageError, NotFoundError, AlreadyExistsError, CorruptError, UnsupportedError,
    MismatchError, StorageError, UnreadableError, OutOfMemoryError, BusyError, CancelledError,
    TrainingError, Error)
