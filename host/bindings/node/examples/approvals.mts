// A script that waits for an approval, as bytes in between: another process may decide and resume it.

import { loadRun, startScript, tool } from 'airlock-gateway';

const send = tool({
  name: 'send',
  description: 'Sends a message.',
  parameters: {
    type: 'object',
    properties: { to: { type: 'string' }, text: { type: 'string' } },
    required: ['to', 'text'],
    additionalProperties: false,
  },
  needsApproval: true,
  execute: ({ to }: { to: string; text: string }) => `sent to ${to}`,
});

const contacts = tool({
  name: 'contacts',
  description: 'Lists the contacts.',
  readOnly: true,
  execute: async () => ['Ada', 'Bob'],
});

const tools = [send, contacts];
let run = await startScript("[send(name, 'The tea is ready.') for name in contacts()]", { tools });

while (!run.done) {
  const kept = run.dump();
  run = loadRun(kept, { tools });
  for (const call of run.pending) {
    console.log(call.tool, call.arguments);
    run.approve(call.id);
  }
  run = await run.resume();
}

console.log(run.value);
// send { to: 'Ada', text: 'The tea is ready.' }
// send { to: 'Bob', text: 'The tea is ready.' }
// [ 'sent to Ada', 'sent to Bob' ]
