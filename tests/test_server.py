"""The language server, driven by a real client over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from fsdp_migrate.editing import Positions

RECIPE = """\
import sys


def recipe():
    cfg = base()
    x = "\U0001f600"; cfg.dist.use_megatron_fsdp = True
    return cfg
"""
SHELL = "torchrun train.py dist.use_megatron_fsdp=true\n"
YAML = "dist:\n  use_megatron_fsdp: true\n  x: 1\n"
MARKDOWN = "# Guide\n\n```python\ncfg.dist.use_megatron_fsdp = True\n```\n"


class Client:
    """An editor: what it has open, and what it was told."""

    def __init__(self) -> None:
        self.protocol = LanguageClient("test", "1")
        self.told: dict[str, asyncio.Queue[list[lsp.Diagnostic]]] = {}
        self.texts: dict[str, str] = {}
        self.encoding = "utf-16"

        @self.protocol.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: lsp.PublishDiagnosticsParams) -> None:
            self.told.setdefault(params.uri, asyncio.Queue()).put_nowait(list(params.diagnostics))

        @self.protocol.feature(lsp.WINDOW_SHOW_MESSAGE)
        def show(params: lsp.ShowMessageParams) -> None:
            self.told.setdefault("messages", asyncio.Queue()).put_nowait([params.message])  # type: ignore[list-item]

        @self.protocol.feature(lsp.WINDOW_LOG_MESSAGE)
        def log(params: lsp.LogMessageParams) -> None:
            pass

    async def start(self, folder: Path, encodings: list[str] | None = None, options: Any = None) -> None:
        await self.protocol.start_io(sys.executable, "-m", "fsdp_migrate", "lsp")
        general = lsp.GeneralClientCapabilities(position_encodings=encodings) if encodings else None
        answer = await self.protocol.initialize_async(
            lsp.InitializeParams(
                capabilities=lsp.ClientCapabilities(general=general),
                root_uri=folder.as_uri(),
                initialization_options=options,
            )
        )
        chosen = answer.capabilities.position_encoding
        self.encoding = str(getattr(chosen, "value", chosen) or "utf-16")
        self.protocol.initialized(lsp.InitializedParams())

    async def open(self, path: Path, text: str, language: str = "python") -> list[lsp.Diagnostic]:
        uri = path.as_uri()
        self.texts[uri] = text
        self.protocol.text_document_did_open(
            lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, language, 1, text))
        )
        return await self.diagnostics(uri)

    async def change(self, path: Path, version: int, text: str) -> list[lsp.Diagnostic]:
        uri = path.as_uri()
        self.texts[uri] = text
        self.protocol.text_document_did_change(
            lsp.DidChangeTextDocumentParams(
                lsp.VersionedTextDocumentIdentifier(version, uri), [lsp.TextDocumentContentChangeWholeDocument(text)]
            )
        )
        return await self.diagnostics(uri)

    async def diagnostics(self, uri: str) -> list[lsp.Diagnostic]:
        return await asyncio.wait_for(self.told.setdefault(uri, asyncio.Queue()).get(), 30)

    async def actions(self, path: Path, where: lsp.Range, only: list[str] | None = None) -> list[lsp.CodeAction]:
        context = lsp.CodeActionContext(diagnostics=[], only=only)
        params = lsp.CodeActionParams(lsp.TextDocumentIdentifier(path.as_uri()), where, context)
        found = await self.protocol.text_document_code_action_async(params)
        return [action for action in found or [] if isinstance(action, lsp.CodeAction)]

    def applied(self, action: lsp.CodeAction, path: Path) -> str:
        """What becomes of a text, as an editor applies an edit."""
        assert action.edit is not None and action.edit.changes is not None
        text = self.texts[path.as_uri()]
        positions = Positions(text, self.encoding)
        edits = [
            (
                positions.offset(e.range.start.line, e.range.start.character),
                positions.offset(e.range.end.line, e.range.end.character),
                e.new_text,
            )
            for e in action.edit.changes[path.as_uri()]
        ]
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text


Test = Callable[[Client], Awaitable[None]]


def drive(folder: Path, test: Test, **start: Any) -> None:
    """Run a conversation with a server of its own, to the end."""

    async def whole() -> None:
        client = Client()
        await client.start(folder, **start)
        try:
            await test(client)
        finally:
            await client.protocol.shutdown_async(None)
            client.protocol.exit(None)
            await client.protocol.stop()

    asyncio.run(asyncio.wait_for(whole(), 120))


def written(folder: Path, name: str, text: str, *words: str) -> str:
    """What the command line makes of a file."""
    file = folder / name
    file.write_bytes(text.encode())
    command = [sys.executable, "-m", "fsdp_migrate", "--write", "--allow-dirty", *words, name]
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return file.read_bytes().decode()


@pytest.mark.parametrize(
    ("name", "language", "text"),
    [
        ("recipe.py", "python", RECIPE),
        ("recipe.py", "python", RECIPE.replace("\n", "\r\n")),
        ("train.sh", "shellscript", SHELL),
        ("conf.yaml", "yaml", YAML),
        ("guide.md", "markdown", MARKDOWN),
    ],
    ids=["python", "crlf", "shell", "yaml", "markdown"],
)
@pytest.mark.parametrize("encodings", [None, ["utf-8"], ["utf-32"]], ids=["default", "utf-8", "utf-32"])
def test_the_quick_fix_is_what_the_command_writes(
    tmp_path: Path, name: str, language: str, text: str, encodings: list[str] | None
) -> None:
    path = tmp_path / name

    async def test(client: Client) -> None:
        found = await client.open(path, text, language)
        first = next(d for d in found if d.code in ("FSDP001", "FSDP004", "FSDP005"))
        assert first.source == "fsdp-migrate"
        actions = await client.actions(path, first.range, [lsp.CodeActionKind.QuickFix])
        preferred = next(action for action in actions if action.is_preferred)
        everything = await client.actions(path, first.range, [lsp.CodeActionKind.SourceFixAll])
        fixed = client.applied(preferred, path)
        assert fixed == client.applied(everything[0], path) == written(tmp_path, name, text)
        assert fixed != text
        left = await client.change(path, 2, fixed)
        assert not [d for d in left if d.code == first.code]

    drive(tmp_path, test, encodings=encodings)


def test_a_place_behind_a_character_beyond_the_first_plane_is_in_utf_16(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        found = await client.open(tmp_path / "recipe.py", RECIPE)
        [moved] = [d for d in found if d.code == "FSDP001"]
        line = RECIPE.split("\n")[5]
        assert moved.range.start.line == 5
        units = line[: line.index("cfg.dist")].encode("utf-16-le")
        assert moved.range.start.character == len(units) // 2 == line.index("cfg.dist") + 1

    drive(tmp_path, test)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_an_edit_is_not_shifted_by_the_encoding_that_a_file_declares(tmp_path: Path, encoding: str) -> None:
    text = f"# -*- coding: {encoding} -*-\n{RECIPE.replace(chr(0x1F600), 'é' * 3)}"
    path = tmp_path / "recipe.py"

    async def test(client: Client) -> None:
        [moved] = [d for d in await client.open(path, text) if d.code == "FSDP001"]
        actions = await client.actions(path, moved.range)
        preferred = next(action for action in actions if action.is_preferred)
        exempt = next(action for action in actions if action.title.startswith("Exempt"))
        assert 'x = "ééé"; cfg.ddp.use_megatron_fsdp = True\n' in client.applied(preferred, path)
        assert 'x = "ééé"; cfg.dist.use_megatron_fsdp = True  # fsdp-migrate: ignore[' in client.applied(exempt, path)

    drive(tmp_path, test)


def test_a_character_that_the_declared_encoding_lacks_stops_every_fix(tmp_path: Path) -> None:
    path = tmp_path / "recipe.py"

    async def test(client: Client) -> None:
        assert await client.open(path, f"# -*- coding: latin-1 -*-\n{RECIPE}") == []
        assert await client.actions(path, lsp.Range(lsp.Position(6, 20), lsp.Position(6, 20))) == []

    drive(tmp_path, test)


def test_typing_gives_diagnostics_and_never_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "recipe.py"

    async def test(client: Client) -> None:
        assert await client.open(path, "x = 1\n") == []
        assert await client.change(path, 2, RECIPE + "def half(:\n") == []
        assert {d.code for d in await client.change(path, 3, RECIPE)} >= {"FSDP001", "FSDP012"}
        assert await client.change(path, 4, "") == []

    drive(tmp_path, test)


def test_unsafe_fixes_are_offered_and_not_preferred(tmp_path: Path) -> None:
    path = tmp_path / "recipe.py"
    text = "def recipe(on):\n    cfg = base()\n    cfg.ddp.use_megatron_fsdp = on\n    return cfg\n"

    async def test(client: Client) -> None:
        found = await client.open(path, text)
        [action] = [a for a in await client.actions(path, found[0].range) if "may change" in a.title]
        assert not action.is_preferred
        assert client.applied(action, path) == written(tmp_path, "recipe.py", text, "--unsafe-fixes")

    drive(tmp_path, test)


def test_a_comment_exempts_a_line(tmp_path: Path) -> None:
    path = tmp_path / "recipe.py"

    async def test(client: Client) -> None:
        found = await client.open(path, RECIPE)
        [action] = [a for a in await client.actions(path, found[0].range) if a.title.startswith("Exempt")]
        exempted = client.applied(action, path)
        assert "fsdp-migrate: ignore[" in exempted
        assert await client.change(path, 2, exempted) == []

    drive(tmp_path, test)


def test_hover_explains_the_rule(tmp_path: Path) -> None:
    path = tmp_path / "recipe.py"

    async def test(client: Client) -> None:
        found = await client.open(path, RECIPE)
        place = lsp.TextDocumentPositionParams(lsp.TextDocumentIdentifier(path.as_uri()), found[0].range.start)
        hover = await client.protocol.text_document_hover_async(lsp.HoverParams(place.text_document, place.position))
        assert hover is not None and isinstance(hover.contents, lsp.MarkupContent)
        assert "FSDP001" in hover.contents.value
        nothing = lsp.HoverParams(place.text_document, lsp.Position(0, 0))
        assert await client.protocol.text_document_hover_async(nothing) is None

    drive(tmp_path, test)


@pytest.mark.parametrize("options", [{"ignore": ["FSDP001"]}, {"fsdp-migrate": {"ignore": ["FSDP001"]}}])
def test_settings_of_the_editor_and_of_files_hold(tmp_path: Path, options: dict[str, object]) -> None:
    (tmp_path / "fsdp-migrate.toml").write_text('[per-file-ignores]\n"*.py" = ["FSDP010"]\n')

    async def test(client: Client) -> None:
        codes = {d.code for d in await client.open(tmp_path / "recipe.py", RECIPE)}
        assert codes == {"FSDP011", "FSDP012"}

    drive(tmp_path, test, options=options)


def test_a_wrong_setting_is_said(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        message = (await client.diagnostics("messages"))[0]
        assert "selekt" in str(message) and "select" in str(message)

    drive(tmp_path, test, options={"selekt": ["FSDP0"]})


def test_nothing_is_executed_or_written(tmp_path: Path) -> None:
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    (tmp_path / "base.py").write_text(trap)
    path = tmp_path / "recipe.py"

    async def test(client: Client) -> None:
        found = await client.open(path, trap + "import base\nfrom base import *\n" + RECIPE)
        await client.actions(path, found[0].range)

    drive(tmp_path, test)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["base.py"]


def test_an_open_notebook_is_fixed_cell_by_cell(tmp_path: Path) -> None:
    notebook = (tmp_path / "notes.ipynb").as_uri()
    cells = {
        f"{notebook}#1": 'text = "ä\\"\U0001f600"\ncfg = base()\n',
        f"{notebook}#2": "%time\ncfg.dist.use_megatron_fsdp = True\n",
    }

    async def test(client: Client) -> None:
        client.texts |= cells
        client.protocol.notebook_document_did_open(
            lsp.DidOpenNotebookDocumentParams(
                lsp.NotebookDocument(
                    notebook, "jupyter-notebook", 1, [lsp.NotebookCell(lsp.NotebookCellKind.Code, uri) for uri in cells]
                ),
                [lsp.TextDocumentItem(uri, "python", 1, text) for uri, text in cells.items()],
            )
        )
        assert await client.diagnostics(f"{notebook}#1") == []
        found = await client.diagnostics(f"{notebook}#2")
        [moved] = [d for d in found if d.code == "FSDP001"]
        assert (moved.range.start.line, moved.range.start.character) == (1, 0)
        params = lsp.CodeActionParams(
            lsp.TextDocumentIdentifier(f"{notebook}#2"), moved.range, lsp.CodeActionContext([])
        )
        [action, *_] = await client.protocol.text_document_code_action_async(params) or []
        assert isinstance(action, lsp.CodeAction) and action.edit is not None and action.edit.changes is not None
        [change] = action.edit.changes[f"{notebook}#2"]
        assert change.new_text.startswith("%time\ncfg.ddp.use_megatron_fsdp = True\n")

    drive(tmp_path, test)


def message(**content: object) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **content})
    return f"Content-Length: {len(body)}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    "farewell",
    [b"", message(id=2, method="shutdown") + message(method="exit")],
    ids=["client_is_gone", "shutdown_and_exit"],
)
def test_the_server_ends_with_its_client(tmp_path: Path, farewell: bytes) -> None:
    hello = message(id=1, method="initialize", params={"capabilities": {}, "processId": None})
    command = [sys.executable, "-m", "fsdp_migrate", "lsp"]
    done = subprocess.run(command, input=hello + farewell, capture_output=True, cwd=tmp_path, timeout=60, check=False)
    assert done.stdout.startswith(b"Content-Length")
    assert (done.returncode, done.stderr) == (0, b"")
