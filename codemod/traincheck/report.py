"""The verdicts as a table, JSON, JUnit XML and an HTML page. Everything here only renders."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fsdp_migrate.traincheck.exchange import Versions
from fsdp_migrate.traincheck.job import Replacement
from fsdp_migrate.traincheck.judge import Check, State, Verdict, relative_difference

REHEARSAL_SHOWS_NOTHING_ABOUT = "memory, overlap, NCCL options, CUDA graphs or fp8"

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Checked:
    """All verdicts of one check and what they were reached with. `without_fsdp` recipes were passed over."""

    verdicts: tuple[Verdict, ...]
    backend: str
    ranks: int
    versions: Versions
    launches: int = 0
    without_fsdp: int = 0

    @property
    def machine(self) -> str:
        """Where it ran, such as ``2 × NVIDIA H200, torch 2.11, megatron-core 0.19.2``."""
        versions = self.versions
        parts = [f"{self.ranks} × {versions.device or 'rank'}"]
        parts += [f"{name} {version}" for name, version in _named_versions(versions) if version]
        return ", ".join(parts)

    @property
    def caveat(self) -> str:
        """What the backend cannot show; empty when it shows all."""
        if self.backend != "rehearsal":
            return ""
        return f"rehearsed on CPU ranks: this says nothing about {REHEARSAL_SHOWS_NOTHING_ABOUT}"


def _named_versions(versions: Versions) -> tuple[tuple[str, str], ...]:
    return (
        ("torch", versions.torch),
        ("megatron-core", versions.megatron_core),
        ("megatron-bridge", versions.megatron_bridge),
    )


def format_of(file: Path) -> str:
    """``json``, ``xml`` or ``html`` from a file's name. Raises `ValueError` for any other."""
    kind = file.suffix.lower().removeprefix(".")
    if kind not in _RENDERERS:
        raise ValueError(f"{file}: a report is a .json, .xml or .html file")
    return kind


def render(checked: Checked, kind: str) -> str:
    """The report's text in a format of `format_of`."""
    return _RENDERERS[kind](checked)


def print_table(checked: Checked, console: Console) -> None:
    """The table, what each failure means, and what was replaced to fit."""
    table = Table(title=checked.machine, title_justify="left", box=None, pad_edge=False)
    for column in ("recipe", "verdict", "loss", "FSDP ↔ DDP", "per rank", "checkpoint", "peak GiB", "s"):
        table.add_column(column, overflow="fold", justify="right" if column in ("peak GiB", "s") else "left")
    for verdict in checked.verdicts:
        table.add_row(verdict.name, _short_word(verdict), *_numbers(verdict))
    console.print(table)
    for verdict in checked.verdicts:
        if not verdict.good:
            console.print(Text(f"\n{verdict.file}::{verdict.name}\n  {verdict.word}", style="bold"), soft_wrap=True)
            if verdict.advice:
                console.print(Text(f"  → {verdict.advice}"), soft_wrap=True)
    for text in _fine_print(checked):
        console.print(Text(text), soft_wrap=True)


def _short_word(verdict: Verdict) -> Text:
    style = "green" if verdict.good else "red" if verdict.word.startswith("fails") else "yellow"
    return Text(": ".join(verdict.word.split(": ")[:2]), style=style)


def _numbers(verdict: Verdict) -> tuple[str, ...]:
    return (
        _loss(verdict),
        difference(verdict),
        shares(verdict),
        _state(verdict, "checkpoint"),
        peak(verdict),
        f"{verdict.seconds:.1f}" if verdict.seconds else "",
    )


def _loss(verdict: Verdict) -> str:
    losses = verdict.fsdp.losses if verdict.fsdp else ()
    return f"{losses[0]:.4f} → {losses[-1]:.4f}" if losses else ""


def difference(verdict: Verdict) -> str:
    """The largest relative difference of the two loss curves, or why there is none."""
    check = _find(verdict, "parity")
    if check is None or verdict.fsdp is None or verdict.ddp is None:
        return ""
    if check.state is State.NOT_CHECKED:
        return "not checked"
    return f"{relative_difference(verdict.fsdp.losses, verdict.ddp.losses):.1e}"


def shares(verdict: Verdict) -> str:
    """Weights / gradients / optimizer moments per rank as shares of DDP's."""
    check = _find(verdict, "sharded")
    if check is None or verdict.fsdp is None or verdict.ddp is None or not verdict.ddp.elements:
        return ""
    if check.state is State.NOT_CHECKED:
        return "not checked"
    own, whole = verdict.fsdp.elements, verdict.ddp.elements
    return " / ".join(f"{own[part] / whole[part]:.2f}" for part in ("weights", "gradients", "optimizer") if whole[part])


def peak(verdict: Verdict) -> str:
    """Peak GPU memory of the fullest rank in GiB, FSDP and DDP."""
    values = [max(bytes_, default=0) for bytes_ in (verdict.peak_bytes, verdict.ddp_peak_bytes)]
    return " / ".join(f"{value / GIB:.2f}" for value in values if value)


