"""Python source as text that can be given back byte by byte."""

from __future__ import annotations

import ast
import codecs
import io
import tokenize

from fsdp_migrate.languages import UnreadableError
from fsdp_migrate.lines import Lines
from fsdp_migrate.segments import Document


class Source(Lines):
    """Python text, addressed as `ast` does."""

    def offset(self, line: int, byte_column: int) -> int:
        """The character offset of a position as `ast` gives it (columns in UTF-8 bytes)."""
        text = self.line(line)
        if not text.isascii():
            byte_column = len(text.encode("utf-8")[:byte_column].decode("utf-8"))
        return self.starts[line - 1] + byte_column

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """Character offsets of a node."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def segment(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        start, end = self.span(node)
        return self.text[start:end]


def decode(data: bytes) -> Document:
    """Decode a Python file as the interpreter would.

    Raises:
        UnreadableError: unknown or wrong encoding, or line ends that cannot be given back (a lone carriage return).
    """
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    encoding = "utf-8"
    if not data.isascii() or b"coding" in data[:400]:
        try:
            encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        except SyntaxError as error:
            raise UnreadableError(f"has no encoding that can be told: {error}; convert it to UTF-8") from None
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    body = data[len(mark) :]
    try:
        text = body.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise UnreadableError(f"cannot be decoded as {encoding}: {error}") from None
    if "\r" in text.replace("\r\n", ""):
        raise UnreadableError("has a carriage return without a line feed; convert the line ends first")
    document = Document(text, encoding, mark)
    try:
        exact = document.encode(text) == data
    except UnicodeEncodeError:
        exact = False
    if not exact:
        raise UnreadableError(f"cannot be written back unchanged as {encoding}; convert it to UTF-8 first")
    return document


def parse(text: str) -> ast.Module:
    """Parse Python.

    Raises:
        UnreadableError: not a program that this Python understands.
    """
    try:
        return ast.parse(text)
    except SyntaxError as error:
        where = f" (line {error.lineno})" if error.lineno else ""
        raise UnreadableError(f"is not valid Python: {error.msg}{where}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        deep = isinstance(error, RecursionError | MemoryError)
        said = "is nested too deeply" if deep else f"cannot be parsed ({error})"
        raise UnreadableError(f"{said}: migrate it by hand") from None
