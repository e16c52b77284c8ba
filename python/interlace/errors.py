"""What the functions and commands of Interlace raise."""


class UserError(Exception):
    """Something that the user gave cannot be used.

    The message is one sentence that names the file, line or option and says what to do. The
    command line prints it to standard error and ends with exit code 2.
    """


class ModelError(RuntimeError):
    """A kernel, a mechanism or the order of calls broke a promise of the model."""


class DeviceError(RuntimeError):
    """A device, the driver or the operating system failed, or a deadline passed."""
