# mode: async
import asyncio

ids = ["u1", "u2", "u9", "u4"]
responses = await asyncio.gather(*(chat.get_user(id=i) for i in ids), return_exceptions=True)

names = []
failed = []
for uid, resp in zip(ids, responses):
    if isinstance(resp, Exception):
        failed.append({"id": uid, "error": str(resp)})
    else:
        names.append(resp["profile"]["real_name"])

result = {"names": names, "failed": failed}
