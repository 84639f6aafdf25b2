"""What an editor waits for: a quick fix by a new process, the server's first diagnostics, a warm quick fix.

    python tests/bench/editors.py [--repetitions 7]

Also seconds to render 2,000 findings in every format. Targets on two cores: a new process 0.4 s, first diagnostics 1 s,
a warm quick fix in a file of 500 lines 0.03 s, any format 1 s.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from fsdp_migrate.api import migrate_source
from fsdp_migrate.formats import FORMATS, renderer
from fsdp_migrate.formats.files import report
from fsdp_migrate.render import Totals
from fsdp_migrate.run import Outcome

RECIPE = """\
def recipe_{n}():
    cfg = base()
    cfg.dist.use_megatron_fsdp = True
    cfg.model.x = {n}
    return cfg


"""


def text(recipes: int, lines: int) -> str:
    """A file of recipes, filled up to a number of lines."""
    whole = "".join(RECIPE.format(n=n) for n in range(recipes))
    return whole + "".join(f"VALUE_{n} = {n}\n" for n in range(lines - whole.count("\n")))


def cold(folder: Path, repetitions: int) -> float:
    file = folder / "recipe.py"
    file.write_text(text(5, 500))
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "fsdp_migrate", "quickfix", f"{file}:3"], stdout=subprocess.DEVNULL, check=True
        )
        times.append(time.perf_counter() - start)
    return statistics.median(times)


async def served(folder: Path, repetitions: int) -> tuple[float, float]:
    """Seconds from the server's start to its first diagnostics, and for a quick fix after a change."""
    file = folder / "recipe.py"
    uri, source = file.as_uri(), text(5, 500)
    told: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()
    client = LanguageClient("bench", "1")
    client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: told.put_nowait(params))
    start = time.perf_counter()
    await client.start_io(sys.executable, "-m", "fsdp_migrate", "lsp")
    await client.initialize_async(lsp.InitializeParams(lsp.ClientCapabilities(), root_uri=folder.as_uri()))
    client.initialized(lsp.InitializedParams())
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "python", 1, source)))
    await told.get()
    first = time.perf_counter() - start
    times = []
    where = lsp.Range(lsp.Position(2, 6), lsp.Position(2, 6))
    context = lsp.CodeActionContext([], only=[lsp.CodeActionKind.SourceFixAll])
    for version in range(2, repetitions + 2):
        changed = lsp.TextDocumentContentChangeWholeDocument(f"{source}# {version}\n")
        client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(lsp.VersionedTextDocumentIdentifier(version, uri), [changed])
        )
        start = time.perf_counter()
        params = lsp.CodeActionParams(lsp.TextDocumentIdentifier(uri), where, context)
        assert await client.text_document_code_action_async(params)
        times.append(time.perf_counter() - start)
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return first, statistics.median(times)


def rendered(repetitions: int) -> Iterator[tuple[str, float]]:
    """Seconds to render 2,000 findings in ten files, by format."""
    source = text(50, 350).encode()
    outcomes = [Outcome(migrate_source(source, f"recipe_{n}.py")) for n in range(10)]
    assert sum(len(outcome.result.findings) for outcome in outcomes) == 2000
    for name in (*FORMATS, "html", "md"):
        times = []
        for _ in range(repetitions):
            totals = Totals(10)
            counted = list(totals.counted(outcomes))
            start = time.perf_counter()
            pieces = renderer(name)(counted, totals) if name in FORMATS else report(f"x.{name}")(counted, totals)
            assert sum(map(len, pieces))
            times.append(time.perf_counter() - start)
        yield name, statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repetitions", type=int, default=7)
    repetitions = parser.parse_args().repetitions
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"quick fix by a new process    {cold(folder, repetitions):.3f} s")
        firsts, warms = zip(*(asyncio.run(served(folder, repetitions)) for _ in range(5)), strict=True)
        print(f"first diagnostics             {statistics.median(firsts):.3f} s")
        print(f"quick fix after a change      {statistics.median(warms):.3f} s")
    for kind, seconds in rendered(repetitions):
        print(f"2,000 findings as {kind:<6}      {seconds:.3f} s")


if __name__ == "__main__":
    main()
