from itertools import groupby, chain, accumulate, islice, count

signal = "aaabccddddde"
encoded = [(ch, len(list(g))) for ch, g in groupby(signal)]
packed = "".join(f"{ch}{n}" if n > 1 else ch for ch, n in encoded)
decoded = "".join(ch * n for ch, n in encoded)
assert decoded == signal

nums = [1, 2, 3, 7, 8, 10]
runs = []
for _, grp in groupby(enumerate(nums), key=lambda t: t[1] - t[0]):
    run = [n for _, n in grp]
    runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")

result = {
    "packed": packed,
    "runs": ",".join(runs),
    "cumulative": list(accumulate(nums)),
    "flat": list(chain.from_iterable([[1, 2], [], [3]])),
    "multiples": list(islice((x for x in count(1) if x % 7 == 0), 3)),
    "longest": max(encoded, key=lambda e: e[1])[0],
}
