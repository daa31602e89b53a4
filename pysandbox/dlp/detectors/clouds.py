"""Clouds and hosting."""

from __future__ import annotations

from pysandbox.dlp.detector import Detector, below, filled

HEX = b"0a1b2c3d4e5f6789"

ROWS = (
    Detector(
        "aws_temporary_key", (b"ASIA",), rb"ASIA[A-Z0-9]{16}",
        hits=(filled(b"ASIA", 16, b"ABCD2345EFGH67JK"), filled(b"id=ASIA", 16, b"Z9Y8X7W6V5U4T3S2")),
        misses=(filled(b"ASIA", 15, b"ABCD2345EFGH67JK"), b"ASIA PACIFIC NORTHEAST REGION"),
        homes=below("amazonaws.com"),
    ),
    Detector(
        "aws_secret_key", (b"aws_secret_access_key", b"AWS_SECRET_ACCESS_KEY", b"SecretAccessKey"),
        rb"(?:aws_secret_access_key|AWS_SECRET_ACCESS_KEY|SecretAccessKey)[\"']?\s{0,4}[=:]\s{0,4}[\"']?"
        rb"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
        hits=(filled(b"aws_secret_access_key = ", 40), filled(b'"SecretAccessKey": "', 40) + b'"'),
        misses=(filled(b"aws_secret_access_key = ", 39), b"AWS_SECRET_ACCESS_KEY=$(pass show aws)"),
        homes=below("amazonaws.com"),
    ),
    Detector(
        "google_api_key", (b"AIza",), rb"AIza[A-Za-z0-9_-]{35}",
        hits=(filled(b"AIza", 35), filled(b"?key=AIza", 35)), misses=(filled(b"AIza", 34), filled(b"AIzb", 35)),
        homes=below("googleapis.com", "google.com"),
    ),
    Detector(
        "google_oauth_token", (b"ya29.",), rb"ya29\.[A-Za-z0-9_-]{30,220}",
        hits=(filled(b"ya29.", 120), filled(b"ya29.a0", 30)), misses=(filled(b"ya29.", 29), filled(b"ya28.", 60)),
        homes=below("googleapis.com", "google.com"),
    ),
    Detector(
        "google_client_secret", (b"GOCSPX-",), rb"GOCSPX-[A-Za-z0-9_-]{28}",
        hits=(filled(b"GOCSPX-", 28), filled(b"secret=GOCSPX-", 28)),
        misses=(filled(b"GOCSPX-", 27), filled(b"GOCSPY-", 28)),
        homes=below("googleapis.com", "google.com"),
    ),
    Detector(
        "azure_storage_key", (b"AccountKey=",), rb"AccountKey=[A-Za-z0-9+/]{86}==",
        hits=(filled(b"AccountKey=", 86) + b"==", filled(b"AccountName=x;AccountKey=", 86) + b"==;"),
        misses=(filled(b"AccountKey=", 85) + b"==", b"AccountKey=..."),
        homes=below("core.windows.net"),
    ),
    Detector(
        "azure_client_secret", (b"8Q~",), rb"[A-Za-z0-9_~.]{3}8Q~[A-Za-z0-9_~.-]{34}",
        hits=(filled(b"abC8Q~", 34), filled(b"=x.Y8Q~", 34)), misses=(filled(b"abC8Q~", 33), filled(b"ab8Q-", 34)),
        homes=("login.microsoftonline.com",), lead=3, longest=48,
    ),
    Detector(
        "digitalocean_token", (b"dop_v1_", b"doo_v1_", b"dor_v1_"), rb"do[opr]_v1_[a-f0-9]{64}",
        hits=(filled(b"dop_v1_", 64, HEX), filled(b"dor_v1_", 64, HEX)),
        misses=(filled(b"dop_v1_", 63, HEX), filled(b"dox_v1_", 64, HEX)),
        homes=below("digitalocean.com"),
    ),
    Detector(
        "cloudflare_ca_key", (b"v1.0-",), rb"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}",
        hits=(filled(filled(b"v1.0-", 24, HEX) + b"-", 146, HEX), filled(filled(b"k=v1.0-", 24, HEX) + b"-", 146, HEX)),
        misses=(filled(b"v1.0-", 171, HEX), b"v1.0-beta"),
        homes=below("cloudflare.com"),
    ),
    Detector(
        "heroku_key", (b"HRKU-AA",), rb"HRKU-AA[A-Za-z0-9_-]{58}",
        hits=(filled(b"HRKU-AA", 58), filled(b"=HRKU-AA", 60)), misses=(filled(b"HRKU-AA", 57), filled(b"HRKU-BB", 58)),
        homes=below("heroku.com"),
    ),
    Detector(
        "netlify_token", (b"nfp_",), rb"nfp_[A-Za-z0-9]{36}",
        hits=(filled(b"nfp_", 36), filled(b"t=nfp_", 36)), misses=(filled(b"nfp_", 35), filled(b"nfq_", 36)),
        homes=below("netlify.com"),
    ),
    Detector(
        "supabase_token", (b"sbp_",), rb"sbp_[a-f0-9]{40}",
        hits=(filled(b"sbp_", 40, HEX), filled(b"t=sbp_", 40, HEX)),
        misses=(filled(b"sbp_", 39, HEX), filled(b"sbp_", 40)),
        homes=below("supabase.com", "supabase.co"),
    ),
    Detector(
        "databricks_token", (b"dapi",), rb"dapi[a-f0-9]{32}",
        hits=(filled(b"dapi", 32, HEX), filled(b"t=dapi", 32, HEX[::-1])),
        misses=(filled(b"dapi", 31, HEX), b"dapi documentation of the interface"),
        homes=below("databricks.com", "azuredatabricks.net"),
    ),
)  # fmt: skip
