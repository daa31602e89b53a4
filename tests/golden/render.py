"""A Plan as text that a reader can judge line by line in a diff. One step, rule, limit or note is one line."""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.compile.plan import LandlockPlan, MountStep, NetPlan, Plan


def render(plan: Plan) -> str:
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: Plan) -> Iterator[str]:
    yield f"isolation   {plan.isolation}"
    yield f"namespaces  {' '.join(plan.namespaces)}{' (loopback up)' if plan.loopback else ''}".rstrip()
    yield f"ids         {plan.inside_uid} {plan.inside_gid}"
    yield f"hostname    {plan.hostname_prefix}<id>"
    yield f"staging     {plan.staging}"
    yield f"cwd         {plan.cwd}"
    yield f"time        wall {plan.walltime}, grace {plan.grace}"
    yield f"output      {plan.output_cap} bytes"
    yield from _block("mounts", (_step(step) for step in plan.mounts))
    yield from _landlock(plan.landlock)
    if plan.executables is not None:
        yield from _block("executables", iter(plan.executables))
    yield from _block("limits", (f"{each.resource} {each.value}" for each in plan.limits))
    if plan.cgroup:
        yield from _block("cgroup", iter((
            f"{plan.cgroup.way} {plan.cgroup.parent}: {' '.join(plan.cgroup.controllers)}".rstrip(),
            *(f"{each.file} = {each.value}{' (optional)' if each.optional else ''}" for each in plan.cgroup.settings),
        )))  # fmt: skip
    if plan.watch:
        yield from _block("watch", iter((repr(plan.watch),)))
    if plan.net:
        yield from _block("net", _net(plan.net))
    yield from _block("env", (f"{name}={value}" for name, value in plan.env))
    yield from _block("notes", (f"{note.event} [{note.key}] {note.message}" for note in plan.notes))


def _net(net: NetPlan) -> Iterator[str]:
    yield from (f"door {door.kind} {door.address}:{door.port}/{door.protocol}" for door in net.doors)
    yield f"routes {len(net.routes)} bytes, redirect {len(net.redirect)} bytes, ipv6 {net.ipv6}"
    for grant in net.hosts:
        ports = " ".join(map(str, grant.ports)) or "any port"
        private = f", private {' '.join(grant.private)}" if grant.private else ""
        yield f"host {grant.pattern}: {ports}{', direct' if grant.direct else ''}{private}"
    yield from (
        f"address {each.address.hex()}/{each.prefix} {each.first_port}-{each.last_port}" for each in net.endpoints
    )
    for port in net.published:
        yield f"published {port.address}:{port.port} -> {port.inside}/{port.protocol}"
    if net.loopback_ports is not None:
        yield f"the host's loopback: {' '.join(map(str, net.loopback_ports)) or 'any port'}"


def _block(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield ""
    yield title
    yield from (f"  {line}" for line in lines)


def _step(step: MountStep) -> str:
    parts = [step.kind.value, step.target]
    if step.source:
        parts += ["<-", step.source]
    if step.data:
        parts.append(repr(step.data))
    if step.mode != 0o755:
        parts.append(f"mode {step.mode:o}")
    parts += [attr.value for attr in step.attrs]
    if step.ino:
        parts.append(f"inode {step.dev}:{step.ino}")
    return " ".join(parts + [word for word in ("optional", "inside_bind", "named") if getattr(step, word)])


def _landlock(plan: LandlockPlan | None) -> Iterator[str]:
    if plan is None:
        yield from _block("landlock", iter(("none",)))
        return
    yield from _block("landlock", iter((
        f"fs {' '.join(plan.handled_fs)}", f"net {' '.join(plan.handled_net)}".rstrip(),
        f"scoped {' '.join(plan.scoped)}".rstrip(),
    )))  # fmt: skip
    for rule in plan.rules:
        every = "everything" if rule.access == plan.handled_fs else " ".join(rule.access)
        yield f"  {rule.path or '(scratch)'}: {every}{' (optional)' if rule.optional else ''}"
