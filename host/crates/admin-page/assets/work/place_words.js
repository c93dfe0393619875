// Where a replay differs from its run, in words.

/** Returns the place of the first difference of a replay. */
export function placeWords({ part, line }) {
  if (part === 'error') return line ? `the error, at line ${line} of the script` : 'the error';
  return line ? `the ${part}, line ${line}` : `the ${part}`;
}
