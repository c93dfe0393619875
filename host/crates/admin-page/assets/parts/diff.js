// The difference of two texts, line by line. Both may come from a server, so the work is bounded.

/** Products of the numbers of lines up to which lines are compared; beyond, all are removed and added. */
const MAX_PAIRS = 1_000_000;

/** Returns the lines of both texts in order, each `{ kind, text }` with the kind `same`, `removed` or `added`. */
export function diffLines(before, after) {
  const old = linesOf(before);
  const now = linesOf(after);
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < Math.min(old.length, now.length) - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  return [
    ...as('same', old.slice(0, start)),
    ...middle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...as('same', old.slice(old.length - end)),
  ];
}

function linesOf(text) {
  return text === '' ? [] : text.split('\n');
}

function as(kind, lines) {
  return lines.map((text) => ({ kind, text }));
}

/** Compares by the longest common subsequence. */
function middle(old, now) {
  if (old.length * now.length > MAX_PAIRS) return [...as('removed', old), ...as('added', now)];
  const width = now.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  for (let at = old.length - 1; at >= 0; at -= 1) {
    for (let to = now.length - 1; to >= 0; to -= 1) {
      const below = Math.max(common[(at + 1) * width + to], common[at * width + to + 1]);
      common[at * width + to] = old[at] === now[to] ? common[(at + 1) * width + to + 1] + 1 : below;
    }
  }
  const lines = [];
  let at = 0;
  let to = 0;
  while (at < old.length && to < now.length) {
    if (old[at] === now[to]) {
      lines.push({ kind: 'same', text: old[at] });
      at += 1;
      to += 1;
    } else if (common[(at + 1) * width + to] >= common[at * width + to + 1]) {
      lines.push({ kind: 'removed', text: old[at] });
      at += 1;
    } else {
      lines.push({ kind: 'added', text: now[to] });
      to += 1;
    }
  }
  return [...lines, ...as('removed', old.slice(at)), ...as('added', now.slice(to))];
}
