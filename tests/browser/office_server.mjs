// An MCP server over stdio as in an office, for the pictures of the README. Its argument chooses the tools.
import { createInterface } from 'node:readline';

const TEXT = { type: 'string' };
const TOOLS = {
  tracker: {
    list_issues: ['Lists the open issues of a project.', { project: TEXT }, { readOnlyHint: true, openWorldHint: false }],
    close_issue: ['Closes an issue and tells those who follow it.', { issue: { type: 'integer' }, comment: TEXT }, { destructiveHint: true, readOnlyHint: false }],
  },
  files: {
    read_file: ['Reads a file.', { path: TEXT }, { readOnlyHint: true }],
    write_file: ['Writes a file, over one that exists.', { path: TEXT, text: TEXT }, { destructiveHint: true, readOnlyHint: false }],
  },
  mail: { send: ['Sends a message.', { to: TEXT, subject: TEXT, text: TEXT }, { readOnlyHint: false, destructiveHint: false, openWorldHint: true }] },
};

const tools = Object.entries(TOOLS[process.argv[2]]).map(([name, [description, properties, annotations]]) => ({
  name, description, annotations, inputSchema: { type: 'object', properties },
}));

function respond({ method, params }) {
  switch (method) {
    case 'initialize':
      return { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: process.argv[2], version: '1.4.0' } };
    case 'tools/list':
      return { tools };
    case 'tools/call': {
      const isError = params.arguments.path?.includes('missing') ?? false;
      return { content: [{ type: 'text', text: isError ? 'no such file' : 'done' }], isError };
    }
    default:
      return {};
  }
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const message = JSON.parse(line);
  if (message.id === undefined) return;
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id: message.id, result: respond(message) })}\n`);
});
