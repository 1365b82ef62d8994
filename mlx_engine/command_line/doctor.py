"""`headstart doctor`: prints what the engine's own checks found."""

import json
from argparse import Namespace
from dataclasses import asdict

from rich.text import Text

from mlx_engine.command_line.outside import Outside
from mlx_engine.command_line.screen import harmless, make_screen
from mlx_engine.doctor.finding import Finding

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(arguments: Namespace, outside: Outside) -> int:
    """Print a line a finding, or with --json one object; 1 when a check failed."""
    findings = []
    screen = make_screen(outside.stdout, outside.stderr, plain=False)
    for finding in outside.examine():
        findings.append(finding)
        if not arguments.json:
            line = Text.assemble(
                (f"{finding.state:<5}", STYLES[finding.state]),
                (f"{finding.name:<20}", "bold"),
                harmless(finding.words),
            )
            screen.answers.print(line, soft_wrap=True)
    report = findings_report(findings)
    if arguments.json:
        print(json.dumps(report), file=outside.stdout)
    return 0 if report["ok"] else 1


def findings_report(findings: list[Finding]) -> dict[str, object]:
    """Keys: ok, and checks with name, state ("ok", "warn", "fail") and words."""
    is_ok = all(finding.state != "fail" for finding in findings)
    return {"ok": is_ok, "checks": [asdict(finding) for finding in findings]}
