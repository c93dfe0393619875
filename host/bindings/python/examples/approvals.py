"""A script that waits for an approval, as bytes in between: another process may decide and resume it."""

import airlock


@airlock.tool(needs_approval=True)
def send(to: str, text: str) -> str:
    """Sends a message."""
    return f"sent to {to}"


@airlock.tool(read_only=True)
def contacts() -> list[str]:
    """Lists the contacts."""
    return ["Ada", "Bob"]


tools = [send, contacts]
run = airlock.start_script("[send(name, 'The tea is ready.') for name in contacts()]", tools)

while not run.done:
    kept = run.dump()
    run = airlock.load_run(kept, tools)
    for call in run.pending:
        print(call.tool, call.arguments)
        run.approve(call.id)
    run = run.resume()

print(run.value)
# send {'to': 'Ada', 'text': 'The tea is ready.'}
# send {'to': 'Bob', 'text': 'The tea is ready.'}
# ['sent to Ada', 'sent to Bob']
