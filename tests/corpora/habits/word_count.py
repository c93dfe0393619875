from collections import Counter
import string
text = "The quick brown fox. The lazy dog! the end?"
words = [w.strip(string.punctuation).lower() for w in text.split()]
counts = Counter(words)
result = [counts.most_common(2), len(set(words)), max(words, key=len), sorted(counts, key=lambda w: (-counts[w], w))[:3]]
