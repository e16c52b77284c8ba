"""The one error that a user of the command line sees as a sentence and not as a traceback."""


class UserError(Exception):
    """Something that the user gave cannot be used.

    The message is one sentence that names the file, line or option and says what to do. The
    command line prints it to standard error and ends with exit code 2.
    """
