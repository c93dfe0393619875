rows = people.list_users()
columns = {key: [row[key] for row in rows] for key in rows[0]}
result = columns
