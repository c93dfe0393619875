import statistics

grades = {"Ana": [90, 85.5, 77], "Bo": [60, None, 71], "Chidi": [100, 98, 99], "Dee": []}

def letter(avg):
    if avg is None:
        return "N/A"
    return "A" if avg >= 90 else "B" if 80 <= avg < 90 else "C" if avg >= 70 else "F"

averages = {}
for student, marks in grades.items():
    valid = [m for m in marks if m is not None]
    averages[student] = round(statistics.mean(valid), 2) if valid else None

print(f"|{'Student':^10}|{'Avg':^8}|{'Grade':^7}|")
for student, avg in averages.items():
    shown = f"{avg:.1f}" if avg is not None else "-"
    print(f"|{student:^10}|{shown:^8}|{letter(avg):^7}|")

known = {s: a for s, a in averages.items() if a is not None}
result = {
    "letters": {s: letter(a) for s, a in averages.items()},
    "best": max(known.items(), key=lambda kv: kv[1]),
    "class_median": statistics.median(known.values()),
}
