responses = """respondent;score;comment
1;10;Great!
2;7;
3;3;too slow; too pricey
4;9;love it
5;;no answer
6;11;typo
"""
rows = [line.split(";", 2) for line in responses.strip().splitlines()[1:]]
buckets = {"promoters": 0, "passives": 0, "detractors": 0}
issues = []
for rid, score, comment in rows:
    if not score:
        issues.append(f"respondent {rid}: empty score")
        continue
    score = int(score)
    if not 0 <= score <= 10:
        issues.append(f"respondent {rid}: score {score} out of range")
        continue
    if score >= 9:
        buckets["promoters"] += 1
    elif score >= 7:
        buckets["passives"] += 1
    else:
        buckets["detractors"] += 1
n = sum(buckets.values())
nps = (buckets["promoters"] - buckets["detractors"]) * 100 / n
result = {"nps": nps, "buckets": buckets, "issues": issues, "comments": [c.strip() for *_, c in rows if c.strip()]}
