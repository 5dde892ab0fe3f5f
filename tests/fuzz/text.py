"""Changes to the text of a LightGBM model."""

import re

from fuzz.numbers import INTEGERS

ODD_ENDS = ["\r", "\r\n", "\n\n", "\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\0", "\t", " "]
LINES = [
    "x",
    "left_child=900000 900000 900000",
    "max_feature_idx=900000000",
    "objective=multiclass num_class:2000000",
    "num_tree_per_iteration=3",
    "num_class=3",
    "is_linear=1",
    "num_cat=1000000",
    "Tree=0",
    "end of trees",
    "tree_sizes=1 1",
    "",
]


def mutate_text(data, rng):
    lines = data.decode("latin-1").split("\n")
    for _ in range(rng.choice([1, 1, 2])):
        _change_line(lines, rng)
    return "\n".join(lines).encode()


def _change_line(lines, rng):
    used = [i for i, line in enumerate(lines) if line]
    i, j = rng.choice(used), rng.randrange(len(lines))
    # Half of the changes are among what stands before the parameters, which nothing reads.
    if rng.random() < 0.8:
        end = next((k for k, line in enumerate(lines) if line == "end of trees"), len(lines))
        i, j = rng.choice([k for k in used if k <= end] or used), rng.randrange(end + 1)
    match rng.randrange(9):
        case 0 | 1 | 2:
            lines[i] = _other_number(lines[i], rng)
        case 3:
            lines.insert(j, lines[i])
        case 4:
            lines.insert(i + rng.randrange(2), _other_number(lines[i], rng))
        case 5:
            lines.insert(j, lines.pop(i))
        case 6:
            lines.insert(j, rng.choice(LINES))
        case 7:
            end = rng.choice(ODD_ENDS)
            lines[i] = rng.choice([lines[i] + end, f"x=1{end}{_other_number(lines[i], rng)}"])
        case 8:
            words = lines[i].split(" ")
            del words[rng.randrange(len(words))]
            lines[i] = " ".join(words)


def _other_number(line, rng):
    numbers = [match.span() for match in re.finditer(r"-?\d+(\.\d+)?(e[+-]?\d+)?", line)]
    if not numbers:
        return line + rng.choice(["=1", " 1", "x"])
    start, end = rng.choice(numbers)
    old = line[start:end]
    near = [] if re.search(r"[.e]", old) else [str(int(old) + 1), str(int(old) - 1), "-" + old]
    odd = ["", "nan", "inf", "1e308", "0x10", "1 1", "1.5", "+1", "01", "9" * 400]
    return line[:start] + rng.choice([*map(str, INTEGERS), *odd, *near, *near]) + line[end:]
