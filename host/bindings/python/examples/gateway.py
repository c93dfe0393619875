"""A gateway within a program: functions as tools, a function as the model, and a call that waits for an approval."""

import tempfile
from pathlib import Path
from typing import Any

import airlock


def price(item: str) -> float:
    """Returns the price of an item."""
    return {"tea": 3.5, "cake": 4.0}[item]


@airlock.tool(needs_approval=True)
def order(item: str, count: int) -> str:
    """Orders items."""
    return f"ordered {count} {item}"


def respond(request: dict[str, Any]) -> str | dict[str, Any]:
    """Stands for a model: it asks for the price, and repeats it."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return f"It costs {last['content']}."
    function = {"name": "internal-price", "arguments": '{"item": "tea"}'}
    return {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


with tempfile.TemporaryDirectory() as directory:
    config = {"store": str(Path(directory, "airlock.db"))}
    with airlock.Gateway(config, tools=[price, order], on_model=respond) as gateway:
        print([tool.name for tool in gateway.tools(tools=["internal-*"])])
        question = {"role": "user", "content": "What does tea cost?"}
        print(gateway.chat([question], model="own/shop").text)
        try:
            gateway.call("internal-order", {"item": "tea", "count": 2})
        except airlock.ApprovalPending as waiting:
            # A person decides, who was shown the call.
            for call in waiting.pending.calls:
                print(call.tool, call.arguments)
            gateway.approve(waiting.pending.id, operator=True)
            print(gateway.resume(waiting.pending.id).text)
# ['internal-order', 'internal-price']
# It costs 3.5.
# internal-order {'item': 'tea', 'count': 2}
# ordered 2 tea