def _find(verdict: Verdict, name: str) -> Check | None:
    return next((check for check in verdict.checks if check.name == name), None)


def _state(verdict: Verdict, name: str) -> str:
    check = _find(verdict, name)
    return (
        {State.PASSED: "equal", State.FAILED: "differs", State.NOT_CHECKED: "not checked"}[check.state] if check else ""
    )


def _fine_print(checked: Checked) -> list[str]:
    """What the verdicts rest on: replaced values and notes, once for recipes that share them."""
    lines = []
    for heading, groups in (("Replaced to fit", _replaced_groups(checked)), ("Notes", _note_groups(checked))):
        if groups:
            lines.append(f"\n{heading}:")
        for names, texts in groups:
            lines.append(f"  {', '.join(names)}")
            lines += [f"    {text}" for text in texts]
    if checked.without_fsdp:
        lines.append(f"\n{checked.without_fsdp} recipes without Megatron FSDP passed over.")
    if checked.caveat:
        lines.append(f"\n{checked.caveat[0].upper()}{checked.caveat[1:]}.")
    return lines


Groups = list[tuple[list[str], tuple[str, ...]]]


def _group(texts: dict[str, tuple[str, ...]]) -> Groups:
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, lines in texts.items():
        if lines:
            groups.setdefault(lines, []).append(name)
    return [(names, lines) for lines, names in groups.items()]


def _replaced_groups(checked: Checked) -> Groups:
    return _group({v.name: tuple(map(replacement_text, v.job.replaced)) for v in checked.verdicts if v.job})


def _note_groups(checked: Checked) -> Groups:
    return _group({v.name: v.job.notes for v in checked.verdicts if v.job})


def replacement_text(item: Replacement) -> str:
    """One replaced value in a line."""
    own = "(not set)" if item.own is None else item.own
    return f"{item.setting}: {own} → {item.run_as} ({item.why})"


def to_data(checked: Checked) -> dict[str, Any]:
    """The report as JSON values; the format is stable: fields are added, never renamed."""
    return {
        "version": 1,
        "backend": checked.backend,
        "ranks": checked.ranks,
        "versions": asdict(checked.versions),
        "launches": checked.launches,
        "without_fsdp": checked.without_fsdp,
        "caveat": checked.caveat,
        "recipes": [_verdict_data(verdict) for verdict in checked.verdicts],
    }


def _verdict_data(verdict: Verdict) -> dict[str, Any]:
    job = verdict.job
    return {
        "name": verdict.name,
        "file": verdict.file,
        "verdict": verdict.word,
        "good": verdict.good,
        "advice": verdict.advice,
        "checks": [
            {"name": check.name, "state": check.state.value, "text": check.text, "advice": check.advice}
            for check in verdict.checks
        ],
        "replaced": [asdict(item) for item in job.replaced] if job else [],
        "notes": list(job.notes) if job else [],
        "fsdp": asdict(verdict.fsdp) if verdict.fsdp else None,
        "ddp": asdict(verdict.ddp) if verdict.ddp else None,
        "peak_bytes": list(verdict.peak_bytes),
        "ddp_peak_bytes": list(verdict.ddp_peak_bytes),
        "seconds": verdict.seconds,
        "trace": verdict.trace,
    }


def _json(checked: Checked) -> str:
    return json.dumps(_finite(to_data(checked)), indent=2, ensure_ascii=False) + "\n"


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become text."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value


def _junit(checked: Checked) -> str:
    """A suite per recipe, a case per check."""
    suites = ET.Element("testsuites", name="fsdp-migrate train-check")
    for verdict in checked.verdicts:
        suite = ET.SubElement(suites, "testsuite", name=verdict.name, time=f"{verdict.seconds:.3f}")
        checks = verdict.checks or (Check("checked", State.NOT_CHECKED, verdict.word),)
        for check in checks:
            case = ET.SubElement(suite, "testcase", classname=verdict.name, name=check.name, file=verdict.file)
            if check.state is State.FAILED:
                failure = ET.SubElement(case, "failure", message=_xml_text(check.text))
                failure.text = _xml_text("\n".join(filter(None, (check.advice, verdict.trace))))
            elif check.state is State.NOT_CHECKED:
                ET.SubElement(case, "skipped", message=_xml_text(check.text))
        suite.set("tests", str(len(checks)))
        suite.set("failures", str(sum(check.state is State.FAILED for check in checks)))
        suite.set("skipped", str(sum(check.state is State.NOT_CHECKED for check in checks)))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _xml_text(text: str) -> str:
    """Text without the control characters that XML does not allow."""
    return "".join(char for char in text if char in "\t\n\r" or ord(char) >= 32)


def _html(checked: Checked) -> str:
    from fsdp_migrate.traincheck.page import page

    return page(checked)


_RENDERERS: dict[str, Callable[[Checked], str]] = {"json": _json, "xml": _junit, "html": _html}
