"""Claim: what a cage trusts, or says that it trusts, changes nothing of what is looked at: it cannot change the
certificates that others in it read, and who trusts the server alone, or nobody, or everybody, sends no request unseen.
"""

from __future__ import annotations

import pytest

from _support.internet import Host, Internet

from .network import attack, control

LISTED = "origin.example"
RULE = {"domain": LISTED, "methods": ["GET"]}
ASKING = """
    import ssl

    def asking(method, trusted):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if "cadata" in trusted or "cafile" in trusted:
            context.load_verify_locations(**trusted)
        elif "nobody" not in trusted:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        s = socket.create_connection((LISTED, 443), PATIENCE)
        try:
            with context.wrap_socket(s, server_hostname=LISTED) as tls:
                head = method + " / HTTP/1.1\\r\\nHost: " + LISTED + "\\r\\nConnection: close\\r\\n\\r\\n"
                tls.sendall(head.encode())
                return status_of(tls.recv(4096))
        except ssl.SSLCertVerificationError:
            return "not trusted"
"""
TRUSTS = """
    import tempfile
    handle, ITSELF = tempfile.mkstemp(suffix=".pem")  # the control has the /tmp of everybody
    with open(handle, "w") as file:
        file.write(SERVERS)
    os.environ["SSL_CERT_FILE"] = os.environ["REQUESTS_CA_BUNDLE"] = ITSELF
    says("the server's authority alone", asking, "GET", {"cadata": SERVERS})
    says("a file of its own", asking, "GET", {"cafile": os.environ["SSL_CERT_FILE"]})
    says("nobody", asking, "GET", {"nobody": True})
    says("everybody", asking, "GET", {})
    says("everybody, another method", asking, "DELETE", {})
    os.unlink(ITSELF)
"""
CHANGES = """
    BUNDLES = sorted({value for name, value in os.environ.items() if value.endswith((".pem", ".crt"))})
    FOUND = BUNDLES + [each for each in ("/etc/ssl/certs/ca-certificates.crt",) if os.path.exists(each)]
    say("bundles", len(FOUND))
    for number, bundle in enumerate(dict.fromkeys(FOUND)):
        assert os.path.getsize(bundle)
        says(f"append {number}", lambda: open(bundle, "a").close())
        says(f"truncate {number}", os.truncate, bundle, 0)
        says(f"mode {number}", os.chmod, bundle, 0o666)
        says(f"remove {number}", os.unlink, bundle)
        says(f"rename {number}", os.rename, bundle, bundle + ".old")
        says(f"replace {number}", lambda: os.symlink("/tmp/elsewhere.pem", bundle + ".new") or os.rename(
            bundle + ".new", bundle))
"""
READ_ONLY = {"EROFS", "EACCES", "EPERM", "EBUSY"}


def servers(net: Internet) -> str:
    with open(net.ca, encoding="ascii") as file:
        return file.read()


def test_uncaged_who_trusts_the_server_is_served(net_host: Host, net: Internet) -> None:
    said = control(net_host, ASKING, TRUSTS, names={"LISTED": LISTED, "SERVERS": servers(net)})

    assert said["the server's authority alone"] == "200"
    assert said["everybody, another method"] == "405"  # it has arrived


def test_caged_nobody_is_served_unseen(net_host: Host, net: Internet) -> None:
    said = attack(net_host, ASKING, TRUSTS, names={"LISTED": LISTED, "SERVERS": servers(net)}, hosts=[RULE],
                  proxy_upstream_ca=[net.ca])  # fmt: skip

    assert dict(said.values) == {
        "the server's authority alone": "not trusted", "a file of its own": "not trusted", "nobody": "not trusted",
        "everybody": "200", "everybody, another method": "415",
    }  # fmt: skip
    assert len(net.requests("origin")) == 1
    assert any("does not trust the authority of this cage" in str(each["rule"]) for each in said.answer.denials)
    assert any(each["rule"] == "host.methods" for each in said.answer.denials)


@pytest.mark.parametrize("run_as", ["root", "self"])
def test_no_certificates_of_others_are_changed(run_as: str, net_host: Host, net: Internet) -> None:
    said = attack(net_host, CHANGES, hosts=[RULE], proxy_upstream_ca=[net.ca], run_as=run_as)

    values = dict(said.values)
    assert values.pop("bundles") >= 1 and len(values) >= 6
    assert set(values.values()) <= READ_ONLY, values
