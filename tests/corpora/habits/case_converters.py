import re
def snake(name):
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
def camel(name):
    head, *tail = name.split("_")
    return head + "".join(w.capitalize() for w in tail)
result = [snake("createdAt"), snake("userID2Name"), camel("created_at_time")]
