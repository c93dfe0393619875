/** What the tests share. */

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import { tool } from 'airlock-gateway';

/** Longest time that a test waits for a program: it has failed then. */
export const WAIT_MS = 120_000;

/** The directory of the package, with the tests in it. */
export const PLACE = fileURLToPath(new URL('..', import.meta.url));

const [major, minor] = process.versions.node.split('.').map(Number);

/** Reason to skip tests of programs in TypeScript and of the AI SDK; false where Node.js is new enough. */
export const WITHOUT_TYPESCRIPT = major > 22 || (major === 22 && minor >= 18) ? false : 'needs Node.js 22.18 or newer';

/** Makes a tool that takes any arguments. */
export function anyTool(name, execute, more = {}) {
  return tool({ name, execute, parameters: { type: 'object', properties: { value: {} } }, ...more });
}

/** Runs a program in a process of its own. Returns its code, output and errors. */
export async function runProgram(source, { input = '', env = {} } = {}) {
  return run(['--input-type=module', '--eval', source], { input, env });
}

/** Runs a file in a process of its own. */
export async function runFile(file) {
  return run(['--disable-warning=ExperimentalWarning', file]);
}

async function run(args, { input = '', env = {} } = {}) {
  const child = spawn(process.execPath, args, { cwd: PLACE, env: { ...process.env, ...env }, timeout: WAIT_MS });
  child.stdin.end(input);
  const [output, errors, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise((resolve, reject) => child.on('close', resolve).on('error', reject)),
  ]);
  return { code, output, errors };
}

async function text(stream) {
  let all = '';
  for await (const part of stream.setEncoding('utf8')) all += part;
  return all;
}

/** Returns a promise with what settles it. */
export function deferred() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}
