"""What the server answers. One worker thread analyses, so that typing never waits; what is stale is thrown away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from fsdp_migrate import __version__
from fsdp_migrate.api import Options
from fsdp_migrate.editing import Analysis, Positions, analyse_text, fixes_of
from fsdp_migrate.findings import Applicability, Edit, Finding, Severity
from fsdp_migrate.reference import of_code
from fsdp_migrate.registry import rules
from fsdp_migrate.server.notebooks import Cell, Notebook, laid_out, sources
from fsdp_migrate.settings import Chosen, Settings, SettingsError, checked

_log = logging.getLogger(__name__)

SOURCE: Final = "fsdp-migrate"
FIX_ALL: Final = "source.fixAll.fsdp-migrate"
DEBOUNCE: Final = 0.15
"""Seconds without a keystroke before a text is looked at."""

# How the file of a text that has no name yet would be called, by the editor's name for its language.
_NAMES: Final = {
    "python": "untitled.py",
    "shellscript": "untitled.sh",
    "sh": "untitled.sh",
    "bash": "untitled.sh",
    "yaml": "untitled.yaml",
    "json": "untitled.json",
    "toml": "untitled.toml",
    "markdown": "untitled.md",
    "mdx": "untitled.mdx",
    "restructuredtext": "untitled.rst",
}
_SEVERITIES: Final = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.INFO: lsp.DiagnosticSeverity.Information,
}


@dataclass
class State:
    """What the server knows beside the texts."""

    given: Settings = field(default_factory=Settings)
    latest: dict[str, tuple[int | None, Analysis]] = field(default_factory=dict)
    pending: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    pulls: bool = False


class Server(LanguageServer):
    """pygls' server with our state."""

    def __init__(self) -> None:
        sync = lsp.NotebookDocumentSyncOptions(
            notebook_selector=[lsp.NotebookDocumentFilterWithNotebook(notebook="jupyter-notebook")]
        )
        super().__init__(SOURCE, __version__, notebook_document_sync=sync)
        self.state = State()
        # The engine remembers modules between files, for one thread.
        self.worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="analysis")


def make() -> Server:
    """A server with all its features, not started yet."""
    server = Server()
    for method, handler in _FEATURES:
        server.feature(method)(handler)
    kinds = [lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.SourceFixAll, FIX_ALL]
    actions = lsp.CodeActionOptions(code_action_kinds=kinds)
    server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, actions)(code_action)
    server.feature(
        lsp.TEXT_DOCUMENT_DIAGNOSTIC,
        lsp.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier=SOURCE),
    )(pull)
    return server


# ── Texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _encoding(server: Server) -> str:
    chosen = server.workspace.position_encoding
    return str(getattr(chosen, "value", chosen))


def _path(document: TextDocument) -> str:
    path = uris.to_fs_path(document.uri) if document.uri.startswith("file:") else None
    return path or _NAMES.get(document.language_id or "", "untitled.txt")


def _options(server: Server, path: str) -> Options:
    try:
        return Chosen(server.state.given).options(path)
    except SettingsError as error:
        server.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, str(error)))
        return Chosen(server.state.given, isolated=True).options(path)


async def _analysed(server: Server, uri: str) -> Analysis:
    """The analysis of a text as it is now."""
    document = server.workspace.get_text_document(uri)
    known = server.state.latest.get(uri)
    if known is not None and known[0] == document.version and known[1].text == document.source:
        return known[1]
    path = _path(document)
    loop = asyncio.get_running_loop()
    analysis = await loop.run_in_executor(server.worker, analyse_text, document.source, path, _options(server, path))
    server.state.latest[uri] = document.version, analysis
    return analysis


def _schedule(server: Server, uri: str, look: Callable[[], Any], delay: float) -> None:
    """Look at a text after a pause, and forget an earlier wish to."""
    if (task := server.state.pending.pop(uri, None)) is not None:
        task.cancel()

    async def later() -> None:
        await asyncio.sleep(delay)
        try:
            await look()
        except asyncio.CancelledError:
            raise
        except Exception:
            _log.exception("%s could not be looked at", uri)

    server.state.pending[uri] = asyncio.get_running_loop().create_task(later())


# ── Diagnostics ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _diagnostics(server: Server, analysis: Analysis) -> list[lsp.Diagnostic]:
    positions = Positions(analysis.text, _encoding(server))
    if analysis.result.error:
        # A text that is being typed does not parse most of the time: that is for the language's own server to say.
        return []
    return [_diagnostic(f, _range(positions, *analysis.span(f))) for f in analysis.result.findings]


def _diagnostic(finding: Finding, where: lsp.Range) -> lsp.Diagnostic:
    message = finding.message if finding.fix is not None or not finding.why else f"{finding.message}\n{finding.why}"
    outdated = any(rule.outdated for rule in rules() if rule.code == finding.code)
    return lsp.Diagnostic(
        range=where,
        message=message,
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        source=SOURCE,
        tags=[lsp.DiagnosticTag.Deprecated] if outdated else None,
    )


