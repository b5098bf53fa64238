"""What a script can be told."""


class GaiaError(RuntimeError):
    """A run file or an argument is wrong (``exit_code`` 2), or a run has failed (1)."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text.removeprefix("error: "))
        self.exit_code = exit_code


class RunStopped(GaiaError):
    """The run has ended without this script: another node has failed, or the run was killed."""
