// What axe-core does not see: reflow, text spacing, and focus that is visible. The functions run in a page.

/** Lists what makes a page scroll sideways, except code and tables of data that scroll by themselves. */
export function sidewaysFaults() {
  const width = document.documentElement.clientWidth;
  const found = [];
  if (document.documentElement.scrollWidth > width) {
    found.push(`the page is ${document.documentElement.scrollWidth} px wide in a window of ${width} px`);
  }
  for (const element of document.body.querySelectorAll('*')) {
    const { overflowX } = getComputedStyle(element);
    const isScroller = overflowX === 'auto' || overflowX === 'scroll';
    if (isScroller && element.scrollWidth > element.clientWidth + 1) {
      if (!element.matches('pre, code, textarea') && element.querySelector('pre, code, table') === null) {
        found.push(`scrolls sideways: ${element.outerHTML.slice(0, 120)}`);
      }
    }
    const box = element.getBoundingClientRect();
    const isShown = box.width > 1 && box.height > 1;
    const isInScroller = element.parentElement.closest('pre, [role=region], .scroll, textarea') !== null;
    if (isShown && box.right > width + 1 && !isInScroller && found.length < 10) {
      found.push(`ends ${Math.round(box.right - width)} px outside: ${element.outerHTML.slice(0, 120)}`);
    }
  }
  // Elements that stick out are a fault only if they move the page.
  return document.documentElement.scrollWidth > width ? found : found.filter((line) => !line.startsWith('ends'));
}

/** Returns the texts that are cut off: those that an ellipsis shows to be cut are among them. */
export function clippedTexts() {
  const clipped = [];
  for (const element of document.body.querySelectorAll('*')) {
    const style = getComputedStyle(element);
    const hides = [style.overflowX, style.overflowY].some((value) => value === 'hidden' || value === 'clip');
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '');
    // Text for screen readers alone is one pixel large.
    const isShown = element.clientWidth > 2 && element.clientHeight > 2;
    const isCut = element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1;
    if (hides && hasText && isShown && isCut) {
      clipped.push(element.outerHTML.slice(0, 120));
    }
  }
  return clipped;
}

/** Sets the distances of WCAG 1.4.12. A constructed sheet is not subject to the policy of the page. */
export function spaceText() {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(
    '* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important }' +
      ' p { margin-bottom: 2em !important }',
  );
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

/** Describes the element that has the focus: `null` if none has it, else its name and what is wrong with how it is shown. */
export function focused() {
  const element = document.activeElement;
  if (element === null || element === document.body || element === document.documentElement) {
    return null;
  }
  window.numbers ??= new Map();
  if (!window.numbers.has(element)) {
    window.numbers.set(element, window.numbers.size);
  }
  const faults = [];
  const style = getComputedStyle(element);
  const hasOutline = style.outlineStyle !== 'none' && Number.parseFloat(style.outlineWidth) >= 1;
  if (!hasOutline && style.boxShadow === 'none') {
    faults.push('the focus is not visible');
  }
  const box = element.getBoundingClientRect();
  const top = document.elementFromPoint(
    Math.min(Math.max(box.left + box.width / 2, 0), innerWidth - 1),
    Math.min(Math.max(box.top + box.height / 2, 0), innerHeight - 1),
  );
  if (top !== null && !element.contains(top) && !top.contains(element) && !top.closest('label')?.contains(element)) {
    faults.push(`is under ${top.outerHTML.slice(0, 80)}`);
  }
  if (box.bottom <= 0 || box.top >= innerHeight) {
    faults.push('is outside the window');
  }
  const name = element.getAttribute('aria-label') ?? (element.textContent.trim() || element.name || element.id);
  return { number: window.numbers.get(element), name: `${element.tagName.toLowerCase()} "${name.slice(0, 60)}"`, faults };
}

/** Presses Tab until the focus has left the page or is back at its start. Returns the stops, and fails in a trap. */
export async function tabStops(page, limit = 400) {
  await page.evaluate(() => {
    document.activeElement?.blur();
    getSelection().removeAllRanges();
    scrollTo(0, 0);
  });
  const stops = [];
  let last;
  for (let pressed = 0; pressed < limit; pressed += 1) {
    await page.keyboard.press('Tab');
    const stop = await page.evaluate(focused);
    if (stop === null || (stops.length > 1 && stop.number === stops[0].number)) {
      return stops;
    }
    if (stop.number === last) {
      throw new Error(`Tab does not leave ${stop.name}`);
    }
    last = stop.number;
    stops.push(stop);
  }
  throw new Error(`${limit} times Tab do not lead back to the start; the last stop is ${stops.at(-1).name}`);
}
