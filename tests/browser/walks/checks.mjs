// The checks of this suite find the faults that they look for: a page with all of them, under the policy of the admin page.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { accessibilityFaults } from '../support/axe.mjs';
import { faults } from '../support/hostile.mjs';
import { clippedTexts, sidewaysFaults, spaceText, tabStops } from '../support/layout.mjs';
import { walk } from '../support/walk.mjs';

const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; require-trusted-types-for 'script'";
const STYLE = `
  .wide { width: 500px } .bare:focus { outline: none } .pale { color: #ccc; background: #fff }
  .low { height: 20px; overflow: hidden; width: 12ch; font: 16px/20px monospace }`;
const BODY = `<h1>Faults</h1><a href="#main">Skip</a><a href="javascript:window.hostile=1">free</a>
  <p class="wide pale">invoice\u202Egnp.exe</p><p class="low">Fits in now</p><button class="bare">Bare</button>
  <button>Shown</button><img src="https://evil.example/i"><script>window.hostile = 1</script>`;

async function serve() {
  const server = createServer((request, response) => {
    if (request.url.endsWith('.css')) {
      response.writeHead(200, { 'content-type': 'text/css' }).end(STYLE);
      return;
    }
    const headers = { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': POLICY };
    response.writeHead(200, headers).end(`<!doctype html><link rel="stylesheet" href="/s.css">${BODY}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

walk('a page with faults fails each check', async (visit) => {
  const server = await serve();
  try {
    const origin = `http://127.0.0.1:${server.address().port}`;
    const visitor = await visit(undefined, { origin, context: { viewport: { width: 320, height: 256 } } });
    await visitor.page.goto('/');
    assert.throws(() => visitor.check(), /policy violated: .*inline|a request leaves the origin/);
    const rules = (await accessibilityFaults(visitor.page)).map((fault) => fault.split(':')[0]);
    for (const rule of ['html-has-lang', 'document-title', 'image-alt', 'color-contrast', 'region']) {
      assert.ok(rules.includes(rule), `${rule} in ${rules}`);
    }
    const found = (await visitor.page.evaluate(faults)).join('\n');
    for (const part of ['leads away', 'element of the text', 'U+202E']) {
      assert.ok(found.includes(part), `${part} in ${found}`);
    }
    assert.match((await visitor.page.evaluate(sidewaysFaults)).join('\n'), /500 px wide|outside/);
    const stops = await tabStops(visitor.page);
    assert.deepEqual(stops.map((stop) => stop.faults), [[], [], ['the focus is not visible'], []]);
    assert.deepEqual(await visitor.page.evaluate(clippedTexts), []);
    await visitor.page.evaluate(spaceText);
    assert.equal((await visitor.page.evaluate(clippedTexts)).length, 1);
  } finally {
    server.close();
  }
});
