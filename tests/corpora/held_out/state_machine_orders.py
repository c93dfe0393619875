TRANSITIONS = {
    "new": {"pay": "paid", "cancel": "cancelled"},
    "paid": {"ship": "shipped", "refund": "refunded"},
    "shipped": {"deliver": "delivered", "lose": "lost"},
}

def run(events, state="new"):
    history = [state]
    for event in events:
        allowed = TRANSITIONS.get(state, {})
        if event not in allowed:
            return {"state": state, "history": history, "error": f"cannot {event} from {state}"}
        state = allowed[event]
        history.append(state)
    return {"state": state, "history": history, "error": None}

scenarios = {
    "happy": ["pay", "ship", "deliver"],
    "cancel": ["cancel"],
    "bad": ["pay", "cancel"],
    "after_end": ["pay", "ship", "deliver", "ship"],
}
result = {name: run(events) for name, events in scenarios.items()}
terminal = {s for t in TRANSITIONS.values() for s in t.values()} - set(TRANSITIONS)
result["terminal"] = sorted(terminal)
