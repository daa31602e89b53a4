"""The names of the detectors of credentials, as a policy may name them. The rows themselves are those of
`pysandbox.dlp`, which a policy does not import; a test holds the two to each other.
"""

from __future__ import annotations

from pysandbox.policy.refusal import CommandRefused, did_you_mean, shown

LISTABLE = (
    "github_pat", "npm_token", "aws_access_key", "slack_token", "bearer_token", "jwt", "database_url",
    "gitlab_token", "atlassian_token", "pypi_token", "rubygems_token", "docker_token", "vault_token",
    "terraform_token", "sentry_token", "postman_key", "doppler_token", "aws_temporary_key", "aws_secret_key",
    "google_api_key", "google_oauth_token", "google_client_secret", "azure_storage_key", "azure_client_secret",
    "digitalocean_token", "cloudflare_ca_key", "heroku_key", "netlify_token", "supabase_token", "databricks_token",
    "openai_key", "anthropic_key", "huggingface_token", "groq_key", "xai_key", "replicate_token", "perplexity_key",
    "openrouter_key", "langsmith_key", "stripe_key", "square_token", "shopify_token", "sendgrid_key", "mailgun_key",
    "slack_app_token", "slack_webhook", "discord_webhook", "telegram_bot_token", "linear_key", "notion_token",
    "figma_token", "grafana_token", "newrelic_key", "onepassword_token", "generic_high_entropy",
)  # fmt: skip
OF_PACKS = (
    "adafruit_key", "alibaba_access_key", "artifactory_key", "artifactory_reference", "brevo_key", "buildkite_token",
    "cerebras_key", "clojars_token", "contentful_token", "crates_io_token", "duffel_token", "dynatrace_token",
    "easypost_key", "flutterwave_key", "flyio_token", "frameio_token", "harness_token", "infracost_key",
    "intra42_secret", "lichess_token", "linear_oauth_token", "mailchimp_key", "mapbox_secret_token", "maxmind_key",
    "newrelic_insert_key", "notion_secret", "nvidia_key", "octopus_key", "onepassword_secret_key", "openshift_token",
    "pinecone_key", "plaid_token", "planetscale_token", "planetscale_password", "posthog_key", "prefect_key",
    "pulumi_token", "readme_key", "scalingo_token", "shippo_token", "slack_rotating_token", "sonar_user_token",
    "sonar_project_token", "sourcegraph_token", "tailscale_key", "tavily_key", "typeform_token", "yandex_key",
    "okta_token", "twilio_key",
)  # fmt: skip
PACKS = ("core", "gitleaks")
NOWHERE = (
    "ssh_private_key", "pgp_private_key", "putty_private_key", "age_secret_key",
)  # fmt: skip


def listable(name: str) -> str:
    """One that a host may list. Raises CommandRefused."""
    known = (*LISTABLE, *OF_PACKS)
    if name in NOWHERE:
        raise CommandRefused("a private key may be sent nowhere", "leave it out")
    if name not in known:
        meant = did_you_mean(name, known) or "pysandbox dlp detectors lists them"
        raise CommandRefused(f"{shown(name)} is not the name of a detector", meant)
    return name


def pack(name: str) -> str:
    """Raises CommandRefused."""
    if name not in PACKS:
        meant = did_you_mean(name, PACKS) or f"one of {', '.join(PACKS)}; [[network.dlp.detector]] has your own"
        raise CommandRefused(f"{shown(name)} is not the name of a pack of detectors", meant)
    return name
