// How agents and programs are connected to this gateway. The value of a key is never in a text: a placeholder or a variable
// of the environment stands for it.

const VARIABLE = 'AIRLOCK_KEY';

/** Returns the placeholder for the value of a key; its name is in it only if it is harmless in every file and shell. */
export function placeholder(key) {
  return /^[\w.-]{1,64}$/.test(key ?? '') ? `VALUE-OF-${key}` : 'VALUE-OF-YOUR-KEY';
}

function json(value) {
  return JSON.stringify(value, null, 2);
}

/**
 * Returns the set-up of each agent for a gateway at `origin`, such as `https://airlock.example.com`:
 * `{ name, where, text, note }`. `where` is a file or a place to paste the text.
 */
export function agents(origin, key) {
  const value = placeholder(key);
  const url = `${origin}/mcp`;
  const bearer = `Bearer ${value}`;
  const shell = `export ${VARIABLE}='${value}'`;
  return [
    {
      name: 'Claude Code',
      where: 'a terminal',
      text: `claude mcp add --transport http airlock ${url} --header "Authorization: ${bearer}"`,
    },
    {
      name: 'Claude Desktop',
      where: 'claude_desktop_config.json',
      text: json({ mcpServers: { airlock: { command: 'airlock', args: ['mcp', '--connect', url], env: { [VARIABLE]: value } } } }),
      note: 'The program airlock has to be installed on the machine of the agent: it forwards messages to this gateway.',
    },
    {
      name: 'Cursor',
      where: '.cursor/mcp.json',
      text: json({ mcpServers: { airlock: { url, headers: { Authorization: `Bearer \${env:${VARIABLE}}` } } } }),
      note: `Cursor reads the key from ${VARIABLE} in its environment.`,
    },
    {
      name: 'VS Code',
      where: '.vscode/mcp.json',
      text: json({
        inputs: [{ type: 'promptString', id: 'airlock-key', description: 'Virtual key of Airlock', password: true }],
        servers: { airlock: { type: 'http', url, headers: { Authorization: 'Bearer ${input:airlock-key}' } } },
      }),
      note: 'VS Code asks for the key once and keeps it in its secret storage.',
    },
    {
      name: 'Codex',
      where: '~/.codex/config.toml',
      text: `[mcp_servers.airlock]\nurl = "${url}"\nbearer_token_env_var = "${VARIABLE}"\n\n[model_providers.airlock]\nname = "Airlock"\nbase_url = "${origin}/v1"\nenv_key = "${VARIABLE}"\nwire_api = "responses"`,
      note: 'The second table is for models through this gateway; leave it out for tools alone.',
    },
    {
      name: 'Zed',
      where: 'settings.json',
      text: json({ context_servers: { airlock: { url, headers: { Authorization: bearer } } } }),
    },
    {
      name: 'Continue',
      where: '.continue/mcpServers/airlock.yaml',
      text: `name: Airlock\nversion: 0.0.1\nschema: v1\nmcpServers:\n  - name: Airlock\n    type: streamable-http\n    url: ${url}\n    requestOptions:\n      headers:\n        Authorization: Bearer \${{ secrets.${VARIABLE} }}`,
      note: `Continue reads the secret ${VARIABLE} from its own .env file.`,
    },
    {
      name: 'OpenAI SDK',
      where: 'a program in Python',
      text: `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${origin}/v1", api_key=os.environ["${VARIABLE}"])`,
      note: 'The gateway runs the calls of its tools; those that wait for an approval are in the member airlock of the response.',
    },
    {
      name: 'Anthropic SDK',
      where: 'a program in Python',
      text: `import os\nfrom anthropic import Anthropic\n\nclient = Anthropic(base_url="${origin}/anthropic", api_key=os.environ["${VARIABLE}"])`,
    },
    {
      name: 'Check',
      where: 'a terminal',
      text: `${shell}\ncurl ${origin}/api/mcp/clients -H "Authorization: Bearer $${VARIABLE}"`,
      note: 'Prints the tools that the key sees. 401 means that the value is not that of an active key.',
    },
  ];
}
