"""Edit distance of words, and the word that was likely meant."""

from collections.abc import Iterable

_LONGEST_WORD = 80


def edit_distance(first: str, second: str, limit: int, *, swap_cost: int = 1) -> int:
    """Letters to insert, delete, replace or swap with a neighbour; ``limit + 1`` for more.

    A swap of neighbours counts ``swap_cost``: 1 is the distance of Damerau and Levenshtein (no
    letter is touched twice), 2 is that of Levenshtein.
    """
    if abs(len(first) - len(second)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        two_before, before, row = before, row, [i]
        for j, other in enumerate(second, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                best = min(best, two_before[j - 2] + swap_cost)
            row.append(best)
        if min(row) > limit and min(before) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def likely_meant(typed: str, known: Iterable[str]) -> str:
    """The known word that was meant, with at most a third of its letters wrong; else ``""``."""
    limit = max(len(typed[:_LONGEST_WORD]) // 3, 1)
    distances = {word: edit_distance(typed[:_LONGEST_WORD], word, limit) for word in known}
    near = min(distances, key=lambda word: distances[word], default="")
    return near if near and distances[near] <= limit else ""
