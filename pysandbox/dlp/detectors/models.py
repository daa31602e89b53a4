"""Providers of models."""

from __future__ import annotations

from pysandbox.dlp.detector import Detector, below, filled

HEX = b"0a1b2c3d4e5f6789"

ROWS = (
    Detector(
        "openai_key", (b"T3BlbkFJ", b"sk-proj-", b"sk-svcacct-", b"sk-admin-"),
        rb"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,200}",
        hits=(filled(filled(b"sk-", 20) + b"T3Blbk" + b"FJ", 20), filled(b"sk-proj-", 120)),
        misses=(filled(filled(b"sk-", 19) + b"T3Blbk" + b"FJ", 20), filled(b"sk-proj-", 39), b"task-project-name"),
        homes=below("openai.com"), lead=23,
    ),
    Detector(
        "anthropic_key", (b"sk-ant-",), rb"sk-ant-[a-z]{2,8}[0-9]{2}-[A-Za-z0-9_-]{80,120}",
        hits=(filled(b"sk-ant-" + b"api03-", 95), filled(b"sk-ant-" + b"admin01-", 86)),
        misses=(filled(b"sk-ant-api03-", 79), b"sk-ant-..."),
        homes=below("anthropic.com"),
    ),
    Detector(
        "huggingface_token", (b"hf_",), rb"hf_[A-Za-z0-9]{34}",
        hits=(filled(b"hf_", 34), filled(b"token=hf_", 34)), misses=(filled(b"hf_", 33), b"hf_hub_download(repo_id)"),
        homes=below("huggingface.co", "hf.co"),
    ),
    Detector(
        "groq_key", (b"gsk_",), rb"gsk_[A-Za-z0-9]{52}",
        hits=(filled(b"gsk_", 52), filled(b"k=gsk_", 52)), misses=(filled(b"gsk_", 51), filled(b"gsx_", 52)),
        homes=below("groq.com"),
    ),
    Detector(
        "xai_key", (b"xai-",), rb"xai-[A-Za-z0-9]{80}",
        hits=(filled(b"xai-", 80), filled(b"k=xai-", 80)), misses=(filled(b"xai-", 79), b"xai-sdk-python"),
        homes=below("x.ai"),
    ),
    Detector(
        "replicate_token", (b"r8_",), rb"r8_[A-Za-z0-9]{37}",
        hits=(filled(b"r8_", 37), filled(b"k=r8_", 37)), misses=(filled(b"r8_", 36), filled(b"r9_", 37)),
        homes=below("replicate.com"),
    ),
    Detector(
        "perplexity_key", (b"pplx-",), rb"pplx-[A-Za-z0-9]{48,56}",
        hits=(filled(b"pplx-", 48), filled(b"pplx-", 56)), misses=(filled(b"pplx-", 47), b"pplx-7b-online"),
        homes=below("perplexity.ai"),
    ),
    Detector(
        "openrouter_key", (b"sk-or-v1-",), rb"sk-or-v1-[a-f0-9]{64}",
        hits=(filled(b"sk-or-v1-", 64, HEX), filled(b"k=sk-or-v1-", 64, HEX)),
        misses=(filled(b"sk-or-v1-", 63, HEX), filled(b"sk-or-v2-", 64, HEX)),
        homes=below("openrouter.ai"),
    ),
    Detector(
        "langsmith_key", (b"lsv2_",), rb"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}",
        hits=(filled(filled(b"lsv2_" + b"pt_", 32, HEX) + b"_", 10, HEX),
              filled(filled(b"lsv2_" + b"sk_", 32, HEX) + b"_", 10, HEX)),
        misses=(filled(b"lsv2_pt_", 43, HEX), filled(filled(b"lsv2_xx_", 32, HEX) + b"_", 10, HEX)),
        homes=below("langchain.com"),
    ),
)  # fmt: skip
