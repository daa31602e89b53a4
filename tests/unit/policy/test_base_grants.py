"""What every cage is shown of the system holds nobody's passwords, also where root starts it."""

from __future__ import annotations

from pysandbox.policy.base_grants import ALLOW, DENY


def test_what_a_jdk_reads_is_shown_without_its_passwords() -> None:
    shown = {grant.path for grant in ALLOW if grant.path.startswith("/etc/java-")}
    assert "/etc/java-17-openjdk" in shown
    assert {f"{path}/management/jmxremote.password" for path in shown} <= {grant.path for grant in DENY}
