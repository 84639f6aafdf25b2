"""Carry out changes on a piece of source with libcst: one parse, one pass, everything else kept as it is.

Only this module imports libcst, and only a file in which something changes imports this module.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

import libcst as cst

from fsdp_migrate.python import changes as c
from fsdp_migrate.python.numbering import KINDS, kind_of, number
from fsdp_migrate.upstream import FLAG, NEW_SECTION, OLD_SECTION

T = TypeVar("T", cst.BaseElement, cst.BaseDictElement)


class MismatchError(RuntimeError):
    """libcst and ast do not see the same nodes, so that an edit might land in the wrong place."""


def rewrite(
    text: str, statements: Sequence[ast.stmt], changes: Iterable[c.Change], *, indented: bool, unit: str, newline: str
) -> str:
    """The piece `text` (whole lines holding exactly `statements`) with the changes made.

    Args:
        text: source lines; `indented` if they are not at column 0.
        unit: what one more level of indentation looks like in this file; `newline` how its lines end.

    Raises:
        MismatchError: a change could not be placed.
        libcst.ParserSyntaxError: libcst does not understand the piece.
    """
    head = f"if 1:{newline}" if indented else ""
    complete = text.endswith("\n")
    body = head + text + ("" if complete else newline)
    module = cst.parse_module(body)
    if module.code != body:
        raise MismatchError("libcst does not give the source back unchanged")
    numbers, counts = number(statements)
    editor = _Editor(changes, numbers, unit, newline)
    result = module.visit(editor)
    if editor.counts != counts:
        raise MismatchError(f"libcst counts {editor.counts}, ast counts {counts}")
    if editor.left:
        raise MismatchError(f"no place for {editor.left}")
    if _comments_of(result.code) != _comments_of(body):
        raise MismatchError("a comment would be lost")
    code = result.code[len(head) :]
    return code if complete or not code.endswith(newline) else code[: -len(newline)]


def _comments_of(code: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(code, newline="").readline)
    return sorted(token.string.rstrip() for token in tokens if token.type == tokenize.COMMENT)


class _Editor(cst.CSTTransformer):
    def __init__(self, changes: Iterable[c.Change], numbers: dict[int, int], unit: str, newline: str) -> None:
        super().__init__()
        self.counts = dict.fromkeys(KINDS, 0)
        self.unit, self.newline = unit, newline
        self.todo: dict[tuple[str, int], list[c.Change]] = {}
        self.heirs: dict[int, int] = {}
        for change in changes:
            node = c.anchor(change)
            kind = kind_of(node)
            if kind is None or id(node) not in numbers:
                raise MismatchError(f"no place for {change}")
            self.todo.setdefault((kind, numbers[id(node)]), []).append(change)
            if isinstance(change, c.RemoveStatement) and change.heir is not None:
                self.heirs[numbers[id(node)]] = numbers[id(change.heir)]
        # What is known about a node is kept by its id, so the node must stay alive.
        self.alive: list[cst.CSTNode] = []
        self.pieces: set[int] = set()
        self.numbers: dict[int, int] = {}
        self.small: dict[int, list[c.Change]] = {}
        self.renamed: set[int] = set()
        self.gone: dict[int, tuple[int | None, list[cst.EmptyLine], cst.Comment | None]] = {}
        self.holders: dict[int, set[int]] = {}

    @property
    def left(self) -> list[c.Change]:
        return [change for rest in self.todo.values() for change in rest]

    def keep(self, node: cst.CSTNode) -> int:
        self.alive.append(node)
        return id(node)

    def take(self, kind: str) -> tuple[int, list[c.Change]]:
        place = self.counts[kind]
        self.counts[kind] += 1
        return place, self.todo.pop((kind, place), [])

    # ── Expressions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        _, todo = self.take("attribute")
        for change in todo:
            assert isinstance(change, c.RenameSection)
            if change.spelled:
                updated_node = updated_node.with_changes(value=cst.parse_expression(change.spelled))
            elif updated_node.attr.value == FLAG:
                updated_node = updated_node.with_changes(value=_new_section(updated_node.value))
            else:
                updated_node = cst.ensure_type(_new_section(updated_node), cst.Attribute)
            self.renamed.add(self.keep(updated_node))
        return updated_node

    def leave_BooleanOperation(
        self, original_node: cst.BooleanOperation, updated_node: cst.BooleanOperation
    ) -> cst.BaseExpression:
        """``x or x`` after a rename is ``x``."""
        right = updated_node.right
        operands = list(_operands(updated_node.left, type(updated_node.operator)))
        for i, operand in enumerate(operands):
            if not (self._is_renamed(operand) or self._is_renamed(right)) or not _same(operand, right):
                continue
            if _has_comment(updated_node):
                return updated_node
            kept = updated_node.left
            if i == len(operands) - 1 or self._is_renamed(right):
                return kept.with_changes(lpar=[*updated_node.lpar, *kept.lpar], rpar=[*kept.rpar, *updated_node.rpar])
        return updated_node

    def _is_renamed(self, node: cst.BaseExpression) -> bool:
        return id(node) in self.renamed

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        _, todo = self.take("call")
        for change in todo:
            match change:
                case c.RenameArgument(_, spelled):
                    argument = updated_node.args[0]
                    value = cst.parse_expression(spelled) if spelled else _new_section(argument.value)
                    args = [argument.with_changes(value=value), *updated_node.args[1:]]
                    updated_node = updated_node.with_changes(args=args)
                    self.renamed.add(self.keep(updated_node))
                case c.SetArgument(_, index, source):
                    args = list(updated_node.args)
                    args[index] = args[index].with_changes(value=cst.parse_expression(source))
                    updated_node = updated_node.with_changes(args=args)
                case c.SetKeyword(_, name, source):
                    updated_node = updated_node.with_changes(
                        args=[
                            a.with_changes(value=cst.parse_expression(source)) if _keyword(a) == name else a
                            for a in updated_node.args
                        ]
                    )
                case c.DropKeyword(_, name):
                    index = next(i for i, a in enumerate(updated_node.args) if _keyword(a) == name)
                    updated_node = _drop_argument(updated_node, index)
                case c.AddKeyword(_, name, source):
                    updated_node = _add_argument(
                        updated_node,
                        cst.Arg(
                            keyword=cst.Name(name),
                            value=cst.parse_expression(source),
                            equal=cst.AssignEqual(
                                whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")
                            ),
                        ),
                    )
                case _:
                    raise MismatchError(f"{change} is not about a call")
        return updated_node

    def visit_Index(self, node: cst.Index) -> None:
        stack: list[cst.BaseExpression] = [node.value]
        while stack:
            part = stack.pop()
            if isinstance(part, cst.Tuple):
                self.pieces.add(self.keep(part))
                stack += [element.value for element in part.elements]

    def visit_Del(self, node: cst.Del) -> None:
        # ast has no tuple in ``del a, b``.
        if isinstance(node.target, cst.Tuple) and not node.target.lpar:
            self.pieces.add(self.keep(node.target))

    def visit_ConcatenatedString(self, node: cst.ConcatenatedString) -> None:
        stack: list[cst.BaseExpression] = [node.left, node.right]
        while stack:
            part = stack.pop()
            self.pieces.add(self.keep(part))
            if isinstance(part, cst.ConcatenatedString):
                stack += [part.left, part.right]

    def _leave_string(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        if id(original) in self.pieces:
            return updated
        _, todo = self.take("string")
        for change in todo:
            assert isinstance(change, c.SetText)
            lpar, rpar = updated.lpar, updated.rpar
            updated = cst.parse_expression(change.source).with_changes(lpar=lpar, rpar=rpar)
        return updated

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        return self._leave_string(original_node, updated_node)

    def leave_FormattedString(
        self, original_node: cst.FormattedString, updated_node: cst.FormattedString
    ) -> cst.BaseExpression:
        return self._leave_string(original_node, updated_node)

    def leave_ConcatenatedString(
        self, original_node: cst.ConcatenatedString, updated_node: cst.ConcatenatedString
    ) -> cst.BaseExpression:
        return self._leave_string(original_node, updated_node)

    def _leave_display(self, updated: cst.List | cst.Tuple | cst.Set) -> cst.List | cst.Tuple | cst.Set:
        _, todo = self.take("display")
        drops = sorted((t.at for t in todo if isinstance(t, c.DropElement)), reverse=True)
        adds = [t for t in todo if isinstance(t, c.AddElements)]
        elements = list(updated.elements)
        for add in sorted(adds, key=lambda a: a.at, reverse=True):
            for source in reversed(add.sources):
                elements = _insert_element(elements, add.at, source, updated)
        for index in drops:
            elements = _drop_element(elements, index)
        return updated.with_changes(elements=elements) if todo else updated

    def leave_List(self, original_node: cst.List, updated_node: cst.List) -> cst.BaseExpression:
        return self._leave_display(updated_node)

    def leave_Tuple(self, original_node: cst.Tuple, updated_node: cst.Tuple) -> cst.BaseExpression:
        return updated_node if id(original_node) in self.pieces else self._leave_display(updated_node)

    def leave_Set(self, original_node: cst.Set, updated_node: cst.Set) -> cst.BaseExpression:
        return self._leave_display(updated_node)

    def leave_Dict(self, original_node: cst.Dict, updated_node: cst.Dict) -> cst.BaseExpression:
        _, todo = self.take("dict")
        elements = list(updated_node.elements)
        for change in todo:
            if isinstance(change, c.SetEntry):
                value = cst.parse_expression(change.source)
                elements[change.at] = elements[change.at].with_changes(value=value)
        for change in todo:
            if isinstance(change, c.AddKey):
                entry = cst.DictElement(cst.parse_expression(change.key), cst.parse_expression(change.source))
                elements = _append(elements, entry, updated_node.lbrace.whitespace_after)
        for index in sorted((t.at for t in todo if isinstance(t, c.DropKey)), reverse=True):
            elements = _drop_element(elements, index)
        return updated_node.with_changes(elements=elements) if todo else updated_node

    # ── Statements ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        result: object = super().on_leave(original_node, updated_node)
        if isinstance(original_node, cst.BaseSmallStatement):
            place, todo = self.take("statement")
            small = self._small(cast(cst.BaseSmallStatement, result), todo)
            self.numbers[self.keep(small)] = place
            self.small[id(small)] = todo
            return small
        return cast(cst.CSTNode, result)

    def _small(self, node: cst.BaseSmallStatement, todo: list[c.Change]) -> cst.BaseSmallStatement:
        for change in todo:
            match change:
                case c.RemoveTarget(_, index):
                    assert isinstance(node, cst.Assign)
                    node = node.with_changes(targets=[t for i, t in enumerate(node.targets) if i != index])
                case c.SetStored(_, source):
                    node = node.with_changes(value=cst.parse_expression(source))
                case c.RemoveStatement() | c.InsertAfter() | c.InsertBlockAfter():
                    # A fresh object, so that two equal statements are never one.
                    node = node.with_changes()
                case _:
                    raise MismatchError(f"{change} is not about a statement")
        return node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        body, after, removed = self._line(updated_node.body)
        if not body:
            numbers = [self.numbers[id(s)] for s in updated_node.body]
            heir = next((self.heirs[n] for n in numbers if n in self.heirs), None)
            line = updated_node.with_changes()
            comment = updated_node.trailing_whitespace.comment
            self.gone[self.keep(line)] = (heir, list(updated_node.leading_lines), comment)
            return cst.FlattenSentinel([line, *after]) if after else line
        line = updated_node.with_changes(body=body) if removed or after else updated_node
        self.holders[self.keep(line)] = {self.numbers[id(s)] for s in updated_node.body if id(s) in self.numbers}
        return cst.FlattenSentinel([line, *after]) if after else line

    def _line(
        self, smalls: Sequence[cst.BaseSmallStatement]
    ) -> tuple[list[cst.BaseSmallStatement], list[cst.BaseStatement], bool]:
        """The statements of a line that stay, the lines that follow, and whether the line changed."""
        body: list[cst.BaseSmallStatement] = []
        after: list[cst.BaseStatement] = []
        removed = False
        for i, small in enumerate(smalls):
            todo = self.small.get(id(small), [])
            if any(isinstance(t, c.RemoveStatement) for t in todo):
                removed = True
            else:
                body.append(small)
            for change in todo:
                if isinstance(change, c.InsertAfter):
                    if i == len(smalls) - 1:
                        after += [self._statement(line) for line in change.lines]
                    else:
                        # Others follow on this line, perhaps a return: stay between them.
                        body += [self._statement(line).body[0] for line in change.lines]
                        removed = True
                elif isinstance(change, c.InsertBlockAfter):
                    after.append(self._compound(change))
        if removed and body:
            gap = cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" "))
            whole = [
                s if i == len(body) - 1 or isinstance(s.semicolon, cst.Semicolon) else s.with_changes(semicolon=gap)
                for i, s in enumerate(body[:-1])
            ]
            last = body[-1]
            if smalls[-1] is not last:
                last = last.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            body = [*whole, last]
        return body, after, removed

    def _statement(self, line: str) -> cst.SimpleStatementLine:
        return cst.ensure_type(cst.parse_statement(line), cst.SimpleStatementLine)

    def _compound(self, change: c.InsertBlockAfter) -> cst.BaseStatement:
        lines = [self._statement(line) for line in change.lines]
        test = cst.parse_expression(change.header)
        return cst.If(test=test, body=cst.IndentedBlock(body=lines, indent=self.unit))

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.BaseSuite:
        body, after, removed = self._line(updated_node.body)
        if after:
            lines = [cst.SimpleStatementLine([s.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]) for s in body]
            return cst.IndentedBlock(
                body=[*lines, *after],
                header=updated_node.trailing_whitespace,
                indent=self.unit,
            )
        if not body:
            body = [cst.Pass()]
        return updated_node.with_changes(body=body) if removed else updated_node

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock) -> cst.BaseSuite:
        body, footer, changed = self._block(updated_node.body, updated_node.footer)
        if not changed:
            return updated_node
        if not body:
            body = [self._statement("pass")]
        return updated_node.with_changes(body=body, footer=footer)

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        body, footer, changed = self._block(updated_node.body, updated_node.footer)
        return updated_node.with_changes(body=body, footer=footer) if changed else updated_node

    def _block(
        self, lines: Sequence[cst.BaseStatement], footer: Sequence[cst.EmptyLine]
    ) -> tuple[list[cst.BaseStatement], list[cst.EmptyLine], bool]:
        """Take out the lines that are gone and give what stood around them to those that stay."""
        if not any(id(line) in self.gone for line in lines):
            return list(lines), list(footer), False
        kept: list[cst.BaseStatement] = []
        waiting: list[cst.EmptyLine] = []
        inherited: dict[int, list[cst.Comment]] = {}
        for line in lines:
            if id(line) in self.gone:
                heir, leading, comment = self.gone[id(line)]
                waiting += leading
                if comment is not None:
                    holder = next((h for h in lines if heir is not None and heir in self.holders.get(id(h), ())), None)
                    if holder is None:
                        waiting.append(cst.EmptyLine(comment=comment))
                    else:
                        inherited.setdefault(id(holder), []).append(comment)
                continue
            if waiting:
                old = list(line.leading_lines)  # type: ignore[attr-defined]
                if all(e.comment is None for e in waiting) and old and old[0].comment is None:
                    waiting = []
                replacement = line.with_changes(leading_lines=[*waiting, *old])
                self._moved(line, replacement, inherited)
                line, waiting = replacement, []
            kept.append(line)
        return [self._with_comments(line, inherited.get(id(line), [])) for line in kept], [*waiting, *footer], True

    def _moved(self, old: cst.BaseStatement, new: cst.BaseStatement, inherited: dict[int, list[cst.Comment]]) -> None:
        if id(old) in self.holders:
            self.holders[self.keep(new)] = self.holders[id(old)]
        if id(old) in inherited:
            inherited[self.keep(new)] = inherited.pop(id(old))

    def _with_comments(self, line: cst.BaseStatement, comments: list[cst.Comment]) -> cst.BaseStatement:
        for comment in comments:
            assert isinstance(line, cst.SimpleStatementLine)
            trailing = line.trailing_whitespace
            if trailing.comment is None:
                line = line.with_changes(
                    trailing_whitespace=trailing.with_changes(whitespace=cst.SimpleWhitespace("  "), comment=comment)
                )
            else:
                line = line.with_changes(leading_lines=[*line.leading_lines, cst.EmptyLine(comment=comment)])
        return line


# ── Pieces ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _new_section(node: cst.BaseExpression) -> cst.BaseExpression:
    if not isinstance(node, cst.Attribute) or node.attr.value != OLD_SECTION:
        raise MismatchError("the section is not where it was")
    return node.with_changes(attr=node.attr.with_changes(value=NEW_SECTION))


def _same(a: cst.BaseExpression, b: cst.BaseExpression) -> bool:
    bare = a.with_changes(lpar=[], rpar=[])
    return bare.deep_equals(b.with_changes(lpar=[], rpar=[]))


def _operands(node: cst.BaseExpression, operator: type[cst.BaseBooleanOp]) -> Iterable[cst.BaseExpression]:
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, operator) and not node.lpar:
        yield from _operands(node.left, operator)
        yield node.right
    else:
        yield node


def _has_comment(node: cst.CSTNode) -> bool:
    return "#" in cst.Module([]).code_for_node(node)


def _keyword(argument: cst.Arg) -> str | None:
    return argument.keyword.value if argument.keyword is not None else None


def _comments(space: cst.BaseParenthesizableWhitespace) -> list[cst.EmptyLine]:
    """Comments in whitespace between arguments, each as a line of its own."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return []
    first = [cst.EmptyLine(comment=space.first_line.comment)] if space.first_line.comment else []
    return [*first, *(line for line in space.empty_lines if line.comment is not None)]


