"""Reports for machines: JSON, SARIF, GitHub annotations, GitLab code quality and JUnit.

Each module has a function `render(outcomes, totals)` that gives pieces of text, so that one file at a time is in
memory. `totals` counts the outcomes that have passed; at the end it knows the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module

from fsdp_migrate.render import Totals
from fsdp_migrate.run import Outcome

Render = Callable[[Iterable[Outcome], Totals], Iterator[str]]

# name -> module of this package, imported when it is used
FORMATS = {"json": "json_report", "sarif": "sarif", "github": "github", "gitlab": "gitlab", "junit": "junit"}


def renderer(name: str) -> Render:
    """The function that writes a format.

    Raises:
        KeyError: there is no such format.
    """
    render: Render = import_module(f"{__name__}.{FORMATS[name]}").render
    return render
