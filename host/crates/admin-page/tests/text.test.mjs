// Foreign text: nothing in it stays hidden.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { excerpt, isAmount, pieces, visible } from '../assets/lib/text.js';
import { sha256 } from '../assets/lib/digest.js';

test('characters that are not seen are shown by their numbers', () => {
  for (const [text, shown] of [
    ['invoice\u202Egnp.exe', 'invoice⟨U+202E⟩gnp.exe'],
    ['\u0000\u001B[31m', '⟨U+0000⟩⟨U+001B⟩[31m'],
    ['a\u200Bb\u200D\u00ADc', 'a⟨U+200B⟩b⟨U+200D⟩⟨U+00AD⟩c'],
    ['\u{E0041}\u3164\uFEFF\u2028', '⟨U+E0041⟩⟨U+3164⟩⟨U+FEFF⟩⟨U+2028⟩'],
    ['half \uD83D', 'half ⟨U+D83D⟩'],
    ['a\rb', 'a⟨U+000D⟩b'],
    ['rm\u00A0-rf\u2003/\u3000\u2800\u{1D173}', 'rm⟨U+00A0⟩-rf⟨U+2003⟩/⟨U+3000⟩⟨U+2800⟩⟨U+1D173⟩'],
    ['a\uFE0Fb 1\uFE0F', 'a⟨U+FE0F⟩b 1⟨U+FE0F⟩'],
    [`e${'\u0301'.repeat(8)}`, `e${'⟨U+0301⟩'.repeat(8)}`],
  ]) {
    assert.equal(visible(text), shown);
  }
});

test('letters that look like Latin ones have their numbers where they can be taken for them', () => {
  for (const [text, shown] of [
    ['p\u0430ypal.com', 'p\u0430⟨U+0430⟩ypal.com'],
    ['\u0430\u0440\u0440le', '\u0430⟨U+0430⟩\u0440⟨U+0440⟩\u0440⟨U+0440⟩le'],
    ['\u03BFne, 2\u0421x', '\u03BF⟨U+03BF⟩ne, 2\u0421⟨U+0421⟩x'],
    ['\u0441\u043E.com', '\u0441⟨U+0441⟩\u043E⟨U+043E⟩.com'],
    ['a@\u0445', 'a@\u0445⟨U+0445⟩'],
    ['{"to":"\u0441\u043E\u0440\u0443"}', '{"to":"\u0441⟨U+0441⟩\u043E⟨U+043E⟩\u0440⟨U+0440⟩\u0443⟨U+0443⟩"}'],
    ['новый ресурс, он и а', 'новый ресурс, он и а'],
    ['файл/отчёт.txt', 'файл/отчёт.txt'],
    ['Москва, paid', 'Москва, paid'],
    ['Δx, kΩ, αβγ', 'Δx, kΩ, αβγ'],
  ]) {
    assert.equal(visible(text), shown);
    assert.equal(pieces(text).map((piece) => piece.text).join(''), shown);
  }
  assert.deepEqual(pieces('p\u0430y').map((piece) => piece.isMark ?? false), [false, true, false]);
});

test('text that is seen stays as it is', () => {
  for (const text of ['', 'plain', 'two\nlines\twith tab', 'naïve 日本語 עברית 😀 ❤\uFE0F 1\uFE0F\u20E3', 'a\u0301\u0323b', '<script>&amp;"\'']) {
    assert.equal(visible(text), text);
  }
  assert.equal(visible(undefined), '');
  assert.equal(visible(7), '7');
});

test('pieces are the whole visible text, with marks set off, and few even for many marks', () => {
  const text = 'a\u202Eb\u2066\u2069c';
  assert.deepEqual(pieces(text).filter((piece) => piece.isMark).map((piece) => piece.text), ['⟨U+202E⟩', '⟨U+2066⟩', '⟨U+2069⟩']);
  const many = '\u200B'.repeat(100_000);
  const twins = `x${'\u0430'.repeat(100_000)}`;
  for (const each of [text, many, twins, '\u0430\u0431'.repeat(50_000), 'plain', '']) {
    assert.equal(pieces(each).map((piece) => piece.text).join(''), visible(each));
  }
  assert.ok(pieces(many).length < 2_000);
});

test('an excerpt is one line, is bounded, and does not cut a character', () => {
  assert.equal(excerpt('a\n  b', 10), 'a b');
  assert.equal(excerpt('abcdef', 3), 'abc…');
  assert.equal(excerpt('ab😀', 3), 'ab…');
  assert.ok(excerpt('x'.repeat(1_000_000), 100).length <= 101);
});

test('a digest is that of the text in UTF-8', async () => {
  assert.equal(await sha256('é'), '4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c');
});

test('a column is of amounts if each of its cells is one or empty, and one is there', () => {
  for (const cells of [[1, ''], [0, undefined], ['1,024', '2.5 %', ''], ['0.3 ms', '2 min 5 s'], ['3 KiB', null], ['12.50']]) {
    assert.equal(isAmount(cells), true, cells);
  }
  for (const cells of [[], ['', undefined], [1, 'none'], ['after 2 s'], ['2026-01-31'], ['10.0.0.1:80'], [{ props: {} }, 1], ['v1'], ['2 calls a minute']]) {
    assert.equal(isAmount(cells), false, cells);
  }
});
