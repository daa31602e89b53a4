"""The names of the detectors of credentials, as a policy may name them. The rows themselves are those of
`pysandbox.dlp`, which a policy does not import; a test holds the two to each other.
"""

from __future__ import annotations

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
NOWHERE = (
    "ssh_private_key", "pgp_private_key", "putty_private_key", "age_secret_key",
)  # fmt: skip
