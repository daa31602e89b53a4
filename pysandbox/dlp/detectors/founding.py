"""The detectors that every version has, with the expressions that the policy's reference promises.

github_pat       GitHub: personal, OAuth, user, server and refresh tokens, and fine-grained ones
npm_token        npm: access tokens
aws_access_key   AWS: ids of long-lived keys
slack_token      Slack: bot, app, person, refresh and legacy tokens
ssh_private_key  private keys in PEM, as OpenSSH and OpenSSL write them; goes nowhere
bearer_token     whatever follows the word Bearer; goes only where a host lists it
"""

from __future__ import annotations

from pysandbox.dlp.detector import Detector, below, filled

ROWS = (
    Detector(
        "github_pat", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_"),
        rb"gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
        hits=(filled(b"ghp_", 36), filled(b"ghs_", 36), filled(filled(b"github_pat_", 22) + b"_", 59)),
        misses=(filled(b"ghp_", 35), filled(b"ghx_", 36), b"ghp_short", filled(b"github_pat_", 60)),
        homes=below("github.com"),
    ),
    Detector(
        "npm_token", (b"npm_",), rb"npm_[A-Za-z0-9]{36}",
        hits=(filled(b"npm_", 36), filled(b"//registry.npmjs.org/:_authToken=npm_", 36)),
        misses=(filled(b"npm_", 35), b"npm_config_registry=https://registry.npmjs.org/package"),
        homes=("registry.npmjs.org",),
    ),
    Detector(
        "aws_access_key", (b"AKIA",), rb"AKIA[A-Z0-9]{16}",
        hits=(filled(b"AKIA", 16, b"ABCD2345EFGH67JK"), filled(b"id: AKIA", 16, b"Z9Y8X7W6V5U4T3S2")),
        misses=(filled(b"AKIA", 15, b"ABCD2345EFGH67JK"), b"AKIAabcdefghijklmnop", b"SLOVAKIA IS A COUNTRY"),
        homes=below("amazonaws.com"),
    ),
    Detector(
        "slack_token", (b"xoxb-", b"xoxa-", b"xoxp-", b"xoxr-", b"xoxs-"),
        rb"xox[baprs]-[0-9]{10,13}-[0-9]{10,13}-[A-Za-z0-9]{24}",
        hits=(filled(b"xoxb-" + b"1234567890-" * 2, 24), filled(b"xoxp-" + b"1234567890123-" * 2, 24)),
        misses=(filled(b"xoxb-123456789-1234567890-", 24), filled(b"xoxb-" + b"1234567890-" * 2, 23), b"xoxb-token"),
        homes=below("slack.com"),
    ),
    Detector(
        "ssh_private_key", (b"-----BEGIN ",), rb"-----BEGIN (?:(?:RSA|EC|OPENSSH|DSA|ENCRYPTED) )?PRIVATE KEY-----",
        hits=(b"-----BEGIN " + b"RSA PRIVATE KEY-----", b"-----BEGIN " + b"OPENSSH PRIVATE KEY-----",
              b"-----BEGIN " + b"PRIVATE KEY-----", b"-----BEGIN " + b"DSA PRIVATE KEY-----"),
        misses=(b"-----BEGIN PUBLIC KEY-----", b"-----BEGIN CERTIFICATE-----", b"-----BEGIN MY PRIVATE KEY-----"),
        never=True, longest=64,
    ),
    Detector(
        "bearer_token", (b"Bearer",), rb"Bearer\s+[A-Za-z0-9\-._~+/]{20,}=*",
        hits=(filled(b"Bearer ", 20), filled(b"Authorization: Bearer  ", 44) + b"=="),
        misses=(filled(b"Bearer ", 19), filled(b"Bearer:", 40), b"Bearer of bad news, one of many"),
        longest=512,
    ),
)  # fmt: skip
