// Every page: it loads without errors and requests elsewhere, within its size, and is accessible in both colour schemes,
// at 320 pixels, with more space between letters and by keyboard.
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { accessibilityFaults } from '../support/axe.mjs';
import { pageNames } from '../support/browser.mjs';
import { assertNone } from '../support/faults.mjs';
import { faults as hostileFaults } from '../support/hostile.mjs';
import { clippedTexts, sidewaysFaults, spaceText, tabStops } from '../support/layout.mjs';
import { stage } from '../support/stage.mjs';
import { walk } from '../support/walk.mjs';

const PAGE_BYTES = 64 * 1024;
/** Aim for the first paint. It is printed and not asserted: the browser shares the machine with all else. */
const PAINT_MS = 300;
/** What was measured of each page: `name`, `bytes`, and `first` and `largest`, the times of its paints in milliseconds. */
const measured = [];
/** 1280 × 1024 CSS pixels at a zoom of 400 %, of WCAG 1.4.10. */
const REFLOW = { width: 320, height: 256 };
const HEADERS = {
  'cross-origin-opener-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** Returns what the page is made of, without the answers of the API: bytes by path. */
async function parts(visitor, name) {
  const responses = [];
  const listener = (response) => responses.push(response);
  visitor.page.on('response', listener);
  await visitor.open(name);
  visitor.page.off('response', listener);
  const own = responses.filter((response) => new URL(response.url()).pathname.startsWith('/admin'));
  const sizes = own.map(async (response) => [new URL(response.url()).pathname, (await response.body()).length]);
  return new Map(await Promise.all(sizes));
}

/** Returns the milliseconds until the browser has painted the first content, and the largest one. Runs in the page. */
async function paints() {
  const first = performance.getEntriesByName('first-contentful-paint')[0]?.startTime;
  const largest = await new Promise((resolve) => {
    const observer = new PerformanceObserver((list) => resolve(list.getEntries().at(-1)?.startTime));
    observer.observe({ type: 'largest-contentful-paint', buffered: true });
    setTimeout(resolve, 1000, first);
  });
  return { first: Math.round(first), largest: Math.round(largest) };
}

/** Prints the pages that miss an aim. */
function summarize() {
  const heavy = measured.filter((page) => page.bytes > PAGE_BYTES);
  const late = measured.filter((page) => !(page.first <= PAINT_MS));
  const names = (pages) => (pages.length === 0 ? 'none' : pages.map((page) => page.name).join(', '));
  const most = (key) => Math.max(...measured.map((page) => page[key]));
  console.log(`${measured.length} pages: at most ${most('bytes')} bytes (aim ${PAGE_BYTES}, missed by ${names(heavy)}); first paint \
after at most ${most('first')} ms (aim ${PAINT_MS}, missed by ${names(late)}), largest paint after at most ${most('largest')} ms`);
}

after(() => measured.length > 0 && summarize());

/** Returns where Tab leads on the page, as faults. */
async function focusFaults(page) {
  const stops = await tabStops(page);
  const first = stops[0]?.name ?? 'nothing';
  const faults = stops.flatMap((stop) => stop.faults.map((fault) => `${stop.name}: ${fault}`));
  return /skip/i.test(first) ? faults : [...faults, `the first stop is ${first}, and leads not to the content`];
}

/** Returns texts that are cut off, or a page that is too wide, with the distances of WCAG 1.4.12. */
async function spacingFaults(page) {
  const before = await page.evaluate(clippedTexts);
  await page.evaluate(spaceText);
  const after = await page.evaluate(clippedTexts);
  const cut = after.filter((text) => !before.includes(text)).map((text) => `cut off: ${text}`);
  return [...cut, ...(await page.evaluate(sidewaysFaults))];
}

for (const name of [...pageNames(), 'login']) {
  const operator = name === 'login' ? undefined : 'ann';

  walk(`/admin/${name} loads, and keeps to its policy, its origin and its size`, async (visit) => {
    const visitor = await visit(operator);
    const sizes = await parts(visitor, name);
    const bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0);
    const { first, largest } = await visitor.page.evaluate(paints);
    measured.push({ name, bytes, first, largest });
    console.log(`/admin/${name}: ${bytes} bytes in ${sizes.size} files, first paint after ${first} ms, largest after ${largest} ms`);
    visitor.check();
    assert.deepEqual(await visitor.page.getByRole('alert').allTextContents(), [], 'nothing has failed');
    assert.ok(bytes <= PAGE_BYTES, `${bytes} bytes: ${JSON.stringify([...sizes], null, 1)}`);

    const shell = await visitor.page.request.get(`/admin/${name}`);
    const policy = shell.headers()['content-security-policy'];
    for (const directive of ["default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"]) {
      assert.ok(policy.includes(directive), `${directive} is missing in ${policy}`);
    }
    assert.doesNotMatch(policy, /unsafe-/);
    for (const [header, value] of Object.entries(HEADERS)) {
      assert.equal(shell.headers()[header], value, header);
    }
    assert.match(shell.headers()['cache-control'], /no-store/);
  });

  // All faults of a page at once, because one load serves all checks.
  walk(`/admin/${name} is accessible, also at 320 pixels, and shows hostile text as text`, async (visit) => {
    const visitor = await visit(operator, { context: { reducedMotion: 'reduce' } });
    const { page } = visitor;
    const found = [];
    const add = (where, faults) => found.push(...faults.map((fault) => `${where}: ${fault}`));
    await page.emulateMedia({ colorScheme: 'light' });
    await visitor.open(name);
    const moving = await page.evaluate(() => document.getAnimations().length);
    add('motion', moving === 0 ? [] : [`${moving} animations run although motion is reduced`]);
    add('light', await accessibilityFaults(page));
    await page.emulateMedia({ colorScheme: 'dark' });
    add('dark', await accessibilityFaults(page));
    add('Tab', await focusFaults(page));
    await page.setViewportSize(REFLOW);
    add('320 px', await page.evaluate(sidewaysFaults));
    add('Tab at 320 px', await focusFaults(page));
    await page.emulateMedia({ colorScheme: 'light' });
    add('320 px', await accessibilityFaults(page));
    add('hostile text', await page.evaluate(hostileFaults));
    add('text spacing', await spacingFaults(page));
    assertNone(found, `/admin/${name}`);
    visitor.check();
  });
}