def _with_lines(
    space: cst.BaseParenthesizableWhitespace, lines: list[cst.EmptyLine]
) -> cst.BaseParenthesizableWhitespace:
    if not lines:
        return space
    if not isinstance(space, cst.ParenthesizedWhitespace):
        raise MismatchError("a comment would be lost")
    indented = [line.with_changes(indent=True, whitespace=space.last_line) for line in lines]
    return space.with_changes(empty_lines=[*space.empty_lines, *indented])


def _after_comma(node: cst.Arg | cst.BaseElement | cst.BaseDictElement) -> cst.BaseParenthesizableWhitespace:
    comma = node.comma
    return comma.whitespace_after if isinstance(comma, cst.Comma) else cst.SimpleWhitespace("")


def _drop_argument(call: cst.Call, index: int) -> cst.Call:
    args = list(call.args)
    dropped = args.pop(index)
    lost = [*_comments(dropped.whitespace_after_arg), *_comments(_after_comma(dropped))]
    if not args:
        if lost:
            raise MismatchError("a comment would be lost")
        return call.with_changes(args=[], whitespace_before_args=cst.SimpleWhitespace(""))
    if index == len(args):
        # The last one: what closed it closes its predecessor.
        last = args[-1].with_changes(comma=dropped.comma, whitespace_after_arg=dropped.whitespace_after_arg)
        before = _comments(_after_comma(args[-1]))
        if before:
            if not isinstance(last.comma, cst.Comma):
                raise MismatchError("a comment would be lost")
            closing = last.comma.whitespace_after
            if not isinstance(closing, cst.ParenthesizedWhitespace):
                raise MismatchError("a comment would be lost")
            old = cst.ensure_type(_after_comma(args[-1]), cst.ParenthesizedWhitespace)
            kept = [*old.empty_lines]
            if closing.first_line.comment is not None:
                kept.append(cst.EmptyLine(comment=closing.first_line.comment, indent=True, whitespace=old.last_line))
            closing = closing.with_changes(first_line=old.first_line, empty_lines=[*kept, *closing.empty_lines])
            last = last.with_changes(comma=last.comma.with_changes(whitespace_after=closing))
        args[-1] = last
        return call.with_changes(args=args)
    if index == 0:
        return call.with_changes(args=args, whitespace_before_args=_with_lines(call.whitespace_before_args, lost))
    previous = args[index - 1]
    comma = cst.ensure_type(previous.comma, cst.Comma)
    args[index - 1] = previous.with_changes(
        comma=comma.with_changes(whitespace_after=_with_lines(comma.whitespace_after, lost))
    )
    return call.with_changes(args=args)


