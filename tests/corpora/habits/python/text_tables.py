import math
import statistics

table = str.maketrans("aeiou", "AEIOU")
cleaned = "a-b_c!".translate(str.maketrans({"-": " ", "_": None, "!": "?!"}))
result = [
    "education".translate(table),
    cleaned,
    "x.y,z".translate(str.maketrans("", "", ".,")),
    sorted(["b", "A", "ß"], key=str.casefold),
    math.fsum([0.1] * 10),
    math.fsum([1e100, 1.0, -1e100]),
    [(2.0).is_integer(), (2.5).is_integer(), (255).bit_length(), (0).bit_length(), (-8).bit_length()],
    statistics.quantiles([1, 2, 4, 8, 16], n=4),
    statistics.quantiles([1, 2, 4, 8, 16], n=10, method="inclusive"),
]