walk('an operator who may only read sees every page, without a script that fails', async (visit) => {
  const visitor = await visit('eve');
  for (const name of pageNames()) {
    await visitor.open(name);
    assert.notEqual((await visitor.page.getByRole('main').textContent()).trim(), '', `/admin/${name} has a content`);
    visitor.check(/Failed to load resource: .* 403/);
  }
});

walk('the number of calls that wait is in the navigation and the title of every page, for those who decide', async (visit) => {
  const visitor = await visit('ann');
  const { data } = await stage.gateway.send('GET', '/v1/approvals?limit=1000');
  const waiting = data.filter((call) => call.state === 'pending').length;
  assert.ok(waiting > 0, 'calls wait');
  for (const name of pageNames()) {
    await visitor.open(name);
    await visitor.page.getByRole('navigation').first().getByRole('link', { name: `Approvals ${waiting}`, exact: true }).waitFor();
    assert.ok((await visitor.page.title()).startsWith(`(${waiting}) `), await visitor.page.title());
  }
  visitor.check();
  const reader = await visit('eve');
  await reader.open('keys');
  assert.doesNotMatch(await reader.page.title(), /\d/);
  reader.check();
});

walk('on a phone, the filters of the calls are folded, and a call takes few lines', async (visit) => {
  const visitor = await visit('ann', { context: { viewport: { width: 320, height: 640 } } });
  const { page } = visitor;
  await visitor.open('calls');
  const tool = page.getByLabel('Tool', { exact: true });
  assert.ok(await tool.isHidden(), 'the filters are folded');
  const heights = await page.getByRole('table', { name: 'Past calls' }).getByRole('row').evaluateAll((rows) => rows.slice(1).map((row) => row.offsetHeight));
  assert.ok(heights.length > 0 && Math.max(...heights) < 140, `rows are ${heights} pixels high`);
  await page.getByText('Filters', { exact: true }).click();
  assert.ok(await tool.isVisible());
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.reload();
  await visitor.settle();
  assert.ok(await tool.isVisible(), 'they are there on a desktop');
  visitor.check();
});

walk('the set-up is that of all agents, or of the one that is chosen', async (visit) => {
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open('setup');
  assert.ok((await page.getByRole('heading', { level: 2 }).count()) > 5);
  await page.getByLabel('Agent or program').selectOption('Codex');
  assert.deepEqual(await page.getByRole('heading', { level: 2 }).allTextContents(), ['Codex']);
  visitor.check();
});

walk('the navigation leads to every page, and marks the one that is open', async (visit) => {
  const visitor = await visit('ann');
  const names = pageNames();
  await visitor.open(names[0]);
  const navigation = visitor.page.getByRole('navigation').first();
  const links = await navigation.getByRole('link').evaluateAll((all) => all.map((link) => new URL(link.href).pathname));
  assert.deepEqual(names.filter((name) => !links.includes(`/admin/${name}`)), []);
  const titles = new Set();
  for (const name of names) {
    await visitor.open(name);
    titles.add(await visitor.page.title());
    const current = navigation.locator('[aria-current=page]');
    assert.equal(new URL(await current.evaluate((link) => link.href)).pathname, `/admin/${name}`);
  }
  assert.equal(titles.size, names.length, 'each page has a title of its own');
  await visitor.page.goto('/admin');
  assert.equal(new URL(visitor.page.url()).pathname, '/admin/approvals');
  visitor.check();
});

/** Returns the colours of a button and where a cell's text is. Runs in the page. */
function lookOf(element) {
  const { color, backgroundColor, textAlign } = getComputedStyle(element);
  return { colors: `${color} on ${backgroundColor}`, textAlign };
}

walk('a button that changes, one that ends and one that deletes differ, and amounts are aligned at their ends', async (visit) => {
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open('keys');
  await page.getByRole('main').getByRole('link', { name: 'desktop' }).first().click();
  await visitor.settle();
  const looks = [];
  for (const name of ['Rotate…', 'Revoke…', 'Delete…']) {
    looks.push((await page.getByRole('button', { name, exact: true }).first().evaluate(lookOf)).colors);
  }
  assert.equal(new Set(looks).size, 3, looks.join(', '));
  await visitor.open('servers');
  for (const [name, textAlign] of [['Type', 'left'], ['Tools', 'end']]) {
    const heading = page.getByRole('columnheader', { name, exact: true });
    assert.equal((await heading.evaluate(lookOf)).textAlign, textAlign, name);
    const at = await heading.evaluate((cell) => cell.cellIndex);
    const cell = page.getByRole('main').getByRole('row').nth(1).locator('> *').nth(at);
    assert.equal((await cell.evaluate(lookOf)).textAlign, textAlign, `a cell of ${name}`);
  }
  visitor.check();
});
