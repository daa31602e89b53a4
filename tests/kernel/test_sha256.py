"""SHA-256 of the launcher is the standard one, by the processor's instructions and without, however they come."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests._support.ccode import compile_c

SOURCES = Path(__file__).parents[2] / "csrc" / "launcher"
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "sha256.h"
static uint8_t bytes[1 << 16];
int main(int argc, char **argv) {
    const size_t size = fread(bytes, 1, sizeof bytes, stdin);
    const size_t step = argc > 1 ? strtoul(argv[1], NULL, 10) : sizeof bytes;
    struct sha256 hash;
    uint8_t digest[SHA256_SIZE];
    char text[2 * SHA256_SIZE + 1];
    sha256_begin(&hash);
    for (size_t at = 0; at < size; at += step) sha256_add(&hash, bytes + at, size - at < step ? size - at : step);
    sha256_end(&hash, digest);
    to_hex(digest, sizeof digest, text);
    return puts(text) < 0;
}
"""
NO_INSTRUCTIONS = """
#include "sha256_blocks.h"
int has_sha256_instructions(void) { return 0; }
void take_blocks_by_instructions(uint32_t *state, const uint8_t *blocks, size_t count) {
    (void)state, (void)blocks, (void)count;
}
"""
WAYS = {"as the processor can": (SOURCES / "sha256_blocks.c").read_text(), "by ordinary instructions": NO_INSTRUCTIONS}


@pytest.mark.parametrize("way", WAYS)
def test_the_digest_is_the_standard_one(way: str) -> None:
    program = compile_c(WAYS[way] + (SOURCES / "sha256.c").read_text() + MAIN, f"-I{SOURCES}")
    for size in (0, 1, 55, 56, 63, 64, 65, 127, 128, 129, 1000, 40_000):
        message = bytes((n * n + size) % 251 for n in range(size))
        for step in (1, 63, 64, 100, 65_536):
            told = subprocess.run([program, str(step)], input=message, capture_output=True, check=True).stdout
            assert told.decode().strip() == hashlib.sha256(message).hexdigest(), (size, step)
