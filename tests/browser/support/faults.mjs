/** Most faults that a failure lists; one cause often has many. */
const LISTED = 25;

/** Fails if there are faults, and lists each once. */
export function assertNone(faults, where = 'the page') {
  const different = [...new Set(faults)];
  if (different.length === 0) {
    return;
  }
  const more = different.length > LISTED ? `\n  and ${different.length - LISTED} more` : '';
  const list = different.slice(0, LISTED).map((fault) => `\n  ${fault}`);
  throw new Error(`${where} has ${different.length} faults:${list.join('')}${more}`);
}