def _gap(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    """The same break without its comments."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    return cst.ParenthesizedWhitespace(
        first_line=cst.TrailingWhitespace(newline=space.first_line.newline),
        indent=space.indent,
        last_line=space.last_line,
    )


def _add_argument(call: cst.Call, argument: cst.Arg) -> cst.Call:
    args = list(call.args)
    if not args:
        return call.with_changes(args=[argument])
    separator: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if len(args) > 1:
        separator = _gap(_after_comma(args[-2]))
    elif isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace):
        separator = _gap(call.whitespace_before_args)
    last = args[-1]
    closed, following = _extend(last, separator)
    new = argument.with_changes(comma=following, whitespace_after_arg=last.whitespace_after_arg)
    args[-1] = last.with_changes(comma=closed, whitespace_after_arg=cst.SimpleWhitespace(""))
    if _comments(last.whitespace_after_arg):
        raise MismatchError("a comment would be lost")
    return call.with_changes(args=[*args, new])


def _extend(
    last: cst.Arg | cst.BaseElement | cst.BaseDictElement, separator: cst.BaseParenthesizableWhitespace
) -> tuple[cst.Comma, cst.Comma | cst.MaybeSentinel]:
    """The comma after what was last so far, and the comma after what is last now."""
    if not isinstance(last.comma, cst.Comma):
        return cst.Comma(whitespace_after=separator), cst.MaybeSentinel.DEFAULT
    closing = last.comma.whitespace_after
    if not isinstance(closing, cst.ParenthesizedWhitespace) or not isinstance(separator, cst.ParenthesizedWhitespace):
        return last.comma.with_changes(whitespace_after=separator), last.comma
    # A comment behind the old last entry stays behind it.
    between = separator.with_changes(first_line=closing.first_line)
    plain = closing.with_changes(first_line=cst.TrailingWhitespace(newline=closing.first_line.newline))
    return last.comma.with_changes(whitespace_after=between), last.comma.with_changes(whitespace_after=plain)


def _append(elements: list[T], new: T, opening: cst.BaseParenthesizableWhitespace) -> list[T]:
    if not elements:
        return [new]
    separator: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if len(elements) > 1:
        separator = _gap(_after_comma(elements[-2]))
    elif isinstance(opening, cst.ParenthesizedWhitespace):
        separator = _gap(opening)
    closed, following = _extend(elements[-1], separator)
    extended: list[T] = list(elements)
    extended[-1] = extended[-1].with_changes(comma=closed)
    extended.append(new.with_changes(comma=following))
    return extended


def _insert_element(
    elements: list[cst.BaseElement], index: int, source: str, display: cst.List | cst.Tuple | cst.Set
) -> list[cst.BaseElement]:
    new = cst.Element(cst.parse_expression(source))
    if index == len(elements) - 1:
        opening: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
        if isinstance(display, cst.List):
            opening = display.lbracket.whitespace_after
        elif isinstance(display, cst.Set):
            opening = display.lbrace.whitespace_after
        return _append(elements, new, opening)
    comma = cst.ensure_type(elements[index].comma, cst.Comma)
    plain = comma.with_changes(whitespace_after=_gap(comma.whitespace_after))
    return [*elements[: index + 1], new.with_changes(comma=plain), *elements[index + 1 :]]


def _drop_element(elements: list[T], index: int) -> list[T]:
    kept = [e for i, e in enumerate(elements) if i != index]
    dropped = elements[index]
    lost = _comments(_after_comma(dropped))
    if index == len(kept) and kept:
        lost += _comments(_after_comma(kept[-1]))
        kept[-1] = kept[-1].with_changes(comma=dropped.comma)
    elif index > 0 and lost:
        previous = kept[index - 1]
        comma = cst.ensure_type(previous.comma, cst.Comma)
        comma = comma.with_changes(whitespace_after=_with_lines(comma.whitespace_after, lost))
        kept[index - 1] = previous.with_changes(comma=comma)
        lost = []
    if lost:
        raise MismatchError("a comment would be lost")
    return kept
