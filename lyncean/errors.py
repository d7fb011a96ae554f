"""The base of all errors that a user can correct, and the core's tree of them.

error                       exit code  consequence
UserError                       2      the command ends with one line
|-- BindError                   2      a server does not start: its port cannot be bound
|-- CacheError                  2      a scorer does not start: its cache of replies cannot be opened
|-- CellError                   2      a file or code of others gives no result: it failed, or hit a limit
|   `-- StartError              2      nothing is read: no cell starts here
|-- DataError                   2      nothing is sent: the data cannot be used
|   |-- BundleError             2      no bundle is written or used
|   `-- OutsideError            2      the row is rejected: a path leads out of the data's folder
|-- EngineError                 1      a defect ends the run
|   |-- ConfigError             2      no attempt can succeed
|   |   |-- OtherQuestionsError 2      the runs are not compared
|   |   `-- UnknownTaskError    2      nothing is sent: no benchmark has the task
|   |-- IncompleteError         3      the same command resumes
|   |   |-- StoppedError        3      by Ctrl-C or SIGTERM
|   |   `-- UnreachableError    3      nothing was sent: no server of the model answered
|   `-- LimitError              4      complete, with more items without a result than allowed
|-- FetchingError               2      the page says that the run is still being fetched
|-- JudgeUnavailable            3      the same command asks the judge again
|-- LoadError                   2      a model server does not start: the model cannot be loaded
|-- ManifestError               2      nothing is written: the folder is another command's
|-- PluginError                 2      the plugin is not used
|-- RunLogError                 2      nothing is sent: the run folder is damaged
|   |-- RunBusyError            3      another process writes to the folder: later the same command resumes
|   |-- RunLockError            3      the run stops: another process may go on with it
|   `-- RunWriteError           3      the run stops, for example on a full disk; the same command resumes
|       `-- RemoteError         3      what is local is safe; the same command uploads the rest
|-- SecurityError               2      no connection: TLS or token settings cannot work
|-- SpaceError                  2      no questions are drawn: a rule has fewer
|-- SpillError                  2      the command ends: no room for temporary files
`-- YamlError                   2      a YAML file has a mistake
    |-- PricesError             2      nothing is sent: the table of prices has a mistake; a ConfigError, too
    |-- SuiteError              2      no cell is run: the suite file has a mistake; a ConfigError, too
    `-- TaskFileError           2      nothing is sent: the task file has a mistake; a DataError, too
"""

from __future__ import annotations

import re

from lyncean.rpc.addresses import without_passwords

_CONTROLS = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\t\n"
}
"""C0 and C1 controls, and those that change the direction of text."""
_UNPRINTED = re.compile(f"[{re.escape(''.join(map(chr, _CONTROLS)))}]")


def printable(text: str) -> str:
    """Escapes control characters, so that a terminal shows them and does not obey them."""
    return text.translate(_CONTROLS)


def printable_json(text: str) -> str:
    """Escapes every control character of a JSON document the way JSON does."""
    return _UNPRINTED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class UserError(Exception):
    """An error whose message is one line for people: what is wrong, where, and the fix.

    The Python API raises it unchanged; a command prints the line and ends with `exit_code` (`lyncean.cli.groups`).
    It escapes control characters and hides the passwords of URLs, which libraries often quote in errors.

    Args:
        message: The problem and its location.
        fix: The remedy; appended to the message after a colon. A message may also contain its own.

    Attributes:
        exit_code: 1 a defect, 2 usage or configuration, 3 incomplete: the same command resumes, 4 a limit.
    """

    exit_code = 2

    def __init__(self, message: str = "", *, fix: str = "") -> None:
        super().__init__(printable(without_passwords(f"{message}: {fix}" if fix else message)))
        self.fix = fix
