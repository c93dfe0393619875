// Foreign text as text: characters that are not seen, that look like a space, or that turn the text around them, are shown by
// their numbers, and letters that look like Latin ones have their numbers behind them.

/**
 * Controls, marks of direction, characters without a width, fillers, spaces that look like the common one, tags, halves of pairs,
 * selectors of a form without a symbol, and more marks on a letter than languages have. Tabs and line ends are seen.
 */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\u{110bd}\u{110cd}\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|(?<!\p{Extended_Pictographic})\ufe0f(?!\u20e3)|\p{M}{8,}|\p{Surrogate}/gu;

/** Letters of Cyrillic and Greek that look like Latin ones. */
const TWIN = '[\u0405\u0406\u0408\u0410\u0412\u0415\u041a\u041c-\u041e\u0420-\u0423\u0425\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u04c0\u04cf\u0501\u051b\u051d\u0391\u0392\u0395-\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b9\u03bd\u03bf\u03c1]';
/** Characters that may be marked: hidden ones, and runs of twins. */
const MARKS = new RegExp(`${HIDDEN.source}|${TWIN}+`, 'gu');
const TWINS = new RegExp(`^${TWIN}`, 'u');
/** Letters of the same scripts that look like no Latin one. */
const OTHER = new RegExp(`(?!${TWIN})[\\p{Script=Cyrillic}\\p{Script=Greek}]`, 'u');
/** Characters before and after twins that are looked at. */
const NEAR = 20;
/** Letters from which a word of twins alone is marked, among text without other letters of its script. */
const LEAST_WORD = 3;

/** Most marks that are set off from the text; more are shown like the rest of it. */
const MOST_MARKS = 500;

/** Returns the text with hidden characters as `⟨U+202E⟩`, and twins that can be taken for Latin letters as `а⟨U+0430⟩`. */
export function visible(value) {
  return String(value ?? '').replaceAll(MARKS, (found, at, text) => (isMarked(found, at, text) ? named(found) : found));
}

/**
 * Returns whether what was found at a place is hidden or can be taken for Latin letters: in a word that has some, as a word that
 * is joined to one, such as the name before `.com`, or as a whole word where no other letter tells the script.
 */
function isMarked(found, at, text) {
  if (!TWINS.test(found)) return true;
  const before = text.slice(Math.max(0, at - NEAR), at);
  const after = text.slice(at + found.length, at + found.length + NEAR);
  if (/\p{Script=Latin}[\p{L}\p{N}]*$/u.test(before) || /^[\p{L}\p{N}]*\p{Script=Latin}/u.test(after)) return true;
  if (/\p{L}$/u.test(before) || /^\p{L}/u.test(after)) return false;
  if (/\p{Script=Latin}[\p{L}\p{N}]*[.@_/:-]$/u.test(before) || /^[.@_/:-][\p{L}\p{N}]*\p{Script=Latin}/u.test(after)) return true;
  return found.length >= LEAST_WORD && !OTHER.test(before) && !OTHER.test(after);
}

function named(found) {
  return Array.from(found, (character) => `${TWINS.test(character) ? character : ''}⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`).join('');
}

/** Returns pieces of the text: those with `isMark` are characters with their numbers. */
export function pieces(value) {
  const text = String(value ?? '');
  const found = [];
  let at = 0;
  for (const { 0: match, index } of text.matchAll(MARKS)) {
    if (found.length >= 2 * MOST_MARKS) break;
    if (!isMarked(match, index, text)) continue;
    if (index > at) found.push({ text: text.slice(at, index) });
    found.push({ text: named(match), isMark: true });
    at = index + match.length;
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

/** An amount with its units, such as `1,024`, `12.5 %` and `2 min 5 s`, or nothing. */
const AMOUNT = /^(\d[\d.,]*( ?[a-z%]{1,3}( \d+ [a-z]+)?)?)?$/i;

/** Returns whether the cells of a column are amounts; empty ones do not count. */
export function isAmount(cells) {
  return /\d/.test(cells) && cells.every((cell) => AMOUNT.test(cell || ''));
}
