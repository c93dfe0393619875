// Hostile text, and what must be true of a page that shows it.

/** Runs a script, loads something or makes a link if a page takes it for markup. */
const MARKUP =
  '<script>window.hostile=1</script><img src="https://evil.example/i" onerror="window.hostile=1">' +
  '<a href="javascript:window.hostile=1">free</a>';
/** Becomes a link if a page looks for addresses in text. */
const LINKS = 'javascript:window.hostile=1 https://evil.example/ [free](https://evil.example/)';
/** Turns the text around it, hides itself, or ends a terminal's line. */
const MARKS = 'invoice\u202Egnp.exe\u202C \u2066left\u2069 zero\u200Bwidth \u0000 \u001B[31mred\u0007';

/** All of these in one text. It begins with a mark by which a test finds it. */
export const TEXT = `HOSTILE ${MARKUP} ${LINKS} ${MARKS}`;
/** 10,000 characters without a place to break a line. */
export const LONG = 'W'.repeat(10_000);

/**
 * Lists what is wrong with a page that has shown hostile text. Runs in the page. Values of fields are
 * left out: a browser shows them as text.
 */
export function faults() {
  const found = [];
  if (window.hostile !== undefined) {
    found.push('a script of the text has run');
  }
  for (const link of document.querySelectorAll('[href], [action], [formaction]')) {
    if (link.matches('link[rel~=icon]')) {
      continue;
    }
    for (const name of ['href', 'action', 'formaction']) {
      const value = link.getAttribute(name);
      if (value !== null && new URL(value, location.href).origin !== location.origin) {
        found.push(`${name}=${value.slice(0, 80)} leads away, in ${link.outerHTML.slice(0, 120)}`);
      }
    }
  }
  for (const element of document.querySelectorAll('*')) {
    for (const attribute of element.attributes) {
      if (/^on/i.test(attribute.name) || attribute.name === 'srcdoc' || attribute.name === 'style') {
        found.push(`attribute ${attribute.name} in ${element.outerHTML.slice(0, 120)}`);
      }
    }
  }
  for (const element of document.querySelectorAll('img, iframe, object, embed, script:not([src])')) {
    found.push(`element of the text: ${element.outerHTML.slice(0, 120)}`);
  }
  // Soft hyphens and joiners may be typed by people; these turn the text around or hide in it.
  const marks = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F\u200B\u200E\u200F\u202A-\u202E\u2060\u2066-\u2069\uFEFF]/;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data;
    const at = text.search(marks);
    if (at >= 0 && !/^(script|style|textarea)$/i.test(texts.currentNode.parentElement.tagName)) {
      const code = text.codePointAt(at).toString(16).toUpperCase().padStart(4, '0');
      found.push(`U+${code} is not shown, in "${text.slice(Math.max(0, at - 20), at + 20)}"`);
    }
  }
  for (const element of document.querySelectorAll('[title], [aria-label], [aria-description], [alt]')) {
    for (const name of ['title', 'aria-label', 'aria-description', 'alt']) {
      if (marks.test(element.getAttribute(name) ?? '')) {
        found.push(`a mark in ${name} of ${element.outerHTML.slice(0, 120)}`);
      }
    }
  }
  return found;
}