def _range(positions: Positions, start: int, end: int) -> lsp.Range:
    found = positions.range(start, end)
    return lsp.Range(lsp.Position(**found["start"]), lsp.Position(**found["end"]))


async def _publish(server: Server, uri: str) -> None:
    analysis = await _analysed(server, uri)
    if uri not in server.workspace.text_documents:
        return
    document = server.workspace.get_text_document(uri)
    if document.source != analysis.text:
        return
    server.text_document_publish_diagnostics(
        lsp.PublishDiagnosticsParams(uri, _diagnostics(server, analysis), version=document.version)
    )


async def pull(server: Server, params: lsp.DocumentDiagnosticParams) -> lsp.RelatedFullDocumentDiagnosticReport:
    analysis = await _analysed(server, params.text_document.uri)
    return lsp.RelatedFullDocumentDiagnosticReport(items=_diagnostics(server, analysis))


# ── Notebooks ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _notebook(server: Server, uri: str) -> Notebook | None:
    document = server.workspace.get_notebook_document(notebook_uri=uri)
    if document is None:
        return None
    cells = []
    for cell in document.cells:
        text = server.workspace.get_text_document(cell.document).source
        cells.append(Cell(cell.document, text, cell.kind == lsp.NotebookCellKind.Code))
    return laid_out(cells)


def _notebook_path(uri: str) -> str:
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return path if path and path.endswith(".ipynb") else "untitled.ipynb"


async def _analysed_notebook(server: Server, uri: str) -> tuple[Notebook, Analysis] | None:
    notebook = _notebook(server, uri)
    if notebook is None:
        return None
    path = _notebook_path(uri)
    loop = asyncio.get_running_loop()
    analysis = await loop.run_in_executor(server.worker, analyse_text, notebook.text, path, _options(server, path))
    return notebook, analysis


async def _publish_notebook(server: Server, uri: str) -> None:
    found = await _analysed_notebook(server, uri)
    if found is None:
        return
    notebook, analysis = found
    by_cell: dict[str, list[lsp.Diagnostic]] = {cell.uri: [] for cell in notebook.cells}
    for finding in () if analysis.result.error else analysis.result.findings:
        inside = notebook.in_cell(finding.place)
        if inside is not None:
            cell = notebook.cells[inside[0]]
            lines = Analysis(analysis.result, cell.text, analysis.options).lines
            where = _range(Positions(cell.text, _encoding(server)), *lines.offsets(inside[1]))
            by_cell[cell.uri].append(_diagnostic(finding, where))
    for cell_uri, diagnostics in by_cell.items():
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(cell_uri, diagnostics))


async def _notebook_actions(server: Server, uri: str, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    found = await _analysed_notebook(server, uri)
    if found is None:
        return []
    notebook, analysis = found
    touched = [
        f
        for f in analysis.result.findings
        if (inside := notebook.in_cell(f.place)) is not None
        and notebook.cells[inside[0]].uri == params.text_document.uri
        and inside[1].line - 1 <= params.range.end.line
        and inside[1].end_line - 1 >= params.range.start.line
    ]

    def edit(edits: Sequence[Edit]) -> lsp.WorkspaceEdit:
        new = sources(analysis.applied(edits))
        changes = {}
        for cell, text in zip(notebook.cells, new, strict=True):
            if text != cell.text:
                whole = _range(Positions(cell.text, _encoding(server)), 0, len(cell.text))
                changes[cell.uri] = [lsp.TextEdit(whole, text)]
        return lsp.WorkspaceEdit(changes=changes)

    return _actions(server, analysis, touched, params.context, edit)


# ── Actions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def code_action(server: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    uri = params.text_document.uri
    notebook = server.workspace.get_notebook_document(cell_uri=uri)
    if notebook is not None:
        return await _notebook_actions(server, notebook.uri, params)
    analysis = await _analysed(server, uri)
    positions = Positions(analysis.text, _encoding(server))
    start = positions.offset(params.range.start.line, params.range.start.character)
    end = positions.offset(params.range.end.line, params.range.end.character)

    def edit(edits: Sequence[Edit]) -> lsp.WorkspaceEdit:
        changes = [lsp.TextEdit(_range(positions, e.start, e.end), e.text) for e in sorted(set(edits))]
        return lsp.WorkspaceEdit(changes={uri: changes})

    touched = analysis.touching(start, end)
    actions = _actions(server, analysis, touched, params.context, edit)
    if _asked(params.context, lsp.CodeActionKind.QuickFix):
        actions += _exemptions(analysis, touched, edit)
    return actions


def _actions(
    server: Server,
    analysis: Analysis,
    touched: Sequence[Finding],
    context: lsp.CodeActionContext,
    edit: Callable[[Sequence[Edit]], lsp.WorkspaceEdit],
) -> list[lsp.CodeAction]:
    actions = []
    if _asked(context, lsp.CodeActionKind.QuickFix):
        for fix in fixes_of(touched, unsafe=True):
            codes = sorted({f.code for f in touched if f.fix == fix})
            safe = fix.applicability is Applicability.SAFE
            actions.append(
                lsp.CodeAction(
                    f"Fix {', '.join(codes)}" + ("" if safe else " (may change what the code does)"),
                    kind=lsp.CodeActionKind.QuickFix,
                    edit=edit(fix.edits),
                    is_preferred=safe,
                )
            )
    if analysis.safe_edits and _asked(context, FIX_ALL):
        title = "Fix everything that fsdp-migrate can fix safely here"
        actions.append(lsp.CodeAction(title, kind=FIX_ALL, edit=edit(analysis.safe_edits)))
    return actions


def _exemptions(
    analysis: Analysis, touched: Sequence[Finding], edit: Callable[[Sequence[Edit]], lsp.WorkspaceEdit]
) -> list[lsp.CodeAction]:
    actions = []
    for line in sorted({f.place.line for f in touched if f.severity is not Severity.INFO}):
        finding = next(f for f in touched if f.place.line == line)
        if edits := analysis.exempting(finding):
            title = f"Exempt line {line} with a comment"
            actions.append(lsp.CodeAction(title, kind=lsp.CodeActionKind.QuickFix, edit=edit(edits)))
    return actions


def _asked(context: lsp.CodeActionContext, kind: str) -> bool:
    """Whether a kind, or one that it belongs to, was asked for; nothing asked for is everything."""
    return not context.only or any(kind == only or kind.startswith(f"{only}.") for only in context.only)


# ── Hover ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def hover(server: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    if server.workspace.get_notebook_document(cell_uri=params.text_document.uri) is not None:
        return None
    analysis = await _analysed(server, params.text_document.uri)
    positions = Positions(analysis.text, _encoding(server))
    at = positions.offset(params.position.line, params.position.character)
    findings = analysis.touching(at, at)
    if not findings:
        return None
    pages = "\n\n---\n\n".join(of_code(code) for code in dict.fromkeys(f.code for f in findings))
    start, end = analysis.span(findings[0])
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, pages), _range(positions, start, end))


