import math
from itertools import combinations

docs = {
    "a": "tea green organic tea",
    "b": "coffee beans organic",
    "c": "green tea bags",
}

def vectorize(text):
    vec = {}
    for w in text.split():
        vec[w] = vec.get(w, 0) + 1
    return vec

def cosine(u, v):
    dot = sum(u[k] * v.get(k, 0) for k in u)
    norm = math.sqrt(sum(x * x for x in u.values())) * math.sqrt(sum(x * x for x in v.values()))
    return dot / norm if norm else 0.0

vectors = {k: vectorize(t) for k, t in docs.items()}
pairs = [(x, y, round(cosine(vectors[x], vectors[y]), 4)) for x, y in combinations(sorted(vectors), 2)]
pairs.sort(key=lambda p: p[2], reverse=True)
idf = {w: math.log(len(docs) / sum(w in v for v in vectors.values())) for w in sorted(set().union(*vectors.values()))}
result = {"pairs": pairs, "idf": {w: round(x, 3) for w, x in idf.items()}}
