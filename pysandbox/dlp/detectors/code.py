"""Where code is kept, built and published: forges, package indexes, registries, build services."""

from __future__ import annotations

from pysandbox.dlp.detector import Detector, below, filled

HEX = b"0a1b2c3d4e5f6789"

ROWS = (
    Detector(
        "gitlab_token",
        (b"glpat-", b"gldt-", b"glrt-", b"glcbt-", b"glptt-", b"glft-", b"glsoat-", b"glimt-", b"glagent-", b"gloas-"),
        rb"gl(?:pat|dt|rt|ptt|cbt|ft|soat|imt|agent|oas)-[0-9A-Za-z_-]{20}",
        hits=(filled(b"glpat-", 20), filled(b"glrt-", 20)), misses=(filled(b"glpat-", 19), filled(b"glxxx-", 20)),
        homes=below("gitlab.com"),
    ),
    Detector(
        "atlassian_token", (b"ATATT3xFf", b"ATBB"), rb"ATATT3xFf[A-Za-z0-9_=-]{160,240}|ATBB[A-Za-z0-9]{32}",
        hits=(filled(b"ATATT3xFf", 183), filled(b"ATBB", 32)), misses=(filled(b"ATATT3xFf", 100), filled(b"ATBB", 31)),
        homes=below("atlassian.net", "atlassian.com", "bitbucket.org"), longest=320,
    ),
    Detector(
        "pypi_token", (b"pypi-AgE",), rb"pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[A-Za-z0-9_-]{50,1000}",
        hits=(filled(b"pypi-AgE" + b"IcHlwaS5vcmc", 90), filled(b"pypi-AgE" + b"NdGVzdC5weXBpLm9yZw", 60)),
        misses=(filled(b"pypi-AgE" + b"IcHlwaS5vcmc", 49), filled(b"pypi-AgE", 90)),
        homes=below("pypi.org"),
    ),
    Detector(
        "rubygems_token", (b"rubygems_",), rb"rubygems_[a-f0-9]{48}",
        hits=(filled(b"rubygems_", 48, HEX), filled(b"key: rubygems_", 48, HEX[::-1])),
        misses=(filled(b"rubygems_", 47, HEX), filled(b"rubygems_", 48)),
        homes=below("rubygems.org"),
    ),
    Detector(
        "docker_token", (b"dckr_pat_", b"dckr_oat_"), rb"dckr_(?:pat_[A-Za-z0-9_-]{27}|oat_[A-Za-z0-9_-]{32})",
        hits=(filled(b"dckr_pat_", 27), filled(b"dckr_oat_", 32)),
        misses=(filled(b"dckr_pat_", 26), filled(b"dckr_cat_", 32)),
        homes=below("docker.io", "docker.com"),
    ),
    Detector(
        "vault_token", (b"hvs.", b"hvb."), rb"hv[sb]\.[A-Za-z0-9_-]{90,200}",
        hits=(filled(b"hvs.", 95), filled(b"hvb.", 120)), misses=(filled(b"hvs.", 89), filled(b"hvx.", 95)),
    ),
    Detector(
        "terraform_token", (b".atlasv1.",), rb"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70}",
        hits=(filled(filled(b"", 14) + b".atlasv1.", 67), filled(filled(b"t=", 14) + b".atlasv1.", 60)),
        misses=(filled(filled(b"", 13) + b".atlasv1.", 67), filled(filled(b"", 14) + b".atlasv1.", 59)),
        homes=below("terraform.io"), lead=14, longest=80,
    ),
    Detector(
        "sentry_token", (b"sntrys_eyJ", b"sntryu_"), rb"sntrys_eyJ[A-Za-z0-9+/=_-]{80,220}|sntryu_[a-f0-9]{64}",
        hits=(filled(b"sntrys_eyJ", 100), filled(b"sntryu_", 64, HEX)),
        misses=(filled(b"sntrys_eyJ", 79), filled(b"sntryu_", 63, HEX)),
        homes=below("sentry.io"),
    ),
    Detector(
        "postman_key", (b"PMAK-",), rb"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
        hits=(filled(filled(b"PMAK-", 24, HEX) + b"-", 34, HEX), filled(filled(b"k PMAK-", 24, HEX) + b"-", 40, HEX)),
        misses=(filled(b"PMAK-", 58, HEX), filled(filled(b"PMAK-", 23, HEX) + b"-", 34, HEX)),
        homes=below("postman.com", "getpostman.com"),
    ),
    Detector(
        "doppler_token", (b"dp.pt.", b"dp.st.", b"dp.ct.", b"dp.sa."),
        rb"dp\.(?:pt|ct|sa|st(?:\.[a-z0-9_-]{2,35})?)\.[A-Za-z0-9]{40,44}",
        hits=(filled(b"dp.pt.", 43), filled(b"dp.st.dev.", 40)), misses=(filled(b"dp.pt.", 39), filled(b"dp.xx.", 43)),
        homes=below("doppler.com"),
    ),
)  # fmt: skip
