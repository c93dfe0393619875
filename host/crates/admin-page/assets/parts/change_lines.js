// The changes of a definition in words, and the lines in which it differs.

/** Returns the kind of a line of the API and its text: `place`, `removed`, `added` or `same`. */
export function changeLine(line) {
  if (!line.startsWith('  ')) return { kind: 'place', text: line };
  const kind = { '-': 'removed', '+': 'added' }[line[2]] ?? 'same';
  return { kind, text: line.slice(4) };
}

/** Returns what has changed, and what holds until it is accepted. */
export function changeWords({ kind, offered }) {
  if (kind === 'removed') return 'The server does not have it any more.';
  if (kind === 'changed') return offered ? 'It was changed. The accepted definition stays in use.' : 'It was changed, and is not offered.';
  const what = kind === 'renamed' ? 'It was renamed.' : 'It is new.';
  return `${what} ${offered ? 'Each call needs an approval until it is accepted.' : 'It is not offered until it is accepted.'}`;
}

/** Returns the names of the tools that can be accepted, because all of their lines are shown. */
export function acceptable(changes) {
  return changes.filter(({ hidden }) => !hidden).map(({ tool }) => tool);
}
