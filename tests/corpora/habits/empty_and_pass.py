def todo():
    pass
def nothing():
    """Only a docstring."""
for _ in []:
    ...
if False:
    pass
result = [todo(), nothing()]
