/** The command of the package. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { PLACE, WAIT_MS } from './support.mjs';

test('the command has the name of the package and another one, and is the command line of the gateway', async () => {
  const { bin, name, version } = JSON.parse(await readFile(join(PLACE, 'package.json'), 'utf8'));
  assert.deepEqual(Object.keys(bin).sort(), ['airlock', name].sort());
  for (const program of Object.values(bin)) {
    const { stdout } = await promisify(execFile)(join(PLACE, program), ['--version'], { timeout: WAIT_MS });
    assert.equal(stdout, `airlock ${version}\n`);
  }
});
