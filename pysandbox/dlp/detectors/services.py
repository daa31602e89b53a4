"""Services besides: payment, mail, chat, telemetry, documents."""

from __future__ import annotations

from pysandbox.dlp.detector import Detector, below, filled

HEX = b"0a1b2c3d4e5f6789"
DIGITS = b"1234567890"

ROWS = (
    Detector(
        "stripe_key", (b"sk_live_", b"rk_live_", b"sk_test_", b"rk_test_"), rb"[sr]k_(?:live|test)_[A-Za-z0-9]{24,247}",
        hits=(filled(b"sk_" + b"live_", 24), filled(b"rk_" + b"test_", 99)),
        misses=(filled(b"sk_live_", 23), filled(b"pk_live_", 24)),
        homes=below("stripe.com"),
    ),
    Detector(
        "square_token", (b"sq0atp-", b"sq0csp-"), rb"sq0(?:atp-[A-Za-z0-9_-]{22}|csp-[A-Za-z0-9_-]{43})",
        hits=(filled(b"sq0atp-", 22), filled(b"sq0csp-", 43)), misses=(filled(b"sq0atp-", 21), filled(b"sq0csp-", 42)),
        homes=below("squareup.com"),
    ),
    Detector(
        "shopify_token", (b"shpat_", b"shpca_", b"shppa_", b"shpss_"), rb"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
        hits=(filled(b"shpat_", 32, HEX), filled(b"shpss_", 32, HEX)),
        misses=(filled(b"shpat_", 31, HEX), filled(b"shpxx_", 32, HEX)),
        homes=below("myshopify.com", "shopify.com"),
    ),
    Detector(
        "sendgrid_key", (b"SG.",), rb"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
        hits=(filled(filled(b"SG.", 22) + b".", 43), filled(filled(b"k=SG.", 22) + b".", 43)),
        misses=(filled(filled(b"SG.", 21) + b".", 43), filled(b"SG.", 66)),
        homes=below("sendgrid.com"),
    ),
    Detector(
        "mailgun_key", (b"key-",), rb"key-[a-f0-9]{32}(?![a-f0-9])",
        hits=(filled(b"key-", 32, HEX), filled(b"api:key-", 32, HEX)),
        misses=(filled(b"key-", 31, HEX), b"key-value pairs"),
        homes=below("mailgun.net", "mailgun.com"), longest=48,
    ),
    Detector(
        "slack_app_token", (b"xapp-",), rb"xapp-[0-9]-[A-Z0-9]{9,12}-[0-9]{10,13}-[a-f0-9]{64}",
        hits=(filled(b"xapp-" + b"1-A012BCDEFGH-1234567890123-", 64, HEX),
              filled(b"xapp-" + b"1-A012BCDEF-1234567890-", 64, HEX)),
        misses=(filled(b"xapp-1-A012BCDEFGH-1234567890123-", 63, HEX), filled(b"xapp-1-A012BCDEFGH-123-", 64, HEX)),
        homes=below("slack.com"),
    ),
    Detector(
        "slack_webhook", (b"hooks.slack.com/services/",),
        rb"hooks\.slack\.com/services/T[A-Z0-9]{8,12}/B[A-Z0-9]{8,12}/[A-Za-z0-9]{24}",
        hits=(filled(b"https://hooks.slack.com/services/" + b"T01ABCDEFGH/B01ABCDEFGH/", 24),
              filled(b"hooks.slack.com/services/" + b"T01ABCDE2/B01ABCDE2/", 24)),
        misses=(b"https://hooks.slack.com/services/T000/B000/XXX",
                filled(b"hooks.slack.com/services/T01ABCDEFGH/B01ABCDEFGH/", 23)),
        homes=below("slack.com"),
    ),
    Detector(
        "discord_webhook", (b"/api/webhooks/",), rb"/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,68}",
        hits=(filled(filled(b"https://discord.com/api/webhooks/", 18, DIGITS) + b"/", 68),
              filled(filled(b"/api/webhooks/", 19, DIGITS) + b"/", 60)),
        misses=(filled(filled(b"/api/webhooks/", 16, DIGITS) + b"/", 68), b"/api/webhooks/list"),
        homes=below("discord.com", "discordapp.com"),
    ),
    Detector(
        "telegram_bot_token", (b":AA",), rb"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
        hits=(filled(b"123456789:AA", 33), filled(b"/bot1234567890:AA", 33)),
        misses=(filled(b"1234567:AA", 33), filled(b"123456789:AA", 32)),
        homes=("api.telegram.org",), lead=10, longest=48,
    ),
    Detector(
        "linear_key", (b"lin_api_",), rb"lin_api_[A-Za-z0-9]{40}",
        hits=(filled(b"lin_api_", 40), filled(b"k=lin_api_", 40)), misses=(filled(b"lin_api_", 39), b"lin_api_key"),
        homes=below("linear.app"),
    ),
    Detector(
        "notion_token", (b"ntn_",), rb"ntn_[A-Za-z0-9]{46}",
        hits=(filled(b"ntn_", 46), filled(b"k=ntn_", 46)), misses=(filled(b"ntn_", 45), filled(b"mtn_", 46)),
        homes=below("notion.com"),
    ),
    Detector(
        "figma_token", (b"figd_",), rb"figd_[A-Za-z0-9_-]{40}",
        hits=(filled(b"figd_", 40), filled(b"k=figd_", 40)), misses=(filled(b"figd_", 39), filled(b"figx_", 40)),
        homes=below("figma.com"),
    ),
    Detector(
        "grafana_token", (b"glsa_", b"glc_eyJ"), rb"glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}|glc_eyJ[A-Za-z0-9+/=]{32,220}",
        hits=(filled(filled(b"glsa_", 32) + b"_", 8, HEX), filled(b"glc_eyJ", 60)),
        misses=(filled(b"glsa_", 41), filled(b"glc_eyJ", 31)),
        homes=below("grafana.net", "grafana.com"),
    ),
    Detector(
        "newrelic_key", (b"NRAK-",), rb"NRAK-[A-Z0-9]{27}",
        hits=(filled(b"NRAK-", 27, b"ABC123"), filled(b"k=NRAK-", 27, b"XYZ789")),
        misses=(filled(b"NRAK-", 26, b"ABC123"), filled(b"NRAK-", 27, b"abc")),
        homes=below("newrelic.com"),
    ),
    Detector(
        "onepassword_token", (b"ops_eyJ",), rb"ops_eyJ[A-Za-z0-9+/_-]{200,220}",
        hits=(filled(b"ops_eyJ", 400), filled(b"k=ops_eyJ", 200)), misses=(filled(b"ops_eyJ", 199), b"ops_eyJ"),
        homes=below("1password.com"),
    ),
)  # fmt: skip
