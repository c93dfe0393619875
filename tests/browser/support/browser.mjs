// One Chromium for all tests, and visitors: each has a context of its own, with what went wrong in its pages.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from './until.mjs';

const require = createRequire(join(process.env.AIRLOCK_BROWSER_MODULES, 'of-the-tests.js'));
const { chromium } = require('playwright-core');
const OUTPUT = process.env.AIRLOCK_BROWSER_OUTPUT;
const PAGES = new URL('../../../host/crates/admin-page/pages.json', import.meta.url);

/** Starts the browser. */
export function launch() {
  const isRoot = process.getuid?.() === 0;
  return chromium.launch({
    executablePath: process.env.AIRLOCK_CHROMIUM,
    args: isRoot ? ['--no-sandbox'] : [],
  });
}

/** Returns the names of all pages but that of the login: a new page is tested without a line here. */
export function pageNames() {
  return JSON.parse(readFileSync(PAGES, 'utf8')).map((page) => page.name);
}

/** Reports what the browser refuses by the policy of the page. Runs in each page before its own scripts. */
function reportViolations() {
  document.addEventListener('securitypolicyviolation', (event) => {
    window.reportViolation(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
  });
}

/** Restores what a login has put into the storage of a tab. Runs in each page before its own scripts. */
function restoreTab(entries) {
  for (const [name, value] of entries) {
    if (sessionStorage.getItem(name) === null) {
      sessionStorage.setItem(name, value);
    }
  }
}

/** Returns the element that says that it is busy, after the next frame; `null` if there is none. Runs in the page. */
async function busyPart() {
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 30)));
  return document.querySelector('[aria-busy=true]')?.outerHTML.slice(0, 120) ?? null;
}

/** An operator with a browser. `problems` has all that must not happen in a page. */
export class Visitor {
  problems = [];
  #inFlight = new Set();

  /** Opens a context, which is logged in if there is a `login` of [`logIn`]. */
  static async of(browser, origin, { login, ...options } = {}) {
    const visitor = new Visitor();
    visitor.origin = origin;
    visitor.context = await browser.newContext({
      baseURL: origin,
      viewport: { width: 1280, height: 800 },
      permissions: ['clipboard-read', 'clipboard-write'],
      ...options,
      storageState: login?.state,
    });
    visitor.context.setDefaultTimeout(10_000);
    await visitor.context.exposeBinding('reportViolation', ({ page }, text) => {
      visitor.#report(page, `policy violated: ${text}`);
    });
    await visitor.context.addInitScript(reportViolations);
    if (login !== undefined) {
      await visitor.context.addInitScript(restoreTab, login.tab);
    }
    visitor.page = await visitor.context.newPage();
    visitor.#watch(visitor.page);
    return visitor;
  }

  #report(page, text) {
    this.problems.push(`${new URL(page.url()).pathname}: ${text}`);
  }

  #watch(page) {
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') {
        this.#report(page, `console ${message.type()}: ${message.text()}`);
      }
    });
    page.on('pageerror', (error) => this.#report(page, `exception: ${error.message}`));
    page.on('dialog', (dialog) => {
      this.#report(page, `a dialog of the browser: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on('request', (request) => {
      const url = new URL(request.url());
      if (url.origin !== this.origin && url.protocol !== 'data:') {
        this.#report(page, `a request leaves the origin: ${request.url()}`);
      }
      if (request.isNavigationRequest() && request.frame() === page.mainFrame()) {
        this.#inFlight.clear();
      }
      // The stream of events has no end.
      if (url.pathname !== '/api/events') {
        this.#inFlight.add(request);
      }
    });
    for (const event of ['requestfinished', 'requestfailed']) {
      page.on(event, (request) => this.#inFlight.delete(request));
    }
  }

  /** Opens `/admin/NAME`, and waits until it has shown what it has asked for. */
  async open(name) {
    await this.page.goto(`/admin/${name}`);
    await this.settle();
  }

  /** Waits until no request is under way, and nothing in the page is busy. */
  async settle() {
    await this.page.getByRole('heading', { level: 1 }).first().waitFor();
    let busy;
    await until(() => `${this.page.url()} to settle, which ${busy}`, async () => {
      const part = await this.page.evaluate(busyPart);
      const requests = [...this.#inFlight].map((request) => `${request.method()} ${request.url()}`);
      busy = part === null ? `waits for ${requests}` : `is busy at ${part}`;
      return part === null && requests.length === 0;
    });
  }

  /** Logs in with the token of an operator as a person does. Returns the login, for further contexts. */
  async logIn(token) {
    await this.page.goto('/admin/login');
    await this.page.getByLabel(/token/i).first().fill(token);
    await this.page.getByRole('button', { name: /^(log|sign) in/i }).first().click();
    await this.page.waitForURL((url) => !url.pathname.endsWith('/login'));
    await this.settle();
    return this.login();
  }

  /** Returns what a further context needs in order to be logged in. */
  async login() {
    const tab = await this.page.evaluate(() => Object.entries(sessionStorage));
    return { state: await this.context.storageState(), tab };
  }

  /** Fails if there was a problem that matches none of `expected`; forgets all. */
  check(...expected) {
    const found = this.problems.filter((problem) => !expected.some((pattern) => pattern.test(problem)));
    this.problems = [];
    if (found.length !== 0) {
      throw new Error(found.join('\n'));
    }
  }

  /** Writes a picture of the whole page to the directory of the output. Returns its path. */
  async picture(name, options = { fullPage: true }) {
    await mkdir(OUTPUT, { recursive: true });
    const path = join(OUTPUT, `${name.replaceAll(/[^a-z0-9]+/gi, '-')}.png`);
    await this.page.screenshot({ path, ...options });
    return path;
  }

  async close() {
    await this.context.close();
  }
}
