from collections import Counter
import re

STOPWORDS = {"the", "to", "at", "as", "a", "is"}
words = []
for message in chat.list_messages(channel="ch1")["messages"]:
    words.extend(re.findall(r"[^\W\d_]+", message["text"].lower()))

counts = Counter(w for w in words if w not in STOPWORDS)
ranked = sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))
for word, n in ranked[:5]:
    print(f"{word:>10}: {'*' * n}")
result = {
    "top": ranked[:5],
    "unique": len(counts),
    "total": sum(counts.values()),
    "longest": max(counts, key=len),
    "capitalized": [w.title() for w, _ in ranked[:3]],
}