# ── Life ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def initialize(server: Server, params: lsp.InitializeParams) -> None:
    text = params.capabilities.text_document
    server.state.pulls = text is not None and text.diagnostic is not None
    _configure(server, params.initialization_options)


def did_change_configuration(server: Server, params: lsp.DidChangeConfigurationParams) -> None:
    _configure(server, params.settings)
    server.state.latest.clear()
    _look_again(server)


def _configure(server: Server, given: Any) -> None:
    """Take settings of the editor: an object with the keys of a settings file, by itself or below our name."""
    values = given.get(SOURCE, given) if isinstance(given, dict) else None
    if not isinstance(values, dict):
        return
    try:
        server.state.given = checked(values, "the editor's settings")
    except SettingsError as error:
        server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Error, str(error)))


def _look_again(server: Server) -> None:
    for uri in list(server.workspace.text_documents):
        _wish(server, uri, 0.0)


def _wish(server: Server, uri: str, delay: float) -> None:
    notebook = server.workspace.get_notebook_document(cell_uri=uri)
    if notebook is not None:
        _schedule(server, notebook.uri, lambda: _publish_notebook(server, notebook.uri), delay)
    elif not server.state.pulls:
        _schedule(server, uri, lambda: _publish(server, uri), delay)


def did_open(server: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    _wish(server, params.text_document.uri, 0.0)


def did_change(server: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    _wish(server, params.text_document.uri, DEBOUNCE)


def did_save(server: Server, params: lsp.DidSaveTextDocumentParams) -> None:
    # Recipes in other files may derive from this one.
    server.state.latest.clear()
    _look_again(server)


def did_close(server: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    uri = params.text_document.uri
    server.state.latest.pop(uri, None)
    if (task := server.state.pending.pop(uri, None)) is not None:
        task.cancel()
    server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))


def notebook_did_open(server: Server, params: lsp.DidOpenNotebookDocumentParams) -> None:
    uri = params.notebook_document.uri
    _schedule(server, uri, lambda: _publish_notebook(server, uri), 0.0)


def notebook_did_change(server: Server, params: lsp.DidChangeNotebookDocumentParams) -> None:
    uri = params.notebook_document.uri
    _schedule(server, uri, lambda: _publish_notebook(server, uri), DEBOUNCE)


def notebook_did_close(server: Server, params: lsp.DidCloseNotebookDocumentParams) -> None:
    for cell in params.cell_text_documents:
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(cell.uri, []))


_FEATURES: Iterable[tuple[str, Callable[..., Any]]] = (
    (lsp.INITIALIZE, initialize),
    (lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, did_change_configuration),
    (lsp.TEXT_DOCUMENT_DID_OPEN, did_open),
    (lsp.TEXT_DOCUMENT_DID_CHANGE, did_change),
    (lsp.TEXT_DOCUMENT_DID_SAVE, did_save),
    (lsp.TEXT_DOCUMENT_DID_CLOSE, did_close),
    (lsp.NOTEBOOK_DOCUMENT_DID_OPEN, notebook_did_open),
    (lsp.NOTEBOOK_DOCUMENT_DID_CHANGE, notebook_did_change),
    (lsp.NOTEBOOK_DOCUMENT_DID_CLOSE, notebook_did_close),
    (lsp.TEXT_DOCUMENT_HOVER, hover),
)
