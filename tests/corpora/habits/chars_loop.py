word = "Hello, World"
vowels = 0
for c in word:
    if c.lower() in "aeiou":
        vowels += 1
freq = {}
for ch in word.lower():
    if ch.isalpha():
        freq[ch] = freq.get(ch, 0) + 1
result = [vowels, freq, [c for c in "abc"], sorted("hello"), list("xyz"), set("aab") == {"a", "b"}, "".join(reversed("abc")), {c: i for i, c in enumerate("ab")}, tuple("ab"), "abc"[::-1], [*"hi"]]
