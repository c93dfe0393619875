// Foreign text as text: characters that are not seen, or that turn the text around them, are shown by their numbers.

/** Controls, marks of direction, characters without a width, fillers, tags, and halves of pairs. Tabs and line ends are seen. */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;

/** Most marks that are set off from the text; more are shown like the rest of it. */
const MOST_MARKS = 500;

/** Returns the text with hidden characters as `⟨U+202E⟩`. */
export function visible(value) {
  return String(value ?? '').replaceAll(HIDDEN, named);
}

function named(character) {
  return `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`;
}

/** Returns pieces of the text: those with `isMark` are hidden characters by their numbers. */
export function pieces(value) {
  const text = String(value ?? '');
  const found = [];
  let at = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (found.length >= 2 * MOST_MARKS) break;
    if (match.index > at) found.push({ text: text.slice(at, match.index) });
    found.push({ text: named(match[0]), isMark: true });
    at = match.index + match[0].length;
  }
  if (at < text.length) found.push({ text: visible(text.slice(at)) });
  return found;
}

/** Returns the first characters of a text on one line, with `…` if there are more. */
export function excerpt(value, most = 120) {
  const text = String(value ?? '');
  const line = text.slice(0, 4 * most).replaceAll(/\s+/g, ' ').trim();
  // A pair of surrogates is not cut.
  const cut = line.slice(0, most).replace(/[\ud800-\udbff]$/, '');
  return visible(cut) + (cut.length < line.length || text.length > 4 * most ? '…' : '');
}

/** Returns a number with separators, such as `1,024`. */
export function count(number) {
  return Number(number).toLocaleString('en-US');
}
