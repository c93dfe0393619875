from operator import itemgetter
users = people.list_users()
users.sort(key=itemgetter("team", "name"))
result = [u["login"] for u in users]
