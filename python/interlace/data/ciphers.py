"""Computes AES-256 of many blocks from its definition (FIPS 197), as the reference of `aes`.

Bytes are elements of the field GF(2^8). This module multiplies two bytes by adding their
logarithms. The kernel of `aes` multiplies in another way, by doubling and adding.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

ROUNDS = 14
MODULUS = 0x11B  # x^8 + x^4 + x^3 + x + 1


def _powers() -> list[int]:
    """Return the powers of 3, which generate all elements of the field except 0."""
    found = [1]
    while len(found) < 255:
        value = found[-1] ^ (found[-1] << 1)
        found.append(value ^ MODULUS if value & 0x100 else value)
    return found


POWERS = _powers()
LOGARITHMS = {value: power for power, value in enumerate(POWERS)}


def _product(one: int, other: int) -> int:
    if one == 0 or other == 0:
        return 0
    return POWERS[(LOGARITHMS[one] + LOGARITHMS[other]) % 255]


def _substitution(value: int) -> int:
    """Return an entry of the substitution table of section 5.1.1.

    Take the inverse of the byte `value`. To each bit i, add the bits i + 4 to i + 7 of the inverse
    and bit i of a constant.
    """
    inverse = POWERS[-LOGARITHMS[value] % 255] if value else 0
    bits = [inverse >> i & 1 for i in range(8)]
    mixed = [sum(bits[(i + k) % 8] for k in (0, 4, 5, 6, 7)) & 1 for i in range(8)]
    return sum(bit << i for i, bit in enumerate(mixed)) ^ 0x63


SUBSTITUTIONS: Bytes = np.array([_substitution(value) for value in range(256)], np.uint8)


def _times(factor: int) -> Bytes:
    return np.array([_product(factor, value) for value in range(256)], np.uint8)


def _round_keys(key: Bytes) -> Bytes:
    """Return the round keys of section 5.2: 16 bytes for each of ROUNDS + 1 round keys."""
    words = [np.asarray(key[4 * i : 4 * i + 4]) for i in range(8)]
    constant = 1
    for i in range(8, 4 * (ROUNDS + 1)):
        word = words[-1]
        if i % 8 == 0:
            word = SUBSTITUTIONS[np.roll(word, -1)]
            word[0] ^= constant
            constant = _product(2, constant)
        elif i % 8 == 4:
            word = SUBSTITUTIONS[word]
        words.append(words[i - 8] ^ word)
    return np.concatenate(words).reshape(ROUNDS + 1, 16)


def encrypt(blocks: Bytes, key: Bytes) -> Bytes:
    """Encrypt each row of 16 bytes under a key of 32 bytes."""
    keys = _round_keys(key)
    # Byte k of a block is in row k % 4 and column k // 4. Row r moves by r columns.
    shifted = [(k + 4 * (k % 4)) % 16 for k in range(16)]
    doubled, tripled = _times(2), _times(3)
    state: Bytes = blocks ^ keys[0]
    for turn in range(1, ROUNDS + 1):
        state = SUBSTITUTIONS[state][:, shifted]
        if turn != ROUNDS:
            columns = state.reshape(-1, 4, 4)
            mixed = [
                doubled[columns[:, :, r]]
                ^ tripled[columns[:, :, (r + 1) % 4]]
                ^ columns[:, :, (r + 2) % 4]
                ^ columns[:, :, (r + 3) % 4]
                for r in range(4)
            ]
            state = np.stack(mixed, axis=2).reshape(-1, 16)
        state = state ^ keys[turn]
    return state
