message = ("Hello, "
           "world" "!"
           f" {1 + 1}")
query = "SELECT *" \
        " FROM t"
result = [message, query]
